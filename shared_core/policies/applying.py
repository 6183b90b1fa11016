"""Applies a run: what it read must still hold, then all of its changes are written at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from shared_core.core.namespaces import memories_namespace, rest_of, scope_path
from shared_core.policies.batches import Found, Reads, read
from shared_core.policies.doubting import mark_facts, select_doubted
from shared_core.policies.extraction_counts import count_extraction, select_count, select_waiting
from shared_core.policies.rating import rate_turns, select_rated
from shared_core.policies.retiring import (
    Retiring,
    retire,
    retiring,
    select_ended,
    select_statement_turns,
)
from shared_core.policies.reviving import revive, select_faded
from shared_core.policies.run_ends import (
    end_edges,
    end_facts,
    kept_ends,
    require_places,
    select_ends,
    select_rivals,
    write_ends,
)
from shared_core.policies.run_memories import (
    Place,
    PlacedMemory,
    placed_memories,
    row_place,
    select_placed,
)
from shared_core.policies.run_records import LAST_NUMBER, RunChange, added_run, iso, logged
from shared_core.policies.run_requirements import (
    move_marks,
    require_known,
    require_turns,
    require_unsaid,
    select_changed,
    select_requirements,
)
from shared_core.policies.run_sources import (
    Sources,
    StoredTurn,
    TurnKey,
    add_edge_sources,
    add_memory_sources,
    inherit,
    renewed_expiries,
    require_memories,
    select_sources,
    stored_turns,
    write_sources,
)
from shared_core.policies.summaries import (
    StoredSummary,
    bounded,
    cover,
    keep_summary,
    require_summary,
    select_summary,
    select_summed_before,
    stored_summary,
)
from shared_core.policies.timing import RULES, rules_of
from shared_core.ports.operations import (
    Insert,
    Last,
    Operation,
    Policy,
    Update,
    UpdateEach,
    Verb,
    is_null,
    one_of,
)
from shared_core.ports.runs import PlannedEdge, PlannedFact, RunPlan

_FACTS = (
    "memory_id", "fact_type", "slot", "key", "value", "functional", "confidence", "extractor",
    "pattern", "valid_from", "valid_until", "recorded_at", "superseded_at",
)  # fmt: skip
_EDGES = (
    "edge_id", "memory_id", "fact_id", "run_id", "subject", "relation", "object", "subject_key",
    "object_key", "functional", "confidence", "valid_from", "valid_until", "recorded_at",
    "superseded_at",
)  # fmt: skip
_RETRACTIONS = (
    "retraction_id", "run_id", "fact_type", "slot", "subject_key", "value", "said_at",
    "valid_until", "thread_id", "event_ids", "pattern", "is_doubt",
)  # fmt: skip


@dataclass(slots=True)
class _Applying:
    """A run on its way: what it read, and what its parts have decided so far."""

    plan: RunPlan
    now: datetime
    found: Found
    placed: Mapping[Place, PlacedMemory]
    turns: Mapping[TurnKey, StoredTurn]
    summary: StoredSummary | None
    log: list[RunChange]
    sources: Sources
    ends: dict[UUID, datetime]
    edge_ends: dict[UUID, datetime]


def apply_run(plan: RunPlan, now: datetime) -> Policy[None]:
    """Apply a run.

    It reads in one batch, and in a second one what only the first names: later runs, the turns of
    statements that may retire, the beginning of a thread whose summary is lost.

    Raises:
        Conflict: what the run read has changed since, as RunPlan says.
    """
    found = yield from read(_select_first(plan, now))
    state = _begin(plan, now, found)
    candidates = retiring(
        plan, found, state.placed, state.sources.memories, state.turns, state.ends
    )
    later = yield from read({
        **select_changed(plan, [row[0] for row in found["later_runs"]]),
        **select_statement_turns(candidates.statements),
        **select_summed_before(plan, state.summary),
        **select_waiting(plan.reflection, found),
    })  # fmt: skip
    require_known(later)
    yield Last(_changes(state, later, candidates))


def _select_first(plan: RunPlan, now: datetime) -> Reads:
    """Return all reads of the first batch; the thread's row is locked before its turns are read."""
    reads = {
        **select_requirements(plan, now),
        "last": LAST_NUMBER,
        **select_placed(plan),
        **select_sources(plan),
        **select_ends(plan),
        **select_rivals(plan),
        **select_ended(plan),
        **select_summary(plan),
        **select_faded(plan.revival),
        **select_rated(plan),
        **select_doubted(plan),
        **select_count(plan.reflection),
    }
    if plan.revival or plan.annotations:
        reads["rules"] = RULES
    return reads


