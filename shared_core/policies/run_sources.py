"""Provenance of what a run writes: the turns that say it, and the memories it was drawn from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, TypeAlias
from uuid import UUID

from shared_core.errors import Conflict
from shared_core.policies.batches import Found, Reads
from shared_core.policies.run_memories import Place, PlacedMemory, place_of
from shared_core.policies.run_records import RunChange
from shared_core.ports.operations import (
    Insert,
    Join,
    Operation,
    Row,
    Select,
    is_not_null,
    one_of,
    one_of_rows,
)
from shared_core.ports.runs import RunPlan

TurnKey: TypeAlias = tuple[str, str]
"""The ids of a thread and of one of its turns."""
Bases: TypeAlias = Mapping[int, frozenset[TurnKey]]
"""The turns of each basis of a memory or an edge, by its number."""
_TURN = ("thread_id", "event_id")


class SourceRow(NamedTuple):
    """A row of memory_sources or edge_sources."""

    target: UUID
    thread_id: str
    event_id: str
    basis: int

    @property
    def turn(self) -> TurnKey:
        return self.thread_id, self.event_id


class StoredTurn(NamedTuple):
    """A turn that is stored. memory_seq: None if it is only logged."""

    memory_seq: int | None
    occurred_at: datetime
    expires_at: datetime | None


@dataclass(slots=True)
class Sources:
    """The sources that a run adds.

    memories, edges: new bases. joined: turns of a summary, or of what a memory was drawn from; some
    may be stored already. drawn: memories, and what each was drawn from.
    """

    memories: list[SourceRow] = field(default_factory=list)
    edges: list[SourceRow] = field(default_factory=list)
    joined: list[SourceRow] = field(default_factory=list)
    drawn: list[tuple[UUID, UUID]] = field(default_factory=list)


def select_sources(plan: RunPlan) -> Reads:
    """Return what reads the turns of a plan, and the bases of what it has turns for."""
    reads: Reads = {}
    turns: set[TurnKey] = {source.turn for source in plan.sources}
    turns |= {turn for _, turn, _ in plan.edge_sources} | {*plan.drawn_from}
    if turns:
        columns = (*_TURN, "memory_seq", "occurred_at", "expires_at")
        reads["turns"] = Select("events", columns, (one_of_rows(_TURN, sorted(turns)),))
    if places := sorted({place_of(source.address) for source in plan.sources}):
        bases = Join("memory_sources", "s", (("memory_id", "memory_id"),))
        event = Join("events", "e", (("s.thread_id", "thread_id"), ("s.event_id", "event_id")))
        named = one_of_rows(("namespace", "key"), places)
        basis = ("memory_id", "s.basis", "s.thread_id", "s.event_id")
        reads["bases"] = Select("memories", basis, (named,), (bases,))
        # Few memories expire, and some have many turns.
        expiring = (named, is_not_null("expires_at"))
        ends = ("memory_id", "s.basis", "e.expires_at")
        reads["expiring_bases"] = Select("memories", ends, expiring, (bases, event))
    if edges := sorted({edge_id for edge_id, _, _ in plan.edge_sources}):
        these = (one_of("edge_id", edges),)
        reads["edge_bases"] = Select("edge_sources", ("edge_id", "basis", *_TURN), these)
        reads["edge_writers"] = Select("edges", ("edge_id", "run_id"), these)
    if basis_ids := sorted({memory_id for _, memory_id in plan.inherited}):
        reads["basis_memories"] = Select(
            "memories", ("memory_id", "superseded_at"), (one_of("memory_id", basis_ids),)
        )
        event = Join("events", "e", (("thread_id", "thread_id"), ("event_id", "event_id")), True)
        turn = (*_TURN, "e.event_id", "e.expires_at")
        these = (one_of("memory_id", basis_ids),)
        reads["basis_turns"] = Select("memory_sources", ("memory_id", *turn), these, (event,))
    return reads


def stored_turns(found: Found) -> dict[TurnKey, StoredTurn]:
    """Return the turns of a plan that are stored."""
    return {(row[0], row[1]): StoredTurn(*row[2:]) for row in found["turns"]}


def add_memory_sources(
    plan: RunPlan,
    found: Found,
    placed: Mapping[Place, PlacedMemory],
    turns: Mapping[TurnKey, StoredTurn],
    log: list[RunChange],
) -> list[SourceRow]:
    """Return the turns to add to memories; the turns of one basis say a memory together.

    Only memories that this run writes, that one derived from a thread, or that have bases, get new
    ones: a memory that a user wrote does not go with a turn.
    """
    known = _by_target(found["bases"])
    derived = {
        place: memory
        for place, memory in placed.items()
        if memory.memory_id in known
        or (memory.run_id is not None and memory.thread_id is not None)
        or memory.run_id == plan.run_id
    }
    given = [
        (derived[place].memory_id, source.turn, source.basis)
        for source in plan.sources
        if (place := place_of(source.address)) in derived
    ]
    for memory in derived.values():
        if not memory.keeps_sources:
            known.pop(memory.memory_id, None)
    writers = {memory.memory_id: memory.run_id for memory in derived.values()}
    return _new_bases(_stored_bases(given, turns), known, writers, plan.run_id, log)


def add_edge_sources(
    plan: RunPlan, found: Found, turns: Mapping[TurnKey, StoredTurn], log: list[RunChange]
) -> list[SourceRow]:
    """Return the turns to add to edges, as add_memory_sources() does."""
    writers: dict[UUID, UUID | None] = dict(found["edge_writers"])
    writers |= {edge.edge_id: plan.run_id for edge in plan.edges}
    given = [
        (edge_id, turn, basis) for edge_id, turn, basis in plan.edge_sources if edge_id in writers
    ]
    known = _by_target(found["edge_bases"])
    return _new_bases(_stored_bases(given, turns), known, writers, plan.run_id, log)


def _stored_bases(
    given: Iterable[tuple[UUID, TurnKey, int]], turns: Mapping[TurnKey, StoredTurn]
) -> dict[tuple[UUID, int], frozenset[TurnKey]]:
    """Return the stored turns of each basis, by its target and its number in the plan."""
    found: dict[tuple[UUID, int], set[TurnKey]] = defaultdict(set)
    for target, turn, basis in given:
        if turn in turns:
            found[target, basis].add(turn)
    return {place: frozenset(together) for place, together in found.items()}


def _by_target(rows: Iterable[Row]) -> dict[UUID, Bases]:
    """Return the bases of memories or edges from rows of target, basis, thread and turn."""
    found: dict[UUID, dict[int, set[TurnKey]]] = defaultdict(lambda: defaultdict(set))
    for target, basis, thread_id, event_id in rows:
        found[target][basis].add((thread_id, event_id))
    return {
        target: {basis: frozenset(turns) for basis, turns in bases.items()}
        for target, bases in found.items()
    }


def _new_bases(
    added: Mapping[tuple[UUID, int], frozenset[TurnKey]],
    known: Mapping[UUID, Bases],
    writers: Mapping[UUID, UUID | None],
    run_id: UUID,
    log: list[RunChange],
) -> list[SourceRow]:
    """Return the bases that are not known, and note those of rows from before the run."""
    rows = []
    noted: dict[tuple[UUID, str], set[int]] = defaultdict(set)
    last: dict[UUID, int] = {}
    for (target, _), turns in sorted(added.items()):
        bases = known.get(target, {})
        if turns in bases.values():
            continue
        last[target] = basis = last.get(target, max(bases, default=0)) + 1
        rows += [SourceRow(target, *turn, basis) for turn in sorted(turns)]
        if writers[target] != run_id:
            for _, event_id in turns:
                noted[target, event_id].add(basis)
    for (target, event_id), numbers in noted.items():
        log.append(RunChange("sourced", target, event_id, {"bases": sorted(numbers)}))
    return rows


def require_memories(plan: RunPlan, found: Found) -> None:
    """Raise Conflict if a memory that the run draws from is gone."""
    if len({memory_id for _, memory_id in plan.inherited}) != len(found["basis_memories"]):
        raise Conflict("a memory was forgotten meanwhile")


def inherit(
    plan: RunPlan,
    found: Found,
    placed: Mapping[Place, PlacedMemory],
    sources: Sources,
    retired: Iterable[UUID],
) -> None:
    """Draw memories from others, and copy the turns of those.

    Raises Conflict if one of them was ended meanwhile.
    """
    drawn = [
        (placed[place].memory_id, basis_id)
        for address, basis_id in plan.inherited
        if (place := place_of(address)) in placed
    ]
    ended = {row[0] for row in found["basis_memories"] if row[1] is not None} | {*retired}
    if len(drawn) != len(plan.inherited) or any(basis_id in ended for _, basis_id in drawn):
        raise Conflict("a memory was ended meanwhile")
    turns: dict[UUID, set[TurnKey]] = defaultdict(set)
    gone = {memory.memory_id for memory in placed.values() if not memory.keeps_sources}
    for memory_id, thread_id, event_id, *_ in found["basis_turns"]:
        if memory_id not in gone:
            turns[memory_id].add((thread_id, event_id))
    for row in sources.memories:
        turns[row.target].add(row.turn)
    pairs = {(one, turn) for one, basis_id in drawn for turn in turns[basis_id]}
    sources.joined += [SourceRow(one, *turn, 0) for one, turn in sorted(pairs)]
    sources.drawn += drawn


def write_sources(sources: Sources) -> list[Operation]:
    """Return the operations that write all sources."""
    columns = ("thread_id", "event_id", "basis")
    operations: list[Operation] = []
    if sources.edges:
        operations.append(Insert("edge_sources", ("edge_id", *columns), sources.edges))
    if sources.memories:
        operations.append(Insert("memory_sources", ("memory_id", *columns), sources.memories))
    if sources.joined:
        names = ("memory_id", *columns)
        operations.append(Insert("memory_sources", names, sources.joined, "keep"))
    if sources.drawn:
        operations.append(Insert("memory_bases", ("memory_id", "basis_id"), sources.drawn))
    return operations


def renewed_expiries(
    plan: RunPlan,
    found: Found,
    placed: Mapping[Place, PlacedMemory],
    sources: Sources,
    expiries: Mapping[TurnKey, datetime | None],
) -> dict[Place, datetime | None]:
    """Return the new ends of what was said again: with its last basis; a basis with its first turn.

    expiries: of the turns that the run adds.
    """
    bases: dict[UUID, dict[int, list[datetime | None]]] = defaultdict(lambda: defaultdict(list))
    for memory_id, basis, expires_at in found["expiring_bases"]:
        bases[memory_id][basis].append(expires_at)
    for memory in placed.values():
        if not memory.keeps_sources:
            bases.pop(memory.memory_id, None)
    for row in (*sources.memories, *sources.joined):
        if row.turn in expiries:
            bases[row.target][row.basis].append(expiries[row.turn])
    renewed = {}
    for place in {place_of(source.address) for source in plan.sources} & placed.keys():
        held = placed[place]
        if held.expires_at is None or held.memory_id not in bases:
            continue
        new = _last_of(bases[held.memory_id].values())
        if new != held.expires_at:
            renewed[place] = new
    return renewed


def _last_of(bases: Iterable[Sequence[datetime | None]]) -> datetime | None:
    """Return when the last basis expires; None: never."""
    ends = [min((end for end in basis if end is not None), default=None) for basis in bases]
    known = [end for end in ends if end is not None]
    return max(known) if len(known) == len(ends) else None
