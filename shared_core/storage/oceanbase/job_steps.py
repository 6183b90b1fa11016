"""What a transaction does with the queue of a tenant that it has locked."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from shared_core.core.domain import Scope, ThreadId
from shared_core.core.json_text import to_json
from shared_core.core.namespaces import scope_path
from shared_core.ports.jobs import Job, JobStatus, JobType, NewJob, ReflectionDue
from shared_core.storage.oceanbase.connection.batching import pages
from shared_core.storage.oceanbase.connection.length_limits import check_thread_id
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction
from shared_core.storage.oceanbase.job_rows import (
    FREE_THREAD,
    JOB_COLUMNS,
    SAME_WORK,
    TABLE,
    job_of,
)

BYTES_PER_TOKEN = 4
"""An estimate: a token is about four letters of English, or one character of Chinese."""
PATIENCE = 10
"""A thread that never rests waits so many times the delay at most."""

_NEW_COLUMNS = (
    "tenant_id", "job_id", "thread_id", "job_type", "performer", "status", "priority", "attempts",
    "run_after", "worker_id", "lease_until", "result", "created_at", "started_at", "payload",
)  # fmt: skip


def open_thread(tx: Transaction, tenant: str, thread_id: ThreadId, now: datetime) -> None:
    """Make sure that a thread is there."""
    check_thread_id(thread_id)
    tx.insert(
        "threads",
        ("tenant_id", "thread_id", "state", "created_at", "updated_at"),
        [(tenant, thread_id, "{}", now, now)],
        ignore=True,
    )


def enqueue(
    tx: Transaction,
    scope: Scope,
    thread_id: ThreadId | None,
    job: NewJob,
    now: datetime,
    changed_at: datetime | None = None,
    *,
    if_unread: bool = False,
) -> bool:
    """Ask for a job of a thread that is there, or of the user; return whether it was asked for.

    if_unread: only if the thread has turns that no run has read. changed_at: only if it changed at
    this very moment as well, by the same transaction.

    A request that waits already moves to the new time: the newest counts. But a thread that never
    rests waits ten times the delay at most; one with enough unread turns, or bytes of them, not at
    all, unless a worker is reading it; and one whose last try failed until its next one. A new
    payload is a new job in the place of the one that waits; what became of the old one's tries does
    not count. Sent again after a lost answer, it finds the job that it made.
    """
    tenant = scope_path(scope)
    thread = _thread(tx, tenant, thread_id)
    if tx.one(f"SELECT 1 FROM {TABLE} WHERE tenant_id = %s AND job_id = %s", tenant, job.job_id):
        return False
    if if_unread or changed_at is not None:
        unread, _, updated_at = thread or (0, 0, None)
        if unread <= 0 or (changed_at is not None and updated_at != changed_at):
            return False
    run_after = job.run_after
    if thread and _is_much(thread, job) and not _runs(tx, tenant, thread_id):
        run_after = now
    payload = None if job.payload is None else to_json(job.payload, "a job's payload")
    values = (tenant, thread_id, str(job.job_type), job.performer)
    waiting = tx.one(
        "SELECT job_id, priority, attempts, error, created_at, run_after"
        f" FROM {TABLE} WHERE {SAME_WORK} AND status = 'pending'",
        *values,
    )
    if waiting is None:
        insert_job(tx, tenant, thread_id, job, now, run_after=run_after, payload=payload)
    else:
        _join(tx, tenant, waiting, job, now, run_after, payload)
    return True


def _thread(tx: Transaction, tenant: str, thread_id: ThreadId | None) -> Row | None:
    """Return unread turns, their bytes and the last change of a thread."""
    if thread_id is None:
        return None
    return tx.one(
        "SELECT last_memory_seq - consolidated_seq, unread_bytes, updated_at FROM threads"
        " WHERE tenant_id = %s AND thread_id = %s",
        tenant,
        thread_id,
    )


def _is_much(thread: Row, job: NewJob) -> bool:
    unread, size, _ = thread
    tokens = job.token_threshold
    return (job.event_count is not None and unread >= job.event_count) or (
        tokens is not None and size >= BYTES_PER_TOKEN * tokens
    )


def _runs(tx: Transaction, tenant: str, thread_id: ThreadId | None) -> bool:
    """Tell whether a job of a thread runs."""
    return bool(
        tx.rows(
            f"SELECT 1 FROM {TABLE}"
            " WHERE tenant_id = %s AND thread_id <=> %s AND status = 'running'",
            tenant,
            thread_id,
        )
    )


def _join(
    tx: Transaction,
    tenant: str,
    waiting: Row,
    job: NewJob,
    now: datetime,
    run_after: datetime,
    payload: str | None,
) -> None:
    """Let a job that waits stand for a new request as well."""
    old_id, priority, attempts, error, created_at, due_at = waiting
    is_new = payload is not None
    if is_new and (attempts > 0 or error is not None):
        created_at, due_at = now, run_after
    elif error is None:
        due_at = min(run_after, created_at + PATIENCE * (run_after - now))
    tx.run(
        f"UPDATE {TABLE} SET job_id = %s, payload = %s, priority = %s, attempts = %s, error = %s,"
        " created_at = %s, run_after = %s WHERE tenant_id = %s AND job_id = %s",
        job.job_id if is_new else old_id,
        payload,
        max(priority, int(job.priority)),
        0 if is_new else attempts,
        None if is_new else error,
        created_at,
        due_at,
        tenant,
        old_id,
    )


def insert_job(
    tx: Transaction,
    tenant: str,
    thread_id: ThreadId | None,
    job: NewJob,
    now: datetime,
    *,
    run_after: datetime,
    payload: str | None = None,
    lease: tuple[str, datetime] | None = None,
) -> None:
    """Insert a job that waits, or that a worker has taken: lease is its id, and until when."""
    worker_id, lease_until = lease or (None, None)
    row = (
        tenant, job.job_id, thread_id, str(job.job_type), job.performer,
        JobStatus.RUNNING if lease else JobStatus.PENDING, int(job.priority), 1 if lease else 0,
        run_after, worker_id, lease_until, "{}", now, now if lease else None, payload,
    )  # fmt: skip
    tx.insert(TABLE, _NEW_COLUMNS, [row])


def count_extraction(tx: Transaction, scope: Scope, due: ReflectionDue, now: datetime) -> None:
    """Count an extraction of a user, and ask for a reflection with every so many."""
    tenant = scope_path(scope)
    tx.insert(
        "extraction_counts",
        ("tenant_id", "extractions"),
        [(tenant, 1)],
        update="extractions = extractions + 1",
    )
    counted = tx.one("SELECT extractions FROM extraction_counts WHERE tenant_id = %s", tenant)
    assert counted is not None
    values = (tenant, None, str(JobType.REFLECTION), None)
    if counted[0] % due.interval == 0 and not waits(tx, values):
        job = NewJob(job_id=due.job_id, job_type=JobType.REFLECTION, run_after=now)
        insert_job(tx, tenant, None, job, now, run_after=now)


def waits(tx: Transaction, same_work: tuple[object, ...]) -> bool:
    """Tell whether a job waits; same_work: tenant, thread, type and name."""
    return bool(
        tx.rows(f"SELECT 1 FROM {TABLE} WHERE {SAME_WORK} AND status = 'pending'", *same_work)
    )


def put_back(tx: Transaction, jobs: list[Row], changes: str, *values: object) -> None:
    """Let jobs wait again, each unless a newer request waits for the same work: it is cancelled.

    jobs: tenant, id, thread, type and name of each. changes, values: what is set beside.
    """
    for tenant, job_id, *work in jobs:
        status = JobStatus.CANCELLED if waits(tx, (tenant, *work)) else JobStatus.PENDING
        tx.run(
            f"UPDATE {TABLE} SET status = %s, {changes} WHERE tenant_id = %s AND job_id = %s",
            status,
            *values,
            tenant,
            job_id,
        )


def end_conversations(tx: Transaction, threads: Iterable[Row]) -> None:
    """End conversations whose jobs were given up, unless another one works on them or waits.

    threads: tenant and thread of each job; the tenants are locked.
    """
    named = [(tenant, thread_id) for tenant, thread_id in threads if thread_id is not None]
    for page in pages(sorted(set(named))):
        tx.run(
            "UPDATE conversations c SET c.status = 'ended'"
            " WHERE (c.tenant_id, c.thread_id) IN %s AND c.status = 'ending'"
            f" AND NOT EXISTS (SELECT 1 FROM {TABLE} o WHERE o.tenant_id = c.tenant_id"
            " AND o.thread_id = c.thread_id AND o.status IN ('pending', 'running'))",
            page,
        )


def take(
    tx: Transaction, tenant: str, job_id: UUID, worker_id: str, now: datetime, until: datetime
) -> Job | None:
    """Take a job of a locked tenant for a worker; None if another one was first."""
    of_job = "j.tenant_id = %s AND j.job_id = %s"
    is_silent = "j.status = 'running' AND (j.lease_until <= %s OR j.worker_id = %s)"
    is_due = f"j.status = 'pending' AND j.run_after <= %s AND {FREE_THREAD}"
    found = tx.one(
        f"SELECT j.status, j.worker_id, j.attempts FROM {TABLE} j"
        f" WHERE {of_job} AND (({is_silent}) OR ({is_due}))",
        tenant,
        job_id,
        now,
        worker_id,
        now,
    )
    if found is None:
        return None
    status, taken_by, attempts = found
    anew = status == JobStatus.PENDING or taken_by != worker_id
    tx.run(
        f"UPDATE {TABLE} SET status = 'running', worker_id = %s, lease_until = %s, attempts = %s,"
        " started_at = %s WHERE tenant_id = %s AND job_id = %s",
        worker_id,
        until,
        attempts + int(anew),
        now,
        tenant,
        job_id,
    )
    row = tx.one(
        f"SELECT {JOB_COLUMNS} FROM {TABLE} WHERE tenant_id = %s AND job_id = %s", tenant, job_id
    )
    return None if row is None else job_of(row)
