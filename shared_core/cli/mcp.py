"""The command that serves the memory over the Model Context Protocol."""

from __future__ import annotations

import asyncio
import logging
from typing import Annotated

import typer

from shared_core.cli.app import Embedder, Llm, Schema, Uri, app, open_memory


@app.command()
def mcp(
    app_name: Annotated[
        str,
        typer.Option("--app", envvar="HIPPOCAMPUS_APP", help="The application, ADK's app_name."),
    ] = "default",
    user: Annotated[
        str | None, typer.Option(help="Answer for this user alone. [default: whom a call names]")
    ] = None,
    http: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="Serve streamable HTTP there instead, e.g. 127.0.0.1:8321."
        ),
    ] = None,
    uri: Uri = None,
    schema: Schema = None,
    embedder: Embedder = None,
    llm: Llm = None,
) -> None:
    """Serve the memory as tools of the Model Context Protocol, over standard input and output.

    Standard output carries the protocol and nothing else; what there is to say goes to standard
    error. Clients start it by themselves.
    """
    from shared_core.cli.run_mcp import serve

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    model = None
    if llm is not None:
        from shared_core.models.language_model import ready_language_model

        model = ready_language_model(llm)
    memory = open_memory(uri, schema=schema, embedder=embedder, llm=model)
    asyncio.run(serve(memory, app_name, user, http))
