"""Ended facts and edges hold again, with the statements and reflections retired with them.

A place has one current fact of a type and key; one edge of a subject, relation and object; and one
edge of a subject and functional relation. PostgreSQL has unique indexes for that; the second engine
has none, so it is checked here, under the tenant's lock.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from shared_core.core.json_text import to_json
from shared_core.core.timestamps import soon
from shared_core.errors import Conflict
from shared_core.policies.run_records import LAST_NUMBER, caller_run, ends_before, iso, noted
from shared_core.policies.timing import RULES, retimed, rules_of, select_timed, timed_of
from shared_core.ports.facts import Restoration
from shared_core.ports.graph import Edge
from shared_core.ports.operations import (
    Insert,
    Join,
    Last,
    Operation,
    Policy,
    Row,
    Select,
    Update,
    compare,
    equal,
    is_not_null,
    is_null,
    one_of,
    one_of_rows,
    open_after,
)

_OPINION = re.compile(r"^((?:relation[.][^.]+[.])?)(dislike|like)(?=[:@])")
_OPEN = {"valid_until": None, "superseded_at": None}


class FactEnd(NamedTuple):
    """A fact, its end, since when that is known, and when its memory was retired."""

    memory_id: UUID
    fact_type: str
    key: str
    value: Any
    valid_until: datetime | None
    superseded_at: datetime | None
    retired_at: datetime | None


class EdgeEnd(NamedTuple):
    """An edge, its end, and the place in which it excludes others."""

    edge_id: UUID
    valid_until: datetime | None
    superseded_at: datetime | None
    subject_key: str
    relation: str
    object_key: str
    functional: bool
    fact_id: UUID | None
    valid_from: datetime

    @property
    def is_open(self) -> bool:
        """Whether it has no known end."""
        return self.valid_until is None and self.superseded_at is None

    @property
    def place(self) -> tuple[str, str]:
        """The subject and relation."""
        return self.subject_key, self.relation

    def excludes(self, other: EdgeEnd) -> bool:
        """Return whether both cannot be current."""
        is_same = self.object_key == other.object_key
        return self.place == other.place and (is_same or (self.functional and other.functional))


EDGE_END = EdgeEnd._fields
"""The columns of edges that an EdgeEnd has."""
_FACT = (
    "f.memory_id", "f.fact_type", "f.key", "f.value", "f.valid_until", "f.superseded_at",
    "m.superseded_at",
)  # fmt: skip


def liked_key(key: str) -> str:
    """Return the place of a fact's key: a like and the dislike of the same thing share one."""
    return _OPINION.sub(r"\1like", key)


def keys_of_place(key: str) -> list[str]:
    """Return the keys of the facts that exclude each other in the place of a key."""
    return sorted({key, liked_key(key), _OPINION.sub(r"\1dislike", key)})


def restore_fact(tenant: str, restoration: Restoration, now: datetime) -> Policy[None]:
    """Let a fact and what ended with it hold again, as a run.

    Raises Conflict if it changed since, or if a current fact or edge excludes it.
    """
    memory_id, closed_at = restoration.memory_id, restoration.closed_at
    in_place = Conflict(
        f"another call changed fact {memory_id}, or a fact that excludes it, at the same time: try"
        " again"
    )
    last, rules, facts, ends, *derived = yield [
        LAST_NUMBER,
        RULES,
        Select(
            "facts",
            tuple(column.removeprefix("f.") for column in _FACT),
            (equal("memory_id", memory_id), is_not_null("superseded_at")),
            (Join("memories", "m", (("memory_id", "memory_id"),)),),
        ),
        Select("edges", EDGE_END, (equal("fact_id", memory_id),)),
        *_select_retired(memory_id, closed_at),
    ]
    fact = FactEnd(*facts[0]) if facts else None
    if fact is None or fact.superseded_at != closed_at:
        raise in_place
    ended = [EdgeEnd(*row) for row in ends if row[2] == closed_at]
    retired = _Retired.of(fact, *derived)
    keys = sorted({fact.key, *restoration.keys})
    rivals, held, others, timed = yield [
        select_current_facts(fact.fact_type, keys),
        select_edges_in(ended, now),
        _select_other_values(retired.statements),
        select_timed(sorted(retired.candidates)),
    ]
    edges = [EdgeEnd(*row) for row in held]
    if rivals or any(rivals_of(ended, edges, now)):
        raise in_place
    free = free_edges(ended, edges)
    if any(one.excludes(other) for one in free for other in free if one is not other):
        raise in_place
    run_id = restoration.run_id
    back = retired.back(others, [fact.memory_id])
    memories = {row[0]: timed_of(row) for row in timed}
    for one in (fact.memory_id, *back):
        memories[one].superseded_at = None
    yield Last(
        [
            caller_run(run_id, "restoration", {"restored": 1}, now, last),
            *reopened_facts(run_id, [fact], now),
            *_restored(run_id, back, closed_at),
            *reopened_edges(run_id, free),
            *retimed([memories[one] for one in (fact.memory_id, *back)], rules_of(rules, tenant)),
        ]
    )


