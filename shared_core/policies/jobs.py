"""Jobs of one tenant, from their start to their end: one of a thread runs, one of a kind waits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from shared_core.core.domain import JsonValue, Scope, ThreadId
from shared_core.core.namespaces import clean_text
from shared_core.errors import Conflict
from shared_core.ports.jobs import JobRecord, JobStatus, JobType, NewJob
from shared_core.ports.operations import (
    Condition,
    Delete,
    Insert,
    Last,
    Operation,
    Policy,
    Row,
    Select,
    Update,
    Verb,
    compare,
    equal,
    is_null,
    one_of,
)

JOBS = "consolidation_jobs"
RECORD_COLUMNS = (
    "job_type", "status", "job_id", "thread_id", "priority", "attempts", "created_at", "run_after",
    "lease_until", "started_at", "completed_at", "error", "result", "performer",
)  # fmt: skip
OPEN = (str(JobStatus.PENDING), str(JobStatus.RUNNING))
_NO_RETRY = (str(JobStatus.FAILED), str(JobStatus.CANCELLED))
_FINISHED = (str(JobStatus.COMPLETED), *_NO_RETRY)
_PENDING = equal("status", str(JobStatus.PENDING))
_RUNNING = equal("status", str(JobStatus.RUNNING))


class JobWork(NamedTuple):
    """What a job asks for. Of each work at most one job is pending."""

    thread_id: str | None
    job_type: str
    performer: str | None

    def condition(self) -> tuple[Condition, ...]:
        """Return the condition that a job asks for this work."""
        return (
            _is("thread_id", self.thread_id),
            equal("job_type", self.job_type),
            _is("performer", self.performer),
        )


WORK = JobWork._fields


def _is(column: str, value: str | None) -> Condition:
    return is_null(column) if value is None else equal(column, value)


def jobs_of_threads(thread_ids: Sequence[ThreadId]) -> Select:
    """Return the read of all jobs of threads, newest first, in RECORD_COLUMNS."""
    named = (one_of("thread_id", thread_ids),)
    return Select(JOBS, RECORD_COLUMNS, named, order=("-created_at", "-job_id"))


def record_of(scope: Scope, row: Row) -> JobRecord:
    """Return the job of a user in RECORD_COLUMNS. Raises ValueError for an unknown type."""
    values: dict[str, Any] = dict(zip(RECORD_COLUMNS, row, strict=True))
    job_type, status = JobType(values.pop("job_type")), JobStatus(values.pop("status"))
    return JobRecord(scope=scope, job_type=job_type, status=status, **values)


def end_session(thread_id: ThreadId, job: NewJob) -> Policy[bool]:
    """Enqueue a job if a thread has unread turns; return whether it has."""
    marks = Select("threads", ("last_memory_seq", "consolidated_seq"), (_thread(thread_id),))
    [threads] = yield [marks]
    if not any(last > read for last, read in threads):
        return False
    yield Last([Verb("enqueue", (thread_id, job))])
    return True


def start_job(
    thread_id: ThreadId, job: NewJob, worker_id: str, lease_until: datetime, now: datetime
) -> Policy[bool]:
    """Store a job as claimed by a worker; return whether its thread exists.

    A job of the thread whose lease has expired goes back to the queue. The same call may come
    twice after a lost answer. Raises Conflict while another job of the thread runs.
    """
    of_thread = _thread(thread_id)
    threads, running, pending = yield [
        Select("threads", ("thread_id",), (of_thread,)),
        Select(JOBS, ("job_id", "worker_id", "lease_until", *WORK), (of_thread, _RUNNING)),
        Select(JOBS, WORK, (of_thread, _PENDING)),
    ]
    if not threads:
        return False
    expired = [row for row in running if row[0] != job.job_id and row[2] <= now]
    if len(expired) < sum(row[0] != job.job_id for row in running):
        raise Conflict(f"another job of thread {thread_id!r} is running")
    own = [row for row in running if row[0] == job.job_id]
    taken = {JobWork(*row) for row in pending}
    writes: list[Operation] = [
        # Unless another worker has claimed it since: the new job is refused then.
        Update(
            JOBS,
            {"status": _again(JobWork(*work), taken), "lease_until": None},
            (equal("job_id", job_id), _RUNNING, _is("worker_id", owner), equal("lease_until", end)),
        )
        for job_id, owner, end, *work in expired
    ]
    if own:
        named = (equal("job_id", job.job_id),)
        yield Last([*writes, Update(JOBS, {"lease_until": lease_until}, named)])
        return True
    columns = {
        "job_id": job.job_id, "thread_id": thread_id, "job_type": str(job.job_type),
        "status": str(JobStatus.RUNNING), "priority": int(job.priority), "attempts": 1,
        "run_after": now, "worker_id": worker_id, "lease_until": lease_until, "created_at": now,
        "started_at": now,
    }  # fmt: skip
    yield Last([*writes, Insert(JOBS, tuple(columns), [tuple(columns.values())])])
    return True


def extend_job(job_id: UUID, worker_id: str, lease_until: datetime) -> Policy[bool]:
    """Extend the lease of a job; return whether its worker still holds it."""
    held = _held(job_id, worker_id)
    [rows] = yield [Update(JOBS, {"lease_until": lease_until}, held, ("job_id",))]
    yield Last([])
    return bool(rows)


def complete_job(
    job_id: UUID, worker_id: str, result: Mapping[str, JsonValue], now: datetime
) -> Policy[None]:
    """Mark a job as done if its worker still holds it.

    Only the last finished job of the same work is kept: each turn would leave a row otherwise.
    """
    values = {
        "status": str(JobStatus.COMPLETED), "completed_at": now, "result": result, "error": None,
        "lease_until": None, "payload": None,
    }  # fmt: skip
    [done] = yield [Update(JOBS, values, _held(job_id, worker_id), WORK)]
    yield Last([_drop_finished(JobWork(*row), _FINISHED, job_id) for row in done])


def return_job(
    job_id: UUID,
    worker_id: str,
    error: str,
    retry_at: datetime | None,
    now: datetime,
    *,
    counted: bool = True,
) -> Policy[None]:
    """Put a job back for a retry at retry_at, or make it a dead job (None).

    A newer request of the same work takes its place. Only the last dead job of a work is kept, and
    a conversation that waited for it has ended. counted: False if this attempt does not count.
    """
    columns = ("status", "worker_id", "attempts", *WORK)
    named = (equal("job_id", job_id),)
    [found] = yield [Select(JOBS, columns, named, lock="update")]
    if not found:
        return
    status, owner, attempts, *of_job = found[0]
    work = JobWork(*of_job)
    drop = _drop_finished(work, _NO_RETRY)
    if (status, owner) != (JobStatus.RUNNING, worker_id):
        yield Last([drop])
        return
    values = {
        "attempts": attempts if counted else attempts - 1, "error": clean_text(error),
        "lease_until": None,
    }  # fmt: skip
    if retry_at is None:
        values |= {"status": str(JobStatus.FAILED), "completed_at": now}
        failed = Update(JOBS, values, named)
        ends = yield from _ended_conversations([work.thread_id], [job_id])
        yield Last([drop, failed, *ends])
        return
    [pending] = yield [Select(JOBS, WORK, (*work.condition(), _PENDING))]
    values |= {"completed_at": None, "run_after": retry_at}
    values["status"] = _again(work, {JobWork(*row) for row in pending})
    yield Last([drop, Update(JOBS, values, named)])


def retry_jobs(job_ids: Sequence[UUID], now: datetime) -> Policy[int]:
    """Enqueue dead jobs again, as new ones due now; return their number.

    One whose work a newer request or another of them asks for is cancelled.
    """
    dead = (one_of("job_id", job_ids), equal("status", str(JobStatus.FAILED)))
    [found] = yield [Select(JOBS, ("job_id", *WORK), dead, lock="update")]
    if not found:
        return 0
    jobs = [(job_id, JobWork(*work)) for job_id, *work in found]
    threads = sorted({work.thread_id for _, work in jobs if work.thread_id is not None})
    answers = yield [
        Select(JOBS, WORK, (one_of("thread_id", threads), _PENDING)),
        Select(JOBS, WORK, (is_null("thread_id"), _PENDING)),
    ]
    taken = {JobWork(*row) for rows in answers for row in rows}
    again: dict[str, list[UUID]] = {}
    for job_id, work in jobs:
        again.setdefault(_again(work, taken), []).append(job_id)
    values = {"attempts": 0, "run_after": now, "error": None, "completed_at": None}
    yield Last(
        [
            Update(JOBS, {**values, "status": status}, (one_of("job_id", ids),))
            for status, ids in again.items()
        ]
    )
    return len(jobs)


def cancel_jobs(job_ids: Sequence[UUID], now: datetime) -> Policy[int]:
    """Cancel open jobs; return their number. A conversation that waited for one has ended."""
    values = {
        "status": str(JobStatus.CANCELLED), "lease_until": None, "payload": None,
        "completed_at": now,
    }  # fmt: skip
    is_open = (one_of("job_id", job_ids), one_of("status", OPEN))
    [cancelled] = yield [Update(JOBS, values, is_open, ("thread_id",))]
    yield Last((yield from _ended_conversations([thread for (thread,) in cancelled], [])))
    return len(cancelled)


def _ended_conversations(
    thread_ids: Iterable[str | None], besides: Sequence[UUID]
) -> Policy[list[Operation]]:
    """Return the writes that end conversations without any open job. besides: jobs not to count."""
    threads = sorted({one for one in thread_ids if one is not None})
    if not threads:
        return []
    [rows] = yield [
        Select(
            JOBS, ("thread_id", "job_id"), (one_of("thread_id", threads), one_of("status", OPEN))
        )
    ]
    waiting = {thread for thread, job_id in rows if job_id not in besides}
    over = [one for one in threads if one not in waiting]
    is_ending = (one_of("thread_id", over), equal("status", "ending"))
    return [Update("conversations", {"status": "ended"}, is_ending)]


def _again(work: JobWork, pending: set[JobWork]) -> str:
    """Return the state of a job that goes back to the queue, and note its work as pending."""
    if work in pending:
        return str(JobStatus.CANCELLED)
    pending.add(work)
    return str(JobStatus.PENDING)


def _drop_finished(work: JobWork, statuses: Sequence[str], but: UUID | None = None) -> Delete:
    where = (*work.condition(), one_of("status", statuses))
    return Delete(JOBS, where if but is None else (*where, compare("job_id", "<>", but)))


def _held(job_id: UUID, worker_id: str) -> tuple[Condition, ...]:
    return (equal("job_id", job_id), _RUNNING, equal("worker_id", worker_id))


def _thread(thread_id: ThreadId) -> Condition:
    return equal("thread_id", thread_id)
