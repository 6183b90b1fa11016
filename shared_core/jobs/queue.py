"""engine.jobs: enqueue, run, watch, retry and cancel jobs of the queue."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeAlias
from uuid import UUID, uuid4

from shared_core.core.domain import JsonValue, Scope, ThreadId
from shared_core.core.event_loops import on_own_loop, start_on_own_loop, until_done
from shared_core.core.failure_reason import reason
from shared_core.core.ids import uuid7
from shared_core.core.namespaces import check_label, scope_path
from shared_core.core.shown import shown
from shared_core.core.validation import id_of, ids_of, listed, whole_number
from shared_core.errors import Conflict, InvalidInput, NotFound, StorageUnavailable
from shared_core.jobs.retries import MAX_ATTEMPTS, OUTAGE, first_wait_s, wait_s
from shared_core.jobs.runner import RETURN_S, Perform
from shared_core.jobs.stored_jobs import StoredJobs
from shared_core.jobs.worker import Tally, Worker
from shared_core.lifecycle import Handle
from shared_core.ports.jobs import (
    OF_A_THREAD,
    OF_A_USER,
    OPEN_OR_FAILED,
    Capability,
    ExtractionStrategy,
    Job,
    JobFilter,
    JobPriority,
    JobRecord,
    JobStats,
    JobStatus,
    JobType,
    NewJob,
    check_delay,
)
from shared_core.ports.storage import Clock, Storage

log = logging.getLogger("hippocampus")

SHORTEST_LOOK_S = 0.02
LONGEST_LOOK_S = 1.0
CALLBACK = "reflector"
"""Default name of a callback."""
MOST_LISTED = 1_000_000
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

    It polls immediately after an attempt of this process. It polls rarely for jobs of other
    processes, and not before they are due. It never opens a memory. stop() ends all waiting.
    """

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._jobs = StoredJobs(storage, clock)
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
                    self._fail_all(error)
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
        for record in await self._jobs.of_threads(threads) if threads else []:
            if record.thread_id is not None:
                found[record.scope, record.thread_id].append(record)
        waiting = [job for one in waits if (job := one.settle(found[one.thread])) is not None]
        self._waits = [one for one in self._waits if not one.over.done()]
        return min((job.run_after for job in waiting), default=None)

    def _rest_s(self, due: datetime | None, look_s: float) -> float:
        if due is None:
            return look_s
        return max(look_s, min((due - self._clock()).total_seconds(), LONGEST_SLEEP_S))

    def _fail_all(self, error: StorageUnavailable) -> None:
        waits, self._waits = self._waits, []
        for one in waits:
            if one.over.set_running_or_notify_cancel():
                one.over.set_exception(error)