def _begin(plan: RunPlan, now: datetime, found: Found) -> _Applying:
    """Check that a run may be applied, and decide on its ends and sources."""
    placed, turns, summary = (
        placed_memories(plan, found),
        stored_turns(found),
        stored_summary(found),
    )
    require_turns(plan, turns)
    require_memories(plan, found)
    require_summary(plan, summary, now)
    require_unsaid(found)
    log: list[RunChange] = []
    ends = end_facts(plan, found, now, log)
    edge_ends = end_edges(plan, found, now, log)
    replaced = {one.memory_id for one in placed.values() if one.is_replaced}
    require_places(plan, found, ends.keys() | replaced, edge_ends)
    sources = Sources(
        memories=add_memory_sources(plan, found, placed, turns, log),
        edges=add_edge_sources(plan, found, turns, log),
    )
    return _Applying(plan, now, found, placed, turns, summary, log, sources, ends, edge_ends)


def _changes(state: _Applying, later: Found, candidates: Retiring) -> list[Operation]:
    """Return everything that a run writes, in order."""
    plan, found, now, log = state.plan, state.found, state.now, state.log
    rule = rules_of(found["rules"], scope_path(plan.scope))
    revived = revive(plan.revival, found, rule, now, log)
    kept = keep_summary(plan, found, state.summary, now, log)
    retired = retire(plan, found, later, candidates, log)
    inherit(plan, found, state.placed, state.sources, retired)
    expiries = _cover(state, later)
    rows, renewed = _expiries(state, expiries)
    rated = rate_turns(plan, found, rule, log)
    doubted = mark_facts(plan, found, log)
    for bound in dict.fromkeys(plan.bounds):
        log.append(RunChange("bounded", bound, "", {}))
    return [
        *move_marks(plan, found),
        _run(plan, found, now),
        *revived,
        *kept_ends(plan, found, now),
        *write_ends("facts", "memory_id", state.ends, now),
        *write_ends("edges", "edge_id", state.edge_ends, now),
        *kept,
        *rows,
        *_structure(plan, now),
        *write_sources(state.sources),
        *_retired(retired, now),
        *renewed,
        *rated,
        *doubted,
        *count_extraction(plan.reflection, found, later, now),
        *logged(plan.run_id, log),
    ]


def _run(plan: RunPlan, found: Found, now: datetime) -> Insert:
    """Return what adds the row of the run."""
    values = {
        "run_id": plan.run_id,
        "kind": str(plan.kind),
        "thread_id": plan.thread_id,
        "extractor": plan.extractor,
        "from_seq": plan.read.mark if plan.read else None,
        "to_seq": plan.read.to if plan.read else None,
        "summed_from_seq": plan.summed.mark if plan.summed else None,
        "summed_to_seq": plan.summed.to if plan.summed else None,
        "counts": plan.counts,
        "started_at": plan.started_at,
        "finished_at": now,
    }
    return added_run(found["last"], values)


