"""Commands that show facts of a user, state them, and correct them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from shared_core.cli.app import (
    App,
    AsJson,
    Embedder,
    Schema,
    Uri,
    User,
    app,
    as_of_options,
    console,
    date_option,
    open_memory,
)
from shared_core.core.domain import Scope
from shared_core.errors import NotFound

if TYPE_CHECKING:
    from shared_core.engine import MemoryEngine
    from shared_core.ports.runs import Fact

Key = Annotated[str, typer.Argument(help="Key of a fact, or how it begins or ends.")]


@app.command()
def facts(
    app_name: App,
    user: User,
    slot: Annotated[str, typer.Argument(help="Only this one, e.g. employer or 公司.")] = "",
    uri: Uri = None,
    schema: Schema = None,
    history: Annotated[bool, typer.Option("--history", help="Those that ended, too.")] = False,
    as_of: Annotated[
        str | None, typer.Option(metavar="DATE", help="What held then, e.g. 2024-05-01.")
    ] = None,
    known: Annotated[
        str | None, typer.Option(metavar="DATE", help="What was believed here then.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what is known of a user by slot, and since when."""
    from shared_core.cli.show_facts import facts_json, facts_table

    then = as_of_options(as_of, known)

    async def run() -> None:
        async with open_memory(uri, schema=schema, worker=False) as memory:
            scope = Scope(app_name, user)
            found = await memory.facts(scope, slot, history=history, as_of=then)
        if as_json:
            typer.echo(json.dumps(facts_json(found), ensure_ascii=False, indent=2))
        elif found:
            console().print(facts_table(found))
        else:
            about = f" by the slot {slot!r}" if slot else ""
            typer.echo(f"No fact is known of {user} in {app_name}{about}.")

    asyncio.run(run())


@app.command()
def state(
    app_name: App,
    user: User,
    slot: Annotated[str, typer.Argument(help="e.g. employer, 公司, or one of your own.")],
    value: Annotated[str, typer.Argument(help="What it is, e.g. Zenith.")],
    subject: Annotated[
        str | None, typer.Option(help="Whom it is about. [default: the user]")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="DATE", help="Since when it holds. [default: now]")
    ] = None,
    uri: Uri = None,
    schema: Schema = None,
    embedder: Embedder = None,
    as_json: AsJson = False,
) -> None:
    """State a fact as key and value; it takes the place of another value."""
    begins = date_option(since, "--since")

    async def change(memory: MemoryEngine, scope: Scope) -> Fact:
        return await memory.state_fact(scope, slot, value, subject=subject, valid_from=begins)

    _change(uri, schema, embedder, Scope(app_name, user), change, as_json)


@app.command()
def retract(
    app_name: App,
    user: User,
    key: Key,
    at: Annotated[
        str | None, typer.Option(metavar="DATE", help="As of when. [default: now]")
    ] = None,
    uri: Uri = None,
    schema: Schema = None,
    as_json: AsJson = False,
) -> None:
    """End a fact; it stays as history."""
    until = date_option(at, "--at")

    async def change(memory: MemoryEngine, scope: Scope) -> Fact:
        return await _named(memory, scope, key, lambda name: memory.retract(scope, name, at=until))

    _change(uri, schema, None, Scope(app_name, user), change, as_json)


@app.command()
def restore(
    app_name: App, user: User, key: Key, uri: Uri = None, schema: Schema = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Let a fact that ended hold again."""

    async def change(memory: MemoryEngine, scope: Scope) -> Fact:
        return await _named(memory, scope, key, lambda name: memory.restore(scope, name))

    _change(uri, schema, None, Scope(app_name, user), change, as_json)


async def _named(
    memory: MemoryEngine, scope: Scope, key: str, verb: Callable[[str], Awaitable[Fact]]
) -> Fact:
    """Return what verb does to the fact that key means."""
    from shared_core.cli.show_facts import named_fact, unknown_fact

    name = await named_fact(memory, scope, key)
    try:
        return await verb(name)
    except NotFound as error:
        raise unknown_fact(key, scope) from error


def _change(
    uri: str | None,
    schema: str | None,
    embedder: str | None,
    scope: Scope,
    change: Callable[[MemoryEngine, Scope], Awaitable[Fact]],
    as_json: bool,
) -> None:
    from shared_core.cli.show_facts import facts_json, told

    async def run() -> None:
        async with open_memory(uri, schema=schema, embedder=embedder, worker=False) as memory:
            fact = await change(memory, scope)
        if as_json:
            typer.echo(json.dumps(facts_json([fact])[0], ensure_ascii=False))
            return
        screen = console()
        screen.print(Text(told(fact)), soft_wrap=not screen.is_terminal)

    asyncio.run(run())
