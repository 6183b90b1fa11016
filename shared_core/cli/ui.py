"""The command `ui`: the inspector in a browser."""

from __future__ import annotations

import webbrowser
from typing import TYPE_CHECKING, Annotated

import typer

from shared_core.cli import app as cli
from shared_core.cli.transfer import langgraph_fields
from shared_core.errors import ExtraMissing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared_core.cli.doctor import CheckResult
    from shared_core.ui import InspectorOptions


@cli.app.command()
def ui(
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    embedder: cli.Embedder = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 for a free one.")] = 8421,
    auth: Annotated[
        bool | None,
        typer.Option(
            "--auth/--no-auth",
            help="Require a token.",
            show_default="not on 127.0.0.1, until the first token exists",
        ),
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Show everything and change nothing.")
    ] = False,
    worker: Annotated[
        bool, typer.Option("--worker/--no-worker", help="Run queued jobs in this process.")
    ] = False,
    llm: cli.Llm = None,
    opens: Annotated[bool, typer.Option("--open/--no-open", help="Open the browser.")] = True,
) -> None:
    """Show in a browser what the memory knows, and change it there, until Ctrl-C.

    Example: hippocampus ui --read-only. It shows your own memory; hippocampus demo --keep fills it.
    """
    if read_only and worker:
        raise cli.Malformed("--worker changes the memory: give either it or --read-only, not both")
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
        typer.echo(f"The inspector is at {address}/ui/ until Ctrl-C.")
        if opens:
            webbrowser.open(f"{address}/ui/")

    raise typer.Exit(serve(memory, options, inspector, listening))


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
            "the inspector needs NiceGUI: pip install 'pg-hippocampus[ui]'", name="nicegui"
        ) from error

    def examine() -> Sequence[CheckResult]:
        from shared_core.cli.doctor import examine as run_checks

        return run_checks(uri, schema=schema, embedder=embedder)

    return InspectorOptions(read_only=read_only, examine=examine, text_of_field=langgraph_fields())
