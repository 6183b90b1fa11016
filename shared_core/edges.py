"""Matches edges that were read with those that are known: add, replace, or nothing. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from uuid import UUID

from shared_core.domain import MemoryId, TripleDraft
from shared_core.facts import normalised
from shared_core.run_ports import KnownEdge, PlannedEdge, PlannedFact


@dataclass(slots=True)
class EdgePlan:
    """What a run changes of the graph."""

    opened: list[PlannedEdge] = field(default_factory=list)
    closed: dict[UUID, datetime] = field(default_factory=dict)


@dataclass(slots=True)
class _Current:
    edge_id: UUID
    object_key: str
    valid_from: datetime


def plan_edges(
    drafts: Sequence[TripleDraft],
    known: Sequence[KnownEdge],
    facts: Sequence[PlannedFact],
    said_at: Mapping[str, datetime],
    new_id: Callable[[], UUID],
) -> EdgePlan:
    """Return what changes when triples, in the order they were said, meet the known edges.

    No edge with this subject and relation: it is added. The same object: nothing. Another object:
    a functional relation replaces the edge, any other keeps both. One said before the current one
    becomes history. An edge that says what a fact of the same turn says lives and dies with it.
    said_at: event id to the moment it was said.
    """
    plan = EdgePlan()
    current: dict[tuple[str, str], list[_Current]] = {}
    for one in known:
        place = (normalised(one.subject), one.relation)
        stands = _Current(one.edge_id, normalised(one.object), one.valid_from)
        current.setdefault(place, []).append(stands)
    for draft in drafts:
        subject, value = normalised(draft.subject), normalised(draft.object)
        if not subject or not value:
            continue
        others = current.setdefault((subject, draft.relation), [])
        if any(other.object_key == value for other in others):
            continue
        begins = draft.valid_from or said_at[draft.event_id]
        edge = PlannedEdge(
            edge_id=new_id(),
            draft=draft,
            subject_key=subject,
            object_key=value,
            memory_id=_fact_of(draft, facts),
            valid_from=begins,
            valid_until=None,
        )
        if draft.functional:
            later = [other.valid_from for other in others if other.valid_from > begins]
            for earlier in [other for other in others if other.valid_from <= begins]:
                others.remove(earlier)
                _close(plan, earlier.edge_id, begins)
            edge = replace(edge, valid_until=min(later, default=None))
        plan.opened.append(edge)
        if edge.valid_until is None:
            others.append(_Current(edge.edge_id, value, begins))
    return plan


def _fact_of(draft: TripleDraft, facts: Sequence[PlannedFact]) -> MemoryId | None:
    wanted = (draft.event_id, normalised(draft.object))
    for fact in facts:
        if fact.valid_until is None and wanted == (
            fact.draft.event_id,
            normalised(fact.draft.value),
        ):
            return fact.memory_id
    return None


def _close(plan: EdgePlan, edge_id: UUID, at: datetime) -> None:
    for place, edge in enumerate(plan.opened):
        if edge.edge_id == edge_id:
            plan.opened[place] = replace(edge, valid_until=at)
            return
    plan.closed[edge_id] = at
