"""Commands of profiles: show, update, versions, diff, rollback."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.text import Text

from shared_core.cli.app import (
    App,
    AsJson,
    Commands,
    Embedder,
    Llm,
    Schema,
    Uri,
    User,
    app,
    console,
    open_memory,
)
from shared_core.core.domain import Scope
from shared_core.errors import InvalidInput

if TYPE_CHECKING:
    from shared_core.profiles.by_agent import ProfileDesk


class Of(StrEnum):
    """Of whom a profile tells."""

    USER = "user"
    AGENT = "agent"


profiles = typer.Typer(
    cls=Commands, help="Who a user or an agent is, in one paragraph with versions.",
    no_args_is_help=True,
)  # fmt: skip
app.add_typer(profiles, name="profile")

Agent = Annotated[
    str | None,
    typer.Option("--agent", help="Who knows the user, or whose it is. [default: the application]"),
]
Subject = Annotated[Of, typer.Option("--of", help="The user, or the agent itself.")]
Number = Annotated[int, typer.Argument(min=1, help="Number of a version.")]


@profiles.command("show")
def show(
    app_name: App,
    user: User,
    agent: Agent = None,
    subject: Subject = Of.USER,
    version: Annotated[
        int | None, typer.Option(min=1, help="An earlier version. [default: the newest]")
    ] = None,
    uri: Uri = None,
    schema: Schema = None,
    as_json: AsJson = False,
) -> None:
    """Show a profile: the paragraph, what happened, and what may be concluded."""

    async def ask(desk: ProfileDesk) -> None:
        from shared_core.cli.show_profile import profile_lines
        from shared_core.profiles.by_agent import memory_json

        known = await (desk.current() if version is None else desk.show(version))
        if as_json:
            _tell(None if known is None else memory_json(known))
        elif known is None:
            typer.echo(f"No profile is stored of {user} in {app_name}.")
        else:
            _print(profile_lines(known))

    _at_desk(uri, schema, Scope(app_name, user), agent, subject, ask)


@profiles.command("update")
def update(
    app_name: App,
    user: User,
    agent: Agent = None,
    subject: Subject = Of.USER,
    file: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="The conversation. [default: stdin]"),
    ] = None,
    conversation: Annotated[
        str | None,
        typer.Option("--conversation", help="Its id: given again, it changes nothing."),
    ] = None,
    uri: Uri = None,
    schema: Schema = None,
    embedder: Embedder = None,
    llm: Llm = None,
    as_json: AsJson = False,
) -> None:
    """Remember a conversation and update the profile from it.

    It is JSON, as docs/profiles.md has it, or a message a line. A line is the user's, unless it
    begins with "assistant:" (助手：).
    """

    async def ask(desk: ProfileDesk) -> None:
        from shared_core.cli.show_profile import diff_lines
        from shared_core.profiles.by_agent import update_json

        before = await desk.current()
        known, result = await desk.update(given)
        if as_json:
            _tell(update_json(known, result))
        elif not result.changed:
            typer.echo(f"Nothing is new: the profile stays at version {known.version}.")
        else:
            typer.echo(f"The profile is at version {known.version}.")
            if before is not None:
                _print(diff_lines(await desk.diff(before.version, known.version)))
            elif not known.to_prompt():
                typer.echo(f"Nothing in the conversation tells who {user} is.")
            else:
                _print([Text(known.to_prompt())])

    given = _conversation(file, conversation)
    _at_desk(
        uri, schema, Scope(app_name, user), agent, subject, ask, embedder=embedder, llm=llm,
        reads=True,
    )  # fmt: skip


@profiles.command("versions")
def versions(
    app_name: App,
    user: User,
    agent: Agent = None,
    subject: Subject = Of.USER,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many at most.")] = 100,
    uri: Uri = None,
    schema: Schema = None,
    as_json: AsJson = False,
) -> None:
    """List the versions of a profile that are kept, newest first."""

    async def ask(desk: ProfileDesk) -> None:
        from shared_core.cli.show_profile import versions_table
        from shared_core.profiles.by_agent import version_json

        found = [] if await desk.current() is None else await desk.versions(limit)
        if as_json:
            _tell([version_json(one) for one in found])
        elif found:
            console().print(versions_table(found))
        else:
            typer.echo(f"No profile is stored of {user} in {app_name}.")

    _at_desk(uri, schema, Scope(app_name, user), agent, subject, ask)


@profiles.command("diff")
def diff(
    app_name: App,
    user: User,
    from_version: Number,
    to_version: Number,
    agent: Agent = None,
    subject: Subject = Of.USER,
    uri: Uri = None,
    schema: Schema = None,
    as_json: AsJson = False,
) -> None:
    """Show what changed from one version of a profile to another."""

    async def ask(desk: ProfileDesk) -> None:
        from shared_core.cli.show_profile import diff_lines
        from shared_core.profiles.by_agent import diff_json

        found = await desk.diff(from_version, to_version)
        if as_json:
            _tell(diff_json(found))
        else:
            _print(diff_lines(found))

    _at_desk(uri, schema, Scope(app_name, user), agent, subject, ask)


@profiles.command("rollback")
def rollback(
    app_name: App,
    user: User,
    version: Number,
    agent: Agent = None,
    subject: Subject = Of.USER,
    uri: Uri = None,
    schema: Schema = None,
    embedder: Embedder = None,
    as_json: AsJson = False,
) -> None:
    """Make a new version that says what an earlier one said."""

    async def ask(desk: ProfileDesk) -> None:
        from shared_core.profiles.by_agent import memory_json

        known = await desk.rollback(version)
        if as_json:
            _tell(memory_json(known))
        else:
            typer.echo(f"Version {known.version} says what version {version} said.")

    _at_desk(uri, schema, Scope(app_name, user), agent, subject, ask, embedder=embedder)


def _at_desk(
    uri: str | None,
    schema: str | None,
    scope: Scope,
    agent: str | None,
    subject: Of,
    ask: Callable[[ProfileDesk], Awaitable[None]],
    *,
    embedder: str | None = None,
    llm: str | None = None,
    reads: bool = False,
) -> None:
    """Ask at a desk. reads: draw facts and a summary out of what was left for later, and wait."""
    of: Literal["user", "agent"] = "agent" if subject is Of.AGENT else "user"

    async def run() -> None:
        memory = open_memory(uri, schema=schema, embedder=embedder, llm=llm, worker=reads)
        async with memory:
            await ask(memory.profiles.desk(scope, agent, of))
            if reads and not await memory.flush():
                typer.echo("Facts are not drawn from it yet: see hippocampus jobs.", err=True)

    asyncio.run(run())


def _conversation(file: Path | None, named: str | None) -> object:
    from shared_core.cli.show_profile import read_conversation

    if file is not None:
        with file.open("rb") as source:
            given = read_conversation(source)
    elif sys.stdin is None:
        raise InvalidInput("standard input is closed: give the conversation with --file")
    else:
        given = read_conversation(typer.get_binary_stream("stdin"))
    if named is None:
        return given
    return {**given, "conversation_id": named} if isinstance(given, dict) else {
        "conversation_id": named, "messages": given,
    }  # fmt: skip


def _tell(value: object) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False))


def _print(lines: Iterable[Text]) -> None:
    screen = console()
    for line in lines:
        screen.print(line, soft_wrap=not screen.is_terminal)
