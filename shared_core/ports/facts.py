"""Facts in a storage: what held when, and restoring a fact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from shared_core.core.domain import AsOf, FactType, MemoryId, MemoryKind, Scope
from shared_core.ports.graph import Edge
from shared_core.ports.runs import Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedMemory:
    """A memory found by its name. fact: None if it is no fact. place: the key of the fact."""

    kind: MemoryKind
    fact: Fact | None
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Restoration:
    """A fact to restore. closed_at: since when its end is known.

    keys: of the facts that exclude it, its own included.
    """

    run_id: UUID
    scope: Scope
    memory_id: MemoryId
    closed_at: datetime
    keys: Sequence[str]


class FactStorage(Protocol):
    """Facts and their two time lines. Every method is one transaction and one round trip."""

    async def list_facts(
        self,
        scope: Scope,
        *,
        slot: str | None = None,
        history: bool = False,
        as_of: AsOf | None = None,
    ) -> Sequence[Fact]:
        """Return the facts of one slot or all, now or as of a moment.

        history: include ended facts.
        """

    async def named_memory(self, scope: Scope, name: str) -> NamedMemory | None:
        """Return the memory with a key, or else with a memory id, or None."""

    async def facts_in_place(
        self, scope: Scope, fact_type: FactType, keys: Sequence[str]
    ) -> Sequence[Fact]:
        """Return the current facts of some keys."""

    async def edges_in_place(self, scope: Scope, memory_id: MemoryId) -> Sequence[Edge]:
        """Return the current edges that exclude the edges of an ended fact."""

    async def restore_fact(self, restoration: Restoration) -> None:
        """Restore a fact and what ended with it. Raises Conflict if it changed meanwhile."""
