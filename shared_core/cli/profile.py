"""Commands of profiles: show, update, versions, diff, rollback."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.table import Table
from rich.text import Text

from shared_core.cli import app as cli
from shared_core.core.domain import Scope
from shared_core.errors import InvalidInput
from shared_core.profiles.conversation_text import read_conversation

if TYPE_CHECKING:
    from shared_core.engine import MemoryEngine
    from shared_core.ports.profiles import ProfileVersion
    from shared_core.profiles.memory import Memory
    from shared_core.profiles.repository import ProfileDiff
    from shared_core.profiles.service import AgentProfile


class Of(StrEnum):
    """The person a profile is about."""

    USER = "user"
    AGENT = "agent"


profiles = typer.Typer(
    cls=cli.Commands, help="Show and update versioned profiles of users and agents.",
    no_args_is_help=True,
)  # fmt: skip
cli.app.add_typer(profiles, name="profile")

Agent = Annotated[
    str | None,
    typer.Option("--agent", help="Agent that keeps the profile.", show_default="the application"),
]
Subject = Annotated[Of, typer.Option("--of", help="Profile of the user, or of the agent itself.")]
Number = Annotated[int, typer.Argument(min=1, help="Number of a version.")]


@profiles.command("show")
def show(
    app_name: cli.App,
    user: cli.User,
    agent: Agent = None,
    subject: Subject = Of.USER,
    version: Annotated[
        int | None, typer.Option(min=1, help="An earlier version.", show_default="the newest")
    ] = None,
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    as_json: cli.AsJson = False,
) -> None:
    """Show a profile: who the user is, what happened, and what may be concluded."""

    async def call(profile: AgentProfile) -> None:
        from shared_core.profiles.service import memory_json

        known = await (profile.current() if version is None else profile.show(version))
        if as_json:
            cli.print_json(None if known is None else memory_json(known))
        elif known is None:
            typer.echo(f"No profile is stored for {user} in {app_name}.")
        else:
            cli.print_all(_profile_lines(known))

    _with_profile(uri, schema, Scope(app_name, user), agent, subject, call)


@profiles.command("update")
def update(
    app_name: cli.App,
    user: cli.User,
    agent: Agent = None,
    subject: Subject = Of.USER,
    file: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, help="File with the conversation.", show_default="stdin"
        ),
    ] = None,
    conversation: Annotated[
        str | None,
        typer.Option("--conversation", help="Id of the conversation; sending it again is safe."),
    ] = None,
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    embedder: cli.Embedder = None,
    llm: cli.Llm = None,
    as_json: cli.AsJson = False,
) -> None:
    """Store a conversation and update the profile from it.

    The conversation is JSON as in docs/reference/profiles.md, or plain text with one message per
    line. A line is the user's unless it begins with "assistant:" (助手：).
    """

    async def call(profile: AgentProfile) -> None:
        from shared_core.profiles.service import update_json

        before = await profile.current()
        known, result = await profile.update(talk)
        if as_json:
            cli.print_json(update_json(known, result))
        elif not result.changed:
            typer.echo(f"Nothing is new: the profile stays at version {known.version}.")
        else:
            typer.echo(f"The profile is at version {known.version}.")
            if before is not None:
                cli.print_all(_diff_lines(await profile.diff(before.version, known.version)))
            else:
                prompt = known.to_prompt()
                empty = f"The conversation says nothing about who {user} is."
                cli.print_all([Text(prompt or empty)])

    talk = _conversation(file, conversation)
    _with_profile(
        uri, schema, Scope(app_name, user), agent, subject, call, embedder=embedder, llm=llm,
        consolidates=True,
    )  # fmt: skip


@profiles.command("versions")
def versions(
    app_name: cli.App,
    user: cli.User,
    agent: Agent = None,
    subject: Subject = Of.USER,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of versions.")] = 100,
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    as_json: cli.AsJson = False,
) -> None:
    """List the stored versions of a profile, newest first."""

    async def call(profile: AgentProfile) -> None:
        from shared_core.profiles.service import version_json

        found = [] if await profile.current() is None else await profile.versions(limit)
        if as_json:
            cli.print_json([version_json(one) for one in found])
        elif found:
            cli.console().print(_versions_table(found))
        else:
            typer.echo(f"No profile is stored for {user} in {app_name}.")

    _with_profile(uri, schema, Scope(app_name, user), agent, subject, call)


@profiles.command("diff")
def diff(
    app_name: cli.App,
    user: cli.User,
    from_version: Number,
    to_version: Number,
    agent: Agent = None,
    subject: Subject = Of.USER,
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    as_json: cli.AsJson = False,
) -> None:
    """Show what changed from one version of a profile to another."""

    async def call(profile: AgentProfile) -> None:
        from shared_core.profiles.service import diff_json

        found = await profile.diff(from_version, to_version)
        if as_json:
            cli.print_json(diff_json(found))
        else:
            cli.print_all(_diff_lines(found))

    _with_profile(uri, schema, Scope(app_name, user), agent, subject, call)


@profiles.command("rollback")
def rollback(
    app_name: cli.App,
    user: cli.User,
    version: Number,
    agent: Agent = None,
    subject: Subject = Of.USER,
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    embedder: cli.Embedder = None,
    as_json: cli.AsJson = False,
) -> None:
    """Store an earlier version of a profile again, as a new version."""

    async def call(profile: AgentProfile) -> None:
        from shared_core.profiles.service import memory_json

        known = await profile.rollback(version)
        if as_json:
            cli.print_json(memory_json(known))
        else:
            typer.echo(f"Version {known.version} has the content of version {version}.")

    _with_profile(uri, schema, Scope(app_name, user), agent, subject, call, embedder=embedder)


def _with_profile(
    uri: str | None,
    schema: str | None,
    scope: Scope,
    agent: str | None,
    subject: Of,
    call: Callable[[AgentProfile], Awaitable[None]],
    *,
    embedder: str | None = None,
    llm: str | None = None,
    consolidates: bool = False,
) -> None:
    """Call with one profile. consolidates: run the queued jobs and wait for them."""
    of: Literal["user", "agent"] = "agent" if subject is Of.AGENT else "user"

    async def run(memory: MemoryEngine) -> None:
        await call(memory.profiles.of(scope, agent, of))
        if consolidates and not await memory.flush():
            typer.echo("Its facts are not extracted yet: see hippocampus jobs.", err=True)

    memory = cli.open_memory(uri, schema=schema, embedder=embedder, llm=llm, worker=consolidates)
    cli.with_memory(memory, run)


def _conversation(file: Path | None, conversation_id: str | None) -> object:
    if file is not None:
        with file.open("rb") as source:
            conversation = read_conversation(source)
    elif sys.stdin is None:
        raise InvalidInput("standard input is closed: give the conversation with --file")
    else:
        conversation = read_conversation(typer.get_binary_stream("stdin"))
    if conversation_id is None:
        return conversation
    messages = conversation if isinstance(conversation, dict) else {"messages": conversation}
    return {**messages, "conversation_id": conversation_id}


def _profile_lines(memory: Memory) -> Iterator[Text]:
    """Yield the prompt of a profile, then its findings with their confidence."""
    yield Text(memory.to_prompt() or "Nothing is known.")
    if memory.mind.findings:
        yield Text("")
    for one in memory.mind.findings:
        yield Text(f"{one.dimension} {one.confidence:.1f}  {one.text}", style="dim")


def _versions_table(found: Sequence[ProfileVersion]) -> Table:
    rows = [
        (
            str(one.version),
            f"{one.created_at:%Y-%m-%d %H:%M}",
            str(one.revision),
            "" if one.run_id is None else str(one.run_id),
        )
        for one in found
    ]
    return cli.word_table(("version", "stored (UTC)", "repeated", "run"), rows)


def _diff_lines(found: ProfileDiff) -> Iterator[Text]:
    """Yield the changes: "-" before removed lines, "+" before added ones."""
    changes = (
        (found.removed, found.added),
        (found.removed_events, found.added_events),
        (found.removed_findings, found.added_findings),
    )
    changed = False
    for removed, added in changes:
        for sign, style, texts in (("-", "red", removed), ("+", "green", added)):
            for text in texts:
                changed = True
                yield Text(f"{sign} {text}", style=style)
    if not changed:
        yield Text(f"Versions {found.from_version} and {found.to_version} have the same content.")
