"""Forgetting: what a caller names, and by a policy what has faded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shared_core.domain import Memory, MemoryKind, Scope
from shared_core.namespaces import memories_namespace
from shared_core.ports import Clock, MemoryQuery, Storage
from shared_core.retention import RetentionPolicy, days_between, initial_strength, retention_score

FADING: tuple[MemoryKind, ...] = ("episodic", "summary", "reflection")
"""What fades. Facts end when another takes their place; items are their owner's."""
PAGE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupReport:
    """What a cleanup looked at and forgot, or would forget. average_score: of all looked at."""

    memories: int
    forgotten: Sequence[Memory]
    average_score: float


async def cleanup(
    storage: Storage, clock: Clock, scope: Scope, policy: RetentionPolicy, *, dry_run: bool
) -> CleanupReport:
    """Take out of recall what has faded below the policy's threshold.

    What has expired is deleted first. Facts drawn from the faded stay, and adding its session again
    does not bring it back. Age counts from when a memory was stored; reads do not count yet.
    """
    await storage.sweep_expired((scope.app, scope.user), PAGE)
    now = clock()
    looked_at = 0
    total = 0.0
    faded: list[Memory] = []
    while True:
        query = MemoryQuery(
            scope=scope,
            namespace=memories_namespace(scope),
            kinds=FADING,
            limit=PAGE,
            offset=looked_at,
        )
        page = await storage.list_memories(query)
        looked_at += len(page)
        for memory in page:
            days = days_between(memory.created_at, now)
            score = retention_score(
                initial=initial_strength(memory.importance),
                days=days,
                decay_rate=policy.decay_rate,
            )
            total += score
            if score < policy.threshold and days >= policy.min_age_days:
                faded.append(memory)
        if len(page) < PAGE:
            break
    if not dry_run:
        for first in range(0, len(faded), PAGE):
            batch = faded[first : first + PAGE]
            await storage.fade([(memory.namespace, memory.key) for memory in batch])
    return CleanupReport(
        memories=looked_at,
        forgotten=faded,
        average_score=total / looked_at if looked_at else 0.0,
    )