class JobQueue:
    """The durable queue of all processes on one database: engine.jobs."""

    def __init__(self, handle: Handle, worker: Worker, watch: JobWatch) -> None:
        self._handle = handle
        self._clock = handle.clock
        self._worker = worker
        self._watch = watch

    @property
    def done_here(self) -> bool:
        """Whether this process runs its jobs itself, instead of leaving them to others."""
        return self._worker.in_background

    def learn(
        self,
        perform: Perform,
        job_type: JobType = JobType.CALLBACK,
        *,
        name: str = CALLBACK,
        app: str | None = None,
    ) -> None:
        """Register the code for jobs of a type in this process, also for pending jobs of others.

        name: for callbacks, the name that ask() enqueues them under. app: only jobs of this
        application. Raises Conflict if this process already has code for callbacks of that name.
        """
        capability = _capability(job_type, name, app)
        if capability.name is not None and self._worker.knows(capability):
            of_app = "" if app is None else f" of the application {app!r}"
            raise Conflict(
                f"this memory already has code for callbacks named {name!r}{of_app}, so a payload"
                " could go to either: give the second one another name"
            )
        self._worker.learn(capability, perform)

    def unlearn(self, *, name: str = CALLBACK, app: str | None = None) -> None:
        """Unregister the code for callbacks of a name, and leave them to other processes."""
        self._worker.unlearn(_capability(JobType.CALLBACK, name, app))

    async def ask(
        self,
        scope: Scope,
        thread_id: str,
        payload: Mapping[str, JsonValue],
        *,
        delay_s: float = 0.0,
        name: str = CALLBACK,
        job_id: UUID | None = None,
    ) -> UUID:
        """Enqueue a callback on a thread; return the id of its job: job_id, or else a new one.


        A newer payload of the same thread and name replaces a pending job. Every "text" and
        "content" in the payload is redacted like a turn.

        Args:
            name: the name of its code in learn().
        """
        payload = self._handle.sanitizer.request(payload)
        job = self._new(
            JobType.CALLBACK,
            JobPriority.TURN,
            delay_s=delay_s,
            payload=payload,
            performer=check_label(name, "name"),
            job_id=None if job_id is None else id_of(job_id, "job_id"),
        )
        await self._enqueue(scope, thread_id, job)
        return job.job_id

    async def ask_if_unread(self, scope: Scope, thread_id: str, *, delay_s: float = 0.0) -> None:
        """Enqueue a consolidation of a thread if it has unread turns and no consolidation runs."""
        scope_path(scope)
        thread = ThreadId(check_label(thread_id, "thread_id"))
        storage = await self._handle.storage()
        stored = StoredJobs(storage, self._clock)
        known = await stored.of_threads([(scope, thread)])
        consolidation = JobType.FULL_CONSOLIDATION
        if any(job.job_type is consolidation and job.status is JobStatus.RUNNING for job in known):
            return
        job = self._new(consolidation, JobPriority.TURN, delay_s)
        if await stored.end_session(scope, thread, job):
            self._worker.hand_over(scope, thread)

    def watch(
        self, scope: Scope, thread_id: str, job_type: JobType, job_id: UUID | None = None
    ) -> Future[JobRecord | None]:
        """Return a future of a finished job; None if it is gone, e.g. with a forgotten user.

        Without job_id it is the newest job of the type, once none of that type is open. The future
        is cancelled if a newer job replaces the job, and when the memory closes. It raises
        StorageUnavailable if the database is away for too long.
        """
        job = WatchedJob((scope, ThreadId(thread_id)), job_type, job_id)
        self._watch.add(job)
        return job.over

    def look(self) -> None:
        """Poll now, so that callers who wait for a deleted job learn of it."""
        self._watch.look()

    async def hasten(self, threads: Sequence[tuple[Scope, str]]) -> None:
        """Make pending jobs of threads due now and start the worker; retries keep their time."""
        storage = await self._handle.storage()
        known = [(scope, ThreadId(thread_id)) for scope, thread_id in threads]
        await storage.jobs.open_jobs(known, self._worker.capabilities())
        self._worker.wake()
        self._watch.look()

    async def request(
        self,
        scope: Scope,
        thread_id: str | None = None,
        job_type: JobType = JobType.FULL_CONSOLIDATION,
        *,
        delay_s: float = 0.0,
    ) -> None:
        """Enqueue a job with manual priority, so that it precedes all jobs enqueued otherwise.

        A reflection and the vectors of items are about a user and have no thread; every other job
        has one. A failed job keeps the time of its retry; run() does not wait for that time.
        """
        job_type = _known(job_type)
        if (thread_id is None) != (job_type in OF_A_USER):
            raise InvalidInput(f"{job_type} needs {'a' if thread_id is None else 'no'} thread_id")
        if job_type is JobType.CALLBACK:
            raise InvalidInput("a callback needs its payload: enqueue it with ask()")
        await self._enqueue(scope, thread_id, self._new(job_type, JobPriority.MANUAL, delay_s))

    @asynccontextmanager
    async def taking_over(
        self, scope: Scope, thread_id: str, job_type: JobType, *, retry: bool
    ) -> AsyncIterator[None]:
        """If `retry` and the body fails or is cancelled, enqueue a retry with the first back-off.

        The error is always re-raised. InvalidInput is not retried. If the database is away too,
        there is no retry, and the log says so.
        """
        try:
            yield
        except InvalidInput:
            raise
        except (Exception, asyncio.CancelledError) as error:
            if retry:
                await self._take_over(scope, thread_id, job_type, error)
            raise

    async def _take_over(
        self, scope: Scope, thread_id: str, job_type: JobType, error: BaseException
    ) -> None:
        delay_s = first_wait_s(error)
        try:
            await self._enqueue(scope, thread_id, self._new(job_type, JobPriority.TURN, delay_s))
        except StorageUnavailable:
            log.warning("a retry of failed work cannot be enqueued: %s", reason(error))
            return
        log.warning("work failed, a job retries it in %.0f s: %s", delay_s, reason(error))
        error.add_note("The turns are stored, and a job in the queue tries again.")

    async def run(
        self, scope: Scope, thread_id: str, job_type: JobType = JobType.FULL_CONSOLIDATION
    ) -> JobRecord:
        """Run work on a thread now, in this process, and return the finished job.

        It waits for a running job of the thread. A failed attempt is not retried: the record is
        failed and holds the error. A cancelled call returns the job to the queue; if the database
        is away, the job waits for the end of its lease.

        Raises:
            NotFound: for an unknown thread.
        """
        job_type = _known(job_type)
        if job_type not in OF_A_THREAD:
            raise InvalidInput(f"job_type must be one of {', '.join(OF_A_THREAD)}, got {job_type}")
        scope_path(scope)
        thread = ThreadId(check_label(thread_id, "thread_id"))
        storage = await self._handle.storage()
        new, worker_id = self._new(job_type, JobPriority.MANUAL), uuid4().hex
        try:
            job = await self._start(scope, thread, new, worker_id)
            if job is None:
                raise NotFound(f"there is no thread {thread_id!r} of {scope}")
            await self._worker.run_now(job, worker_id, tries=1)
        except asyncio.CancelledError:
            await asyncio.shield(self._worker.release(worker_id))
            raise
        stored = await StoredJobs(storage, self._clock).of_threads([(scope, thread)])
        found = next((one for one in stored if one.job_id == new.job_id), None)
        if found is None:  # of finished jobs the last is kept: another one finished after this
            ended = (one for one in stored if one.job_type is job_type and not one.is_open)
            found = next(ended, None)
        if found is None:
            raise NotFound(f"thread {thread_id!r} of {scope} was forgotten meanwhile")
        return found

    async def _start(
        self, scope: Scope, thread_id: ThreadId, new: NewJob, worker_id: str
    ) -> Job | None:
        """Claim a new job of a thread once no other runs; return None for an unknown thread."""
        jobs = StoredJobs(await self._handle.storage(), self._clock)
        look_s = SHORTEST_LOOK_S
        while True:
            try:
                return await until_done(
                    jobs.start(scope, thread_id, new, worker_id, self._worker.lease_s),
                    grace_s=RETURN_S,
                )
            except Conflict:
                await asyncio.sleep(look_s)
                look_s = min(1.5 * look_s, LONGEST_LOOK_S)

    async def serve(
        self, stop: asyncio.Event | None = None, *, once: bool = False, poll_s: float = 1.0
    ) -> Tally:
        """Run due jobs of any process until stop is set; with once, until none is due."""
        await self._handle.storage()
        return await self._worker.serve(stop or asyncio.Event(), once=once, poll_s=poll_s)

    async def list(
        self,
        scope: Scope | None = None,
        *,
        app: str | None = None,
        thread_id: str | None = None,
        statuses: Collection[JobStatus] | None = None,
        job_id: UUID | None = None,
        limit: int = 1000,
    ) -> Sequence[JobRecord]:
        """Return jobs, newest first: by default open and dead ones, or all of a thread.

        Args:
            app: only jobs of this application.
            statuses: only these.
            job_id: only this job.
        """
        if scope is not None:
            scope_path(scope)
        elif app is not None:
            check_label(app, "app")
        if thread_id is not None:
            check_label(thread_id, "thread_id")
        if statuses is None:
            statuses = OPEN_OR_FAILED if thread_id is None else [*JobStatus]
        chosen = [_status(one) for one in listed(statuses, "statuses", '["failed"]')]
        storage = await self._handle.storage()
        return await storage.jobs.list_jobs(
            JobFilter(
                app=scope.app if scope else app,
                user=scope.user if scope else None,
                thread_id=None if thread_id is None else ThreadId(thread_id),
                statuses=chosen,
                job_ids=None if job_id is None else [id_of(job_id, "job_id")],
                limit=whole_number(limit, "limit", 0, MOST_LISTED),
            )
        )

    async def stats(self) -> JobStats:
        """Return the sizes of the queue over all scopes."""
        storage = await self._handle.storage()
        return await storage.jobs.job_stats()

    async def retry(self, job_ids: Sequence[UUID]) -> int:
        """Enqueue dead jobs again, as new ones due now; return their number."""
        ids = ids_of(job_ids, "job_ids")
        storage = await self._handle.storage()
        count = await StoredJobs(storage, self._clock).retry(ids)
        self._worker.wake()
        return count

    async def cancel(self, job_ids: Sequence[UUID]) -> int:
        """Cancel open jobs; return their number.

        A worker stops a cancelled job at its next heartbeat, after at most a third of its lease.
        What the job stored before stays.
        """
        ids = ids_of(job_ids, "job_ids")
        storage = await self._handle.storage()
        cancelled = await StoredJobs(storage, self._clock).cancel(ids)
        self._watch.look()
        return cancelled

    async def _enqueue(self, scope: Scope, thread_id: str | None, job: NewJob) -> None:
        scope_path(scope)
        thread = None if thread_id is None else ThreadId(check_label(thread_id, "thread_id"))
        storage = await self._handle.storage()
        await storage.jobs.enqueue(scope, thread, job)
        if thread is None:
            self._worker.wake()
        else:
            self._worker.hand_over(scope, thread)

    def _new(
        self,
        job_type: JobType,
        priority: JobPriority,
        delay_s: float = 0.0,
        payload: Mapping[str, JsonValue] | None = None,
        performer: str | None = None,
        job_id: UUID | None = None,
    ) -> NewJob:
        check_delay(delay_s)
        return NewJob(
            job_id=job_id or uuid7(),
            job_type=job_type,
            run_after=self._clock() + timedelta(seconds=delay_s),
            payload=payload,
            priority=priority,
            performer=performer,
        )


