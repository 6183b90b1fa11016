"""Convert a Memory to the rows of a version and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TypeAlias
from uuid import UUID

from shared_core.core.domain import AsOf, JsonValue, MemoryId, Scope, Turn
from shared_core.core.namespaces import profile_namespace, scope_path
from shared_core.nlp.affect import PERSON_FACT_IMPORTANCE, fact_importance
from shared_core.nlp.text import search_terms
from shared_core.policies.profiles import profiles_to_show
from shared_core.policies.vectors import TEXT_FIELD
from shared_core.ports.items import ItemAddress, MemoryRow
from shared_core.ports.profiles import PARAGRAPH_KEY, EntryRole, NewVersion, StoredProfile
from shared_core.ports.storage import Storage
from shared_core.privacy.sanitizing import Intake
from shared_core.profiles.entries import Basis, Clause, EventParagraph, Finding, Mind, Statement
from shared_core.profiles.event_memory import EventMemory
from shared_core.profiles.memory import Memory
from shared_core.profiles.profile_memory import ProfileMemory

Entry: TypeAlias = "Statement | EventParagraph | Finding"
EVENT_IMPORTANCE = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionDraft:
    """A version to write (None if nothing changed) and the texts to embed for it."""

    version: NewVersion | None
    texts: Sequence[tuple[ItemAddress, str, str]]


def memory_of(stored: StoredProfile) -> Memory:
    """Return the memory of a stored version, without its forgotten entries."""
    version = stored.version
    memory = Memory(
        version.agent_id, version.memory_id, subject=version.subject,
        max_events=version.event_limit,
    )  # fmt: skip
    roles = (one.role for one in stored.entries)
    _with_entries(memory, list(zip(roles, entries_of(stored).values(), strict=True)))
    memory.version, memory.revision = version.version, version.revision
    memory.created_at, memory.updated_at = version.began_at, version.created_at
    memory.stored_hash = memory.content_hash()
    return memory


def _with_entries(memory: Memory, entries: Sequence[tuple[EntryRole, Entry]]) -> Memory:
    """Return the memory after replacing its entries."""
    statements = [(role, one) for role, one in entries if isinstance(one, Statement)]
    memory.profile_memory = ProfileMemory(
        [one for role, one in statements if role == "statement"],
        [one for role, one in statements if role == "ended"],
        subject=memory.subject,
    )
    memory.event_memory = EventMemory(
        [one for _, one in entries if isinstance(one, EventParagraph)],
        max_events=memory.event_memory.max_events,
    )
    memory.mind = Mind(findings=tuple(one for _, one in entries if isinstance(one, Finding)))
    return memory


def entries_of(stored: StoredProfile) -> dict[UUID, Entry]:
    """Return the entries of a version by id, with their turns that still exist."""
    found: dict[UUID, Entry] = {}
    for one in stored.entries:
        if one.role == "event":
            event = EventParagraph.from_dict(one.value)
            found[event.event_id] = replace(event, bases=one.bases)
        elif one.role == "mind":
            finding = Finding.from_dict(one.value)
            turns = tuple(turn for basis in one.bases for turn in basis)
            found[finding.finding_id] = replace(finding, basis=turns)
        else:
            statement = Statement.from_dict(one.value)
            found[statement.statement_id] = replace(statement, bases=one.bases)
    return found


def without(memory: Memory, forgotten: Iterable[UUID]) -> Memory:
    """Return a memory without the entries forgotten since it was loaded."""
    gone = frozenset(forgotten)
    if not gone:
        return memory
    return _with_entries(
        memory.copy(), [(role, one) for role, one in _roles(memory) if entry_id(one) not in gone]
    )


def redacted(memory: Memory, intake: Intake) -> Memory:
    """Return a memory as it may be stored: text of an application is redacted like a turn."""
    entries = [(role, _redacted(entry, intake)) for role, entry in _roles(memory)]
    return _with_entries(memory.copy(), entries)


def _redacted(statement: Entry, intake: Intake) -> Entry:
    """Return an entry without secrets; a clause that held one keeps no facts."""
    if isinstance(statement, Finding):
        return statement
    if isinstance(statement, EventParagraph):
        return replace(statement, text=intake.privacy.marked(statement.text))
    clauses = tuple(
        clause if (text := intake.privacy.marked(clause.text)) == clause.text else Clause(text=text)
        for clause in statement.clauses
    )
    return statement if clauses == statement.clauses else replace(statement, clauses=clauses)


def version_draft(
    scope: Scope,
    memory: Memory,
    known: Mapping[UUID, Entry],
    run_id: UUID,
    required: Iterable[Turn],
    *,
    keep: int,
    revises: bool = False,
) -> VersionDraft:
    """Return the rows of the version after memory.version.

    known: the stored entries; only changed or new ones are written. required: turns that must
    exist, those of a conversation stored with the version. keep: number of versions to keep.
    revises: whether the content is equal to that of memory.version.
    """
    named = [(entry_id(entry), role, entry) for role, entry in _roles(memory)]
    fresh = [(role, entry) for one, role, entry in named if known.get(one) != entry]
    if revises and not fresh:
        return VersionDraft(version=None, texts=())
    rows = [_row(scope, memory, role, entry, run_id) for role, entry in fresh]
    paragraph = [] if revises else [_paragraph_row(scope, memory, run_id)]
    shown: tuple[EntryRole, ...] = ("statement", "event")
    sources = [
        (str(entry_id(entry)), turn, basis)
        for _, entry in fresh
        for basis, turns in enumerate(bases_of(entry))
        for turn in turns
    ]
    needed = {*required}
    return VersionDraft(
        version=NewVersion(
            subject=memory.subject,
            agent_id=memory.agent_id,
            expected=memory.version,
            revision=memory.revision,
            revises=revises,
            event_limit=memory.event_memory.max_events,
            content_hash=memory.content_hash(),
            began_at=memory.created_at,
            entries=[(one, role) for one, role, _ in named],
            rows=[*rows, *paragraph],
            sources=sources,
            rewritten=[entry_id(entry) for _, entry in fresh if entry_id(entry) in known],
            required=sorted({turn for _, turn, _ in sources if turn in needed}),
            covered=[one for one, role, _ in named if role in shown],
            keep=keep,
        ),
        texts=[
            ((row.namespace, row.key), TEXT_FIELD, row.text)
            for row, (role, _) in zip(rows, fresh, strict=True)
            if role in shown
        ],
    )


def entry_id(entry: Entry) -> UUID:
    """Return the id of an entry, which is the id of its memory."""
    if isinstance(entry, Statement):
        return entry.statement_id
    return entry.event_id if isinstance(entry, EventParagraph) else entry.finding_id


def bases_of(entry: Entry) -> tuple[Basis, ...]:
    """Return the turns of an entry, grouped by basis."""
    if isinstance(entry, Finding):
        return (entry.basis,) if entry.basis else ()
    return entry.bases


async def shown_profile(storage: Storage, scope: Scope, as_of: AsOf | None) -> str | None:
    """Return the stored profiles as a prompt shows them, or None if there are none."""
    known, valid = (as_of.known, as_of.valid) if as_of else (None, None)
    roles: tuple[EntryRole, ...] = ("statement",) if valid is None else ("statement", "ended")
    texts: list[str] = []
    reader = partial(profiles_to_show, scope.app, known, roles)
    for stored in await storage.query(scope_path(scope), reader):
        profile = memory_of(stored).profile_memory
        text = profile.get_content() if valid is None else profile.content_as_of(valid)
        if text:
            texts.append(text)
    return "\n".join(texts) or None


def _roles(memory: Memory) -> list[tuple[EntryRole, Entry]]:
    return [
        *(("statement", one) for one in memory.profile_memory.added_order),
        *(("ended", one) for one in memory.profile_memory.history),
        *(("event", one) for one in memory.event_memory.events),
        *(("mind", one) for one in memory.mind.findings),
    ]


def _row(scope: Scope, memory: Memory, role: EntryRole, entry: Entry, run_id: UUID) -> MemoryRow:
    text, moment = _text(entry), _moment(entry)
    searched = role in ("statement", "event")
    value: dict[str, JsonValue] = {
        **entry.to_dict(),
        "content": text,
        "memory_type": "event" if role == "event" else "mind" if role == "mind" else "profile",
        "memory_id": str(memory.memory_id),
    }
    return MemoryRow(
        memory_id=MemoryId(entry_id(entry)),
        namespace=profile_namespace(scope, memory.subject, memory.agent_id),
        key=str(entry_id(entry)),
        kind="item",
        text=text,
        value=value,
        terms=search_terms(text) if searched else (),
        occurred_at=moment,
        importance=_importance(entry),
        run_id=run_id,
        superseded_at=entry.valid_until if isinstance(entry, Statement) else None,
    )


def _paragraph_row(scope: Scope, memory: Memory, run_id: UUID) -> MemoryRow:
    """Return the row that key-value readers see as the profile. Search finds only its sentences."""
    paragraph = memory.get_profile_content()
    value: dict[str, JsonValue] = {
        "content": paragraph,
        "events": list(memory.get_event_content()),
        "memory_type": "profile",
        "memory_id": str(memory.memory_id),
        "agent_id": memory.agent_id,
        "subject": memory.subject,
        "version": memory.version + 1,
    }
    return MemoryRow(
        memory_id=MemoryId(memory.memory_id),
        namespace=profile_namespace(scope, memory.subject, memory.agent_id),
        key=PARAGRAPH_KEY,
        kind="item",
        text=paragraph,
        value=value,
        terms=(),
        occurred_at=memory.updated_at,
        run_id=run_id,
    )


def _text(entry: Entry) -> str:
    return entry.shown if isinstance(entry, EventParagraph) else entry.text


def _moment(entry: Entry) -> datetime:
    if isinstance(entry, Statement):
        return entry.said_at[-1] if entry.said_at else entry.valid_from
    return entry.occurred_at if isinstance(entry, EventParagraph) else entry.found_at


def _importance(entry: Entry) -> float:
    if isinstance(entry, Statement):
        return max(
            (fact_importance(fact.slot) for fact in entry.facts), default=PERSON_FACT_IMPORTANCE
        )
    return EVENT_IMPORTANCE
