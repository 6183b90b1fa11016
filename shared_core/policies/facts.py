"""Which facts hold or held: at a moment, as they were known at a moment. Rows in, facts out.

A fact has two time lines. valid_from and valid_until say when it holds; recorded_at and
superseded_at, when that and its end became known. An end that was undone later is a closure: from
closed_at until restored_at the fact was believed to have ended.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from shared_core.core.domain import AsOf, FactType, MemoryId, MemoryKind
from shared_core.core.doubts import doubted_at
from shared_core.core.ids import is_uuid
from shared_core.core.timestamps import soon
from shared_core.ports.operations import Condition, Join, Row, Select, compare, equal, open_after
from shared_core.ports.runs import Fact

Place: TypeAlias = tuple[FactType, str]
"""A type and a key: at most one fact of a place holds."""
_OPINION = re.compile(r"^((?:relation[.][^.]+[.])?)(dislike|like)(?=[:@])")
_NEVER = datetime.max.replace(tzinfo=UTC)


def liked_key(key: str) -> str:
    """Return the place of a fact's key: a like and the dislike of the same thing share one."""
    return _OPINION.sub(r"\1like", key)


def keys_of_place(key: str) -> list[str]:
    """Return the keys of the facts that exclude each other in the place of a key."""
    return sorted({key, liked_key(key), _OPINION.sub(r"\1dislike", key)})


class StoredFact(NamedTuple):
    """A row of facts, and what its memory says: text, thread, whether it is alive, its value."""

    memory_id: UUID
    fact_type: FactType
    slot: str
    key: str
    value: Any
    confidence: float
    extractor: str
    pattern: str
    valid_from: datetime
    valid_until: datetime | None
    recorded_at: datetime
    superseded_at: datetime | None
    text: str
    thread_id: str | None
    retired_at: datetime | None
    demoted_at: datetime | None
    expires_at: datetime | None
    memory_value: Any

    @property
    def place(self) -> Place:
        return self.fact_type, self.key

    @property
    def began(self) -> tuple[datetime, datetime, UUID]:
        """Sorts facts of one place by when they began."""
        return self.valid_from, self.recorded_at, self.memory_id

    @property
    def is_open(self) -> bool:
        """Whether it has no known end."""
        return self.valid_until is None and self.superseded_at is None

    @property
    def is_set_aside(self) -> bool:
        """Whether the user asked to forget it."""
        return self.retired_at is not None and self.demoted_at is not None

    def lives(self, now: datetime) -> bool:
        """Return whether its memory has not expired."""
        return self.expires_at is None or self.expires_at > now

    def covers(self, moment: datetime) -> bool:
        """Return whether it has begun and its end is later, or unknown."""
        is_on = self.valid_until is None or self.valid_until > moment
        return is_on and self.valid_from <= moment


_OWN = StoredFact._fields[:12]
_OF_MEMORY = ("text", "thread_id", "superseded_at", "demoted_at", "expires_at", "value")
_MEMORY = Join("memories", "m", (("memory_id", "memory_id"),))
_SOURCES = Join("memory_sources", "s", (("memory_id", "memory_id"),))
_SOURCE = ("memory_id", "s.event_id")
FACT_COLUMNS = (*_OWN, *(f"m.{column}" for column in _OF_MEMORY))
"""The columns of a StoredFact in a Select of facts joined to memories "m"."""


def select_facts(*where: Condition) -> list[Select]:
    """Return what reads facts and their turns; facts_of() takes the rows of both."""
    return [
        Select("facts", FACT_COLUMNS, where, (_MEMORY,)),
        Select("facts", _SOURCE, where, (_SOURCES,)),
    ]


