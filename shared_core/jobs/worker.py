"""The worker: claims jobs of the queue and runs them, in the background or until stopped."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias, TypeVar
from uuid import UUID, uuid4

from shared_core.core.domain import Scope, ThreadId
from shared_core.core.event_loops import exiting, on_own_loop, start_on_own_loop, until_done
from shared_core.errors import StorageUnavailable
from shared_core.jobs.retries import MAX_ATTEMPTS, OUTAGE, wait_s
from shared_core.jobs.runner import RETURN_S, JobRunner, Outcome, Perform, give_back
from shared_core.ports.jobs import (
    NO_THREAD,
    Capability,
    Job,
    JobFilter,
    JobStatus,
    JobStorage,
    UnreadableJob,
)
from shared_core.ports.storage import Clock, Storage

log = logging.getLogger("hippocampus")

LEASE_S = 300.0
"""Seconds of silence of a worker after which another one claims its job."""
DRAIN_S = 5.0
"""Seconds that a stopping worker may take to finish its running job."""
MOST_THREADS = 10_000
"""Maximum number of threads that flush() waits for."""
MOST_LISTED = 1_000_000
"""Maximum number of dead jobs that flush() looks at."""
LONGEST_SLEEP_S = 30.0
_POLL_S = 0.02

_Thread: TypeAlias = tuple[Scope, ThreadId]
_Known = TypeVar("_Known")
_About = TypeVar("_About")


RELISTEN_S = 60.0
"""Seconds between the end of hints and the next attempt to listen."""


class Wakeup:
    """Waits for hints of new jobs while a worker serves. Without hints the worker polls.

    works: whether hints are known to arrive.
    """

    def __init__(self, storage: JobStorage, clock: Clock) -> None:
        self.works = False
        self._storage = storage
        self._clock = clock
        self._news = asyncio.Event()
        self._due: datetime | None = None

    async def listen(self) -> None:
        """Listen until cancelled. When hints stop, warn once and try again later."""
        warned = False
        while True:
            try:
                async for due in self._storage.job_hints():
                    if due is None:
                        self.works, warned = True, False
                    elif self._due is None or due < self._due:
                        self._due = due
                    self._news.set()
            except StorageUnavailable as error:
                if not warned:
                    log.warning("no hints of new jobs, so the worker polls the queue: %s", error)
                warned = True
            self.works = False
            self._news.set()
            await asyncio.sleep(RELISTEN_S)

    def interrupt(self) -> None:
        """End the current rest()."""
        self._due = self._clock()
        self._news.set()

    async def rest(self, seconds: float) -> None:
        """Wait at most this long; less if a hint names an earlier time, or on interrupt()."""
        end = time.monotonic() + seconds
        worked = self.works
        while self.works == worked:
            if self._due is not None:
                wait_s = (self._due - self._clock()).total_seconds()
                end = min(end, time.monotonic() + max(wait_s, 0.0))
                self._due = None
            self._news.clear()
            remaining_s = end - time.monotonic()
            if remaining_s <= 0:
                return
            try:
                async with asyncio.timeout(remaining_s):
                    await self._news.wait()
            except TimeoutError:
                return


@dataclass(slots=True)
class Tally:
    """The numbers of completed jobs and of failed attempts of a worker."""

    done: int = 0
    failed: int = 0


class Worker:
    """Runs due jobs until none is left, then waits until it is woken.

    In the background it runs on the bridge's loop, so a caller's loop may end at any time; serve()
    runs where it is called. Jobs live in the database, so any later worker takes over what a
    process leaves. in_background: False leaves all work to other processes. Between stop() and
    opened() it starts no job. tried: called after each attempt of a job, before_claim before each
    claim.
    """

    def __init__(
        self,
        storage: Storage,
        clock: Clock,
        performers: Mapping[Capability, Perform],
        *,
        in_background: bool = True,
        lease_s: float = LEASE_S,
        tried: Callable[[], None] = lambda: None,
        before_claim: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._storage = storage.jobs
        self._clock = clock
        self._performers = dict(performers)
        self._runner = JobRunner(storage, clock, self._performers)
        self._in_background = in_background
        self._lease_s = lease_s
        self._tried = tried
        self._before_claim = before_claim
        self._name = uuid4().hex
        self._pid = 0
        self._task: asyncio.Task[None] | None = None
        self._woken = asyncio.Event()
        self._opened = self._called_back = False
        self._resumed = self._working = self._draining = False
        self._served: Scope | None = None
        self._handed_over: dict[_Thread, datetime] = {}
        self._unfinished: dict[UUID, _Thread] = {}

    @property
    def in_background(self) -> bool:
        """Whether this process runs the jobs it enqueues, instead of leaving them to others."""
        return self._in_background

    def learn(self, capability: Capability, perform: Perform) -> None:
        """Run jobs of this kind too from now on; pending callbacks of others run immediately."""
        self._performers[capability] = perform
        self._called_back = self._called_back or capability.name is not None
        if self._opened and self._called_back:
            self.wake()

    def unlearn(self, capability: Capability) -> None:
        """Leave jobs of this kind to other processes again."""
        self._performers.pop(capability, None)

    def capabilities(self) -> list[Capability]:
        """Return the kinds of jobs that this worker can do."""
        return list(self._performers)

    def knows(self, capability: Capability) -> bool:
        """Return whether this worker can do jobs of a kind."""
        return capability in self._performers

    def opened(self) -> None:
        """Start to work if there are callbacks to run, now that the storage is open."""
        self._forget_parent()
        self._opened = True
        if self._called_back:
            self.wake()

    def hand_over(self, scope: Scope, thread_id: ThreadId = NO_THREAD) -> None:
        """Start to work on the job of a thread, or of a user, and let flush() wait for it."""
        self._forget_parent()
        thread = (scope, thread_id)
        for job_id, unfinished in list(self._unfinished.items()):
            if unfinished == thread:
                self._unfinished.pop(job_id, None)
        self._handed_over[thread] = self._clock()
        _keep_newest(self._handed_over)
        self.wake()

    def resume(self) -> None:
        """Run, once, the jobs that other processes left behind, e.g. killed ones."""
        self._forget_parent()
        if not self._resumed:
            self._resumed = True
            self.wake()

    def wake(self) -> None:
        """Start to work if idle. Returns immediately."""
        if self._in_background:
            start_on_own_loop(self._start)

    async def flush(self, timeout_s: float | None) -> bool:
        """Wait until all jobs that this process enqueued are done; return False if any is not.

        Pending jobs run now, and so do due jobs of others that nobody claimed. It does not wait for
        retries of those, nor for jobs that wait for a language model to answer again; an attempt
        that failed here makes the result False.
        """
        self._forget_parent()
        handed_over: dict[_Thread, datetime] = {}
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        capabilities = self.capabilities()
        while True:
            waiting = list(self._handed_over)
            if not waiting or not await self._storage.open_jobs(waiting, capabilities):
                for thread in waiting:
                    if (since := self._handed_over.pop(thread, None)) is not None:
                        handed_over[thread] = since
                due = await self._storage.next_job_at(self._runner.capabilities())
                rests = due is None or due > self._clock()
                if not self._in_background or (rests and not self._working):
                    break
            if deadline is not None and time.monotonic() > deadline:
                return False
            self.wake()
            await asyncio.sleep(_POLL_S)
        return not await self._failures(handed_over)

    async def _failures(self, handed_over: Mapping[_Thread, datetime]) -> bool:
        """Return whether a job died since its thread was handed over, or its last attempt here
        failed. A dead job is reported once."""
        dead = JobFilter(statuses=[JobStatus.FAILED], limit=MOST_LISTED)
        records = await self._storage.list_jobs(dead) if handed_over else []
        failed = any(
            record.completed_at is not None
            and (since := handed_over.get((record.scope, record.thread_id or NO_THREAD)))
            is not None
            and record.completed_at >= since
            for record in records
        )
        for job_id, (scope, _) in list(self._unfinished.items()):
            own = JobFilter(app=scope.app, user=scope.user, job_ids=[job_id])
            found = await self._storage.list_jobs(own)
            if not found or found[0].status is JobStatus.FAILED:
                self._unfinished.pop(job_id, None)
            failed = failed or bool(found)
        return failed

    async def run_now(self, job: Job, worker_id: str, *, tries: int) -> Outcome:
        """Run a job that worker_id has claimed, now and in this process."""
        outcome = await self._runner.run(job, worker_id, self._lease_s, tries=tries)
        self._tried()
        self.wake()  # the job may have enqueued another one
        return outcome

    async def release(self, worker_id: str) -> None:
        """Return to the queue what worker_id has claimed within RETURN_S, or let its lease end."""
        await give_back(self._storage.release_jobs(worker_id), "running jobs")

    @property
    def lease_s(self) -> float:
        """Seconds of the lease of a job."""
        return self._lease_s

    async def serve(self, stop: asyncio.Event, *, once: bool, poll_s: float = 1.0) -> Tally:
        """Run due jobs of any process until stop is set; with once, until none is due.

        It finishes the running job before it stops. Between jobs it listens for hints of new ones
        and polls rarely; without hints it polls every poll_s. It waits for an unreachable database;
        with once, it raises StorageUnavailable. On cancellation it returns its job to the queue.
        """
        self._forget_parent()
        worker_id = uuid4().hex
        try:
            return await self._serve(worker_id, stop, once=once, poll_s=poll_s)
        except asyncio.CancelledError:
            await asyncio.shield(self.release(worker_id))
            raise

    async def _serve(
        self, worker_id: str, stop: asyncio.Event, *, once: bool, poll_s: float
    ) -> Tally:
        if once:
            return await self._run_due(worker_id, stop, None, poll_s)
        wakeup = Wakeup(self._storage, self._clock)
        stopping = asyncio.create_task(stop.wait())
        stopping.add_done_callback(lambda _: wakeup.interrupt())
        listening = asyncio.create_task(wakeup.listen())
        try:
            return await self._run_due(worker_id, stop, wakeup, poll_s)
        finally:
            stopping.cancel()
            listening.cancel()
            await asyncio.wait([stopping, listening])

    async def _run_due(
        self, worker_id: str, stop: asyncio.Event, wakeup: Wakeup | None, poll_s: float
    ) -> Tally:
        tally, failures = Tally(), 0
        while not stop.is_set():
            rest_s = poll_s
            try:
                outcome = await self._do_next(worker_id)
                if outcome is not None:
                    tally.done += outcome is Outcome.DONE
                    tally.failed += outcome not in (Outcome.DONE, Outcome.LOST)
                    continue
                failures = 0
                if wakeup and wakeup.works:
                    rest_s = self._until(await self._next_at(), poll_s, at_most=LONGEST_SLEEP_S)
            except StorageUnavailable as error:
                if wakeup is None:
                    raise
                failures += 1
                rest_s = wait_s(OUTAGE, failures)
                log.warning("the worker cannot reach its queue (%d): %s", failures, error)
            if wakeup is None:
                break
            await wakeup.rest(rest_s)
        return tally

    async def stop(self, drain_s: float = DRAIN_S) -> None:
        """Finish the running job within drain_s, else return it to the queue; start no other."""
        self._opened = False
        await on_own_loop(self._stop(drain_s))

    def _start(self) -> None:
        self._forget_parent()
        if not self._opened:
            return
        if self._task is not None and self._task.get_loop() is not asyncio.get_running_loop():
            self._task, self._woken = None, asyncio.Event()  # its loop has died
        self._woken.set()
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._work())

    async def _stop(self, drain_s: float) -> None:
        task, self._task = self._task, None
        if task is None or self._pid != os.getpid():
            return
        self._draining = True
        self._woken.set()
        try:
            await asyncio.wait([task], timeout=drain_s)
            task.cancel()
            await asyncio.wait([task])
            await self.release(self._name)
        finally:
            self._draining = False

    def _forget_parent(self) -> None:
        """Reset the state in a forked child, which has no task and enqueued nothing."""
        if self._pid != os.getpid():
            self._pid, self._task, self._name = os.getpid(), None, uuid4().hex
            self._resumed = self._opened = False
            self._handed_over, self._unfinished = {}, {}
            self._woken = asyncio.Event()

    async def _work(self) -> None:
        failures = 0
        while not (self._draining or exiting()):
            self._woken.clear()
            try:
                if await self._do_next(self._name) is not None:
                    failures = 0
                    continue
                due = await self._next_at()
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
            await _rest(self._woken, self._until(due, _POLL_S, at_most=LONGEST_SLEEP_S))

    async def _next_at(self) -> datetime | None:
        """Return when the next job is due or a pause ends, or None."""
        due = await self._storage.next_job_at(self._runner.capabilities())
        moments = [moment for moment in (due, self._runner.resumes_at()) if moment is not None]
        return min(moments, default=None)

    def _until(self, due: datetime | None, past_s: float, *, at_most: float) -> float:
        """Return the seconds to a moment; past_s if it is past and another worker has the job."""
        if due is None:
            return at_most
        left = (due - self._clock()).total_seconds()
        return min(left if left > 0 else past_s, at_most)

    async def _do_next(self, worker_id: str) -> Outcome | None:
        """Run the most urgent due job; return its outcome, or None if no job is due.

        worker_id: of the calling loop: two loops of one process must not claim each other's jobs.
        """
        self._working = True
        try:
            if self._before_claim:
                await self._before_claim()
            known = self._runner.capabilities()
            job = await until_done(
                self._storage.claim_job(worker_id, self._lease_s, known, self._served),
                grace_s=RETURN_S,
            )
            if job is None:
                return None
            self._served = job.scope
            outcome = await self._runner.run(job, worker_id, self._lease_s)
        except UnreadableJob as error:
            log.error("%s", error)
            return Outcome.GIVEN_UP
        finally:
            self._working = False
        self._unfinished.pop(job.job_id, None)
        if outcome is Outcome.POSTPONED and job.thread_id is not None:
            self._handed_over.pop((job.scope, job.thread_id), None)
        if outcome not in (Outcome.DONE, Outcome.LOST):
            self._unfinished[job.job_id] = (job.scope, job.thread_id or NO_THREAD)
            _keep_newest(self._unfinished)
        self._tried()
        return outcome


def _keep_newest(known: dict[_Known, _About]) -> None:
    """Drop the oldest entries for flush(), beyond MOST_THREADS."""
    while len(known) > MOST_THREADS:
        del known[next(iter(known))]


async def _rest(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, at most this number of seconds."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
