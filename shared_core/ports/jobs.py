"""The job queue, and the strategy that decides when new turns enqueue a consolidation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Protocol
from uuid import UUID

from shared_core.core.domain import JsonValue, Scope, ThreadId
from shared_core.core.shown import shown
from shared_core.errors import InvalidInput, MemoryCoreError


class JobType(StrEnum):
    """The kinds of jobs."""

    FAST_REPLAY = "fast_replay"
    """Summarises a thread."""
    DEEP_REFLECTION = "deep_reflection"
    """Extracts facts from the unread turns of a thread."""
    FULL_CONSOLIDATION = "full_consolidation"
    """Both."""
    REFLECTION = "reflection"
    """Reflects on the memories of a user across threads. It has no thread."""
    ITEM_VECTORS = "item_vectors"
    """Embeds the items of a user that were stored without a vector. It has no thread."""
    CALLBACK = "callback"
    """Runs a caller's code, in processes that registered it."""


class JobStatus(StrEnum):
    """The state of a job."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    """A dead job, with a reason. `hippocampus jobs --retry` enqueues it again."""
    CANCELLED = "cancelled"


class JobPriority(IntEnum):
    """Priority of a due job; it precedes the round robin of the tenants."""

    TURN = 0
    """Enqueued because the thread is idle, or has enough turns or tokens."""
    SESSION_END = 10
    MANUAL = 20


NO_THREAD = ThreadId("")
"""Stands for the work of a user that is about no thread; no thread has this name."""
OF_A_THREAD = (JobType.FAST_REPLAY, JobType.DEEP_REFLECTION, JobType.FULL_CONSOLIDATION)
OF_A_USER = (JobType.REFLECTION, JobType.ITEM_VECTORS)
OPEN_OR_FAILED = (JobStatus.PENDING, JobStatus.RUNNING, JobStatus.FAILED)


@dataclass(frozen=True, slots=True)
class Capability:
    """A type of jobs that a worker can do; for callbacks, one name of them.

    app: restricts it to an application; None for any.
    """

    job_type: JobType
    name: str | None = None
    app: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job to enqueue, due at run_after. payload: its input beside the turns.

    performer: the name of the code of a callback; None for other types.
    event_count, token_threshold: number of unread turns, or of tokens in them, that makes it due
    immediately. A storage estimates tokens as a quarter of the bytes.
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
    """Enqueues a reflection on a user after every `interval` extractions from its threads."""

    job_id: UUID
    interval: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job that this worker has claimed. attempts: includes this one. thread_id: None for work
    on a user. performer: the name of the code of a callback.
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
    """The current state of a job.

    Attributes:
        run_after: when it is due.
        lease_until: set while claimed.
        error: of the last attempt, without any text of a user.
        performer: the name of the code of a callback.
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
        """Whether it is pending or running."""
        return self.status in (JobStatus.PENDING, JobStatus.RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Selects jobs by application, user, thread, ids and status; None matches any.

    statuses: by default open and dead jobs.
    """

    app: str | None = None
    user: str | None = None
    thread_id: ThreadId | None = None
    job_ids: Collection[UUID] | None = None
    statuses: Collection[JobStatus] = field(default=OPEN_OR_FAILED)
    limit: int = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStats:
    """Sizes of the queue. due: pending jobs whose time has come.

    due_callbacks: due jobs that need a process with a caller's code. oldest_due_s: seconds since
    the oldest due job became due; None if none is due.
    """

    pending: int
    due: int
    running: int
    failed: int
    oldest_due_s: float | None
    due_callbacks: int = 0


class UnreadableJob(MemoryCoreError):
    """A claimed job whose row cannot be read; it is dead, and the message names it."""


class JobStorage(Protocol):
    """The queue: at most one job per thread and type is pending, and one per thread runs.

    For callbacks, one per thread and name may be pending. Known jobs of one tenant are changed by
    the policies of shared_core.policies.jobs.
    """

    async def enqueue(self, scope: Scope, thread_id: ThreadId | None, job: NewJob) -> None:
        """Enqueue a job; a pending one of the same kind moves to the new time.

        A job with a payload replaces the pending one.
        """

    async def claim_job(
        self,
        worker_id: str,
        lease_s: float,
        capabilities: Sequence[Capability],
        after_tenant: Scope | None,
    ) -> Job | None:
        """Claim the most urgent job that is due or whose lease expired, or return None.

        At equal priority tenants take turns: the next one after after_tenant comes first.
        Raises UnreadableJob for a job whose row cannot be read; it is dead then, with the reason.
        """

    async def release_jobs(self, worker_id: str) -> None:
        """Return all jobs that a worker has claimed to the queue."""

    async def next_job_at(self, capabilities: Sequence[Capability]) -> datetime | None:
        """Return when the next job is due or a lease expires, or None if no job is open.

        Ignores jobs that wait for another job of their thread.
        """

    def job_hints(self) -> AsyncIterator[datetime | None]:
        """Yield when new jobs are due, as other processes enqueue them.

        Yields None first, once the subscription is active. Raises StorageUnavailable if hints
        cannot arrive, or stop arriving.
        """

    async def open_jobs(
        self, threads: Sequence[tuple[Scope, ThreadId]], capabilities: Sequence[Capability]
    ) -> int:
        """Return the number of open jobs of the threads, and make the pending ones due now.

        NO_THREAD stands for the jobs of a user without a thread.

        A failed job keeps the time of its retry.
        """

    async def list_jobs(self, job_filter: JobFilter) -> Sequence[JobRecord]:
        """Return the selected jobs, newest first. Rows that cannot be read are logged instead."""

    async def job_stats(self) -> JobStats: ...


MAX_DELAY_S = 366 * 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionStrategy:
    """When new turns of a thread are consolidated, and when reflections run.

        open_memory(strategy=ExtractionStrategy(delay_s=60, event_count=20))

    Args:
        delay_s: seconds without a new turn before consolidation; new turns postpone it, up to ten
            times the delay. 0 consolidates immediately.
        event_count: number of unread turns that triggers it immediately; None disables this.
        token_threshold: the same for their tokens, about a quarter of their bytes.
        on_session_end: whether the end of a session triggers it immediately, with priority.
        reflection_interval: number of extractions of a user between reflections; None disables
            reflection.

    Raises:
        InvalidInput: for a value out of range.
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
                raise InvalidInput(
                    f"{name} must be a whole number from 1, or None, got {shown(count)}"
                )
        if not isinstance(self.on_session_end, bool):
            raise InvalidInput(
                f"on_session_end must be True or False, got {shown(self.on_session_end)}"
            )


def checked_strategy(strategy: object) -> ExtractionStrategy:
    """Return a strategy. Raises InvalidInput for anything else."""
    if not isinstance(strategy, ExtractionStrategy):
        raise InvalidInput(f"strategy must be an ExtractionStrategy, got {shown(strategy)}")
    return strategy


def check_delay(delay_s: float) -> None:
    """Raise InvalidInput unless delay_s is a number of seconds from 0 to a year."""
    if not isinstance(delay_s, int | float) or not 0 <= delay_s <= MAX_DELAY_S:
        raise InvalidInput(f"delay_s must be between 0 and a year of seconds, got {shown(delay_s)}")
