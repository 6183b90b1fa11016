"""The job queue, and the strategy that decides when new turns enqueue a consolidation."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Protocol
from uuid import UUID

from shared_core.core.domain import JsonValue, Scope, ThreadId
from shared_core.errors import InvalidInput


class JobType(StrEnum):
    """What a job does."""

    FAST_REPLAY = "fast_replay"
    """Sums a thread up."""
    DEEP_REFLECTION = "deep_reflection"
    """Draws facts from what is new in a thread."""
    FULL_CONSOLIDATION = "full_consolidation"
    """Both."""
    REFLECTION = "reflection"
    """Draws conclusions from what is remembered of a user, across threads. It has no thread."""
    CALLBACK = "callback"
    """Runs a caller's own code, in processes that know it."""


class JobStatus(StrEnum):
    """Where a job stands."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    """Given up, with a reason: a dead letter. `hippocampus jobs --retry` puts it back."""
    CANCELLED = "cancelled"


class JobPriority(IntEnum):
    """Which of the jobs that are due goes first, before the fair turns of the tenants."""

    TURN = 0
    """A quiet thread, enough turns, or enough tokens."""
    SESSION_END = 10
    MANUAL = 20


OF_A_THREAD = (JobType.FAST_REPLAY, JobType.DEEP_REFLECTION, JobType.FULL_CONSOLIDATION)
OPEN_OR_FAILED = (JobStatus.PENDING, JobStatus.RUNNING, JobStatus.FAILED)


@dataclass(frozen=True, slots=True)
class Capability:
    """What a worker can do: jobs of a type; of callbacks those of a name alone.

    app: within that application; None for any.
    """

    job_type: JobType
    name: str | None = None
    app: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """Work to do on a thread, not before run_after. payload: what it needs beside the turns.

    performer: the name of the code that a callback is for; nothing else has one.
    event_count, token_threshold: with so many unread turns, or so many tokens of them, it is due
    at once. A storage estimates tokens as a quarter of the bytes.
    """

    job_id: UUID
    job_type: JobType
    run_after: datetime
    payload: Mapping[str, JsonValue] | None = None
    priority: JobPriority = JobPriority.TURN
    event_count: int | None = None
    token_threshold: int | None = None
    performer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectionDue:
    """Asks for a reflection over a user with every so many extractions from its threads."""

    job_id: UUID
    interval: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job that this worker has taken. attempts counts this one. A reflection has no thread.

    performer: the name of the code that a callback is for.
    """

    job_id: UUID
    scope: Scope
    thread_id: ThreadId | None
    job_type: JobType
    attempts: int
    payload: Mapping[str, JsonValue] | None = None
    performer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """A job as it stands. run_after: when it is due; lease_until: while a worker has it.

    error: why its last try failed, without what anyone said. performer: the name of the code that a
    callback is for.
    """

    job_id: UUID
    scope: Scope
    thread_id: ThreadId | None
    job_type: JobType
    status: JobStatus
    priority: int
    attempts: int
    created_at: datetime
    run_after: datetime
    lease_until: datetime | None
    started_at: datetime | None
    completed_at: datetime | None
    error: str | None
    result: Mapping[str, JsonValue]
    performer: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether it waits or runs."""
        return self.status in (JobStatus.PENDING, JobStatus.RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs: of an application, of a user of it, of a thread, by id; all that is None is any.

    statuses: those that are open or were given up, unless said.
    """

    app: str | None = None
    user: str | None = None
    thread_id: ThreadId | None = None
    job_id: UUID | None = None
    statuses: Collection[JobStatus] = field(default=OPEN_OR_FAILED)
    limit: int = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStats:
    """How full the queue is. due: of those pending, whose time has come.

    due_callbacks: of those due, how many need a process that knows a caller's code.
    oldest_due_s: for how many seconds the oldest of these has been due; None if none is.
    """

    pending: int
    due: int
    running: int
    failed: int
    oldest_due_s: float | None
    due_callbacks: int = 0


