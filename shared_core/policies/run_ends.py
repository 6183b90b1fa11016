"""Ends of facts and edges in a run, and the places that current ones hold."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from uuid import UUID

from shared_core.errors import Conflict
from shared_core.policies.batches import Found, Reads
from shared_core.policies.reopening import CLOSURE, EDGE_END, EdgeEnd
from shared_core.policies.run_records import RunChange, ends_before
from shared_core.ports.operations import (
    Insert,
    Operation,
    Row,
    Select,
    UpdateEach,
    is_null,
    one_of,
    one_of_rows,
)
from shared_core.ports.runs import PlannedEdge, PlannedFact, RunPlan

_ENDS = ("valid_from", "valid_until", "superseded_at")
_CURRENT = (is_null("valid_until"), is_null("superseded_at"))


def select_ends(plan: RunPlan) -> Reads:
    """Return what reads the facts and edges that a run ends."""
    reads: Reads = {}
    facts = sorted({*dict(plan.close), *dict(plan.move_facts)})
    edges = sorted({*dict(plan.close_edges), *dict(plan.move_edges)})
    columns = ("edge_id", *_ENDS, "fact_id")
    if facts:
        closing = (one_of("memory_id", facts),)
        reads["ending_facts"] = Select("facts", ("memory_id", *_ENDS), closing)
        reads["edges_of_facts"] = Select("edges", columns, (one_of("fact_id", facts),))
    if edges:
        reads["ending_edges"] = Select("edges", columns, (one_of("edge_id", edges),))
    return reads


def end_facts(
    plan: RunPlan, found: Found, now: datetime, log: list[RunChange]
) -> dict[UUID, datetime]:
    """Return the new ends of facts; a known end moves to an earlier moment.

    Raises Conflict if one of them was ended, restored or forgotten since the run read it.
    """
    moving: dict[UUID, datetime] = dict(plan.move_facts)
    until: dict[UUID, datetime] = dict(plan.close) | moving
    ending = [
        row
        for row in found["ending_facts"]
        if _may_end(row, until[row[0]]) and _has_come(row, now) == (row[0] in moving)
    ]
    if len(ending) != len(until):
        raise Conflict("a fact was changed by another run")
    return _ended(ending, until, "closed", log)


def kept_ends(plan: RunPlan, found: Found, now: datetime) -> list[Operation]:
    """Return what keeps the known ends of facts that a run moves, as once believed."""
    closures = [
        (row[0], row[3], now, row[2], plan.run_id)
        for row in found["ending_facts"]
        if row[2] is not None and row[3] is not None
    ]
    return [Insert("fact_closures", CLOSURE, closures)] if closures else []


def end_edges(
    plan: RunPlan, found: Found, now: datetime, log: list[RunChange]
) -> dict[UUID, datetime]:
    """Return the new ends of edges, and of those that repeat an ended fact.

    A known end only moves to an earlier moment.
    """
    until, of_facts = dict(plan.close_edges), {**dict(plan.close), **dict(plan.move_facts)}
    rows = {row[0]: row for name in ("ending_edges", "edges_of_facts") for row in found[name]}
    ending, moments = [], {}
    for edge_id, row in rows.items():
        given = (until.get(edge_id), of_facts.get(row[4]))
        possible = [at for at in given if at is not None and _may_end(row, at)]
        if possible:
            ending.append(row)
            moments[edge_id] = min(possible)
    ends = _ended(ending, moments, "edge", log)
    for edge_id, moment in plan.move_edges:
        _, begins, end, known_since, _ = rows.get(edge_id, (None,) * 5)
        if edge_id in ends:  # Noted above with what was before the run.
            ends[edge_id] = max(min(ends[edge_id], moment), begins)
        elif end is not None and end > max(moment, begins):
            ends[edge_id] = max(moment, begins)
            log.append(RunChange("moved", edge_id, "", ends_before(end, known_since)))
    return ends


def _has_come(row: Row, now: datetime) -> bool:
    return row[2] is not None and bool(row[2] <= now)


def _may_end(row: Row, until: datetime) -> bool:
    """Return whether a row has no end, or a later one that moves."""
    _, valid_from, valid_until, superseded_at, *_ = row
    if valid_until is None:
        return superseded_at is None
    return bool(valid_until > max(until, valid_from))


def _ended(
    rows: Iterable[Row], until: Mapping[UUID, datetime], change: str, log: list[RunChange]
) -> dict[UUID, datetime]:
    """Return the new ends of rows (id, _ENDS, ...), and note the ends before."""
    ends = {}
    for row_id, valid_from, valid_until, superseded_at, *_ in rows:
        ends[row_id] = max(until[row_id], valid_from)
        if valid_until is None:
            log.append(RunChange(change, row_id, "", {}))
        else:
            log.append(RunChange("moved", row_id, "", ends_before(valid_until, superseded_at)))
    return ends


def write_ends(
    table: str, key: str, ends: Mapping[UUID, datetime], now: datetime
) -> list[Operation]:
    """Return the operation that writes new ends, if there are any."""
    rows = [(row_id, until, now) for row_id, until in sorted(ends.items())]
    return [UpdateEach(table, (key,), ("valid_until", "superseded_at"), rows)] if rows else []


def select_rivals(plan: RunPlan) -> Reads:
    """Return what reads the current facts and edges in the places that a run fills."""
    reads: Reads = {}
    if facts := sorted({_fact_place(fact) for fact in _open_facts(plan)}):
        places = one_of_rows(("fact_type", "key"), facts)
        columns = ("memory_id", "fact_type", "key")
        reads["rival_facts"] = Select("facts", columns, (places, *_CURRENT))
    if edges := sorted({_edge_end(edge).place for edge in _open_edges(plan)}):
        places = one_of_rows(("subject_key", "relation"), edges)
        reads["rival_edges"] = Select("edges", EDGE_END, (places, *_CURRENT))
    return reads


def require_places(
    plan: RunPlan, found: Found, ended: Collection[UUID], ended_edges: Collection[UUID]
) -> None:
    """Raise Conflict if a fact or edge that a run writes excludes a current one.

    ended: facts that the run ends or replaces.
    """
    held = {(row[1], row[2]) for row in found["rival_facts"] if row[0] not in ended}
    for fact in _open_facts(plan):
        if _fact_place(fact) in held:
            raise Conflict("another fact holds in its place")
        held.add(_fact_place(fact))
    current = [EdgeEnd(*row) for row in found["rival_edges"] if row[0] not in ended_edges]
    for edge in map(_edge_end, _open_edges(plan)):
        if any(edge.excludes(other) for other in current):
            raise Conflict("another edge holds in its place")
        current.append(edge)


def _open_facts(plan: RunPlan) -> list[PlannedFact]:
    return [fact for fact in plan.facts if fact.valid_until is None]


def _open_edges(plan: RunPlan) -> list[PlannedEdge]:
    return [edge for edge in plan.edges if edge.valid_until is None]


def _fact_place(fact: PlannedFact) -> tuple[str, str]:
    return fact.draft.fact_type, fact.key


def _edge_end(edge: PlannedEdge) -> EdgeEnd:
    return EdgeEnd(
        edge_id=edge.edge_id,
        valid_until=edge.valid_until,
        superseded_at=None,
        subject_key=edge.subject_key,
        relation=edge.draft.relation,
        object_key=edge.object_key,
        functional=edge.draft.functional,
        valid_from=edge.valid_from,
        subject=edge.draft.subject,
        object=edge.draft.object,
    )
