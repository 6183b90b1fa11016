"""Commands that read along time and into a prompt: timeline, context."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime
from pathlib import Path
from typing import Annotated, cast

import typer
from rich.text import Text

from shared_core.cli.app import App, Embedder, Schema, Uri, User, app, console, open_memory
from shared_core.core.domain import MemoryKind, Scope
from shared_core.core.validation import zone_of
from shared_core.ports.events import BucketUnit, SliceOrder


@app.command()
def timeline(
    app_name: App,
    user: User,
    when: Annotated[
        str | None, typer.Argument(help='E.g. "last Tuesday" or 上周二. [default: all of time]')
    ] = None,
    begin: Annotated[str | None, typer.Option(help="A time instead of WHEN.")] = None,
    end: Annotated[str | None, typer.Option(help="Up to then, that day included.")] = None,
    query: Annotated[
        str | None, typer.Option(help="Most relevant first instead of newest first.")
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(help="Only episodic, semantic, summary, reflection or item; repeatable."),
    ] = None,
    by: Annotated[
        str | None, typer.Option(help="Count by hour, day, week, month or year as well.")
    ] = None,
    order: Annotated[str, typer.Option(help="newest or oldest.")] = "newest",
    limit: Annotated[int, typer.Option(min=0, help="How many memories at most.")] = 20,
    offset: Annotated[int, typer.Option(min=0, help="How many to pass over.")] = 0,
    zone: Annotated[
        str | None, typer.Option(help="Whose days, e.g. Asia/Shanghai. [default: this machine's]")
    ] = None,
    uri: Uri = None,
    schema: Schema = None,
    embedder: Embedder = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what is remembered of a user of a stretch of time."""
    from shared_core.cli import show_timeline as slice_commands

    async def run() -> None:
        # Who looks at a memory does not use it.
        async with open_memory(uri, schema=schema, embedder=embedder, track_access=False) as memory:
            found = await memory.slice(
                Scope(app_name, user), when, begin=begin, end=end, query=query,
                kinds=cast(list[MemoryKind], kind) or None, order=cast(SliceOrder, order),
                limit=limit, offset=offset, bucket=cast(BucketUnit | None, by),
                zone=zone, asked_at=datetime.now().astimezone(),
            )  # fmt: skip
        if as_json:
            typer.echo(json.dumps(found.to_dict(), ensure_ascii=False))
            return
        screen = console()
        for piece in slice_commands.lines(found, zone_of(zone)):
            screen.print(piece, soft_wrap=isinstance(piece, Text) and not screen.is_terminal)

    asyncio.run(run())


@app.command()
def context(
    app_name: App,
    user: User,
    thread: Annotated[str, typer.Argument(help="The session or thread that is answered.")],
    query: Annotated[str, typer.Argument(help="What the user says; may be empty.")] = "",
    system: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="A file, the system prompt.")
    ] = None,
    max_tokens: Annotated[int, typer.Option(help="The budget, system prompt included.")] = 8000,
    cut: Annotated[
        bool, typer.Option("--cut", help="Show the first sentences of what is too long.")
    ] = False,
    uri: Uri = None,
    schema: Schema = None,
    embedder: Embedder = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="A table of every line: cost, score, source, reason.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what a model would read before it answers, within a budget of tokens."""
    from shared_core.cli import show_context as context_commands
    from shared_core.context.assembler import ContextAssembler

    assembler = ContextAssembler(max_tokens, cut=cut)

    async def run() -> None:
        async with open_memory(uri, schema=schema, embedder=embedder, track_access=False) as memory:
            window = await memory.context_window(
                Scope(app_name, user), thread, query, assembler=assembler,
                system_prompt=system.read_text("utf-8") if system else "",
            )  # fmt: skip
        if as_json:
            typer.echo(json.dumps(window.to_dict(), ensure_ascii=False))
        elif explain:
            screen = console()
            screen.width = max(screen.width, context_commands.TABLE_WIDTH)
            for piece in context_commands.explained(window):
                screen.print(piece)
        else:
            typer.echo(window.to_prompt())

    asyncio.run(run())
