"""The worker: takes jobs of the queue and does them, in the background or as all a process does."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal
from uuid import uuid4

from shared_core.domain import JsonValue, Scope, ThreadId
from shared_core.errors import MemoryCoreError, StorageUnavailable
from shared_core.ids import uuid7
from shared_core.log_ports import Job, JobStorage, NewJob
from shared_core.ports import Clock
from shared_core.sync_bridge import on_own_loop, start_on_own_loop

log = logging.getLogger("hippocampus")

CONSOLIDATE = "full_consolidation"
REFLECT = "deep_reflection"
"""Work that a caller's own code does: taken only by processes that know the code."""

MAX_ATTEMPTS = 5
LEASE_S = 300.0
"""A job whose worker was silent for so long is taken by another."""
HEARTBEATS_PER_LEASE = 3
MOST_THREADS = 10_000
"""So many threads are kept in mind for flush()."""
LONGEST_SLEEP_S = 30.0
_POLL_S = 0.02

Perform = Callable[[Job], Awaitable[Mapping[str, JsonValue]]]
_Outcome = Literal["done", "failed", "lost"]


@dataclass(slots=True)
class Tally:
    """What a worker did: jobs done, and tries that failed."""

    done: int = 0
    failed: int = 0


class Worker:
    """Does what is due while there is something to do, then rests until it is woken.

    In the background it runs on the one loop of the bridge, so a caller's loop may end at any time;
    serve() runs where it is called. Jobs live in the database: what a process leaves behind, the
    next worker anywhere takes over. in_background: False leaves all work to other processes.
    """

    def __init__(
        self,
        storage: JobStorage,
        clock: Clock,
        perform: Perform,
        *,
        in_background: bool = True,
        lease_s: float = LEASE_S,
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._performers: dict[str, Perform] = {CONSOLIDATE: perform}
        self._in_background = in_background
        self._lease_s = lease_s
        self._name = uuid4().hex
        self._pid = 0
        self._task: asyncio.Task[None] | None = None
        self._woken = asyncio.Event()
        self._resumed = self._working = False
        self._handed_over: dict[tuple[Scope, ThreadId], None] = {}
        self._given_up: set[tuple[Scope, ThreadId]] = set()

    def learn(self, job_type: str, perform: Perform) -> None:
        """Take jobs of another type from now on, and do them so."""
        self._performers[job_type] = perform

    def new_job(
        self,
        scope: Scope,
        thread_id: ThreadId,
        *,
        delay_s: float = 0.0,
        job_type: str = CONSOLIDATE,
        payload: Mapping[str, JsonValue] | None = None,
    ) -> NewJob:
        """Return a job for a thread, not due before delay_s; hand_over() after it is stored."""
        run_after = self._clock() + timedelta(seconds=delay_s)
        return NewJob(job_id=uuid7(), job_type=job_type, run_after=run_after, payload=payload)

    def hand_over(self, scope: Scope, thread_id: ThreadId) -> None:
        """Remember that there is a job for a thread, for flush(), and begin to work."""
        self._forget_parent()
        thread = (scope, thread_id)
        self._given_up.discard(thread)
        self._handed_over[thread] = None
        while len(self._handed_over) > MOST_THREADS:
            del self._handed_over[next(iter(self._handed_over))]
        self.wake()

    def resume(self) -> None:
        """Do once what other processes left behind, the killed ones for example."""
        self._forget_parent()
        if not self._resumed:
            self._resumed = True
            self.wake()

    def wake(self) -> None:
        """Begin to work, if nothing is being done. Returns at once."""
        if self._in_background:
            start_on_own_loop(self._start)

    async def flush(self, timeout_s: float | None) -> bool:
        """Wait until all that this process handed over is done; False if not, or given up.

        What waits for its time is done now, and so is what is due and nobody has taken.
        """
        self._forget_parent()
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        types = list(self._performers)
        while True:
            waiting = list(self._handed_over)
            if not waiting or not await self._storage.open_jobs(waiting, types):
                for thread in waiting:
                    self._handed_over.pop(thread, None)
                due = await self._storage.next_job_at(types)
                rests = due is None or due > self._clock()
                if not self._in_background or (rests and not self._working):
                    break
            if deadline is not None and time.monotonic() > deadline:
                return False
            self.wake()
            await asyncio.sleep(_POLL_S)
        given_up = bool(self._given_up)
        self._given_up.clear()
        return not given_up

    async def serve(self, stop: asyncio.Event, *, once: bool, poll_s: float = 1.0) -> Tally:
        """Do what is due, for any process, until stop is set; once: until nothing is due.

        A job in work when stop is set is finished first. A database that cannot be reached is
        waited for; with once, StorageUnavailable is raised.
        """
        self._forget_parent()
        tally = Tally()
        failures = 0
        while not stop.is_set():
            wait_s = poll_s
            try:
                outcome = await self._do_next()
                if outcome is not None:
                    tally.done += outcome == "done"
                    tally.failed += outcome == "failed"
                    continue
                failures = 0
            except StorageUnavailable as error:
                if once:
                    raise
                failures += 1
                wait_s = min(2.0**failures, LONGEST_SLEEP_S)
                log.warning("the worker cannot reach its queue (%d): %s", failures, error)
            if once:
                break
            await _rest(stop, wait_s)
        return tally

    async def stop(self) -> None:
        """Finish nothing more; a job in work goes back to the queue."""
        await on_own_loop(self._stop())

    def _start(self) -> None:
        self._forget_parent()
        self._woken.set()
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._work())

    async def _stop(self) -> None:
        task, self._task = self._task, None
        if task is not None and self._pid == os.getpid():
            task.cancel()
            await asyncio.wait([task])
            try:  # the answer to a claim may have been under way
                await self._storage.release_jobs(self._name)
            except StorageUnavailable as error:
                log.warning("jobs in work cannot be given back: %s", error)

    def _forget_parent(self) -> None:
        """Begin anew in a forked child: it has no task, and handed over nothing."""
        if self._pid != os.getpid():
            self._pid, self._task, self._name = os.getpid(), None, uuid4().hex
            self._resumed = False
            self._handed_over, self._given_up = {}, set()
            self._woken = asyncio.Event()

    async def _work(self) -> None:
        failures = 0
        while True:
            self._woken.clear()
            try:
                if await self._do_next() is not None:
                    failures = 0
                    continue
                due = await self._storage.next_job_at(list(self._performers))
                failures = 0
            except StorageUnavailable as error:
                failures += 1
                log.warning("the worker cannot reach its queue (%d): %s", failures, error)
                if failures == MAX_ATTEMPTS:
                    return
                await _rest(self._woken, 2.0**failures)
                continue
            if self._woken.is_set():  # something was handed over meanwhile
                continue
            if due is None:
                return
            wait_s = (due - self._clock()).total_seconds()
            await _rest(self._woken, min(max(wait_s, _POLL_S), LONGEST_SLEEP_S))

    async def _do_next(self) -> _Outcome | None:
        """Do the most urgent job that is due; None when there is none."""
        self._working = True
        try:
            job = await self._storage.claim_job(self._name, self._lease_s, list(self._performers))
            return None if job is None else await self._do(job)
        finally:
            self._working = False

    async def _do(self, job: Job) -> _Outcome:
        begun = time.monotonic()
        if job.attempts > MAX_ATTEMPTS:
            await self._put_back(job, "its worker died or fell silent every time")
            return "failed"
        work = asyncio.ensure_future(self._performers[job.job_type](job))
        beat = asyncio.create_task(self._keep(job, work))
        try:
            result = await work
        except asyncio.CancelledError:
            if beat.done() and not beat.cancelled():
                return "lost"
            work.cancel()
            await self._storage.return_job(job, self._name, "interrupted", self._clock())
            raise
        except MemoryCoreError as error:
            await self._put_back(job, f"{type(error).__name__}: {error}")
            return "failed"
        except Exception as error:  # what a caller's extractor raises ends no worker
            log.debug("job %s", job.job_id, exc_info=True)
            await self._put_back(job, f"{type(error).__name__}: {error}")
            return "failed"
        finally:
            beat.cancel()
        await self._storage.complete_job(job, self._name, result)
        self._given_up.discard((job.scope, job.thread_id))
        log.info("job %s done in %.2f s: %s", job.job_id, time.monotonic() - begun, _counts(result))
        return "done"

    async def _keep(self, job: Job, work: asyncio.Future[Mapping[str, JsonValue]]) -> None:
        """Extend the lease of a job while it is worked on; end the work if another has it."""
        while True:
            await asyncio.sleep(self._lease_s / HEARTBEATS_PER_LEASE)
            try:
                if await self._storage.extend_job(job, self._name, self._lease_s):
                    continue
            except StorageUnavailable as error:
                log.warning("the lease of job %s cannot be extended: %s", job.job_id, error)
                continue
            log.warning("job %s was taken by another worker, or is gone", job.job_id)
            work.cancel()
            return

    async def _put_back(self, job: Job, reason: str) -> None:
        """Let a job be tried again, later each time, and give it up at last."""
        retry_at = None
        if job.attempts < MAX_ATTEMPTS:
            retry_at = self._clock() + timedelta(seconds=2**job.attempts)
        else:
            self._given_up.add((job.scope, job.thread_id))
        log.error("job %s failed %d times: %s", job.job_id, job.attempts, reason)
        await self._storage.return_job(job, self._name, reason, retry_at)


async def _rest(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, so many seconds at most."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass


def _counts(result: Mapping[str, JsonValue]) -> str:
    numbers = {name: value for name, value in result.items() if isinstance(value, int)}
    return ", ".join(f"{value} {name}" for name, value in numbers.items()) or "nothing to count"
