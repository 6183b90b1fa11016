"""Ended facts and edges hold again, with the statements and reflections retired with them.

A place has one current fact of a type and key; one edge of a subject, relation and object; and one
edge of a subject and functional relation. PostgreSQL has unique indexes for that; the second engine
has none, so it is checked here, under the tenant's lock.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from shared_core.core.domain import FactType
from shared_core.core.json_text import to_json
from shared_core.core.timestamps import soon
from shared_core.errors import Conflict
from shared_core.policies.facts import FACT_COLUMNS, StoredFact, holding, keys_of_place
from shared_core.policies.run_records import LAST_NUMBER, caller_run, ends_before, iso, noted
from shared_core.policies.timing import RULES, RuleOf, retimed, rules_of, select_timed, timed_of
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
    one_of,
    one_of_rows,
    open_after,
)
from shared_core.ports.runs import Fact

CLOSURE = ("memory_id", "closed_at", "restored_at", "valid_until", "run_id")
"""The columns of an end that was believed for a while, in fact_closures."""

NO_ID = UUID(int=0)
"""The id of no row."""
_MEMORY = Join("memories", "m", (("memory_id", "memory_id"),))
_OPEN = {"valid_until": None, "superseded_at": None}


class FactEnd(NamedTuple):
    """A fact, its end, since when that is known, and when its memory was retired."""

    memory_id: UUID
    fact_type: FactType
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
    valid_from: datetime
    subject: str
    object: str

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
_FACT_END = (
    "memory_id", "fact_type", "key", "value", "valid_until", "superseded_at", "m.superseded_at",
)  # fmt: skip


def restore_fact(tenant: str, fact: Fact, run_id: UUID, now: datetime) -> Policy[None]:
    """Let a fact and what ended with it hold again, as a run.

    Raises Conflict if a fact or an edge that holds excludes it, or if it changed since.
    """
    memory_id, closed_at = fact.memory_id, fact.superseded_at
    changed = Conflict(
        f"another call changed fact {memory_id}, or a fact that excludes it, at the same time: try"
        " again"
    )
    if closed_at is None:
        raise changed
    last, rules, facts, ends, *retired_with = yield [
        LAST_NUMBER,
        RULES,
        Select("facts", _FACT_END, (equal("memory_id", memory_id),), (_MEMORY,)),
        Select("edges", EDGE_END, (equal("fact_id", memory_id),)),
        *_select_retired(memory_id, closed_at),
    ]
    if not facts:
        raise changed
    stored = FactEnd(*facts[0])
    ended = [EdgeEnd(*row) for row in ends if row[2] == closed_at]
    retired = _Retired.of(stored, *retired_with)
    in_place, held, others, timed = yield [
        select_in_place(stored.fact_type, keys_of_place(stored.key), now),
        select_edges_in(ended, now),
        _select_other_values(retired.statements),
        select_timed([memory_id, *retired.candidates]),
    ]
    found = [StoredFact(*row) for row in in_place if row[0] != memory_id]
    edges = [EdgeEnd(*row) for row in held]
    _require_no_rival(fact, found, rivals_of(ended, edges, now), now)
    free = free_edges(ended, edges)
    if (
        stored.superseded_at != closed_at
        or any(one.is_open for one in found)
        or any(one.excludes(other) for one in free for other in free if one is not other)
    ):
        raise changed
    back = retired.back(others, [memory_id])
    operations = [
        caller_run(run_id, "restoration", {"restored": 1}, now, last),
        *reopened_facts(run_id, [stored], now),
        *_restored(run_id, back, closed_at),
        *reopened_edges(run_id, free),
    ]
    yield Last([*operations, *_retimed([memory_id, *back], timed, rules_of(rules, tenant))])


def _require_no_rival(
    fact: Fact, in_place: Iterable[StoredFact], edges: Iterable[EdgeEnd], now: datetime
) -> None:
    """Raise Conflict if a fact or an edge that holds excludes a fact."""
    for rival in holding(sorted(in_place), now):
        if rival.lives(now):
            raise Conflict(
                f"{fact.statement!r} cannot hold beside {rival.text!r}, which holds since"
                f" {rival.valid_from.isoformat()}: retract that first, its key is"
                f" {rival.memory_id}"
            )
    for edge in edges:
        raise Conflict(
            f"{fact.statement!r} cannot hold beside the edge ({edge.subject})"
            f" -[{edge.relation}]-> ({edge.object}) of the graph: end that first with"
            f" graph.retract(scope,"
            f" {edge.subject!r}, {edge.relation!r}, {edge.object!r})"
        )


def restore_edge(tenant: str, edge: Edge, run_id: UUID, now: datetime) -> Policy[None]:
    """Let an ended edge, its fact and what ended with that fact hold again, as a run.

    Raises Conflict if the edge holds or is gone, or if another edge or fact took its place.
    """
    gone = Conflict("the edge holds, or is gone")
    taken = Conflict(
        f"edge {edge.edge_id} cannot be restored: another edge has taken its place since."
        " Retract that one first; graph.history() shows both"
    )
    own, closed_at = equal("edge_id", edge.edge_id), edge.superseded_at
    if closed_at is None:
        raise gone
    last, rules, ends, facts, *retired_with = yield [
        LAST_NUMBER,
        RULES,
        Select("edges", EDGE_END, (own, is_not_null("superseded_at"))),
        Select("facts", _FACT_END, (equal("memory_id", edge.fact_id or NO_ID),), (_MEMORY,)),
        *_select_retired(edge.fact_id or NO_ID, closed_at),
    ]
    if not ends:
        raise gone
    ended, stored = EdgeEnd(*ends[0]), [FactEnd(*row) for row in facts]
    retired = _Retired.of(stored[0] if stored else None, *retired_with)
    again = [one for one in stored if one.superseded_at is not None]
    ids = [one.memory_id for one in again]
    in_place, held, others, timed = yield [
        select_in_place(
            stored[0].fact_type if stored else "custom",
            keys_of_place(stored[0].key) if stored else [],
            now,
        ),
        select_edges_in([ended], now),
        _select_other_values(retired.statements),
        select_timed([*ids, *retired.candidates]),
    ]
    current = {row[3] for row in in_place if StoredFact(*row).is_open}
    if not free_edges([ended], [EdgeEnd(*row) for row in held]):
        raise taken
    if any(one.key in current for one in again):
        raise taken
    for one in stored:
        if (again or one.key in current) and current - {one.key}:
            raise Conflict("the opposite holds now: retract that first")
    back = retired.back(others, ids)
    operations = [
        caller_run(run_id, "graph", {"restored": 1}, now, last),
        *reopened_edges(run_id, [ended]),
        *reopened_facts(run_id, again, now),
        *_restored(run_id, back, closed_at),
    ]
    yield Last([*operations, *_retimed([*ids, *back], timed, rules_of(rules, tenant))])


def _retimed(memory_ids: Sequence[UUID], rows: Iterable[Row], rule: RuleOf) -> list[Operation]:
    """Return what notes when memories that are no longer retired leave their stage."""
    memories = {row[0]: timed_of(row) for row in rows}
    if not memories.keys() >= set(memory_ids):
        raise Conflict("a memory expired meanwhile")
    for one in memory_ids:
        memories[one].superseded_at = None
    return retimed([memories[one] for one in memory_ids], rule)


def select_in_place(fact_type: FactType, keys: Sequence[str], now: datetime) -> Select:
    """Return what reads the facts of some keys that have not come to an end (FACT_COLUMNS)."""
    where = (equal("fact_type", fact_type), one_of("key", keys), open_after("valid_until", now))
    return Select("facts", FACT_COLUMNS, where, (_MEMORY,))


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
        for other in sorted(held)
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
    return [
        Insert("fact_closures", CLOSURE, closures),
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
    """What was retired with a fact.

    statements: those with its value, and their texts in small letters. bases: rows of a reflection,
    its basis, and when that was retired.
    """

    statements: dict[UUID, str]
    bases: Sequence[Row]

    @classmethod
    def of(cls, fact: FactEnd | None, told: Sequence[Row], bases: Sequence[Row]) -> _Retired:
        value = None if fact is None else shown(fact.value).lower()
        statements = {
            memory_id: text.lower()
            for memory_id, text, of_fact in told
            if value is not None and of_fact is None and value in text.lower()
        }
        return cls(statements, bases)

    @property
    def candidates(self) -> list[UUID]:
        """The memories that may be restored."""
        return sorted({*self.statements, *(row[0] for row in self.bases)})

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
