"""Report the outcome of jobs to their waiters, with one rare query for all of them."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias
from uuid import UUID

from shared_core.core.domain import Scope, ThreadId
from shared_core.core.event_loops import on_own_loop, start_on_own_loop
from shared_core.errors import StorageUnavailable
from shared_core.jobs.retries import MAX_ATTEMPTS, OUTAGE, wait_s
from shared_core.ports.jobs import JobRecord, JobStatus, JobStorage, JobType
from shared_core.ports.storage import Clock

log = logging.getLogger("hippocampus")

SHORTEST_LOOK_S = 0.02
LONGEST_LOOK_S = 1.0
"""Longest time between two polls while a job is due or runs."""
LONGEST_SLEEP_S = 15.0
"""Longest time between two polls while all jobs wait for their time."""
SHARE = 4
"""Least pause after a poll, as a multiple of its duration."""

_Thread: TypeAlias = tuple[Scope, ThreadId]


@dataclass(frozen=True, slots=True, eq=False)
class WatchedJob:
    """A job somebody waits for. Without job_id: all jobs of a type in a thread."""

    thread: _Thread
    job_type: JobType
    job_id: UUID | None = None
    over: Future[JobRecord | None] = field(default_factory=Future)

    def settle(self, jobs: Sequence[JobRecord]) -> JobRecord | None:
        """Resolve the future from the jobs of the thread, newest first; return the open job."""
        ours = [job for job in jobs if job.job_type is self.job_type]
        if self.job_id is None:
            waiting = [job for job in ours if job.is_open]
            if waiting:
                return min(waiting, key=lambda job: job.run_after)
            self._resolve(ours[0] if ours else None)
            return None
        for job in ours:
            if job.job_id == self.job_id:
                if job.is_open:
                    return job
                self._resolve(job)
                return None
        if any(job.job_id > self.job_id for job in ours):  # ids grow with time: it was removed
            self.over.cancel()
        else:
            self._resolve(None)
        return None

    def _resolve(self, job: JobRecord | None) -> None:
        if job is not None and job.status is JobStatus.CANCELLED:
            self.over.cancel()
        elif self.over.set_running_or_notify_cancel():
            self.over.set_result(job)


class JobWatch:
    """Polls the queue on the bridge's loop while somebody waits.

    It polls at once after an attempt of this process; for jobs of other processes from time to
    time, and not before they are due. It never opens a memory. stop() ends all waiting.
    """

    def __init__(self, storage: JobStorage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._waits: list[WatchedJob] = []
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()

    def add(self, job: WatchedJob) -> None:
        """Add a job to wait for. Callable from any thread."""
        start_on_own_loop(lambda: self._add(job))

    def look(self) -> None:
        """Poll now, if somebody waits. Callable from any thread."""
        if self._waits:
            start_on_own_loop(self._news.set)

    async def stop(self, drain_s: float = 0.0) -> None:
        """Resolve the waits of finished jobs, and cancel the others."""
        await on_own_loop(self._stop())

    def _add(self, job: WatchedJob) -> None:
        if self._pid != os.getpid():
            self._begin()
        loop = asyncio.get_running_loop()
        if self._task is not None and self._task.get_loop() is not loop:
            self._task, self._news = None, asyncio.Event()  # its loop has died
        self._waits.append(job)
        self._news.set()
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._watch())

    async def _stop(self) -> None:
        if self._pid != os.getpid():
            return
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        with suppress(StorageUnavailable):
            await self._settle()
        waits, self._waits = self._waits, []
        for one in waits:
            one.over.cancel()

    async def _watch(self) -> None:
        failures = 0
        look_s = SHORTEST_LOOK_S
        while self._waits:
            fresh = self._news.is_set()
            self._news.clear()
            begun = time.monotonic()
            try:
                due = await self._settle()
                failures = 0
                look_s = SHORTEST_LOOK_S if fresh else min(1.5 * look_s, LONGEST_LOOK_S)
                rest_s = self._rest_s(due, look_s)
            except StorageUnavailable as error:
                failures += 1
                if failures == MAX_ATTEMPTS:
                    self._give_up(error)
                    return
                rest_s = wait_s(OUTAGE, failures)
            await asyncio.sleep(SHARE * (time.monotonic() - begun))
            with suppress(TimeoutError):
                async with asyncio.timeout(rest_s):
                    await self._news.wait()

    async def _settle(self) -> datetime | None:
        """Resolve the waits of finished jobs; return when the next open job is due."""
        waits = [one for one in self._waits if not one.over.done()]
        threads = list(dict.fromkeys(one.thread for one in waits))
        found: dict[_Thread, list[JobRecord]] = {thread: [] for thread in threads}
        for record in await self._storage.jobs_of_threads(threads) if threads else []:
            if record.thread_id is not None:
                found[record.scope, record.thread_id].append(record)
        waiting = [job for one in waits if (job := one.settle(found[one.thread])) is not None]
        self._waits = [one for one in self._waits if not one.over.done()]
        return min((job.run_after for job in waiting), default=None)

    def _rest_s(self, due: datetime | None, look_s: float) -> float:
        if due is None:
            return look_s
        return max(look_s, min((due - self._clock()).total_seconds(), LONGEST_SLEEP_S))

    def _give_up(self, error: StorageUnavailable) -> None:
        waits, self._waits = self._waits, []
        for one in waits:
            if one.over.set_running_or_notify_cancel():
                one.over.set_exception(error)
