"""Forget faded memories: by stored policies on a schedule, or now by a caller's policy."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import TypeAlias
from uuid import UUID, uuid4

from shared_core.core.decay import days_between, retention_score
from shared_core.core.domain import MemoryKind, Scope
from shared_core.core.event_loops import PeriodicTask
from shared_core.core.namespaces import path_of, scope_path
from shared_core.core.retention_policy import FATES, Fate, RetentionPolicy
from shared_core.core.telemetry import FORGOTTEN, forgotten, measured
from shared_core.core.timestamps import ServerClock
from shared_core.errors import MemoryCoreError
from shared_core.ingest.expiry import sweep
from shared_core.jobs.scheduled_task import ScheduledTask
from shared_core.lifecycle import Handle
from shared_core.policies import fading, retention
from shared_core.ports.retention import Counts, Kept, TaskRun, Weak
from shared_core.ports.storage import Clock, Storage
from shared_core.retention import pages

log = logging.getLogger("hippocampus")

BATCH = 1000
"""Maximum number of memories that one short transaction moves."""
LISTED = 100
"""Maximum number of memories that a dry run lists by default."""
RETIMED_AT_ONCE = 2000

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the numbers of memories done, and of those due at the start."""
GoesOn: TypeAlias = Callable[[], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class CleanupReport:
    """The result of a cleanup, or of its dry run.

    memories: number of memories that fade. forgotten: the erased ones, as they were before.
    average_score: of all that fade.
    """

    memories: int
    forgotten: Sequence[Kept]
    average_score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Fading:
    """A memory that is due to leave its stage, its score at the time of the report, and why."""

    kept: Kept
    fate: Fate
    score: float
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionReport:
    """The result of one run of forgetting, or of its dry run.

    counts: number of memories by fate and kind. listed: in a dry run, the memories that are due
    longest, up to its limit. along: memories erased with others, such as the ended facts of a slot.
    retimed: memories that are not due under a newer policy. batches: number of transactions.
    """

    counts: Counts
    listed: Sequence[Fading] = ()
    along: Mapping[MemoryKind, int] = field(default_factory=dict)
    retimed: int = 0
    batches: int = 0
    duration_s: float = 0.0
    dry_run: bool = False

    @property
    def total(self) -> int:
        """Number of memories that left their stage."""
        return sum(sum(kinds.values()) for kinds in self.counts.values())

    @property
    def not_listed(self) -> int:
        """Number of memories that a dry run counted but did not list; a higher limit lists more."""
        return max(self.total - len(self.listed), 0) if self.dry_run else 0

    @property
    def erased_along(self) -> int:
        """Number of memories that were erased with others."""
        return sum(self.along.values())

    def of(self, fate: Fate) -> int:
        """Return the number of memories with a fate."""
        return sum(self.counts.get(fate, {}).values())


@measured("cleanup")
async def cleanup(
    storage: Storage, clock: Clock, scope: Scope, policy: RetentionPolicy, *, dry_run: bool
) -> CleanupReport:
    """Erase memories below a caller's own threshold now, in any stage.

    It first deletes expired memories, except in a dry run. Pinned memories, kinds that never fade,
    and facts derived from erased memories stay. Adding the session again brings nothing back.
    """
    if not dry_run:
        await _compare(storage, clock)
        swept = await sweep(storage, (scope.app, scope.user), BATCH, clock())
        forgotten("sweep_expired", swept)
    weak = Weak(
        threshold=policy.threshold, min_age_days=policy.min_age_days, decay_rate=policy.decay_rate
    )
    tenant, now = scope_path(scope), clock()
    memories, average, ids = await pages.weak_below(storage, tenant, weak, now)
    if dry_run:
        found = await storage.query(tenant, partial(retention.kept, tenant, ids))
        return CleanupReport(memories, found, average)
    faded: list[Kept] = []
    for begin in range(0, len(ids), BATCH):
        some = ids[begin : begin + BATCH]
        page = await storage.query(tenant, partial(retention.kept, tenant, some))
        gone = set(
            await storage.transact(tenant, partial(fading.erase_weak, tenant, some, weak, now))
        )
        faded += [one for one in page if one.memory_id in gone]
        forgotten("cleanup", len(gone))
    return CleanupReport(memories, faded, average)


async def _compare(storage: Storage, clock: Clock) -> None:
    """Compare the clock with the server's now: a wrong one would forget too much."""
    if isinstance(clock, ServerClock):
        await clock.compare(storage.retention.ahead_of_server, every_s=0)


async def retime(
    storage: Storage,
    path: str,
    progress: Callable[[int], None] | None = None,
    goes_on: GoesOn | None = None,
) -> int:
    """Recompute when the memories of a path leave their stage; return the number that changed.

    progress: called with the number examined. goes_on: called after each batch; False ends it.
    """
    changed = looked_at = 0
    while True:
        size, some = await pages.retime_page(storage, path, RETIMED_AT_ONCE)
        if size == 0:
            break
        changed, looked_at = changed + some, looked_at + size
        if progress:
            progress(looked_at)
        if goes_on and not await goes_on():
            break
    return changed


@measured("forget_faded", FORGOTTEN, lambda report: report.of("erased") + report.erased_along)
async def forget_faded(
    storage: Storage,
    clock: Clock,
    scope: Scope | None,
    app: str | None,
    *,
    progress: Progress | None = None,
    goes_on: GoesOn | None = None,
    batch: int = BATCH,
) -> RetentionReport:
    """Move every due memory on by one stage, in short transactions; return the report.

    It first finishes interrupted changes of policies. goes_on: called after each transaction; False
    ends the run.
    """
    await _compare(storage, clock)
    path = path_of(scope, app)
    for unfinished in await storage.retention.retimings(path):
        await retime(storage, unfinished, goes_on=goes_on)
    began, now, total = time.monotonic(), clock(), 0
    counts: Counter[tuple[MemoryKind, Fate]] = Counter()
    along: set[tuple[str, UUID, MemoryKind]] = set()
    retimed = batches = 0
    if progress:
        due, _, _ = await pages.due(storage, path, now, 0)
        total = sum(sum(kinds.values()) for kinds in due.values())
        progress(0, total)
    async for moved in pages.move_on(storage, path, now, batch):
        counts += moved.counts
        along |= moved.along
        retimed += moved.retimed
        batches += 1
        if progress:
            progress(counts.total(), total)
        if goes_on and not await goes_on():
            break
        await asyncio.sleep(0)  # lets other tasks run
    return RetentionReport(
        counts=pages.counts_of(counts),
        along=Counter(kind for _, _, kind in along),
        retimed=retimed,
        batches=batches,
        duration_s=time.monotonic() - began,
    )


async def what_is_due(
    storage: Storage, clock: Clock, scope: Scope | None, app: str | None, *, limit: int = LISTED
) -> RetentionReport:
    """Return what forget_faded() would do now, without writing anything."""
    began, now = time.monotonic(), clock()
    counts, along, listed = await pages.due(storage, path_of(scope, app), now, limit)
    return RetentionReport(
        counts=counts,
        along=along,
        listed=[_fading(kept, fate, now) for kept, fate in listed],
        duration_s=time.monotonic() - began,
        dry_run=True,
    )


def score_of(kept: Kept, at: datetime) -> float:
    """Return the score of a memory at a moment; without a policy, with a decay rate of 0.1."""
    return retention_score(
        initial=kept.strength,
        days=days_between(kept.used_at, at),
        accesses=kept.access_count,
        arousal=kept.arousal,
        decay_rate=(kept.rule or RetentionPolicy()).decay_rate,
    )


def _fading(kept: Kept, fate: Fate, now: datetime) -> Fading:
    score = score_of(kept, now)
    rule = kept.rule or RetentionPolicy()
    threshold = {
        "demoted": rule.threshold,
        "archived": rule.archive_threshold,
        "erased": rule.erase_threshold,
    }[fate]
    used = "read" if kept.last_accessed_at else "written"
    days = max(days_between(kept.used_at, now), 0.0)
    reads = f"{kept.access_count} read{'' if kept.access_count == 1 else 's'}"
    why = (
        f"score {score:.3g} is below {threshold:g}: last {used} {days:.1f} days ago, {reads},"
        f" importance {kept.importance:g}"
    )
    if kept.stage != "kept" and kept.staged_at is not None:
        why += f"; {kept.stage} {days_between(kept.staged_at, now):.1f} days ago"
    return Fading(kept=kept, fate=fate, score=score, why=why)


TASK = "forget_faded"
LEASE_S = 600.0
"""Seconds after its last batch until another worker may take over from a silent one."""
FIRST_LOOK_S = 600.0
LOOK_EVERY_S = 900.0


class ForgettingSchedule(PeriodicTask):
    """Applies the policies to all memories periodically: engine.retention.schedule.

    every_h: hours between two runs, counted over all processes; None: no schedule. in_background:
    whether a process that writes checks every 15 minutes if a run is due, first after 10 minutes.
    """

    def __init__(
        self, handle: Handle, every_h: float | None, *, in_background: bool = True
    ) -> None:
        super().__init__()
        self._handle = handle
        self._clock = handle.clock
        self._every_h = every_h
        self._in_background = in_background and every_h is not None

    async def run_if_due(self) -> RetentionReport | None:
        """Run forgetting if it is due and no other worker does it; else return None."""
        if self._every_h is None:
            return None
        storage = await self._handle.storage()
        worker_id = uuid4().hex
        task = ScheduledTask(storage, TASK)
        if not await task.take(worker_id, self._clock(), LEASE_S):
            return None

        async def goes_on() -> bool:
            return await task.keep(worker_id, self._clock(), LEASE_S)

        report = await forget_faded(storage, self._clock, None, None, goes_on=goes_on)
        now = self._clock()
        next_at = now + timedelta(hours=self._every_h)
        counts: dict[str, int] = {fate: report.of(fate) for fate in FATES}
        result = counts | {"retimed": report.retimed, "batches": report.batches}
        await task.end(worker_id, now, next_at, result)
        counted = ", ".join(f"{count} {fate}" for fate, count in counts.items())
        log.info("forgetting took %.2f s: %s", report.duration_s, counted)
        return report

    async def last(self) -> TaskRun | None:
        """Return the last run of any process; None before the first."""
        storage = await self._handle.storage()
        return await ScheduledTask(storage, TASK).last()

    def _waits_s(self) -> tuple[float, float]:
        return FIRST_LOOK_S, LOOK_EVERY_S

    async def _look(self) -> None:
        try:
            await self.run_if_due()
        except MemoryCoreError as error:
            log.warning("faded memories could not be forgotten: %s", error)
