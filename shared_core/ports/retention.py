"""Retention and access counters in a storage: policies, stages, cleanup and schedules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal, Protocol, TypeAlias
from uuid import UUID

from shared_core.core.domain import JsonValue, MemoryId, MemoryKind, Namespace, Scope
from shared_core.core.retention_policy import RetentionPolicy, Rules, Stage
from shared_core.ports.items import VectorRows

Fate: TypeAlias = Literal["demoted", "archived", "erased"]
FATES: Final[tuple[Fate, ...]] = ("demoted", "archived", "erased")

Counts: TypeAlias = Mapping[Fate, Mapping[MemoryKind, int]]
"""How many memories of each kind met which fate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retimed:
    """A page of memories, told anew when they leave their stage. looked_at: 0 at the end."""

    looked_at: int
    changed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionBatch:
    """What one short transaction did. retimed: it was too early for them, by a newer policy.

    along: what was erased along with others, such as the ended facts of a fact.
    """

    counts: Counts
    retimed: int
    along: Mapping[MemoryKind, int]

    @property
    def size(self) -> int:
        """How many memories were looked at."""
        return self.retimed + sum(sum(kinds.values()) for kinds in self.counts.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Weak:
    """What is below one threshold. decay_rate: None for those of the policies."""

    threshold: float
    min_age_days: float
    decay_rate: float | None


@dataclass(frozen=True, slots=True)
class Archived:
    """A memory that is out of recall. text, archived_at: None unless it was archived.

    is_wordless: its vector and its words have to be made anew.
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
    """How one memory is kept: what its score and its next stage are made of.

    strength: its initial score. used_at: when it was last read, or written if it never was.
    staged_at: since when it is in its stage; of one that is kept, when it was restored, if it was.
    forget_at: when it leaves its stage, None for never. rule: None if its kind never fades.
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
    """How many memories of a kind and stage score in a tenth, and what their scores add up to."""

    kind: MemoryKind
    fades: bool
    stage: Stage
    bucket: int
    count: int
    score_sum: float
    pinned: int


@dataclass(frozen=True, slots=True)
class TaskRun:
    """What the last run of a task did. done_at: None while the first is at work."""

    next_at: datetime
    done_at: datetime | None
    result: Mapping[str, JsonValue]


class RetentionStorage(Protocol):
    """Policies as data, and the moments that follow from them."""

    async def retention_rules(self, scope: Scope | None, app: str | None) -> Rules:
        """Return what holds for a user, an application (scope None), or all (both None)."""

    async def own_rules(self, scope: Scope | None, app: str | None) -> Rules:
        """Return what was set for a user, an application or all itself, of the kinds it is of."""

    async def set_retention_rules(
        self,
        scope: Scope | None,
        app: str | None,
        rules: Rules | None,
        of: Sequence[MemoryKind] | None = None,
    ) -> str:
        """Store what holds for a user, an application or all from now on; None: what is above.

        of: kinds whose own rules are replaced; None: of all. It waits for those who write by the
        rules that held, and notes in the same transaction that memories have to be told: returns
        the path for retime().
        """

    async def retimings(self, scope: Scope | None, app: str | None) -> Sequence[str]:
        """Return the paths, below one, whose memories were not all told that a policy changed."""

    async def retime(self, path: str, limit: int) -> Retimed:
        """Tell a page of memories of a path anew when they leave their stage, where it stopped."""

    async def ahead_of_server(self, now: datetime) -> timedelta:
        """Return by how much a moment is ahead of the clock of the database server."""

    async def kept(self, scope: Scope, memory_ids: Sequence[UUID]) -> Sequence[Kept]:
        """Return how memories are kept; unknown ids are left out."""

    async def retention_stats(
        self, scope: Scope | None, app: str | None, now: datetime, days: Sequence[float]
    ) -> tuple[Sequence[RetentionRow], Mapping[float, Mapping[Fate, int]]]:
        """Return how memories are kept, and how many meet which fate within so many days."""

    async def take_turn(self, task: str, worker_id: str, now: datetime, lease_s: float) -> bool:
        """Take a task that is done for all now and then, if it is due and nobody is at it."""

    async def keep_turn(self, task: str, worker_id: str, now: datetime, lease_s: float) -> bool:
        """Keep a task that was taken; False if it is somebody else's by now."""

    async def end_turn(
        self,
        task: str,
        worker_id: str,
        now: datetime,
        next_at: datetime,
        result: Mapping[str, JsonValue],
    ) -> None:
        """Tell what came of a task that was taken, and when it is due again."""

    async def last_turn(self, task: str) -> TaskRun | None:
        """Return what the last run of a task did."""

    async def drop_task(self, task: str) -> None:
        """Forget a task, as if nobody had ever been at it."""

    async def named_ids(self, scope: Scope, keys: Sequence[str]) -> Sequence[UUID]:
        """Return the ids of memories that are named by key or by id."""

    async def unknown_names(self, scope: Scope, names: Sequence[str]) -> Sequence[str]:
        """Return those of some keys and ids, in order, that no memory has."""

    async def forget_faded(
        self, scope: Scope | None, app: str | None, now: datetime, limit: int
    ) -> RetentionBatch:
        """Move memories that are due on by one stage, in one short transaction.

        What was moved as of the same moment already, and what somebody else works on, is left.
        """

    async def due(
        self, scope: Scope | None, app: str | None, now: datetime, limit: int
    ) -> tuple[Counts, Mapping[MemoryKind, int], Sequence[tuple[Kept, Fate]]]:
        """Return what forget_faded() would do: how many in all and along, and which first."""

    async def average_score(self, scope: Scope, weak: Weak) -> tuple[int, float]:
        """Return how many memories there are that fade, in all stages, and their average score."""

    async def weak(self, scope: Scope, weak: Weak) -> Sequence[MemoryId]:
        """Return what forget_weak() would erase."""

    async def forget_weak(
        self, scope: Scope, weak: Weak, memory_ids: Sequence[UUID]
    ) -> Sequence[MemoryId]:
        """Erase at once those of some memories that are still weak; return which.

        What was drawn from them stays, and so do their turns.
        """

    async def set_pinned(
        self, scope: Scope, memory_ids: Sequence[UUID], pinned: bool
    ) -> Sequence[MemoryId]:
        """Pin memories, or no longer; return those that are pinned now, or no longer are."""

    async def staged(
        self,
        scope: Scope,
        stages: Sequence[Stage],
        kinds: Sequence[MemoryKind] | None,
        limit: int,
        offset: int,
    ) -> Sequence[Kept]:
        """Return memories that are out of recall, those that left it last first."""

    async def out_of_recall(self, scope: Scope, memory_ids: Sequence[UUID]) -> Sequence[Archived]:
        """Return those of some memories that are demoted or archived."""

    async def revive_memories(self, scope: Scope, revival: Revival) -> Sequence[MemoryId]:
        """Bring faded memories back into recall in one transaction; return their ids.

        Raises Conflict, with nothing done, if any was moved on, revived or written since.
        """


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

    async def accesses(
        self, scope: Scope, memory_ids: Sequence[MemoryId]
    ) -> Mapping[MemoryId, Accesses]:
        """Return the counters of those memories that were ever read."""
