"""Facts and edges go on that were ended by what is set aside as never said.

A value ends where another one follows in its place. With the follower gone, it holds until the
follower ended, or still does. What a retraction ended holds again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, TypeAlias
from uuid import UUID

from shared_core.nlp.text import normalised
from shared_core.policies.batches import read
from shared_core.policies.facts import FACT_COLUMNS, StoredFact, keys_of_place
from shared_core.policies.reopening import (
    EDGE_END,
    EdgeEnd,
    FactEnd,
    reopened_edges,
    reopened_facts,
)
from shared_core.policies.run_records import ends_before, noted
from shared_core.ports.operations import (
    Join,
    Operation,
    Policy,
    Row,
    Select,
    UpdateEach,
    equal,
    is_not_null,
    one_of,
    one_of_rows,
)

_End: TypeAlias = tuple[datetime | None, datetime | None]
"""When something ended, and since when that is known; both None while it holds."""
_ENDS = ("valid_until", "superseded_at")
_HOLDS: _End = (None, None)
_MEMORY = (Join("memories", "m", (("memory_id", "memory_id"),)),)
_RETRACTED = ("fact_type", "slot", "subject_key", "value", "said_at", "valid_until")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """What is set aside as never said: facts, edges, and retractions."""

    facts: Sequence[UUID]
    edges: Sequence[UUID]
    retractions: Sequence[UUID]


class _EndedBy(NamedTuple):
    """The columns _RETRACTED of a retraction."""

    fact_type: str
    slot: str
    subject_key: str
    value: str
    said_at: datetime
    valid_until: datetime | None

    def ended(self, fact: StoredFact) -> bool:
        """Return whether it gave a fact its end."""
        is_place = fact.key == self.subject_key or fact.key.startswith(f"{self.subject_key}:")
        return (
            is_place
            and fact.fact_type == self.fact_type
            and self.value in ("", normalised(str(fact.value)))
            and fact.valid_until == max(self.valid_until or self.said_at, fact.valid_from)
        )


class _Period(NamedTuple):
    """When a fact or an edge holds in its place, and since when that and its end are known."""

    row_id: UUID
    place: tuple[str, str]
    valid_from: datetime
    valid_until: datetime | None
    recorded_at: datetime
    superseded_at: datetime | None

    @property
    def end(self) -> _End:
        return self.valid_until, self.superseded_at


def take_up(run_id: UUID, gone: Gone, now: datetime) -> Policy[list[Operation]]:
    """Return what lets facts and edges go on whose end is gone. It only reads.

    What the user asked to forget stays, and so does a fact with a place that another one has taken.
    """
    edge_columns = (*EDGE_END, "recorded_at", "fact_id")
    lost = yield from read({
        "facts": Select("facts", FACT_COLUMNS, (one_of("memory_id", gone.facts),), _MEMORY),
        "edges": Select("edges", edge_columns, (one_of("edge_id", gone.edges),)),
        "retracted": Select(
            "retractions", _RETRACTED,
            (one_of("retraction_id", gone.retractions), equal("is_doubt", False)),
        ),
    })  # fmt: skip
    facts = [StoredFact(*row) for row in lost["facts"]]
    retracted = [_EndedBy(*row) for row in lost["retracted"]]
    places = sorted({(one.fact_type, key) for one in facts for key in keys_of_place(one.key)})
    slots = sorted({one.slot for one in retracted})
    of_edges = sorted({EdgeEnd(*row[:-2]).place for row in lost["edges"]})
    found = yield from read({
        "followed": Select(
            "facts", FACT_COLUMNS, (one_of_rows(("fact_type", "key"), places),), _MEMORY
        ),
        "of slots": Select("facts", FACT_COLUMNS, (one_of("slot", slots),), _MEMORY),
        "edges": Select(
            "edges", edge_columns,
            (one_of_rows(("subject_key", "relation"), of_edges), is_not_null("superseded_at")),
        ),
    })  # fmt: skip
    held = {row[0]: StoredFact(*row) for row in (*found["followed"], *found["of slots"])}
    rest = [one for one in held.values() if one.memory_id not in gone.facts]
    ends = _ends_of_facts(rest, facts, retracted)
    edges = {row[0]: row for row in found["edges"] if row[0] not in gone.edges}
    followers = [_edge_period(row) for row in lost["edges"]]
    edge_ends = {
        one: end
        for one, row in edges.items()
        if row[-1] is None and (end := _next_end(_edge_period(row), followers)) is not None
    }
    [of_facts] = yield [Select("edges", (*EDGE_END, "fact_id"),
                               (one_of("fact_id", sorted(ends)),))]  # fmt: skip
    ending = {row[0]: EdgeEnd(*row[:-1]) for row in of_facts
              if row[2] == held[row[-1]].superseded_at}  # fmt: skip
    edge_ends |= {row[0]: ends[row[-1]] for row in of_facts if row[0] in ending}
    ending |= {one: EdgeEnd(*edges[one][:-2]) for one in edge_ends if one in edges}
    return [
        *_facts_go_on(run_id, [(held[one], end) for one, end in sorted(ends.items())], now),
        *_edges_go_on(run_id, [(ending[one], end) for one, end in sorted(edge_ends.items())]),
    ]


def _period(fact: StoredFact, place: tuple[str, str] | None = None) -> _Period:
    return _Period(
        fact.memory_id, place or fact.place, fact.valid_from, fact.valid_until, fact.recorded_at,
        fact.superseded_at,
    )  # fmt: skip


def _edge_period(row: Row) -> _Period:
    *columns, recorded_at, _ = row
    edge = EdgeEnd(*columns)
    return _Period(edge.edge_id, edge.place, edge.valid_from, edge.valid_until, recorded_at,
                  edge.superseded_at)  # fmt: skip


def _ends_of_facts(
    facts: Iterable[StoredFact], gone: Sequence[StoredFact], retracted: Sequence[_EndedBy]
) -> dict[UUID, _End]:
    """Return the new ends of facts that a gone fact or retraction had ended."""
    followers = [_period(one, (one.fact_type, key)) for one in gone
                 for key in keys_of_place(one.key)]  # fmt: skip
    facts = list(facts)
    taken = {one.place for one in facts if one.is_open}
    ends: dict[UUID, _End] = {}
    for one in facts:
        if one.superseded_at is None or one.demoted_at is not None:
            continue
        end = _next_end(_period(one), followers)
        if end is None and any(retraction.ended(one) for retraction in retracted):
            end = _HOLDS
        if end is not None and (end != _HOLDS or one.place not in taken):
            ends[one.memory_id] = end
            taken |= {one.place} if end == _HOLDS else set()
    return ends


def _next_end(period: _Period, followers: Sequence[_Period]) -> _End | None:
    """Return when a period ends without the followers in its place, or None if none ended it."""
    end: _End | None = None
    seen: set[UUID] = {period.row_id}
    while True:
        follower = next((one for one in followers if one.row_id not in seen
                         and one.place == period.place and one.valid_from == period.valid_until
                         and one.recorded_at == period.superseded_at), None)  # fmt: skip
        if follower is None:
            return end
        seen.add(follower.row_id)
        period, end = follower, follower.end


def _facts_go_on(
    run_id: UUID, facts: Sequence[tuple[StoredFact, _End]], now: datetime
) -> list[Operation]:
    open_again = [
        FactEnd(one.memory_id, one.fact_type, one.key, one.value, *_period(one).end, one.retired_at)
        for one, end in facts
        if end == _HOLDS
    ]
    later = [(one.memory_id, _period(one).end, end) for one, end in facts if end != _HOLDS]
    return [*reopened_facts(run_id, open_again, now), *_moved("facts", "memory_id", run_id, later)]


def _edges_go_on(run_id: UUID, edges: Sequence[tuple[EdgeEnd, _End]]) -> list[Operation]:
    later = [(one.edge_id, (one.valid_until, one.superseded_at), end)
             for one, end in edges if end != _HOLDS]  # fmt: skip
    return [
        *reopened_edges(run_id, [one for one, end in edges if end == _HOLDS]),
        *_moved("edges", "edge_id", run_id, later),
    ]


def _moved(
    table: str, key: str, run_id: UUID, rows: Sequence[tuple[UUID, _End, _End]]
) -> list[Operation]:
    """Return what moves ends; rows of an id, the end before, and the new one."""
    if not rows:
        return []
    ends = [(one, *end) for one, _, end in rows]
    before = [(one, ends_before(*was)) for one, was, _ in rows]
    return [UpdateEach(table, (key,), _ENDS, ends), *noted(run_id, "moved", before)]