def fact_of(
    fact: StoredFact, sources: Mapping[UUID, Iterable[str]], as_of: AsOf | None = None
) -> Fact:
    """Return a fact as callers get it, without doubts later than as_of.

    sources: the ids of the turns of each fact.
    """
    doubted = doubted_at(fact.memory_value)
    moments = (as_of.valid, as_of.known) if as_of else ()
    if doubted and any(moment and doubted > moment for moment in moments):
        doubted = None
    return Fact(
        memory_id=MemoryId(fact.memory_id),
        fact_type=fact.fact_type,
        slot=fact.slot,
        value=fact.value,
        statement=fact.text,
        confidence=fact.confidence,
        extractor=fact.extractor,
        pattern=fact.pattern,
        valid_from=fact.valid_from,
        valid_until=fact.valid_until,
        thread_id=fact.thread_id,  # type: ignore[arg-type] # ThreadId is a NewType of str
        source_event_ids=tuple(sorted(sources.get(fact.memory_id, ()))),
        recorded_at=fact.recorded_at,
        superseded_at=fact.superseded_at,
        doubted_at=doubted,
    )


def sources_of(rows: Iterable[Row]) -> dict[UUID, set[str]]:
    """Return the turns of each memory from rows of its id and the id of a turn."""
    found = defaultdict[UUID, set[str]](set)
    for memory_id, event_id in rows:
        found[memory_id].add(event_id)
    return found


def holding(facts: Iterable[StoredFact], now: datetime) -> list[StoredFact]:
    """Return the facts that hold now, in their order.

    A fact with a future end holds until then, unless a later value of its place has begun.
    facts: all facts of each place that may hold.
    """
    every = list(facts)
    last: dict[Place, tuple[datetime, datetime, UUID]] = {}
    for one in every:
        if one.valid_from <= soon(now) and (one.valid_until is None or one.valid_until > now):
            last[one.place] = max(last.get(one.place, one.began), one.began)

    def holds(fact: StoredFact) -> bool:
        if fact.valid_until is None:
            return fact.superseded_at is None
        later = last.get(fact.place, fact.began)
        return fact.valid_until > now and fact.retired_at is None and later <= fact.began

    return [one for one in every if holds(one)]


def in_order(facts: Iterable[StoredFact]) -> list[StoredFact]:
    """Return facts in order: current ones, then ended ones, each newest first."""
    ordered = sorted(facts, key=lambda one: one.memory_id)
    ordered.sort(key=lambda one: one.valid_from, reverse=True)
    ordered.sort(key=lambda one: (one.fact_type, one.slot))
    ordered.sort(key=lambda one: (one.valid_until is None, one.valid_until or _NEVER), reverse=True)
    return ordered


@dataclass(frozen=True, slots=True, kw_only=True)
class FactQuery:
    """Asks for the facts that hold now, or held at a moment as they were known at a moment.

    slot: only the facts of this slot. history: ended facts and future ones too; with as_of, those
    that had ended. What the user asked to forget is left out at every moment.
    """

    now: datetime
    slot: str | None = None
    history: bool = False
    as_of: AsOf | None = None

    def selects(self) -> list[Select]:
        """Return what to read; facts() takes the rows."""
        of_slot = [] if self.slot is None else [equal("slot", self.slot)]
        if self.as_of is None:
            begun = [
                compare("valid_from", "<=", soon(self.now)),
                open_after("valid_until", self.now),
            ]
            return select_facts(*of_slot, *([] if self.history else begun))
        # A like ends the dislike of the same thing, so the facts of one slot are not enough.
        facts, closures = select_recorded(self.now, self.as_of)
        sources = Select("facts", _SOURCE, (*facts.where, *of_slot), (_SOURCES,))
        return [facts, sources, closures]

    def facts(self, rows: Sequence[Sequence[Row]]) -> list[Fact]:
        """Return the facts in order: current ones, then ended ones, each newest first."""
        sources = sources_of(rows[1])
        return [fact_of(one, sources, self.as_of) for one in in_order(self._selected(rows))]

    def _selected(self, rows: Sequence[Sequence[Row]]) -> list[StoredFact]:
        if self.as_of is None:
            found = [StoredFact(*row) for row in rows[0]]
            held = found if self.history else holding(found, self.now)
            return [one for one in held if one.lives(self.now) and one.demoted_at is None]
        recorded = recorded_facts(rows[0], rows[2], self.now, self.as_of)
        held = recorded if self.history else holding_at(recorded, self.as_of.valid or self.now)
        return [one for one in held if self.slot is None or one.slot == self.slot]


