"""Run one claimed job: extend its lease, and store its outcome in the queue."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TypeAlias

from shared_core.core.domain import JsonValue
from shared_core.core.event_loops import exiting, ignore_outcome
from shared_core.core.failure_reason import places, reason
from shared_core.core.json_text import check_json
from shared_core.core.telemetry import job_ended, operation
from shared_core.errors import InvalidInput, MemoryCoreError, ModelQuotaExceeded, StorageUnavailable
from shared_core.jobs.retries import (
    CALLBACK_POISON,
    MAX_ATTEMPTS,
    OUTAGE,
    POISON,
    PerformerExited,
    Postponed,
    pause_s,
    wait_s,
)
from shared_core.jobs.stored_jobs import StoredJobs
from shared_core.ports.jobs import Capability, Job, JobType
from shared_core.ports.storage import Clock, Storage

log = logging.getLogger("hippocampus")

HEARTBEATS_PER_LEASE = 3
RETURN_S = 5.0
"""Seconds that a cancelled caller waits for a claim under way, and for each return of jobs."""
OF_OUR_MODELS = frozenset(JobType) - {JobType.CALLBACK}
"""Job types that use the memory's own models: if a quota is used up, all of them pause."""

Perform: TypeAlias = Callable[[Job], Awaitable[Mapping[str, JsonValue]]]


class Outcome(StrEnum):
    """The outcome of one attempt at a job."""

    DONE = "done"
    FAILED = "failed"
    """It will be retried."""
    GIVEN_UP = "given up"
    REFUSED = "refused"
    """A model or the database was unavailable; the attempt does not count."""
    POSTPONED = "postponed"
    """Its own code put it off; the attempt does not count, and flush() does not wait for it."""
    LOST = "lost"
    """Another worker claimed it, or it was cancelled."""


