"""The queue of PostgresStorage: work on threads, taken by one worker at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import psycopg

from shared_core.domain import JsonValue, Scope, ThreadId
from shared_core.jsontext import to_json
from shared_core.log_ports import Job, JobRecord, NewJob
from shared_core.namespaces import ROOT, clean_text, from_path, path_end, scope_path
from shared_core.ports import Clock
from shared_core.storage.database import Database
from shared_core.storage.rows import utc
from shared_core.storage.sql_files import statement


class PostgresJobs:
    """Jobs of all scopes: a worker takes whatever is due."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def enqueue(self, scope: Scope, thread_id: ThreadId, job: NewJob) -> None:
        tenant = scope_path(scope)
        values = {
            "tenant": tenant,
            "thread_id": thread_id,
            "job_id": job.job_id,
            "job_type": job.job_type,
            "run_after": job.run_after,
            "payload": None if job.payload is None else to_json(job.payload, "a job's payload"),
            "now": self._clock(),
        }
        await self._database.run(
            tenant, (statement("open_thread"), values), (statement("enqueue_job"), values)
        )

    async def claim_job(
        self, worker_id: str, lease_s: float, job_types: Sequence[str]
    ) -> Job | None:
        now = self._clock()
        values = {
            "worker_id": worker_id,
            "now": now,
            "lease_until": now + timedelta(seconds=lease_s),
            "job_types": list(job_types),
        }
        [rows] = await self._database.run(ROOT, (statement("claim_job"), values))
        if not rows:
            return None
        tenant, job_id, thread_id, job_type, attempts, payload = rows[0]
        return Job(
            job_id=job_id,
            scope=Scope(*from_path(tenant)),
            thread_id=ThreadId(thread_id),
            job_type=job_type,
            attempts=attempts,
            payload=payload,
        )

    async def extend_job(self, job: Job, worker_id: str, lease_s: float) -> bool:
        until = self._clock() + timedelta(seconds=lease_s)
        values = self._ours(job, worker_id) | {"lease_until": until}
        [rows] = await self._database.run(scope_path(job.scope), (statement("extend_job"), values))
        return bool(rows)

    async def complete_job(self, job: Job, worker_id: str, result: Mapping[str, JsonValue]) -> None:
        values = self._ours(job, worker_id) | {"result": to_json(result)}
        await self._database.run(scope_path(job.scope), (statement("complete_job"), values))

    async def return_job(
        self, job: Job, worker_id: str, error: str, retry_at: datetime | None
    ) -> None:
        values = self._ours(job, worker_id) | {"error": clean_text(error), "retry_at": retry_at}
        step = statement("return_job"), values
        try:
            await self._database.run(scope_path(job.scope), step)
        except psycopg.errors.UniqueViolation:  # a newer request came in this very moment
            await self._database.run(scope_path(job.scope), step)

    async def release_jobs(self, worker_id: str) -> None:
        values = {"worker_id": worker_id, "now": self._clock()}
        step = statement("release_jobs"), values
        try:
            await self._database.run(ROOT, step)
        except psycopg.errors.UniqueViolation:
            await self._database.run(ROOT, step)

    async def next_job_at(self, job_types: Sequence[str]) -> datetime | None:
        values = {"job_types": list(job_types)}
        [rows] = await self._database.run(ROOT, (statement("next_job_at"), values))
        return utc(rows[0][0]) if rows[0][0] else None

    async def open_jobs(
        self, threads: Sequence[tuple[Scope, ThreadId]], job_types: Sequence[str]
    ) -> int:
        values = {
            "tenants": [scope_path(scope) for scope, _ in threads],
            "thread_ids": [thread_id for _, thread_id in threads],
            "job_types": list(job_types),
            "now": self._clock(),
        }
        _, rows = await self._database.run(
            ROOT, (statement("hasten_jobs"), values), (statement("open_jobs"), values)
        )
        return int(rows[0][0])

    async def list_jobs(
        self, scope: Scope | None, thread_id: ThreadId | None, limit: int
    ) -> Sequence[JobRecord]:
        tenant = ROOT if scope is None else scope_path(scope)
        values = {
            "tenant": tenant,
            "tenant_end": path_end(tenant),
            "thread_id": thread_id,
            "limit": limit,
        }
        step = statement("list_jobs", one_tenant=scope is not None), values
        [rows] = await self._database.run(tenant, step)
        return [_record(row) for row in rows]

    def _ours(self, job: Job, worker_id: str) -> dict[str, object]:
        return {
            "tenant": scope_path(job.scope),
            "job_id": job.job_id,
            "worker_id": worker_id,
            "now": self._clock(),
        }


def _record(row: Sequence[Any]) -> JobRecord:
    return JobRecord(
        scope=Scope(*from_path(row[0])),
        job_id=row[1],
        thread_id=ThreadId(row[2]),
        job_type=row[3],
        status=row[4],
        attempts=row[5],
        created_at=utc(row[6]),
        run_after=utc(row[7]),
        lease_until=row[8] and utc(row[8]),
        error=row[9],
        result=row[10],
    )
