"""What the core asks of a storage for facts: what held when, and to let one hold again."""

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
    """What a caller named. fact: None for a memory that is no fact. place: the key of the fact."""

    kind: MemoryKind
    fact: Fact | None
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Restoration:
    """A fact that shall hold again. closed_at: since when its end is known.

    keys: of what cannot hold beside it, its own among them.
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
        """Return what holds, of one slot or all, now or as of a moment.

        history: what had ended as well.
        """

    async def named_memory(self, scope: Scope, name: str) -> NamedMemory | None:
        """Return the memory of a key, or else of a memory id."""

    async def facts_in_place(
        self, scope: Scope, fact_type: FactType, keys: Sequence[str]
    ) -> Sequence[Fact]:
        """Return the current facts of some keys."""

    async def edges_in_place(self, scope: Scope, memory_id: MemoryId) -> Sequence[Edge]:
        """Return the current edges that those of a fact that ended cannot hold beside."""

    async def restore_fact(self, restoration: Restoration) -> None:
        """Let a fact and what ended with it hold again. Conflict if it was changed meanwhile."""
