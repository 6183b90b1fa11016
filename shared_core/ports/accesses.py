"""What the core asks of a storage for counting reads; ports.Storage joins it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from shared_core.core.domain import MemoryId, Scope


@dataclass(frozen=True, slots=True)
class Accesses:
    """How often a memory was returned to a caller who searched, and when last."""

    access_count: int
    last_accessed_at: datetime


@dataclass(frozen=True, slots=True)
class NewAccesses:
    """Reads of one memory that are not counted yet."""

    scope: Scope
    memory_id: MemoryId
    accesses: Accesses


class AccessStorage(Protocol):
    """Counters beside memories; they go with them."""

    async def add_accesses(self, batch: Sequence[NewAccesses]) -> None:
        """Count reads, in one round trip; those of memories that are gone, or going, are skipped.

        Raises StorageReadOnly where nothing can be written.
        """
        ...

    async def accesses(
        self, scope: Scope, memory_ids: Sequence[MemoryId]
    ) -> Mapping[MemoryId, Accesses]:
        """Return the counters of those memories that were ever read."""
        ...