class JobStorage(Protocol):
    """The queue: at most one job per thread and type waits, and at most one per thread runs.

    Of callbacks one may wait per thread and name.
    """

    async def enqueue(self, scope: Scope, thread_id: ThreadId | None, job: NewJob) -> None:
        """Ask for a job; one that waits already moves to the new time.

        With a payload the new job takes the place of the one that waits, which is gone.
        """

    async def end_session(self, scope: Scope, thread_id: ThreadId, job: NewJob) -> bool:
        """Ask for a job if a thread has unread turns; return whether it has."""

    async def start_job(
        self, scope: Scope, thread_id: ThreadId, job: NewJob, worker_id: str, lease_s: float
    ) -> Job | None:
        """Store a job as one that a worker has taken; None if there is no such thread.

        Conflict while another job of the thread runs.
        """

    async def claim_job(
        self,
        worker_id: str,
        lease_s: float,
        capabilities: Sequence[Capability],
        after_tenant: Scope | None,
    ) -> Job | None:
        """Take the most urgent job that is due, or whose lease ended; None when there is none.

        Tenants take turns at equal priority: the next one after the given one comes first.
        """

    async def extend_job(self, job: Job, worker_id: str, lease_s: float) -> bool:
        """Lease a job for longer; False if it is not this worker's any more."""

    async def release_jobs(self, worker_id: str) -> None:
        """Put back what a worker has taken and will not finish."""

    async def complete_job(
        self, job: Job, worker_id: str, result: Mapping[str, JsonValue]
    ) -> None: ...

    async def return_job(
        self,
        job: Job,
        worker_id: str,
        error: str,
        retry_at: datetime | None,
        *,
        counted: bool = True,
    ) -> None:
        """Put a job back, to be tried again at retry_at; None gives it up.

        counted: False if this was no try of the job.
        """

    async def next_job_at(self, capabilities: Sequence[Capability]) -> datetime | None:
        """Return when the next job is due or a lease ends; None when nothing is open.

        What waits for another job of its thread does not count.
        """

    def job_hints(self) -> AsyncIterator[datetime | None]:
        """Yield when new jobs are due, as other processes ask for them.

        First yields None, when hints are known to arrive. Raises StorageUnavailable when they do
        not, or no more.
        """

    async def open_jobs(
        self, threads: Sequence[tuple[Scope, ThreadId]], capabilities: Sequence[Capability]
    ) -> int:
        """Return how many jobs of the threads wait or run; what waits for its time is due now.

        A job that failed keeps waiting for its next try.
        """

    async def list_jobs(self, wanted: JobFilter) -> Sequence[JobRecord]:
        """Return jobs, the newest first."""

    async def jobs_of_threads(
        self, threads: Sequence[tuple[Scope, ThreadId]]
    ) -> Sequence[JobRecord]:
        """Return all jobs of some threads, the newest first."""

    async def retry_jobs(self, job_ids: Sequence[UUID]) -> int:
        """Put back jobs that were given up, as new ones due now; return how many."""

    async def cancel_jobs(self, job_ids: Sequence[UUID]) -> int:
        """Cancel jobs that wait or run; return how many. A worker learns of it at its heartbeat."""

    async def job_stats(self) -> JobStats: ...


MAX_DELAY_S = 366 * 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionStrategy:
    """When the turns of a thread are read, and when what was read is reflected on.

        open_memory(strategy=ExtractionStrategy(delay_s=60, event_count=20))

    delay_s: when the thread was quiet for so long; a newer turn moves it, up to ten times the
    delay. 0 is at once. event_count, token_threshold: at once when so many turns, or about so many
    tokens of them (a quarter of their bytes), were not read yet; None: never for that reason.
    on_session_end: at once, and before others, when the session ends. reflection_interval: a
    reflection over the user after every so many extractions, of all threads; None for none.
    Raises InvalidInput for a number that makes no sense.
    """

    delay_s: float = 0.0
    event_count: int | None = 50
    token_threshold: int | None = 8_000
    on_session_end: bool = True
    reflection_interval: int | None = 10

    def __post_init__(self) -> None:
        check_delay(self.delay_s)
        for name in ("event_count", "token_threshold", "reflection_interval"):
            count = getattr(self, name)
            whole = isinstance(count, int) and not isinstance(count, bool)
            if count is not None and (not whole or not 1 <= count < 2**31):
                raise InvalidInput(f"{name} must be a whole number from 1, or None, not {count!r}")
        if not isinstance(self.on_session_end, bool):
            raise InvalidInput(f"on_session_end must be True or False, not {self.on_session_end!r}")


def check_delay(delay_s: float) -> None:
    """Raise InvalidInput for anything but a number of seconds from 0 to a year."""
    valid = isinstance(delay_s, int | float) and math.isfinite(delay_s)
    if not valid or not 0 <= delay_s <= MAX_DELAY_S:
        raise InvalidInput(f"delay_s must be from 0 to a year of seconds, not {delay_s!r}")