def job_for_turns(
    strategy: ExtractionStrategy, clock: Clock, *, delay_s: float | None, session_end: bool
) -> NewJob:
    """Return the job that new turns enqueue. delay_s: replaces the delay of the strategy.

    session_end: whether the turns are the last of their session.
    """
    ends = session_end and strategy.on_session_end
    delay_s = strategy.delay_s if delay_s is None else delay_s
    check_delay(delay_s)
    return NewJob(
        job_id=uuid7(),
        job_type=JobType.FULL_CONSOLIDATION,
        run_after=clock() + timedelta(seconds=0 if ends else delay_s),
        priority=JobPriority.SESSION_END if ends else JobPriority.TURN,
        event_count=strategy.event_count,
        token_threshold=strategy.token_threshold,
    )


def _capability(job_type: JobType, name: str, app: str | None) -> Capability:
    if job_type is not JobType.CALLBACK:
        return Capability(_known(job_type))
    if app is not None:
        check_label(app, "app")
    return Capability(job_type, check_label(name, "name"), app)


def _status(status: object) -> JobStatus:
    if isinstance(status, str) and status in [*JobStatus]:
        return JobStatus(status)
    raise InvalidInput(f"a status must be one of {', '.join(JobStatus)}, got {shown(status)}")


def _known(job_type: str) -> JobType:
    if isinstance(job_type, str) and job_type in [*JobType]:
        return JobType(job_type)
    raise InvalidInput(f"job_type {shown(job_type)} is not known: take one of {', '.join(JobType)}")
