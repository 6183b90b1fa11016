"""The numbers of the overview: whose they are, and how the memory tells them. No elements."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal
from weakref import WeakKeyDictionary

from shared_core.core.domain import Scope
from shared_core.core.retention_policy import FATES, Fate
from shared_core.engine import MemoryEngine
from shared_core.ports.jobs import JobRecord, JobStatus
from shared_core.retention.statistics import RetentionStats
from shared_core.ui.view import PageView

Step = Literal["day", "week", "month"]
MOST_USERS: Final = 1_000
"""UserCounts that the overview counts; one page of memory.users()."""
MOST_JOBS: Final = 1_000
"""Jobs that the overview counts, of each user or of an application."""
COUNTED_AT_ONCE: Final = 4
"""UserCounts whose days are counted at the same time."""
DAYS: Final = 371
"""Days before today whose memories are counted one by one: 53 weeks."""
OLDEST: Final = datetime(1, 1, 2, tzinfo=UTC)
KEPT: Final = 20
"""Times as long as counting took, for which its numbers are shown again."""
WEEK: Final = 7.0
AGES: Final = (1, 7, 30, 90, 365)
"""Ends of the groups by age, in days."""


@dataclass(frozen=True, slots=True)
class Whose:
    """Whose memory is shown: these users, or all users of an application, or everybody's.

    are_all: whether scopes holds all users that the visitor may see.
    """

    scopes: tuple[Scope, ...] | None
    app: str | None
    are_all: bool = True


def whose(view: PageView) -> Whose:
    """Return the chosen user, or all that the visitor may see."""
    if view.scope is not None:
        return Whose((view.scope,), None)
    if (users := view.caller.users) is not None:
        scopes = tuple(view.caller.scope(one, None) for one in users[:MOST_USERS])
        return Whose(scopes, None, are_all=len(users) <= MOST_USERS)
    return Whose(None, view.caller.app)


@dataclass(frozen=True, slots=True)
class UserCounts:
    """The users who have memories, with how many recall can find; and whether these are all."""

    memories: Mapping[Scope, int]
    are_all: bool = True


async def users_of(memory: MemoryEngine, of: Whose) -> UserCounts:
    """Return the users who have memories, at most MOST_USERS."""
    if of.scopes is None:
        found = await memory.users(of.app, limit=MOST_USERS)
        after = found[-1].scope if len(found) == MOST_USERS else None
        are_all = after is None or not await memory.users(of.app, limit=1, after=after)
        return UserCounts({one.scope: one.memories for one in found}, are_all)
    counts = {scope: await memory.count_memories(scope) for scope in of.scopes}
    return UserCounts({scope: count for scope, count in counts.items() if count}, of.are_all)


@dataclass(frozen=True, slots=True)
class Queue:
    """How many jobs wait, run and are dead.

    oldest_s: seconds that the oldest due one waits. are_all: whether there are no more of them.
    """

    waiting: int
    running: int
    dead: int
    oldest_s: float | None = None
    are_all: bool = True


async def queue_of(memory: MemoryEngine, of: Whose) -> Queue:
    """Return the sizes of the queue, without the jobs of others."""
    if of.scopes is None and of.app is None:
        stats = await memory.jobs.stats()
        return Queue(stats.pending, stats.running, stats.failed, stats.oldest_due_s)
    jobs: list[JobRecord] = []
    are_all = of.are_all
    for scope in of.scopes or (None,):
        found = await memory.jobs.list(scope, app=None if scope else of.app, limit=MOST_JOBS + 1)
        jobs += found[:MOST_JOBS]
        are_all = are_all and len(found) <= MOST_JOBS
    counts = Counter(job.status for job in jobs)
    waiting, running = counts[JobStatus.PENDING], counts[JobStatus.RUNNING]
    return Queue(waiting, running, counts[JobStatus.FAILED], are_all=are_all)


@dataclass(frozen=True, slots=True)
class FadingCounts:
    """Memories by kind, those of them that faded, and what is forgotten within a week.

    total: faded ones too, without those that ended or expired.
    """

    kinds: Mapping[str, int]
    total: int
    faded: int
    pinned: int
    week: Mapping[Fate, int]


async def fading_of(memory: MemoryEngine, of: Whose) -> FadingCounts:
    """Return the numbers by kind and what fades.

    It reads every memory once, so the numbers are kept for KEPT times as long as that took.
    """
    known = _known.setdefault(memory, {})
    if of in known and time.monotonic() < known[of][0]:
        return known[of][1]
    began = time.monotonic()
    fading = await _counted_fading(memory, of)
    ended = time.monotonic()
    for old in [one for one, (until, _) in known.items() if until < ended]:
        del known[old]
    known[of] = ended + KEPT * (ended - began), fading
    return fading


_known: WeakKeyDictionary[MemoryEngine, dict[Whose, tuple[float, FadingCounts]]] = (
    WeakKeyDictionary()
)
"""For each memory: until when what was counted is shown again, and what was counted."""


async def _counted_fading(memory: MemoryEngine, of: Whose) -> FadingCounts:
    found = [
        await memory.retention.stats(scope, app=None if scope else of.app, days=[WEEK])
        for scope in of.scopes or (None,)
    ]
    kinds: Counter[str] = Counter()
    for one in found:
        kinds.update({kind: stats.count for kind, stats in one.kinds.items()})
    week: dict[Fate, int] = {fate: sum(_week(one, fate) for one in found) for fate in FATES}
    faded = sum(
        count for one in found for stage, count in one.total.stages.items() if stage != "kept"
    )
    return FadingCounts(
        kinds, sum(one.total.count for one in found), faded,
        sum(one.total.pinned for one in found), week,
    )  # fmt: skip


def _week(stats: RetentionStats, fate: Fate) -> int:
    return stats.ahead[WEEK].get(fate, 0)


@dataclass(frozen=True, slots=True)
class Days:
    """Memories by the day on which they occurred.

    first: the first counted day. counts: of each day since, up to today. before, after: the
    memories before the first day and after today.
    """

    first: datetime
    counts: Sequence[int]
    before: int
    after: int

    @property
    def ages(self) -> Sequence[int]:
        """Memories of the last AGES days, each without those before it, and the older ones."""
        newest, begin, ages = self.counts[::-1], 0, []
        for end in AGES:
            ages.append(sum(newest[begin:end]))
            begin = end
        return [*ages, sum(newest[begin:]) + self.before]

    def by(self, step: Step, most: int) -> Sequence[tuple[datetime, int]]:
        """Return the begin and the number of the last steps, from the first with a memory."""
        found: dict[datetime, int] = {}
        for place, count in enumerate(self.counts):
            begin = _begin(self.first + timedelta(days=place), step)
            found[begin] = found.get(begin, 0) + count
        steps = [*found.items()][-most:]
        while len(steps) > 2 and not steps[0][1]:
            steps.pop(0)
        return steps


def _begin(day: datetime, step: Step) -> datetime:
    if step == "week":
        return day - timedelta(days=day.weekday())
    return day.replace(day=1) if step == "month" else day


async def days_of(memory: MemoryEngine, scopes: Iterable[Scope]) -> Days:
    """Return the memories of some users by day."""
    now = (await memory.now()).astimezone(UTC)
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    first = today - timedelta(days=DAYS - 1)
    bounds = [OLDEST, *(first + timedelta(days=place) for place in range(DAYS + 1))]
    turn = asyncio.Semaphore(COUNTED_AT_ONCE)

    async def counted(scope: Scope) -> Sequence[int]:
        async with turn:
            return await memory.count_memories(scope, bounds)

    sums = [0] * len(bounds)
    for counts in await asyncio.gather(*map(counted, scopes)):
        sums = [one + another for one, another in zip(sums, counts, strict=True)]
    return Days(first, sums[1:-1], sums[0], sums[-1])
