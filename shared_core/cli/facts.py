"""Commands that show, state, retract and restore facts."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from shared_core.cli import app as cli
from shared_core.core.domain import JsonValue, Scope
from shared_core.core.ids import chosen_id, short_id, whole_id
from shared_core.errors import NotFound
from shared_core.nlp.uncertainty import uncertain

if TYPE_CHECKING:
    from shared_core.engine import MemoryEngine
    from shared_core.ports.runs import Fact, FactReason

Key = Annotated[
    str, typer.Argument(help="Key of the fact, or the beginning or the end of the key.")
]
PART_OF_ID = re.compile(r"[0-9a-fA-F-]+")


@cli.app.command()
def facts(
    app_name: cli.App,
    user: cli.User,
    slot: Annotated[str, typer.Argument(help="Only this slot, e.g. employer or 公司.")] = "",
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    history: Annotated[bool, typer.Option("--history", help="Include facts that ended.")] = False,
    why: Annotated[
        bool, typer.Option("--why", help="Show the turns and rules behind each fact.")
    ] = False,
    as_of: cli.AsOfDate = None,
    known: cli.KnownDate = None,
    as_json: cli.AsJson = False,
) -> None:
    """List the facts about a user by slot, each with its start date."""
    then = cli.as_of_options(as_of, known)
    found = cli.with_memory(
        cli.open_memory(uri, schema=schema, worker=False),
        lambda memory: memory.facts(
            Scope(app_name, user), slot, history=history, as_of=then, why=why
        ),
    )
    if as_json:
        cli.print_json(facts_json(found), indent=2)
    elif found and why:
        cli.print_all(why_lines(found))
    elif found:
        cli.console().print(facts_table(found))
    else:
        in_slot = f" in the slot {slot!r}" if slot else ""
        typer.echo(f"No facts are stored for {user} in {app_name}{in_slot}.")


@cli.app.command()
def state(
    app_name: cli.App,
    user: cli.User,
    slot: Annotated[str, typer.Argument(help="Slot: employer, 公司, or a name of your own.")],
    value: Annotated[str, typer.Argument(help="Value of the slot, e.g. Zenith.")],
    subject: Annotated[
        str | None, typer.Option(help="Person the fact is about.", show_default="the user")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="DATE", help="Date from which it holds.", show_default="now"),
    ] = None,
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    embedder: cli.Embedder = None,
    as_json: cli.AsJson = False,
) -> None:
    """Store a fact as slot and value. It supersedes the current value of the slot."""
    begins = cli.date_option(since, "--since")
    fact = cli.with_memory(
        cli.open_memory(uri, schema=schema, embedder=embedder, worker=False),
        lambda memory: memory.state_fact(
            Scope(app_name, user), slot, value, subject=subject, valid_from=begins
        ),
    )
    _show(fact, as_json)


@cli.app.command()
def retract(
    app_name: cli.App,
    user: cli.User,
    key: Key,
    at: Annotated[
        str | None, typer.Option(metavar="DATE", help="Date when it ends.", show_default="now")
    ] = None,
    uri: cli.Uri = None,
    schema: cli.Schema = None,
    as_json: cli.AsJson = False,
) -> None:
    """End a fact. It stays in the history."""
    until = cli.date_option(at, "--at")
    fact = cli.with_memory(
        cli.open_memory(uri, schema=schema, worker=False),
        lambda memory: _change(
            memory, app_name, user, key, lambda scope, name: memory.retract(scope, name, at=until)
        ),
    )
    _show(fact, as_json)


@cli.app.command()
def restore(
    app_name: cli.App, user: cli.User, key: Key, uri: cli.Uri = None, schema: cli.Schema = None,
    as_json: cli.AsJson = False,
) -> None:  # fmt: skip
    """Undo the end of a fact, so that it holds again."""
    fact = cli.with_memory(
        cli.open_memory(uri, schema=schema, worker=False),
        lambda memory: _change(memory, app_name, user, key, memory.restore),
    )
    _show(fact, as_json)


async def _change(
    memory: MemoryEngine,
    app_name: str,
    user: str,
    key: str,
    verb: Callable[[Scope, str], Awaitable[Fact]],
) -> Fact:
    """Apply a verb to the fact with this key, or with a key that begins or ends with it."""
    scope = Scope(app_name, user)
    command = f"hippocampus facts {app_name} {user} --history"
    name = key
    if whole_id(key) is None and PART_OF_ID.fullmatch(key.strip()):
        ids = [fact.memory_id for fact in await memory.facts(scope, history=True)]
        name = str(chosen_id(key, ids, what="fact", shown_by=command))
    try:
        return await verb(scope, name)
    except NotFound as error:
        raise NotFound(
            f"there is no memory {key!r} of {scope}: {command} shows all facts with their keys"
        ) from error


def _show(fact: Fact, as_json: bool) -> None:
    if as_json:
        cli.print_json(fact.to_dict())
    else:
        cli.print_all([_line(fact)])


def _line(fact: Fact) -> Text:
    until = f", until {fact.valid_until:%Y-%m-%d %H:%M} UTC" if fact.valid_until else ""
    since = f"since {fact.valid_from:%Y-%m-%d %H:%M} UTC{until}"
    statement = uncertain(fact.statement) if fact.is_doubtful else fact.statement
    return Text(f"{statement} ({since}; key {fact.key})")


def facts_json(found: Sequence[Fact]) -> list[JsonValue]:
    """Return facts as JSON values."""
    return [fact.to_dict() for fact in found]


def why_lines(found: Sequence[Fact]) -> Iterator[Text]:
    """Yield each fact, and under it the turns and rules that state, doubt and ended it."""
    for fact in found:
        yield _line(fact)
        if fact.why is None:
            continue
        reasons = (
            ("stated", fact.why.stated), ("doubted", fact.why.doubted), ("ended", fact.why.ended),
        )  # fmt: skip
        for verb, reason in reasons:
            if reason is not None:
                yield _reason(verb, reason)


def _reason(verb: str, reason: FactReason) -> Text:
    by = [reason.extractor, reason.pattern]
    by += [f"run {short_id(str(reason.run_id))}"] if reason.run_id else []
    by += [f"fact {short_id(reason.fact_key)}"] if reason.fact_key else []
    text = Text(f"   {verb} by {_joined(by) or 'an unknown run'}", style="dim")
    for turn in reason.turns:
        said = f"“{turn.text}”" if turn.text is not None else "a turn that was forgotten"
        when = f"{turn.said_at:%Y-%m-%d %H:%M} UTC" if turn.said_at else ""
        about = [when, turn.author, f"session {turn.thread_id}", f"event {turn.event_id}"]
        text.append(f"\n     {said}", style="not dim").append(f"\n     {_joined(about)}")
    return text


def _joined(parts: Sequence[str | None]) -> str:
    return " · ".join(part for part in parts if part)


def facts_table(found: Sequence[Fact]) -> Table:
    """Return facts as a table with the ends of their keys. Facts that ended are dimmed."""
    rows = [
        (
            short_id(fact.key),
            fact.slot,
            uncertain(fact.value) if fact.is_doubtful else fact.value,
            cli.day(fact.valid_from),
            cli.day(fact.valid_until),
        )
        for fact in found
    ]
    ended = [fact.valid_until is not None for fact in found]
    return cli.word_table(("key", "slot", "value", "since", "until"), rows, dim=ended)
