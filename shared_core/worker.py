"""The background worker: takes jobs of the queue and does them, in this process."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from uuid import uuid4

from shared_core.domain import JsonValue, Scope, ThreadId
from shared_core.errors import MemoryCoreError, StorageUnavailable
from shared_core.ids import uuid7
from shared_core.log_ports import Job, JobStorage, NewJob
from shared_core.ports import Clock
from shared_core.sync_bridge import on_own_loop, start_on_own_loop

log = logging.getLogger("hippocampus")

CONSOLIDATE = "full_consolidation"
MAX_ATTEMPTS = 5
LEASE_S = 300.0
"""A job whose worker was silent for so long is taken by another."""
LONGEST_SLEEP_S = 30.0
_POLL_S = 0.02

Perform = Callable[[Job], Awaitable[Mapping[str, JsonValue]]]


class Worker:
    """Does what is due while there is something to do, then rests until it is woken.

    It runs on the one loop of the bridge, so a caller's loop may end at any time. Jobs live in the
    database: what a process leaves behind, the next worker anywhere takes over.
    """

    def __init__(self, storage: JobStorage, clock: Clock, perform: Perform) -> None:
        self._storage = storage
        self._clock = clock
        self._perform = perform
        self._name = uuid4().hex
        self._pid = 0
        self._task: asyncio.Task[None] | None = None
        self._handed_over: set[tuple[Scope, ThreadId]] = set()
        self._given_up: set[tuple[Scope, ThreadId]] = set()

    def new_job(self, scope: Scope, thread_id: ThreadId) -> NewJob:
        """Return a job that consolidates a thread now; wake() after it is stored."""
        self._handed_over.add((scope, thread_id))
        return NewJob(job_id=uuid7(), job_type=CONSOLIDATE, run_after=self._clock())

    def wake(self) -> None:
        """Begin to work, if nothing is being done. Returns at once."""
        start_on_own_loop(self._start)

    async def flush(self, timeout_s: float | None) -> bool:
        """Wait until all that this process handed over is done; False if not, or given up."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while self._handed_over:
            waiting = list(self._handed_over)
            if not await self._storage.open_jobs(waiting):
                self._handed_over.difference_update(waiting)
                break
            if deadline is not None and time.monotonic() > deadline:
                return False
            self.wake()
            await asyncio.sleep(_POLL_S)
        given_up, self._given_up = self._given_up, set()
        return not given_up

    async def stop(self) -> None:
        """Finish nothing more; a job in work goes back to the queue."""
        await on_own_loop(self._stop())

    def _start(self) -> None:
        if self._pid != os.getpid():  # a forked child has no task
            self._pid, self._task, self._name = os.getpid(), None, uuid4().hex
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._work())

    async def _stop(self) -> None:
        task, self._task = self._task, None
        if task is not None and self._pid == os.getpid():
            task.cancel()
            await asyncio.wait([task])

    async def _work(self) -> None:
        failures = 0
        while True:
            try:
                job = await self._storage.claim_job(self._name, LEASE_S)
                if job is not None:
                    await self._do(job)
                    continue
                due = await self._storage.next_job_at()
                failures = 0
            except StorageUnavailable as error:
                failures += 1
                log.warning("the worker cannot reach its queue (%d): %s", failures, error)
                if failures == MAX_ATTEMPTS:
                    return
                await asyncio.sleep(2**failures)
                continue
            if due is None:
                return
            wait_s = (due - self._clock()).total_seconds()
            await asyncio.sleep(min(max(wait_s, _POLL_S), LONGEST_SLEEP_S))

    async def _do(self, job: Job) -> None:
        try:
            result = await self._perform(job)
        except MemoryCoreError as error:
            await self._put_back(job, f"{type(error).__name__}: {error}")
        except asyncio.CancelledError:
            await self._storage.return_job(job, self._name, "interrupted", self._clock())
            raise
        except Exception as error:
            await self._put_back(job, f"{type(error).__name__}: {error}")
            raise
        else:
            await self._storage.complete_job(job, self._name, result)

    async def _put_back(self, job: Job, reason: str) -> None:
        """Let a job be tried again, later each time, and give it up at last."""
        retry_at = None
        if job.attempts < MAX_ATTEMPTS:
            retry_at = self._clock() + timedelta(seconds=2**job.attempts)
        else:
            self._given_up.add((job.scope, job.thread_id))
        log.error("job %s failed %d times: %s", job.job_id, job.attempts, reason)
        await self._storage.return_job(job, self._name, reason, retry_at)
