"""The command `ui`: the inspector in a browser."""

from __future__ import annotations

import webbrowser
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from shared_core.cli import app as cli
from shared_core.cli.app import both
from shared_core.cli.transfer import langgraph_fields
from shared_core.core.locale import t
from shared_core.errors import ExtraMissing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared_core.cli.doctor import CheckResult
    from shared_core.ui import InspectorOptions


Host = Annotated[str, typer.Option(help=both("Address to listen on.", "监听的地址。"))]
Port = Annotated[
    int,
    typer.Option(
        help=both("Port to listen on; 0 for a free one.", "监听的端口；0 表示任选空闲端口。")
    ),
]
Auth = Annotated[
    bool | None,
    typer.Option(
        "--auth/--no-auth",
        help=both("Require a token.", "要求令牌。"),
        show_default=both(
            "not on 127.0.0.1, until the first token exists",
            "在 127.0.0.1 上不要求，直到有第一个令牌",
        ),
    ),
]
Worker = Annotated[
    bool,
    typer.Option(
        "--worker/--no-worker",
        help=both("Run queued jobs in this process.", "在本进程中运行队列里的任务。"),
    ),
]


@cli.app.command()
@cli.chinese(
    """在浏览器中查看记忆所知的内容并修改，直到 Ctrl-C。

    显示的是你自己的记忆；hippocampus demo --keep 可以先填入内容。
    """
)
def ui(
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    embedder: cli.Embedder = None,
    host: Host = "127.0.0.1",
    port: Port = 8421,
    auth: Auth = None,
    read_only: Annotated[
        bool,
        typer.Option(
            "--read-only",
            help=both("Show everything and change nothing.", "只查看，不做任何改动。"),
        ),
    ] = False,
    worker: Worker = False,
    llm: cli.Llm = None,
    opens: Annotated[
        bool, typer.Option("--open/--no-open", help=both("Open the browser.", "打开浏览器。"))
    ] = True,
) -> None:
    """Show in a browser what the memory knows, and change it there.

    It runs until Ctrl-C. It shows your own memory; hippocampus demo --keep fills it.
    """
    if read_only and worker:
        raise cli.Malformed(
            t(
                "--worker changes the memory: give either it or --read-only, not both",
                "--worker 会改动记忆：它与 --read-only 只能选一个",
            )
        )
    inspector = inspector_options(uri, schema, embedder, read_only=read_only)
    from shared_core.http import ServerOptions
    from shared_core.ui import serve

    options = ServerOptions(host=host, port=port, auth=auth)
    memory = cli.open_memory(
        uri,
        schema=schema,
        embedder=embedder,
        llm=cli.ready_model(llm),
        worker=worker,
        track_access=not read_only,
        create=not read_only,
    )

    def listening(address: str) -> None:
        cli.say(inspector_line(address))
        if opens:
            webbrowser.open(f"{address}/ui/")

    raise typer.Exit(serve(memory, options, inspector, listening))


def inspector_line(address: str) -> str:
    """Return the line that says where the inspector is."""
    return t(
        f"The inspector is at {address}/ui/ until Ctrl-C.",
        f"检查器在 {address}/ui/，按 Ctrl-C 结束。",
    )


def inspector_options(
    uri: str | None, schema: str | None, embedder: str | None, *, read_only: bool = False
) -> InspectorOptions:
    """Return the options of an inspector. Raises ExtraMissing without NiceGUI."""
    try:
        from shared_core.ui import InspectorOptions
    except ModuleNotFoundError as error:
        if error.name != "nicegui":
            raise
        raise ExtraMissing(
            t(
                "the inspector needs NiceGUI: pip install 'pg-hippocampus[ui]'",
                "检查器需要 NiceGUI：pip install 'pg-hippocampus[ui]'",
            ),
            name="nicegui",
        ) from error

    def examine() -> Sequence[CheckResult]:
        from shared_core.cli.doctor import check_name, examine as run_checks

        found = run_checks(uri, schema=schema, embedder=embedder)
        return [replace(one, check=check_name(one.check)) for one in found]

    return InspectorOptions(read_only=read_only, examine=examine, text_of_field=langgraph_fields())