def select_recorded(now: datetime, as_of: AsOf) -> tuple[Select, Select]:
    """Return what reads the facts that had begun and were known at a moment, and closures.

    recorded_facts() takes the rows of both.
    """
    known = as_of.known
    begun = (compare("valid_from", "<=", as_of.valid or now),)
    recorded = () if known is None else (compare("recorded_at", "<=", known),)
    at = known or now
    closures = (compare("closed_at", "<=", at), compare("restored_at", ">", at))
    return (
        Select("facts", FACT_COLUMNS, (*begun, *recorded), (_MEMORY,)),
        Select("fact_closures", ("memory_id", "closed_at", "valid_until"), closures),
    )


def recorded_facts(
    rows: Iterable[Row], closures: Iterable[Row], now: datetime, as_of: AsOf
) -> list[StoredFact]:
    """Return facts with their ends as they were known at a moment, even if undone since.

    Without superseded_at no end is known yet, whatever valid_until says.
    """
    undone = defaultdict[UUID, list[tuple[datetime, datetime | None]]](list)
    for memory_id, closed_at, valid_until in closures if as_of.known else ():
        undone[memory_id].append((closed_at, valid_until))
    found = []
    for one in map(StoredFact._make, rows):
        if not one.lives(now) or one.is_set_aside:
            continue
        ends = [*undone.get(one.memory_id, ())]
        closed_at = one.superseded_at
        if closed_at is not None and (as_of.known is None or closed_at <= as_of.known):
            ends.append((closed_at, one.valid_until))
        at, until = max(ends, key=lambda end: end[0]) if ends else (None, None)
        found.append(one._replace(superseded_at=at, valid_until=until))
    return found


def holding_at(facts: Iterable[StoredFact], valid: datetime) -> list[StoredFact]:
    """Return the facts that held at a moment: of each place, the one that began last."""
    held: dict[Place, StoredFact] = {}
    for one in facts:
        if one.valid_until is None or one.valid_until > valid:
            place = (one.fact_type, liked_key(one.key))
            held[place] = max(held.get(place, one), one, key=lambda fact: fact.began)
    return list(held.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedMemory:
    """A memory found by its name. fact: None if it is no fact."""

    kind: MemoryKind
    fact: Fact | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NameQuery:
    """Asks for the memory with a key, or else with a memory id, and for its fact if it is one.

    namespace: the path of the scope's memories, without the tenant.
    """

    now: datetime
    namespace: str
    name: str

    def selects(self) -> list[Select]:
        """Return what to read; memory() takes the rows."""
        names: list[tuple[Condition, ...]] = [
            (equal("namespace", self.namespace), equal("key", self.name))
        ]
        if is_uuid(self.name):
            names.append((equal("memory_id", UUID(self.name)),))
        fact = Join("facts", "f", (("memory_id", "memory_id"),), is_left=True)
        columns = ("kind", *(f"f.{column}" for column in _OWN), *_OF_MEMORY)
        lives = open_after("expires_at", self.now)
        return [
            select
            for name in names
            for select in (
                Select("memories", columns, (*name, lives), (fact,)),
                Select("memories", _SOURCE, name, (_SOURCES,)),
            )
        ]

    def memory(self, rows: Sequence[Sequence[Row]]) -> NamedMemory | None:
        """Return the memory, or None."""
        for found, sources in zip(rows[::2], rows[1::2], strict=True):
            for kind, *values in found:
                fact = StoredFact(*values)
                if fact.memory_id is None:
                    return NamedMemory(kind=kind, fact=None)
                return NamedMemory(kind=kind, fact=fact_of(fact, sources_of(sources)))
        return None
