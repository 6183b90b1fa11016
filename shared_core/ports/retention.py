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


@dataclass(frozen=True, slots=True, kw_only=True)
class Retimed:
    """A page of memories whose next stage was recomputed. looked_at: 0 at the end."""

    looked_at: int
    changed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionBatch:
    """The result of one short transaction. retimed: memories not due under a newer policy.

    along: memories erased with others, such as the ended facts of a slot.
    """

    counts: Counts
    retimed: int
    along: Mapping[MemoryKind, int]

    @property
    def size(self) -> int:
        """Number of examined memories."""
        return self.retimed + sum(sum(kinds.values()) for kinds in self.counts.values())


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

    faded: as out_of_recall() returned them. terms: search terms of those that have
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
    """Retention policies, stages, and periodic tasks."""

    async def retention_rules(self, scope: Scope | None, app: str | None) -> Rules:
        """Return the effective rules of a user, an application (scope None), or all (both None)."""

    async def own_rules(self, scope: Scope | None, app: str | None) -> Rules:
        """Return the rules set for exactly this user or application, or for all."""

    async def set_retention_rules(
        self,
        scope: Scope | None,
        app: str | None,
        rules: Rules | None,
        of: Sequence[MemoryKind] | None = None,
    ) -> str:
        """Set the rules of a user, an application or all; None inherits them.

        of: kinds whose rules are replaced; None for all. Waits for writers that use the old rules,
        and schedules a retiming in the same transaction. Returns the path for retime().
        """

    async def retimings(self, scope: Scope | None, app: str | None) -> Sequence[str]:
        """Return the paths below this one that still need retime()."""

    async def retime(self, path: str, limit: int) -> Retimed:
        """Recompute the next stage of the next page of memories of a path."""

    async def ahead_of_server(self, now: datetime) -> timedelta:
        """Return how far a moment is ahead of the clock of the database server."""

    async def kept(self, scope: Scope, memory_ids: Sequence[UUID]) -> Sequence[Kept]:
        """Return the retention of memories; unknown ids are skipped."""

    async def retention_stats(
        self, scope: Scope | None, app: str | None, now: datetime, days: Sequence[float]
    ) -> tuple[Sequence[RetentionRow], Mapping[float, Mapping[Fate, int]]]:
        """Return retention statistics, and the number of memories by fate within each of days."""

    async def named_ids(self, scope: Scope, keys: Sequence[str]) -> Sequence[UUID]:
        """Return the ids of memories given by key or id."""

    async def unknown_names(self, scope: Scope, names: Sequence[str]) -> Sequence[str]:
        """Return the keys and ids that match no memory, in order."""

    async def forget_faded(
        self, scope: Scope | None, app: str | None, now: datetime, limit: int
    ) -> RetentionBatch:
        """Move due memories on by one stage, in one short transaction.

        Skips memories already moved as of the same moment, and memories locked by others.
        """

    async def due(
        self, scope: Scope | None, app: str | None, now: datetime, limit: int
    ) -> tuple[Counts, Mapping[MemoryKind, int], Sequence[tuple[Kept, Fate]]]:
        """Preview forget_faded(): counts by fate, counts erased along, and the first memories."""

    async def average_score(self, scope: Scope, weak: Weak) -> tuple[int, float]:
        """Return the number of memories that fade, in all stages, and their average score."""

    async def weak(self, scope: Scope, weak: Weak) -> Sequence[MemoryId]:
        """Return the memories that forget_weak() would erase."""

    async def forget_weak(
        self, scope: Scope, weak: Weak, memory_ids: Sequence[UUID]
    ) -> Sequence[MemoryId]:
        """Erase the given memories that are still weak; return their ids.

        Their turns stay, and so do the memories derived from them.
        """

    async def set_pinned(
        self, scope: Scope, memory_ids: Sequence[UUID], pinned: bool
    ) -> Sequence[MemoryId]:
        """Pin or unpin memories; return the ids that are in the requested state now."""

    async def staged(
        self,
        scope: Scope,
        stages: Sequence[Stage],
        kinds: Sequence[MemoryKind] | None,
        limit: int,
        offset: int,
    ) -> Sequence[Kept]:
        """Return faded memories, latest first."""

    async def out_of_recall(self, scope: Scope, memory_ids: Sequence[UUID]) -> Sequence[Archived]:
        """Return the given memories that are demoted or archived."""

    async def revive_memories(self, scope: Scope, revival: Revival) -> Sequence[MemoryId]:
        """Bring faded memories back into recall in one transaction; return their ids.

        Raises Conflict, with nothing done, if any was moved on, revived or written since.
        """


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

    async def accesses(
        self, scope: Scope, memory_ids: Sequence[MemoryId]
    ) -> Mapping[MemoryId, Accesses]:
        """Return the counters of the memories that were ever read."""