def restore_edge(tenant: str, edge: Edge, run_id: UUID, now: datetime) -> Policy[None]:
    """Let an ended edge, its fact and what ended with that fact hold again, as a run.

    Raises Conflict if the edge holds or is gone, or if another edge or fact took its place.
    """
    taken = Conflict(
        f"edge {edge.edge_id} cannot be restored: another edge has taken its place since."
        " Retract that one first; graph.history() shows both"
    )
    own, closed_at = equal("edge_id", edge.edge_id), edge.superseded_at
    gone = Conflict("the edge holds, or is gone")
    if closed_at is None:
        raise gone
    last, rules, ends, facts, *derived = yield [
        LAST_NUMBER,
        RULES,
        Select("edges", EDGE_END, (own, is_not_null("superseded_at"))),
        Select(
            "edges",
            _FACT,
            (own,),
            (
                Join("facts", "f", (("fact_id", "memory_id"),)),
                Join("memories", "m", (("fact_id", "memory_id"),)),
            ),
        ),
        *_select_retired(edge.fact_id or edge.edge_id, closed_at),
    ]
    if not ends:
        raise gone
    ended = EdgeEnd(*ends[0])
    fact = FactEnd(*facts[0]) if facts else None
    retired = _Retired.of(fact, *derived)
    keys = keys_of_place(fact.key) if fact else []
    held, rivals, others, timed = yield [
        select_edges_in([ended], now),
        select_current_facts(fact.fact_type if fact else "", keys),
        _select_other_values(retired.statements),
        select_timed(sorted(retired.candidates)),
    ]
    if not free_edges([ended], [EdgeEnd(*row) for row in held]):
        raise taken
    reopened = [fact] if fact and fact.superseded_at is not None else []
    if any(row[1] == one.key for one in reopened for row in rivals):
        raise taken
    is_current = bool(reopened) or (fact is not None and fact.valid_until is None)
    if fact and is_current and any(row[1] != fact.key for row in rivals):
        raise Conflict("the opposite holds now: retract that first")
    again = [one.memory_id for one in reopened]
    back = retired.back(others, again)
    memories = {row[0]: timed_of(row) for row in timed}
    for one in (*again, *back):
        memories[one].superseded_at = None
    yield Last(
        [
            caller_run(run_id, "graph", {"restored": 1}, now, last),
            *reopened_edges(run_id, [ended]),
            *reopened_facts(run_id, reopened, now),
            *_restored(run_id, back, closed_at),
            *retimed([memories[one] for one in (*again, *back)], rules_of(rules, tenant)),
        ]
    )


def select_current_facts(fact_type: str, keys: Sequence[str]) -> Select:
    """Return what reads the id and key of the current facts of a type with some keys."""
    where = (equal("fact_type", fact_type), one_of("key", keys))
    ends = (is_null("valid_until"), is_null("superseded_at"))
    return Select("facts", ("memory_id", "key"), (*where, *ends))


def select_edges_in(ended: Iterable[EdgeEnd], now: datetime) -> Select:
    """Return what reads the edges in the places of ended ones that have not come to an end."""
    places = sorted({one.place for one in ended})
    where = (one_of_rows(("subject_key", "relation"), places), open_after("valid_until", now))
    return Select("edges", EDGE_END, where)


def rivals_of(ended: Iterable[EdgeEnd], held: Sequence[EdgeEnd], now: datetime) -> list[EdgeEnd]:
    """Return the edges that hold in the place of functional edges that ended."""
    alone = [one for one in ended if one.functional]
    return [
        other
        for other in held
        if other.functional
        and other.valid_from <= soon(now)
        and (other.is_open or (other.valid_until is not None and other.valid_until > now))
        and any(one.place == other.place and one.object_key != other.object_key for one in alone)
    ]


def free_edges(ended: Iterable[EdgeEnd], held: Sequence[EdgeEnd]) -> list[EdgeEnd]:
    """Return the edges with a place that no current edge has taken."""
    current = [one for one in held if one.is_open]
    return [one for one in ended if not any(one.excludes(other) for other in current)]