def _cover(state: _Applying, later: Found) -> dict[TurnKey, datetime | None]:
    """Add the turns of the summary to the sources; return when the added turns expire."""
    plan = state.plan
    expiries = {turn: stored.expires_at for turn, stored in state.turns.items()}
    for _, thread_id, event_id, stored_id, expires_at in state.found["basis_turns"]:
        if stored_id is not None:
            expiries[thread_id, event_id] = expires_at
    if plan.summary_key is not None:
        place = (rest_of(memories_namespace(plan.scope)), plan.summary_key)
        if place in state.placed:
            summary_id = state.placed[place].memory_id
            expiries |= cover(plan, state.found, later, summary_id, state.sources)
    return expiries


def _expiries(
    state: _Applying, expiries: Mapping[TurnKey, datetime | None]
) -> tuple[list[Operation], list[Operation]]:
    """Return what writes the run's memories and their vectors, and what renews those before it."""
    plan, placed = state.plan, dict(state.placed)
    for place, memory in placed.items():
        if memory.is_written and memory.kind == "summary" and place[1] == plan.summary_key:
            until = bounded(plan, state.summary, memory.expires_at)
            placed[place] = replace(memory, expires_at=until)
    renewed = renewed_expiries(plan, state.found, placed, state.sources, expiries)
    ends = {place: memory.expires_at for place, memory in placed.items()} | renewed
    rows = [replace(row, expires_at=ends[row_place(row)]) for row in plan.memories]
    writes: list[Operation] = [Verb("put_items", (rows,))] if rows else []
    if plan.vectors is not None and plan.vectors.addresses:
        writes.append(Verb("add_vectors", (plan.vectors,)))
    changed = []
    for place, until in sorted(renewed.items()):
        memory = placed[place]
        if memory.run_id != plan.run_id:
            before = {"expires_at": iso(memory.expires_at)}
            state.log.append(RunChange("renewed", memory.memory_id, "", before))
        if not memory.is_written:
            changed.append((memory.memory_id, until))
    if not changed:
        return writes, []
    return writes, [UpdateEach("memories", ("memory_id",), ("expires_at",), changed)]


def _structure(plan: RunPlan, now: datetime) -> list[Operation]:
    """Return what writes the facts, retractions and edges of a run."""
    operations: list[Operation] = []
    if plan.facts:
        facts = [_fact(plan, fact, now) for fact in plan.facts]
        operations.append(Insert("facts", _FACTS, facts))
    if plan.retractions:
        retractions = [
            (one.retraction_id, plan.run_id, one.fact_type, one.slot, one.subject_key, one.value,
             one.said_at, one.valid_until, plan.thread_id, list(event_ids), one.pattern,
             one.is_doubt)
            for one, event_ids in plan.retractions
        ]  # fmt: skip
        operations.append(Insert("retractions", _RETRACTIONS, retractions))
    if plan.edges:
        edges = [_edge(plan, edge, now) for edge in plan.edges]
        operations.append(Insert("edges", _EDGES, edges))
    return operations


def _fact(plan: RunPlan, fact: PlannedFact, now: datetime) -> tuple[object, ...]:
    draft = fact.draft
    return (
        fact.memory_id, draft.fact_type, draft.slot, fact.key, draft.value, draft.functional,
        draft.confidence, plan.extractor, draft.pattern, fact.valid_from, fact.valid_until, now,
        None if fact.valid_until is None else now,
    )  # fmt: skip


def _edge(plan: RunPlan, edge: PlannedEdge, now: datetime) -> tuple[object, ...]:
    draft = edge.draft
    return (
        edge.edge_id, edge.memory_id, edge.fact_id, plan.run_id, draft.subject, draft.relation,
        draft.object, edge.subject_key, edge.object_key, draft.functional, draft.confidence,
        edge.valid_from, edge.valid_until, now, None if edge.valid_until is None else now,
    )  # fmt: skip


def _retired(retired: set[UUID], now: datetime) -> Sequence[Operation]:
    """Return what takes memories out of recall."""
    living = (one_of("memory_id", sorted(retired)), is_null("superseded_at"))
    return [Update("memories", {"superseded_at": now}, living)] if retired else []
