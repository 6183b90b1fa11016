"""What the core asks of a storage for session logs and for the queue; ports.Storage joins them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol
from uuid import UUID

from shared_core.domain import Event, JsonValue, Scope, ThreadId


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChange:
    """What changes in the states of an application, of a user of it, and of one session."""

    app: Mapping[str, JsonValue] = field(default_factory=dict)
    user: Mapping[str, JsonValue] = field(default_factory=dict)
    session: Mapping[str, JsonValue] = field(default_factory=dict)


NO_CHANGE = StateChange()


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecord:
    """A session log as it stands. payloads: the JSON texts of its events, oldest first.

    version changes with every event; updated_at is the moment of the last event.
    """

    scope: Scope
    thread_id: ThreadId
    version: int
    updated_at: datetime
    state: Mapping[str, JsonValue]
    app_state: Mapping[str, JsonValue]
    user_state: Mapping[str, JsonValue]
    payloads: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a writer has seen of a log: its version, or else its last event and last change."""

    version: int | None
    event_id: str | None = None
    updated_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Appended:
    """What came of appending an event. version: after it, or None when nothing was appended.

    known: the event was there, True if it is the same; None if it was not there. stored_version:
    of the log before, None when no log is open.
    """

    version: int | None
    known: bool | None
    stored_version: int | None


class SessionStorage(Protocol):
    """Session logs. Every method is one transaction and one round trip."""

    async def open_session(
        self, scope: Scope, thread_id: ThreadId, state: StateChange
    ) -> SessionRecord | None:
        """Open the log of a thread; None when it is open already."""
        ...

    async def load_session(
        self, scope: Scope, thread_id: ThreadId, *, after: datetime | None, limit: int | None
    ) -> SessionRecord | None:
        """Return a log with its newest events; None when there is none."""
        ...

    async def list_sessions(self, app: str, user: str | None) -> Sequence[SessionRecord]:
        """Return logs without their events, the one that changed last at the end."""
        ...

    async def user_state(self, scope: Scope) -> Mapping[str, JsonValue]: ...

    async def append_session_event(
        self,
        scope: Scope,
        thread_id: ThreadId,
        event: Event,
        payload: str,
        state: StateChange,
        seen: Seen,
    ) -> Appended: ...

    async def close_session(self, scope: Scope, thread_id: ThreadId, *, forget: bool) -> None:
        """End a log; with forget, erase what is remembered of the thread as well."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """Work to do on a thread, not before run_after. payload: what it needs beside the turns."""

    job_id: UUID
    job_type: str
    run_after: datetime
    payload: Mapping[str, JsonValue] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job that this worker has taken. attempts counts this one."""

    job_id: UUID
    scope: Scope
    thread_id: ThreadId
    job_type: str
    attempts: int
    payload: Mapping[str, JsonValue] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """A job as it stands. run_after: when it is due; lease_until: while a worker has it."""

    job_id: UUID
    scope: Scope
    thread_id: ThreadId
    job_type: str
    status: str
    attempts: int
    created_at: datetime
    run_after: datetime
    lease_until: datetime | None
    error: str | None
    result: Mapping[str, JsonValue]


class JobStorage(Protocol):
    """The queue: at most one waiting job per thread and type."""

    async def enqueue(self, scope: Scope, thread_id: ThreadId, job: NewJob) -> None:
        """Ask for a job; one that waits already moves to the new time and payload."""
        ...

    async def claim_job(
        self, worker_id: str, lease_s: float, job_types: Sequence[str]
    ) -> Job | None:
        """Take the most urgent job that is due, or whose lease ended; None when there is none."""
        ...

    async def extend_job(self, job: Job, worker_id: str, lease_s: float) -> bool:
        """Lease a job for longer; False if it is not this worker's any more."""
        ...

    async def release_jobs(self, worker_id: str) -> None:
        """Put back what a worker has taken and will not finish."""
        ...

    async def complete_job(
        self, job: Job, worker_id: str, result: Mapping[str, JsonValue]
    ) -> None: ...

    async def return_job(
        self, job: Job, worker_id: str, error: str, retry_at: datetime | None
    ) -> None:
        """Put a job back, to be tried again at retry_at; None gives it up."""
        ...

    async def next_job_at(self, job_types: Sequence[str]) -> datetime | None:
        """Return when the next job is due or a lease ends; None when nothing is open."""
        ...

    async def open_jobs(
        self, threads: Sequence[tuple[Scope, ThreadId]], job_types: Sequence[str]
    ) -> int:
        """Return how many jobs of the threads wait or run; what waits for its time is due now.

        A job that failed keeps waiting for its next try.
        """
        ...

    async def list_jobs(
        self, scope: Scope | None, thread_id: ThreadId | None, limit: int
    ) -> Sequence[JobRecord]:
        """Return jobs, of all scopes for None: of a thread all, else those open or given up."""
        ...
