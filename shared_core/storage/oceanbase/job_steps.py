"""The queue within one transaction of locked tenants, and its rows as nouns."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from shared_core.core.domain import Scope, ThreadId
from shared_core.core.json_text import to_json
from shared_core.core.namespaces import scope_path, to_path
from shared_core.ports.jobs import Capability, JobRecord, JobStatus, JobType, NewJob
from shared_core.storage._job_rows import job_records_of
from shared_core.storage.oceanbase.connection.errors import check_thread_id
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction

TABLE = "consolidation_jobs"
RECORD_COLUMNS = (
    "tenant_id, job_type, status, job_id, thread_id, priority, attempts, created_at, run_after,"
    " lease_until, started_at, completed_at, error, result, performer"
)
JOB_COLUMNS = "tenant_id, job_id, thread_id, job_type, performer, attempts, payload"
SAME_WORK = "tenant_id = %s AND thread_id <=> %s AND job_type = %s AND performer <=> %s"
"""The condition that a job asks for the same work; of each work at most one job is pending."""
FREE_THREAD = (
    f"NOT EXISTS (SELECT 1 FROM {TABLE} r WHERE r.tenant_id = j.tenant_id"
    " AND r.thread_id <=> j.thread_id AND r.status = 'running')"
)
"""The condition that no other job of the thread of job j runs."""
BYTES_PER_TOKEN = 4
"""Estimated size of a token: four letters of English, or one character of Chinese."""
PATIENCE = 10
"""Maximum wait of a thread that never rests, in multiples of the delay."""
_NEW_COLUMNS = (
    "tenant_id", "job_id", "thread_id", "job_type", "performer", "status", "priority", "run_after",
    "result", "created_at", "payload",
)  # fmt: skip


def open_thread(tx: Transaction, tenant: str, thread_id: ThreadId, now: datetime) -> None:
    """Insert a thread unless it exists."""
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
) -> None:
    """Enqueue a job of an existing thread or of the user.

    changed_at: only if the thread has unread turns and this transaction changed it at that moment.

    A pending job of the same work moves to the new time, with three exceptions. A thread that never
    rests waits at most PATIENCE times the delay. A thread with enough unread turns or bytes does
    not wait, unless a worker is reading it. A failed job waits for its next try. A new payload
    replaces the pending job and its tries. A job that embeds items stays as it is until half of its
    delay is over. After a lost answer the call finds its own job.
    """
    tenant = scope_path(scope)
    thread = _thread(tx, tenant, thread_id)
    if tx.one(f"SELECT 1 FROM {TABLE} WHERE tenant_id = %s AND job_id = %s", [tenant, job.job_id]):
        return
    if changed_at is not None:
        unread, _, updated_at = thread or (0, 0, None)
        if unread <= 0 or updated_at != changed_at:
            return
    run_after = job.run_after
    if thread and _is_much(thread, job) and not _runs(tx, tenant, thread_id):
        run_after = now
    payload = None if job.payload is None else to_json(job.payload, "a job's payload")
    values = (tenant, thread_id, str(job.job_type), job.performer)
    waiting = tx.one(
        "SELECT job_id, priority, attempts, error, created_at, run_after"
        f" FROM {TABLE} WHERE {SAME_WORK} AND status = 'pending'",
        values,
    )
    if waiting is None:
        insert_job(tx, tenant, thread_id, job, now, run_after=run_after, payload=payload)
    else:
        _join(tx, tenant, waiting, job, now, run_after, payload)


def _thread(tx: Transaction, tenant: str, thread_id: ThreadId | None) -> Row | None:
    """Return unread turns, their bytes and the last change of a thread."""
    if thread_id is None:
        return None
    return tx.one(
        "SELECT last_memory_seq - consolidated_seq, unread_bytes, updated_at FROM threads"
        " WHERE tenant_id = %s AND thread_id = %s",
        [tenant, thread_id],
    )


def _is_much(thread: Row, job: NewJob) -> bool:
    unread, size, _ = thread
    tokens = job.token_threshold
    return (job.event_count is not None and unread >= job.event_count) or (
        tokens is not None and size >= BYTES_PER_TOKEN * tokens
    )


def _runs(tx: Transaction, tenant: str, thread_id: ThreadId | None) -> bool:
    """Return whether a job of a thread runs."""
    return tx.has(
        f"SELECT 1 FROM {TABLE} WHERE tenant_id = %s AND thread_id <=> %s AND status = 'running'",
        [tenant, thread_id],
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
    """Merge a new request into the pending job."""
    old_id, priority, attempts, error, created_at, due_at = waiting
    if (
        job.job_type is JobType.ITEM_VECTORS
        and timedelta() <= run_after - due_at <= (run_after - now) / 2
    ):
        return
    is_new = payload is not None
    if is_new and (attempts > 0 or error is not None):
        created_at, due_at = now, run_after
    elif error is None:
        due_at = min(run_after, created_at + PATIENCE * (run_after - now))
    if is_new:
        attempts, error = 0, None
    values = [job.job_id if is_new else old_id, payload, max(priority, int(job.priority))]
    tx.run(
        f"UPDATE {TABLE} SET job_id = %s, payload = %s, priority = %s, attempts = %s, error = %s,"
        " created_at = %s, run_after = %s WHERE tenant_id = %s AND job_id = %s",
        [*values, attempts, error, created_at, due_at, tenant, old_id],
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
) -> None:
    """Insert a pending job."""
    row = (
        tenant, job.job_id, thread_id, str(job.job_type), job.performer, JobStatus.PENDING,
        int(job.priority), run_after, "{}", now, payload,
    )  # fmt: skip
    tx.insert(TABLE, _NEW_COLUMNS, [row])


def is_pending(tx: Transaction, same_work: tuple[object, ...]) -> bool:
    """Return whether a job is pending; same_work: tenant, thread, type and name."""
    return tx.has(f"SELECT 1 FROM {TABLE} WHERE {SAME_WORK} AND status = 'pending'", same_work)


def put_back(tx: Transaction, jobs: list[Row], changes: str, *values: object) -> None:
    """Make jobs pending again; a job is cancelled if a newer one of the same work is pending.

    jobs: tenant, id, thread, type and name of each. changes, values: further columns to set.
    """
    for tenant, job_id, *work in jobs:
        status = JobStatus.CANCELLED if is_pending(tx, (tenant, *work)) else JobStatus.PENDING
        tx.run(
            f"UPDATE {TABLE} SET status = %s, {changes} WHERE tenant_id = %s AND job_id = %s",
            [status, *values, tenant, job_id],
        )


def take(
    tx: Transaction, tenant: str, job_id: UUID, worker_id: str, now: datetime, until: datetime
) -> Row | None:
    """Claim a job of a locked tenant for a worker, and return its JOB_COLUMNS.

    Returns None if another worker was first.
    """
    of_job = "j.tenant_id = %s AND j.job_id = %s"
    is_silent = "j.status = 'running' AND (j.lease_until <= %s OR j.worker_id = %s)"
    is_due = f"j.status = 'pending' AND j.run_after <= %s AND {FREE_THREAD}"
    found = tx.one(
        f"SELECT j.status, j.worker_id, j.attempts FROM {TABLE} j"
        f" WHERE {of_job} AND (({is_silent}) OR ({is_due}))",
        [tenant, job_id, now, worker_id, now],
    )
    if found is None:
        return None
    status, taken_by, attempts = found
    is_new_try = status == JobStatus.PENDING or taken_by != worker_id
    tx.run(
        f"UPDATE {TABLE} SET status = 'running', worker_id = %s, lease_until = %s, attempts = %s,"
        " started_at = %s WHERE tenant_id = %s AND job_id = %s",
        [worker_id, until, attempts + int(is_new_try), now, tenant, job_id],
    )
    return tx.select_one(TABLE, JOB_COLUMNS, tenant, job_id=job_id)


def doable(capabilities: Sequence[Capability]) -> tuple[str, list[object]]:
    """Return the condition that a worker can do a job j, and its values.

    The worker knows types of jobs; a named callback also has to be of the name's application.
    """
    types = list(dict.fromkeys(str(known.job_type) for known in capabilities))
    parts = ["j.performer IS NULL"]
    values: list[object] = [types]
    for known in capabilities:
        if known.name is not None:
            path = to_path([] if known.app is None else [known.app])
            parts.append("(j.performer = %s AND LEFT(j.tenant_id, %s) = %s)")
            values += [known.name, len(path.encode()), path]
    return f"(j.job_type IN %s AND ({' OR '.join(parts)}))", values


def newest_first(rows: Sequence[Row]) -> list[JobRecord]:
    """Return jobs, newest first."""

    def key(one: JobRecord) -> tuple[datetime, UUID]:
        return one.created_at, one.job_id

    return sorted(job_records_of(rows), key=key, reverse=True)
