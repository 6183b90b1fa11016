"""Forget faded memories: by stored policies and on a schedule, or at once by a caller's policy."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeAlias
from uuid import uuid4

from shared_core.core.decay import days_between, retention_score
from shared_core.core.domain import MemoryKind, Scope
from shared_core.core.event_loops import PeriodicTask
from shared_core.core.retention_policy import RetentionPolicy
from shared_core.core.timestamps import CLOCKS_APART, system_clock
from shared_core.errors import Conflict, MemoryCoreError
from shared_core.lifecycle import Handle
from shared_core.ports.retention import FATES, Counts, Fate, Kept, TaskRun, Weak
from shared_core.ports.storage import Clock, Storage

log = logging.getLogger("hippocampus")

BATCH = 1000
"""Maximum number of memories that one short transaction moves."""
LISTED = 100
RETIMED_AT_ONCE = 2000

Progress: TypeAlias = Callable[[int, int], None]
"""Is told how many memories are done, and how many were due when it began."""
GoesOn: TypeAlias = Callable[[], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class CleanupReport:
    """What a cleanup at once looked at and erased, or would erase.

    memories: how many there were that fade. forgotten: how each that went was kept.
    average_score: of all looked at.
    """

    memories: int
    forgotten: Sequence[Kept]
    average_score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Fading:
    """A memory that leaves its stage, and why. score: as of then. due_at: since when it is due."""

    kept: Kept
    fate: Fate
    score: float
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionReport:
    """What one run of forgetting did, or would do.

    counts: how many memories of each kind met which fate. listed: of a dry run, those that have
    waited longest, as many as its limit; not_listed: how many more would go.
    along: what was erased along with them, such as the ended facts of a fact. retimed: a policy had
    changed meanwhile, and it was too early for them. batches: transactions it took.
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
        """How many memories left their stage."""
        return sum(sum(kinds.values()) for kinds in self.counts.values())

    @property
    def not_listed(self) -> int:
        """How many more than listed a dry run counted; limit=... lists more of them."""
        return max(self.total - len(self.listed), 0) if self.dry_run else 0

    def of(self, fate: Fate) -> int:
        """Return how many memories met a fate."""
        return sum(self.counts.get(fate, {}).values())


async def cleanup(
    storage: Storage, clock: Clock, scope: Scope, policy: RetentionPolicy, *, dry_run: bool
) -> CleanupReport:
    """Erase at once what has faded below a caller's own threshold, whatever stage it is in.

    What has expired is deleted first, except in a dry run. Facts drawn from the faded stay, and
    adding its session again does not bring it back. What is pinned stays, and what never
    fades.
    """
    if not dry_run:
        await _require_clock(storage, clock)
        await storage.items.sweep_expired((scope.app, scope.user), BATCH)
    weak = Weak(
        threshold=policy.threshold, min_age_days=policy.min_age_days, decay_rate=policy.decay_rate
    )
    memories, average = await storage.retention.average_score(scope, weak)
    ids = await storage.retention.weak(scope, weak)
    if dry_run:
        return CleanupReport(memories, await storage.retention.kept(scope, ids), average)
    faded: list[Kept] = []
    for begin in range(0, len(ids), BATCH):
        page = await storage.retention.kept(scope, ids[begin : begin + BATCH])
        gone = set(
            await storage.retention.forget_weak(scope, weak, [one.memory_id for one in page])
        )
        faded += [one for one in page if one.memory_id in gone]
    return CleanupReport(memories, faded, average)


async def _require_clock(storage: Storage, clock: Clock) -> None:
    """Raise Conflict if this machine's clock is far ahead; a caller's own clock is meant so."""
    if clock is not system_clock:
        return
    now = clock()
    ahead = await storage.retention.ahead_of_server(now)
    if ahead > CLOCKS_APART:
        raise Conflict(
            f"the clock of this machine, {now.isoformat()}, is {ahead} ahead of the database"
            " server's: by it too much would be forgotten. Set it right, or pass a clock to"
            " open_memory(clock=...)"
        )


