"""Between a Memory and what is stored of it: memories, versions, and their turns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeAlias
from uuid import UUID

from shared_core.core.domain import AsOf, JsonValue, MemoryId, Scope, Turn
from shared_core.core.namespaces import profile_namespace
from shared_core.ingest.events import TEXT_FIELD
from shared_core.nlp.affect import PERSON_FACT_IMPORTANCE, fact_importance
from shared_core.nlp.text import search_terms
from shared_core.ports.items import ItemAddress, MemoryRow
from shared_core.ports.profiles import PARAGRAPH_KEY, EntryRole, NewVersion, StoredProfile
from shared_core.ports.storage import Storage
from shared_core.privacy.sanitizing import Intake
from shared_core.profiles.entries import Basis, Clause, EventParagraph, Finding, Mind, Statement
from shared_core.profiles.event_memory import EventMemory
from shared_core.profiles.memory import Memory
from shared_core.profiles.profile_memory import ProfileMemory

Part: TypeAlias = "Statement | EventParagraph | Finding"
EVENT_IMPORTANCE = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionDraft:
    """A version to write, and what is to be embedded for it; None where it is all there already."""

    version: NewVersion | None
    texts: Sequence[tuple[ItemAddress, str, str]]


def memory_of(stored: StoredProfile) -> Memory:
    """Return the memory of a stored version, of what was not forgotten of it."""
    version = stored.version
    memory = Memory(
        version.agent_id, version.memory_id, subject=version.subject,
        max_events=version.event_limit,
    )  # fmt: skip
    parts = parts_of(stored)
    by_role: dict[EntryRole, list[Part]] = {}
    for entry, part in zip(stored.entries, parts.values(), strict=True):
        by_role.setdefault(entry.role, []).append(part)
    memory.profile_memory = ProfileMemory(
        [one for one in by_role.get("statement", ()) if isinstance(one, Statement)],
        [one for one in by_role.get("ended", ()) if isinstance(one, Statement)],
        subject=version.subject,
    )
    memory.event_memory = EventMemory(
        [one for one in by_role.get("event", ()) if isinstance(one, EventParagraph)],
        max_events=version.event_limit,
    )
    memory.mind = Mind(
        findings=tuple(one for one in by_role.get("mind", ()) if isinstance(one, Finding))
    )
    memory.version, memory.revision = version.version, version.revision
    memory.created_at, memory.updated_at = version.began_at, version.created_at
    memory.stored_hash = memory.content_hash()
    return memory


def parts_of(stored: StoredProfile) -> dict[UUID, Part]:
    """Return the parts of a version by id, with the turns that are left of each."""
    found: dict[UUID, Part] = {}
    for entry in stored.entries:
        if entry.role == "event":
            event = EventParagraph.from_dict(entry.value)
            found[event.event_id] = replace(event, bases=entry.bases)
        elif entry.role == "mind":
            finding = Finding.from_dict(entry.value)
            turns = tuple(turn for basis in entry.bases for turn in basis)
            found[finding.finding_id] = replace(finding, basis=turns)
        else:
            statement = Statement.from_dict(entry.value)
            found[statement.statement_id] = replace(statement, bases=entry.bases)
    return found


def without(memory: Memory, forgotten: Iterable[UUID]) -> Memory:
    """Return a memory without parts that were forgotten since it was loaded."""
    gone = frozenset(forgotten)
    if not gone:
        return memory
    kept = memory.copy()
    profile, events = memory.profile_memory, memory.event_memory
    kept.profile_memory = ProfileMemory(
        [one for one in profile.told_order if one.statement_id not in gone],
        [one for one in profile.history if one.statement_id not in gone],
        subject=profile.subject,
    )
    kept.event_memory = EventMemory(
        [one for one in events.events if one.event_id not in gone], max_events=events.max_events
    )
    kept.mind = Mind(
        findings=tuple(one for one in memory.mind.findings if one.finding_id not in gone)
    )
    return kept


def redacted(memory: Memory, intake: Intake) -> Memory:
    """Return a memory as it may be stored: what an application told is redacted like a turn."""
    kept = memory.copy()
    profile, events = memory.profile_memory, memory.event_memory
    kept.profile_memory = ProfileMemory(
        [_redacted(one, intake) for one in profile.told_order],
        [_redacted(one, intake) for one in profile.history],
        subject=profile.subject,
    )
    kept.event_memory = EventMemory(
        [replace(one, text=intake.privacy.marked(one.text)) for one in events.events],
        max_events=events.max_events,
    )
    return kept


def _redacted(statement: Statement, intake: Intake) -> Statement:
    """Return a statement whose clauses hold no secret; a clause that held one tells no fact."""
    clauses = tuple(
        clause if (text := intake.privacy.marked(clause.text)) == clause.text else Clause(text=text)
        for clause in statement.clauses
    )
    return statement if clauses == statement.clauses else replace(statement, clauses=clauses)


def version_draft(
    scope: Scope,
    memory: Memory,
    known: Mapping[UUID, Part],
    run_id: UUID,
    required: Iterable[Turn],
    *,
    keep: int,
    revises: bool = False,
) -> VersionDraft:
    """Return what is written for the version after memory.version.

    revises: it says the same as that one. known: the parts that are stored already, as they are
    stored; only the others are written. required: turns that must be there, those of a conversation
    that is stored along with it. keep: so many versions are kept.
    """
    named = [(part_id(part), role, part) for role, part in _roles(memory)]
    fresh = [(role, part) for one, role, part in named if known.get(one) != part]
    if revises and not fresh:
        return VersionDraft(version=None, texts=())
    rows = [_row(scope, memory, role, part, run_id) for role, part in fresh]
    paragraph = [] if revises else [_paragraph_row(scope, memory, run_id)]
    shown: tuple[EntryRole, ...] = ("statement", "event")
    sources = [
        (str(part_id(part)), turn, basis)
        for _, part in fresh
        for basis, turns in enumerate(bases_of(part))
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
            rewritten=[part_id(part) for _, part in fresh if part_id(part) in known],
            required=sorted({turn for _, turn, _ in sources if turn in needed}),
            told=[one for one, role, _ in named if role in shown],
            keep=keep,
        ),
        texts=[
            ((row.namespace, row.key), TEXT_FIELD, row.text)
            for row, (role, _) in zip(rows, fresh, strict=True)
            if role in shown
        ],
    )


def part_id(part: Part) -> UUID:
    """Return the id of a part, which is that of its memory."""
    if isinstance(part, Statement):
        return part.statement_id
    return part.event_id if isinstance(part, EventParagraph) else part.finding_id


def bases_of(part: Part) -> tuple[Basis, ...]:
    """Return the turns of a part, those together that say it together."""
    if isinstance(part, Finding):
        return (part.basis,) if part.basis else ()
    return part.bases


async def shown_profile(storage: Storage, scope: Scope, as_of: AsOf | None) -> str | None:
    """Return the stored profiles as a prompt shows them; None where nothing is known."""
    known, valid = (as_of.known, as_of.valid) if as_of else (None, None)
    roles: tuple[EntryRole, ...] = ("statement",) if valid is None else ("statement", "ended")
    said: list[str] = []
    for stored in await storage.profiles_to_show(scope, known, roles):
        profile = memory_of(stored).profile_memory
        text = profile.get_content() if valid is None else profile.content_as_of(valid)
        if text:
            said.append(text)
    return "\n".join(said) or None


def _roles(memory: Memory) -> list[tuple[EntryRole, Part]]:
    return [
        *(("statement", one) for one in memory.profile_memory.told_order),
        *(("ended", one) for one in memory.profile_memory.history),
        *(("event", one) for one in memory.event_memory.events),
        *(("mind", one) for one in memory.mind.findings),
    ]


def _row(scope: Scope, memory: Memory, role: EntryRole, part: Part, run_id: UUID) -> MemoryRow:
    text, moment = _text(part), _moment(part)
    searched = role in ("statement", "event")
    value: dict[str, JsonValue] = {
        **part.to_dict(),
        "content": text,
        "memory_type": "event" if role == "event" else "mind" if role == "mind" else "profile",
        "memory_id": str(memory.memory_id),
    }
    return MemoryRow(
        memory_id=MemoryId(part_id(part)),
        namespace=profile_namespace(scope, memory.subject, memory.agent_id),
        key=str(part_id(part)),
        kind="item",
        text=text,
        value=value,
        terms=search_terms(text) if searched else (),
        occurred_at=moment,
        importance=_importance(part),
        run_id=run_id,
        superseded_at=part.valid_until if isinstance(part, Statement) else None,
    )


def _paragraph_row(scope: Scope, memory: Memory, run_id: UUID) -> MemoryRow:
    """Return what a key-value face reads as the profile; no search finds it, only its sentences."""
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


def _text(part: Part) -> str:
    return part.shown if isinstance(part, EventParagraph) else part.text


def _moment(part: Part) -> datetime:
    if isinstance(part, Statement):
        return part.said_at[-1] if part.said_at else part.valid_from
    return part.occurred_at if isinstance(part, EventParagraph) else part.found_at


def _importance(part: Part) -> float:
    if isinstance(part, Statement):
        return max(
            (fact_importance(fact.slot) for fact in part.facts), default=PERSON_FACT_IMPORTANCE
        )
    return EVENT_IMPORTANCE
