"""The command `ui`: the inspector in a browser."""

from __future__ import annotations

import webbrowser
from typing import TYPE_CHECKING, Annotated

import typer

from shared_core.cli import app as cli
from shared_core.errors import ExtraMissing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared_core.cli.doctor import CheckResult


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
    opens: Annotated[bool, typer.Option("--open/--no-open", help="Open the browser.")] = True,
) -> None:
    """Show in a browser what the memory knows, and change it there, until Ctrl-C.

    Example: hippocampus demo --keep, then hippocampus ui.
    """
    from shared_core.http import ServerOptions

    try:
        from shared_core.ui import InspectorOptions, serve
    except ModuleNotFoundError as error:
        if error.name != "nicegui":
            raise
        raise ExtraMissing(
            "the inspector needs NiceGUI: pip install 'pg-hippocampus[ui]'", name="nicegui"
        ) from error

    options = ServerOptions(host=host, port=port, auth=auth)
    memory = cli.open_memory(uri, schema=schema, embedder=embedder)

    def examine() -> Sequence[CheckResult]:
        from shared_core.cli.doctor import examine as run_checks

        return run_checks(uri, schema=schema, embedder=embedder)

    def listening(address: str) -> None:
        typer.echo(f"The inspector is at {address}/ui/ until Ctrl-C.")
        if opens:
            webbrowser.open(f"{address}/ui/")

    inspector = InspectorOptions(read_only=read_only, examine=examine)
    raise typer.Exit(serve(memory, options, inspector, listening))
