"""The queue of PostgresStorage: work on threads, taken by one worker at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from shared_core.domain import JsonValue, Scope, ThreadId
from shared_core.jsontext import to_json
from shared_core.log_ports import Job, NewJob
from shared_core.namespaces import ROOT, clean_text, from_path, scope_path
from shared_core.ports import Clock
from shared_core.storage.database import Database, Statement
from shared_core.storage.rows import utc
from shared_core.storage.sql_files import statement


class PostgresJobs:
    """Jobs of all scopes: a worker takes whatever is due."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def enqueue(self, scope: Scope, thread_id: ThreadId, job: NewJob) -> None:
        tenant = scope_path(scope)
        await self._database.run(tenant, enqueue_step(tenant, thread_id, job, self._clock()))

    async def claim_job(self, worker_id: str, lease_s: float) -> Job | None:
        now = self._clock()
        values = {
            "worker_id": worker_id,
            "now": now,
            "lease_until": now + timedelta(seconds=lease_s),
        }
        [rows] = await self._database.run(ROOT, (statement("claim_job"), values))
        if not rows:
            return None
        tenant, job_id, thread_id, job_type, attempts = rows[0]
        return Job(
            job_id=job_id,
            scope=Scope(*from_path(tenant)),
            thread_id=ThreadId(thread_id),
            job_type=job_type,
            attempts=attempts,
        )

    async def complete_job(self, job: Job, worker_id: str, result: Mapping[str, JsonValue]) -> None:
        values = self._ours(job, worker_id) | {"result": to_json(result)}
        await self._database.run(scope_path(job.scope), (statement("complete_job"), values))

    async def return_job(
        self, job: Job, worker_id: str, error: str, retry_at: datetime | None
    ) -> None:
        values = self._ours(job, worker_id) | {"error": clean_text(error), "retry_at": retry_at}
        await self._database.run(scope_path(job.scope), (statement("return_job"), values))

    async def next_job_at(self) -> datetime | None:
        [rows] = await self._database.run(ROOT, (statement("next_job_at"), {}))
        return utc(rows[0][0]) if rows[0][0] else None

    async def open_jobs(self, threads: Sequence[tuple[Scope, ThreadId]]) -> int:
        values = {
            "tenants": [scope_path(scope) for scope, _ in threads],
            "thread_ids": [thread_id for _, thread_id in threads],
        }
        [rows] = await self._database.run(ROOT, (statement("open_jobs"), values))
        return int(rows[0][0])

    def _ours(self, job: Job, worker_id: str) -> dict[str, object]:
        return {
            "tenant": scope_path(job.scope),
            "job_id": job.job_id,
            "worker_id": worker_id,
            "now": self._clock(),
        }


def enqueue_step(tenant: str, thread_id: ThreadId, job: NewJob, now: datetime) -> Statement:
    """Return the statement that asks for a job."""
    values = {
        "tenant": tenant,
        "thread_id": thread_id,
        "job_id": job.job_id,
        "job_type": job.job_type,
        "run_after": job.run_after,
        "now": now,
    }
    return statement("enqueue_job"), values