class JobRunner:
    """Runs the jobs it has a performer for, each within its lease.

    A failed job is retried with back-off, and dead after MAX_ATTEMPTS. A used-up model quota or an
    outage of the database does not count as an attempt; this runner then pauses the jobs that use
    that model.
    """

    def __init__(
        self, storage: Storage, clock: Clock, performers: Mapping[Capability, Perform]
    ) -> None:
        self._jobs = StoredJobs(storage, clock)
        self._clock = clock
        self._performers = performers
        self._paused: dict[Capability, datetime] = {}
        self._refusals: Counter[bool] = Counter()

    def capabilities(self) -> list[Capability]:
        """Return the capabilities that are not paused."""
        now = self._clock()
        self._paused = {known: until for known, until in self._paused.items() if until > now}
        return [known for known in self._performers if known not in self._paused]

    def resumes_at(self) -> datetime | None:
        """Return when the first pause ends, or None without a pause."""
        ends = [until for known, until in self._paused.items() if known in self._performers]
        return min(ends, default=None)

    async def run(
        self, job: Job, worker_id: str, lease_s: float, *, tries: int = MAX_ATTEMPTS
    ) -> Outcome:
        """Run a job and store its outcome. On cancellation, return the job to the queue.

        Raises StorageUnavailable if the outcome cannot be stored; a later claim finds the job.
        """
        begun = time.monotonic()
        with operation("job", {"hippocampus.job.type": job.job_type.value}):
            outcome = await self._run(job, worker_id, lease_s, tries)
        job_ended(job.job_type.value, outcome.name.lower(), time.monotonic() - begun)
        return outcome

    async def _run(self, job: Job, worker_id: str, lease_s: float, tries: int) -> Outcome:
        begun = time.monotonic()
        if job.attempts > tries:
            return await self._failed(
                job, worker_id, "its worker died or fell silent every time", tries
            )
        perform = self._performers.get(self._capability(job))
        if perform is None:  # unlearned since the claim was sent
            gone, now = "its code was unregistered", self._clock()
            await self._jobs.give_back(job, worker_id, gone, now, counted=False)
            return Outcome.LOST
        work = asyncio.ensure_future(_contained(perform, job))
        beat = asyncio.create_task(self._keep(job, worker_id, lease_s, work))
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError:
            work.cancel()
            work.add_done_callback(ignore_outcome)
            await asyncio.wait([work])
            returned = self._jobs.give_back(job, worker_id, "interrupted", self._clock())
            await give_back(returned, f"interrupted job {job.job_id}")
            raise
        finally:
            lost = beat.done()  # else the code of the job cancelled itself, which is its failure
            beat.cancel()
        if work.cancelled() and lost:
            return Outcome.LOST
        error = _error(work)
        if error is not None and exiting():  # at exit no thread can start: not the job's fault
            ended, now = "the process ended", self._clock()
            await self._jobs.give_back(job, worker_id, ended, now, counted=False)
            return Outcome.LOST
        if isinstance(error, ModelQuotaExceeded | StorageUnavailable):
            return await self._refused(job, worker_id, error)
        if isinstance(error, Postponed):
            log.debug("job %s waits until %s: %s", job.job_id, error.until.isoformat(), error)
            await self._jobs.give_back(job, worker_id, reason(error), error.until, counted=False)
            return Outcome.POSTPONED
        if error is not None:  # an error in a caller's code must not end the worker
            log.debug("job %s raised %s at %s", job.job_id, type(error).__name__, places(error))
            return await self._failed(job, worker_id, reason(error), tries)
        result = work.result()
        await self._jobs.complete(job, worker_id, result)
        self._refusals[job.job_type in OF_OUR_MODELS] = 0
        log.info("job %s done in %.2f s: %s", job.job_id, time.monotonic() - begun, _counts(result))
        return Outcome.DONE

    def _capability(self, job: Job) -> Capability:
        """Return the capability for a job; one of its own application wins over a general one."""
        if job.performer is None:
            return Capability(job.job_type)
        own = Capability(job.job_type, job.performer, job.scope.app)
        return own if own in self._performers else Capability(job.job_type, job.performer)

    async def _keep(
        self,
        job: Job,
        worker_id: str,
        lease_s: float,
        work: asyncio.Future[Mapping[str, JsonValue]],
    ) -> None:
        """Extend the lease of a job while it runs; cancel the work if the lease is lost."""
        while True:
            await asyncio.sleep(lease_s / HEARTBEATS_PER_LEASE)
            try:
                if await self._jobs.extend(job, worker_id, lease_s):
                    continue
            except StorageUnavailable as error:
                log.warning("the lease of job %s cannot be extended: %s", job.job_id, error)
                continue
            log.warning("job %s was cancelled, taken by another worker, or is gone", job.job_id)
            work.cancel()
            return

    async def _refused(
        self, job: Job, worker_id: str, error: ModelQuotaExceeded | StorageUnavailable
    ) -> Outcome:
        ours = job.job_type in OF_OUR_MODELS
        self._refusals[ours] += 1
        if isinstance(error, ModelQuotaExceeded):
            seconds = pause_s(error, self._refusals[ours])
        else:
            seconds = wait_s(OUTAGE, self._refusals[ours])
        retry_at = self._clock() + timedelta(seconds=seconds)
        if isinstance(error, ModelQuotaExceeded):
            paused = map(Capability, OF_OUR_MODELS) if ours else [self._capability(job)]
            self._paused |= dict.fromkeys(paused, retry_at)
        cause = reason(error)
        log.warning("job %s waits for %.0f s, not its fault: %s", job.job_id, seconds, cause)
        await self._jobs.give_back(job, worker_id, cause, retry_at, counted=False)
        return Outcome.REFUSED

    async def _failed(self, job: Job, worker_id: str, cause: str, tries: int) -> Outcome:
        """Schedule the next attempt with back-off, or mark the job dead after the last."""
        retry_at = None
        if job.attempts < tries:
            waits = CALLBACK_POISON if job.job_type is JobType.CALLBACK else POISON
            retry_at = self._clock() + timedelta(seconds=wait_s(waits, job.attempts))
        log.error("job %s failed %d times: %s", job.job_id, job.attempts, cause)
        await self._jobs.give_back(job, worker_id, cause, retry_at)
        return Outcome.FAILED if retry_at else Outcome.GIVEN_UP


async def give_back(returned: Awaitable[object], what: str) -> None:
    """Wait RETURN_S until jobs are back in the queue; otherwise let their lease end.

    what: the jobs, for the log.
    """
    try:
        async with asyncio.timeout(RETURN_S):
            await returned
    except (MemoryCoreError, TimeoutError) as error:
        log.warning("%s: in the queue only after the end of the lease: %s", what, reason(error))


async def _contained(perform: Perform, job: Job) -> Mapping[str, JsonValue]:
    """Perform a job and return its result, which must be a mapping for JSON.

    sys.exit() in its code fails the job instead of ending the event loop.
    """
    try:
        result = await perform(job)
    except (SystemExit, KeyboardInterrupt) as error:
        ctrl_c = isinstance(error, KeyboardInterrupt)
        if ctrl_c and threading.current_thread() is threading.main_thread():
            raise
        raise PerformerExited(f"its code raised {type(error).__name__}") from error
    if not isinstance(result, Mapping):
        raise InvalidInput(f"its code must return a mapping, got {type(result).__name__}")
    check_json(result, "its result")
    return result


def _error(work: asyncio.Future[Mapping[str, JsonValue]]) -> BaseException | None:
    """Return the error of ended work, also where its own code cancelled it."""
    return PerformerExited("its code was cancelled") if work.cancelled() else work.exception()


def _counts(result: Mapping[str, JsonValue]) -> str:
    numbers = {name: value for name, value in result.items() if isinstance(value, int)}
    return ", ".join(f"{value} {name}" for name, value in numbers.items()) or "nothing to count"
