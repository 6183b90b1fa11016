"""MemoryRetentionManager: the documented face of forgetting, for one user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from shared_core.core.domain import Scope
from shared_core.core.retention_policy import DECAY_RATE, MIN_AGE_DAYS, THRESHOLD, RetentionPolicy
from shared_core.engine import MemoryEngine


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryStats:
    """Memories after a cleanup, or as they are in a dry run.

    high_value_count: from a score of 0.7; medium_value_count: from 0.3. avg_retention_score: 0 if
    there are none. cleaned_count: how many went, or would go.
    """

    total_memories: int
    high_value_count: int
    medium_value_count: int
    low_value_count: int
    avg_retention_score: float
    cleaned_count: int


class MemoryRetentionManager:
    """Counts reads, tells how memories are kept, and erases what has faded below a threshold.

    The engine does all of it by itself by policies, in stages that can be taken back; this is for
    who wants to say when, and erase at once. decay_rate: of cleanups; scores that are told go by
    the stored policy.
    """

    def __init__(
        self,
        engine: MemoryEngine,
        scope: Scope,
        *,
        decay_rate: float = DECAY_RATE,
        cleanup_threshold: float = THRESHOLD,
        min_age_days: float = MIN_AGE_DAYS,
    ) -> None:
        self._engine = engine
        self._scope = scope
        self._policy = RetentionPolicy(
            decay_rate=decay_rate, threshold=cleanup_threshold, min_age_days=min_age_days
        )

    async def record_access(self, memory_id: UUID | str) -> None:
        """Count a memory as read now."""
        await self.record_batch_access([memory_id])

    async def record_batch_access(self, memory_ids: Sequence[UUID | str]) -> None:
        """Count memories as read now, in one round trip; unknown ones are passed over."""
        await self._engine.accesses.record_now(self._scope, memory_ids)

    async def get_retention_distribution(self) -> dict[str, int]:
        """Return how many memories are of high (from 0.7), medium (from 0.3) and low value."""
        stats = await self._engine.retention.stats(self._scope)
        return {"high": stats.high, "medium": stats.medium, "low": stats.low}

    async def cleanup_low_value_memories(
        self,
        threshold: float | None = None,
        min_age_days: float | None = None,
        dry_run: bool = False,
    ) -> MemoryStats:
        """Erase what has faded below a threshold and is so old; facts and what is pinned stay."""
        policy = RetentionPolicy(
            decay_rate=self._policy.decay_rate,
            threshold=self._policy.threshold if threshold is None else threshold,
            min_age_days=self._policy.min_age_days if min_age_days is None else min_age_days,
        )
        report = await self._engine.cleanup(self._scope, policy, dry_run=dry_run)
        stats = await self._engine.retention.stats(self._scope)
        return MemoryStats(
            total_memories=stats.total.count,
            high_value_count=stats.high,
            medium_value_count=stats.medium,
            low_value_count=stats.low,
            avg_retention_score=stats.total.average_score or 0.0,
            cleaned_count=len(report.forgotten),
        )