async def retime(
    storage: Storage,
    path: str,
    progress: Callable[[int], None] | None = None,
    goes_on: GoesOn | None = None,
) -> int:
    """Tell memories of a path whose policies changed when they leave their stage; return how many.

    progress: told how many were looked at. goes_on: asked after each transaction; False ends it.
    """
    changed = looked_at = 0
    while (page := await storage.retention.retime(path, RETIMED_AT_ONCE)).looked_at:
        changed, looked_at = changed + page.changed, looked_at + page.looked_at
        if progress:
            progress(looked_at)
        if goes_on and not await goes_on():
            break
    return changed


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
    """Move every memory that is due on by one stage, in short transactions, and tell how many.

    First it finishes telling memories of policies that changed. goes_on: asked after each
    transaction; False ends it. Raises Conflict for a clock that is far ahead.
    """
    await _require_clock(storage, clock)
    for path in await storage.retention.retimings(scope, app):
        await retime(storage, path, goes_on=goes_on)
    began, now, total = time.monotonic(), clock(), 0
    totals: dict[Fate, Counter[MemoryKind]] = {fate: Counter() for fate in FATES}
    along: Counter[MemoryKind] = Counter()
    retimed = batches = 0
    if progress:
        counts, _, _ = await storage.retention.due(scope, app, now, 0)
        total = sum(sum(kinds.values()) for kinds in counts.values())
        progress(0, total)
    while True:
        moved = await storage.retention.forget_faded(scope, app, now, batch)
        if moved.size == 0:
            break
        for fate, kinds in moved.counts.items():
            totals[fate].update(kinds)
        along.update(moved.along)
        retimed += moved.retimed
        batches += 1
        if progress:
            progress(sum(counter.total() for counter in totals.values()), total)
        if goes_on and not await goes_on():
            break
        await asyncio.sleep(0)  # others come to their turn
    return RetentionReport(
        counts=totals,
        along=along,
        retimed=retimed,
        batches=batches,
        duration_s=time.monotonic() - began,
    )


async def what_is_due(
    storage: Storage, clock: Clock, scope: Scope | None, app: str | None, *, limit: int = LISTED
) -> RetentionReport:
    """Return what forget_faded() would do now; writes nothing."""
    began, now = time.monotonic(), clock()
    counts, along, listed = await storage.retention.due(scope, app, now, limit)
    return RetentionReport(
        counts=counts,
        along=along,
        listed=[_fading(kept, fate, now) for kept, fate in listed],
        duration_s=time.monotonic() - began,
        dry_run=True,
    )


def score_of(kept: Kept, at: datetime) -> float:
    """Return the score of a memory at a moment, by the decay rate of its policy, else by 0.1."""
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
"""So long after its last batch a worker that fell silent gives way to another."""
FIRST_LOOK_S = 600.0
LOOK_EVERY_S = 900.0


class ForgettingSchedule(PeriodicTask):
    """When policies are applied to all there is: engine.retention.schedule.

    every_h: hours from one run to the next, of all processes together; None: never by itself.
    in_background: False leaves it to others; else a process that writes looks every quarter of an
    hour whether it is time, the first time after ten minutes.
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
        """Forget what has faded if it is time and no other worker is at it; else None."""
        if self._every_h is None:
            return None
        storage = await self._handle.storage()
        worker_id = uuid4().hex
        if not await storage.retention.take_turn(TASK, worker_id, self._clock(), LEASE_S):
            return None

        async def goes_on() -> bool:
            return await storage.retention.keep_turn(TASK, worker_id, self._clock(), LEASE_S)

        report = await forget_faded(storage, self._clock, None, None, goes_on=goes_on)
        now = self._clock()
        next_at = now + timedelta(hours=self._every_h)
        told: dict[str, int] = {fate: report.of(fate) for fate in FATES}
        result = told | {"retimed": report.retimed, "batches": report.batches}
        await storage.retention.end_turn(TASK, worker_id, now, next_at, result)
        counted = ", ".join(f"{count} {fate}" for fate, count in told.items())
        log.info("forgetting took %.2f s: %s", report.duration_s, counted)
        return report

    async def last(self) -> TaskRun | None:
        """Return what the last run of any process did; None before the first."""
        storage = await self._handle.storage()
        return await storage.retention.last_turn(TASK)

    def _waits_s(self) -> tuple[float, float]:
        return FIRST_LOOK_S, LOOK_EVERY_S

    async def _look(self) -> None:
        try:
            await self.run_if_due()
        except MemoryCoreError as error:
            log.warning("what has faded is not forgotten: %s", error)
