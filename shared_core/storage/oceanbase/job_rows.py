"""Between the queue's rows and its nouns, and the conditions that its statements share. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from shared_core.core.domain import Scope, ThreadId
from shared_core.core.namespaces import from_path, to_path
from shared_core.ports.jobs import Capability, Job, JobRecord, JobStatus, JobType
from shared_core.storage.oceanbase.connection.transactions import Row

TABLE = "consolidation_jobs"
RECORD_COLUMNS = (
    "tenant_id, job_id, thread_id, job_type, performer, status, priority, attempts, created_at,"
    " run_after, lease_until, started_at, completed_at, error, result"
)
JOB_COLUMNS = "tenant_id, job_id, thread_id, job_type, performer, attempts, payload"

SAME_WORK = "tenant_id = %s AND thread_id <=> %s AND job_type = %s AND performer <=> %s"
"""What asks for the same as another job; of one tenant, thread, type and name at most one waits."""

FREE_THREAD = (
    f"NOT EXISTS (SELECT 1 FROM {TABLE} r WHERE r.tenant_id = j.tenant_id"
    " AND r.thread_id <=> j.thread_id AND r.status = 'running')"
)
"""Of a job j: no other one of its thread runs."""


def doable(capabilities: Sequence[Capability]) -> tuple[str, list[object]]:
    """Return what a worker can do, as a condition on a job j, and its values.

    Types of jobs, and of callbacks those with a name it knows, within the application that goes
    with the name.
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


def record_of(row: Row) -> JobRecord:
    """Return the job that the columns RECORD_COLUMNS say."""
    return JobRecord(
        scope=Scope(*from_path(row[0])),
        job_id=row[1],
        thread_id=row[2],
        job_type=JobType(row[3]),
        performer=row[4],
        status=JobStatus(row[5]),
        priority=row[6],
        attempts=row[7],
        created_at=row[8],
        run_after=row[9],
        lease_until=row[10],
        started_at=row[11],
        completed_at=row[12],
        error=row[13],
        result=json.loads(row[14]),
    )


def job_of(row: Row) -> Job:
    """Return the job that the columns JOB_COLUMNS say."""
    tenant, job_id, thread_id, job_type, performer, attempts, payload = row
    return Job(
        job_id=job_id,
        scope=Scope(*from_path(tenant)),
        thread_id=None if thread_id is None else ThreadId(thread_id),
        job_type=JobType(job_type),
        attempts=attempts,
        payload=None if payload is None else json.loads(payload),
        performer=performer,
    )


def newest_first(rows: Sequence[Row]) -> list[JobRecord]:
    """Return jobs in the order of the port."""

    def key(one: JobRecord) -> tuple[datetime, UUID]:
        return one.created_at, one.job_id

    return sorted(map(record_of, rows), key=key, reverse=True)
