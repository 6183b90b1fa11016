"""Commands that show, state, retract and restore facts."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from shared_core.cli import app as cli
from shared_core.core.domain import JsonValue, Scope
from shared_core.core.ids import chosen_id, short_id, whole_id
from shared_core.errors import NotFound

if TYPE_CHECKING:
    from shared_core.engine import MemoryEngine
    from shared_core.ports.runs import Fact

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
    as_of: cli.AsOfDate = None,
    known: cli.KnownDate = None,
    as_json: cli.AsJson = False,
) -> None:
    """List the facts about a user by slot, each with its start date."""
    then = cli.as_of_options(as_of, known)
    found = cli.with_memory(
        cli.open_memory(uri, schema=schema, worker=False),
        lambda memory: memory.facts(Scope(app_name, user), slot, history=history, as_of=then),
    )
    if as_json:
        cli.print_json(facts_json(found), indent=2)
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
        cli.print_json(facts_json([fact])[0])
        return
    until = f", until {fact.valid_until:%Y-%m-%d %H:%M} UTC" if fact.valid_until else ""
    since = f"since {fact.valid_from:%Y-%m-%d %H:%M} UTC{until}"
    cli.print_all([Text(f"{fact.statement} ({since}; key {fact.key})")])


def facts_json(found: Sequence[Fact]) -> list[JsonValue]:
    """Return facts as JSON values."""
    return [
        {
            "key": fact.key,
            "slot": fact.slot,
            "value": fact.value,
            "statement": fact.statement,
            "fact_type": fact.fact_type,
            "confidence": round(fact.confidence, 4),
            "extractor": fact.extractor,
            "pattern": fact.pattern,
            "valid_from": fact.valid_from.isoformat(),
            "valid_until": cli.iso(fact.valid_until),
            "recorded_at": cli.iso(fact.recorded_at),
            "superseded_at": cli.iso(fact.superseded_at),
            "thread_id": fact.thread_id,
            "source_event_ids": list(fact.source_event_ids),
        }
        for fact in found
    ]


def facts_table(found: Sequence[Fact]) -> Table:
    """Return facts as a table with the ends of their keys. Facts that ended are dimmed."""
    rows = [
        (
            short_id(fact.key),
            fact.slot,
            fact.value,
            cli.day(fact.valid_from),
            cli.day(fact.valid_until),
        )
        for fact in found
    ]
    ended = [fact.valid_until is not None for fact in found]
    return cli.word_table(("key", "slot", "value", "since", "until"), rows, dim=ended)
