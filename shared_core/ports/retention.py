"""Retention and access counters in a storage: policies, stages, cleanup and schedules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol, TypeAlias
from uuid import UUID

from shared_core.core.domain import JsonValue, MemoryId, MemoryKind, Namespace, Scope
from shared_core.core.retention_policy import Fate, RetentionPolicy, Rules, Stage
from shared_core.ports.items import VectorRows

Counts: TypeAlias = Mapping[Fate, Mapping[MemoryKind, int]]
"""Number of memories by fate and kind."""


MemoryPlace: TypeAlias = tuple[str, UUID]
"""The tenant of a memory, and its id. Places sort in this order."""
DueMemory: TypeAlias = tuple[datetime, str, UUID]
"""When a memory leaves its stage, its tenant, and its id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weak:
    """Selects memories below a threshold. decay_rate: None for the rates of the policies."""

    threshold: float
    min_age_days: float
    decay_rate: float | None


@dataclass(frozen=True, slots=True)
class Archived:
    """A faded memory. text, archived_at: None unless it is archived.

    is_wordless: its vector and search terms must be made again.
    """

    memory_id: UUID
    namespace: Namespace
    key: str
    text: str | None
    archived_at: datetime | None
    is_wordless: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Revival:
    """Faded memories to bring back into recall, as if they were read now.

    faded: as they were when they were read. terms: search terms of those that have
    none, by memory id. vectors: of the same memories.
    """

    faded: Sequence[Archived]
    terms: Mapping[UUID, Sequence[str]]
    vectors: VectorRows | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The retention of one memory: the inputs of its score and its next stage.

    strength: initial score. used_at: last read, or else written. staged_at: when it entered its
    stage; for stage "kept", when it was revived, if ever. forget_at: when it leaves its stage; None
    for never. rule: None if its kind never fades.
    """

    memory_id: MemoryId
    namespace: Namespace
    key: str
    kind: MemoryKind
    text: str
    stage: Stage
    staged_at: datetime | None
    pinned: bool
    strength: float
    importance: float
    arousal: float
    access_count: int
    last_accessed_at: datetime | None
    used_at: datetime
    created_at: datetime
    forget_at: datetime | None
    rule: RetentionPolicy | None

    def to_dict(self) -> dict[str, JsonValue]:
        """Return a JSON object without the rule; times in ISO 8601."""
        return {
            "memory_id": str(self.memory_id),
            "key": self.key,
            "kind": self.kind,
            "text": self.text,
            "stage": self.stage,
            "staged_at": _iso(self.staged_at),
            "is_pinned": self.pinned,
            "importance": self.importance,
            "access_count": self.access_count,
            "last_accessed_at": _iso(self.last_accessed_at),
            "created_at": _iso(self.created_at),
            "leaves_stage_at": _iso(self.forget_at),
        }


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


@dataclass(frozen=True, slots=True)
class RetentionRow:
    """Number and score sum of the memories of a kind and stage within a tenth of the scores."""

    kind: MemoryKind
    fades: bool
    stage: Stage
    bucket: int
    count: int
    score_sum: float
    pinned: int


@dataclass(frozen=True, slots=True)
class TaskRun:
    """The last run of a periodic task. done_at: None during the first run."""

    next_at: datetime
    done_at: datetime | None
    result: Mapping[str, JsonValue]


class RetentionStorage(Protocol):
    """Retention policies, and memories of many users."""

    async def set_retention_rules(
        self, path: str, rules: Rules | None, of: Sequence[MemoryKind] | None = None
    ) -> None:
        """Set the rules of the users below a path; None inherits them.

        of: kinds whose rules are replaced; None for all. Notes the path for retimings() in the same
        transaction. Later writers use the new rules; it waits for those that use the old ones.
        """

    async def retimings(self, path: str) -> Sequence[str]:
        """Return the paths below this one whose memories are not all retimed by new rules."""

    async def memories_below(
        self, path: str, after: MemoryPlace, limit: int
    ) -> Sequence[MemoryPlace]:
        """Return the next memories below a path, in order."""

    async def due_memories(
        self, path: str, now: datetime, after: DueMemory, limit: int
    ) -> Sequence[DueMemory]:
        """Return the next due memories below a path, in order.

        Leaves out those that entered their stage at `now`.
        """

    async def ahead_of_server(self, now: datetime) -> timedelta:
        """Return how far a moment is ahead of the clock of the database server."""


@dataclass(frozen=True, slots=True)
class Accesses:
    """Number and last time of the reads of a memory by search or recall."""

    access_count: int
    last_accessed_at: datetime


@dataclass(frozen=True, slots=True)
class NewAccesses:
    """Reads of one memory to add to its counters."""

    scope: Scope
    memory_id: MemoryId
    accesses: Accesses


class AccessStorage(Protocol):
    """Access counters, deleted with their memories."""

    async def add_accesses(self, batch: Sequence[NewAccesses]) -> None:
        """Add reads to the counters, skipping memories that are deleted or locked.

        Raises StorageReadOnly if the database is read-only.
        """
