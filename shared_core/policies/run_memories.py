"""Memories at the addresses that a run names, as they will be once it has written its own."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias
from uuid import UUID

from shared_core.core.namespaces import memories_namespace, rest_of
from shared_core.policies.batches import Found, Reads
from shared_core.ports.items import ItemAddress, MemoryRow
from shared_core.ports.operations import Join, Select, one_of_rows
from shared_core.ports.runs import RunPlan

Place: TypeAlias = tuple[str, str]
"""An address within a tenant: the path of its namespace, and its key."""
_KEEPS_SOURCES = ("episodic", "summary")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedMemory:
    """A memory at an address, after the run.

    is_replaced: the run writes over a stored one. keeps_sources: so its sources stay nevertheless.
    """

    memory_id: UUID
    kind: str
    text: str
    thread_id: str | None
    run_id: UUID | None
    expires_at: datetime | None
    superseded_at: datetime | None
    is_fact: bool
    is_written: bool = False
    is_replaced: bool = False

    @property
    def keeps_sources(self) -> bool:
        return not self.is_replaced or self.kind in _KEEPS_SOURCES


def place_of(address: ItemAddress) -> Place:
    """Return an address within its tenant."""
    namespace, key = address
    return rest_of(namespace), key


def row_place(row: MemoryRow) -> Place:
    """Return the address of a row within its tenant."""
    return rest_of(row.namespace), row.key


def select_placed(plan: RunPlan) -> Reads:
    """Return what reads the memories at the addresses of a plan."""
    places = {row_place(row) for row in plan.memories}
    places |= _places(source.address for source in plan.sources)
    places |= _places(address for address, _ in plan.inherited)
    if plan.summary_key is not None:
        places.add((rest_of(memories_namespace(plan.scope)), plan.summary_key))
    if not places:
        return {}
    columns = (
        "namespace", "key", "memory_id", "kind", "text", "thread_id", "run_id", "expires_at",
        "superseded_at", "f.memory_id",
    )  # fmt: skip
    named = one_of_rows(("namespace", "key"), sorted(places))
    facts = Join("facts", "f", (("memory_id", "memory_id"),), is_left=True)
    return {"placed": Select("memories", columns, (named,), (facts,))}


def _places(addresses: Iterable[ItemAddress]) -> set[Place]:
    return {place_of(address) for address in addresses}


def placed_memories(plan: RunPlan, found: Found) -> dict[Place, PlacedMemory]:
    """Return the memories at the addresses of a plan, with those it writes."""
    placed: dict[Place, PlacedMemory] = {}
    for namespace, key, memory_id, kind, text, thread_id, run_id, *times, fact_id in found[
        "placed"
    ]:
        expires_at, superseded_at = times
        placed[namespace, key] = PlacedMemory(
            memory_id=memory_id,
            kind=kind,
            text=text,
            thread_id=thread_id,
            run_id=run_id,
            expires_at=expires_at,
            superseded_at=superseded_at,
            is_fact=fact_id is not None,
        )
    facts = {fact.memory_id for fact in plan.facts}
    for row in plan.memories:
        place = row_place(row)
        placed[place] = _written(row, placed.get(place), facts)
    return placed


def _written(row: MemoryRow, old: PlacedMemory | None, facts: Collection[UUID]) -> PlacedMemory:
    """Return what a row becomes; a memory that is replaced keeps its id, and a turn its kind."""
    memory_id = old.memory_id if old else row.memory_id
    return PlacedMemory(
        memory_id=memory_id,
        kind=old.kind if old and old.kind == "episodic" else row.kind,
        text=row.text,
        thread_id=row.thread_id or (old.thread_id if old else None),
        run_id=row.run_id,
        expires_at=row.expires_at,
        superseded_at=row.superseded_at,
        is_fact=memory_id in facts,
        is_written=True,
        is_replaced=old is not None,
    )