def reopened_facts(run_id: UUID, ended: Sequence[FactEnd], now: datetime) -> list[Operation]:
    """Return what lets facts hold again, and keeps their ends as once believed."""
    if not ended:
        return []
    these = (one_of("memory_id", [one.memory_id for one in ended]),)
    closures = [(one.memory_id, one.superseded_at, now, one.valid_until, run_id) for one in ended]
    before = [
        (
            one.memory_id,
            {**ends_before(one.valid_until, one.superseded_at), "retired_at": iso(one.retired_at)},
        )
        for one in ended
    ]
    columns = ("memory_id", "closed_at", "restored_at", "valid_until", "run_id")
    return [
        Insert("fact_closures", columns, closures),
        *noted(run_id, "moved", before),
        Update("facts", _OPEN, these),
        Update("memories", {"superseded_at": None}, these),
    ]


def reopened_edges(run_id: UUID, ended: Sequence[EdgeEnd]) -> list[Operation]:
    """Return what lets edges hold again, and notes their ends."""
    if not ended:
        return []
    before = [(one.edge_id, ends_before(one.valid_until, one.superseded_at)) for one in ended]
    these = (one_of("edge_id", [one.edge_id for one in ended]),)
    return [Update("edges", _OPEN, these), *noted(run_id, "moved", before)]


def _restored(run_id: UUID, memory_ids: Sequence[UUID], closed_at: datetime) -> list[Operation]:
    """Return what restores memories that were retired with a fact, and notes it."""
    if not memory_ids:
        return []
    retired = {"retired_at": iso(closed_at)}
    return [
        Update("memories", {"superseded_at": None}, (one_of("memory_id", memory_ids),)),
        *noted(run_id, "moved", ((one, retired) for one in memory_ids)),
    ]


def _select_retired(memory_id: UUID, closed_at: datetime) -> list[Select]:
    """Return what reads the statements and reflections that were retired with a fact."""
    at = compare("m.superseded_at", "=", closed_at)
    turn = (("thread_id", "thread_id"), ("event_id", "event_id"))
    statements = Select(
        "memory_sources",
        ("o.memory_id", "m.text", "x.memory_id"),
        (equal("memory_id", memory_id), at, equal("m.kind", "semantic")),
        (
            Join("memory_sources", "o", turn),
            Join("memories", "m", (("o.memory_id", "memory_id"),)),
            Join("facts", "x", (("o.memory_id", "memory_id"),), is_left=True),
        ),
        is_distinct=True,
    )
    reflections = Select(
        "memory_bases",
        ("memory_id", "basis_id", "b.superseded_at"),
        (at,),
        (
            Join("memories", "m", (("memory_id", "memory_id"),)),
            Join("memories", "b", (("basis_id", "memory_id"),), is_left=True),
        ),
    )
    return [statements, reflections]


def _select_other_values(statements: Iterable[UUID]) -> Select:
    """Return what reads the ended facts of the turns of statements, with their values."""
    turn = (("thread_id", "thread_id"), ("event_id", "event_id"))
    return Select(
        "memory_sources",
        ("memory_id", "x.memory_id", "x.value"),
        (one_of("memory_id", sorted(statements)), is_not_null("x.superseded_at")),
        (Join("memory_sources", "z", turn), Join("facts", "x", (("z.memory_id", "memory_id"),))),
    )


@dataclass(frozen=True, slots=True)
class _Retired:
    """What was retired with a fact: statements with its value by text, and bases of reflections."""

    statements: dict[UUID, str]
    bases: Sequence[Row]
    fact_id: UUID | None

    @classmethod
    def of(cls, fact: FactEnd | None, told: Sequence[Row], bases: Sequence[Row]) -> _Retired:
        value = None if fact is None else shown(fact.value).lower()
        statements = {
            memory_id: text.lower()
            for memory_id, text, of_fact in told
            if value is not None and of_fact is None and value in text.lower()
        }
        return cls(statements, bases, fact and fact.memory_id)

    @property
    def candidates(self) -> set[UUID]:
        """The memories that may be restored."""
        own = {self.fact_id} if self.fact_id else set()
        return {*self.statements, *(row[0] for row in self.bases), *own}

    def back(self, others: Iterable[Row], reopened: Collection[UUID]) -> list[UUID]:
        """Return the statements and reflections to restore with reopened facts.

        A statement stays retired if it contains the value of another ended fact; a reflection, if
        one of its bases does. others: rows of _select_other_values().
        """
        ended = {
            one
            for one, fact_id, value in others
            if fact_id not in reopened and shown(value).lower() in self.statements[one]
        }
        statements = sorted(self.statements.keys() - ended)
        restored = {*statements, *reopened}
        retired = {one for one, basis, at in self.bases if at is not None and basis not in restored}
        drawn = {row[0] for row in self.bases} - retired - set(statements)
        return [*statements, *sorted(drawn)]


def shown(value: Any) -> str:
    """Return the value of a fact as statements show it: a text without quotes."""
    return value if isinstance(value, str) else to_json(value)
