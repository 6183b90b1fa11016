"""The queue of jobs on PostgreSQL, and the notifications that wake its workers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import psycopg

from shared_core.core.domain import Scope, ThreadId
from shared_core.core.json_text import to_json
from shared_core.core.namespaces import ROOT, clean_text, path_end, scope_path, to_path
from shared_core.errors import Conflict, StorageUnavailable
from shared_core.ports.jobs import Capability, Job, JobFilter, JobRecord, JobStats, NewJob
from shared_core.ports.storage import Clock
from shared_core.storage._job_rows import job_of, job_records_of, reason_of, unreadable
from shared_core.storage._rows import record
from shared_core.storage.postgres.connection.database import PostgresDatabase
from shared_core.storage.postgres.connection.marks import AnswerLost, Mark
from shared_core.storage.postgres.connection.pipeline import Connection, Rows
from shared_core.storage.postgres.connection.statements import Step, step

BYTES_PER_TOKEN = 4
"""Estimated bytes of text in a token: four letters of English, or one character of Chinese."""
CLAIMS = 5
"""How often a statement is sent that meets another worker's on the same thread."""
LISTEN = "LISTEN hippocampus"
PROOF_S = 5.0
"""Seconds within which a notification to ourselves must arrive."""


@dataclass
class PostgresJobs:
    """Jobs of all scopes; a worker takes any job that is due."""

    _database: PostgresDatabase
    _clock: Clock

    async def enqueue(self, scope: Scope, thread_id: ThreadId | None, job: NewJob) -> None:
        enqueueing = enqueue_step(scope, thread_id, job, self._clock())
        sent = [] if thread_id is None else [step("open_thread", enqueueing.values)]
        with suppress(AnswerLost):
            tenant = scope_path(scope)
            await self._database.run(tenant, *sent, enqueueing, mark=Mark(tenant))

    async def claim_job(
        self,
        worker_id: str,
        lease_s: float,
        capabilities: Sequence[Capability],
        after_tenant: Scope | None,
    ) -> Job | None:
        now = self._clock()
        values = _doable(capabilities) | {
            "worker_id": worker_id,
            "now": now,
            "lease_until": now + timedelta(seconds=lease_s),
            "after_tenant": scope_path(after_tenant) if after_tenant else "",
        }
        rows = await self._repeated(ROOT, step("take_in_order"), step("claim_job", values))
        if not rows:
            return None
        try:
            return job_of(rows[0])
        except ValueError as error:
            tenant, job_id, *_ = rows[0]
            values = {
                "tenant": tenant,
                "job_id": job_id,
                "worker_id": worker_id,
                "error": clean_text(reason_of(error)),
                "now": now,
            }
            # Not in its own scope: row security accepts no malformed one.
            await self._database.run(ROOT, step("bury_job", values))
            raise unreadable(tenant, job_id, error) from error

    async def release_jobs(self, worker_id: str) -> None:
        values = {"worker_id": worker_id, "now": self._clock()}
        await self._repeated(ROOT, step("release_jobs", values))

    async def next_job_at(self, capabilities: Sequence[Capability]) -> datetime | None:
        rows = await self._database.rows(ROOT, "next_job_at", **_doable(capabilities))
        at: datetime | None = rows[0][0]
        return at

    def job_hints(self) -> AsyncIterator[datetime | None]:
        return _job_hints(self._database)

    async def open_jobs(
        self, threads: Sequence[tuple[Scope, ThreadId]], capabilities: Sequence[Capability]
    ) -> int:
        values = _doable(capabilities) | _thread_columns(threads) | {"now": self._clock()}
        _, rows = await self._database.run(
            ROOT, step("hasten_jobs", values), step("open_jobs", values)
        )
        return int(rows[0][0])

    async def list_jobs(self, job_filter: JobFilter) -> Sequence[JobRecord]:
        labels = [label for label in (job_filter.app, job_filter.user) if label is not None]
        tenant = to_path(labels)
        values = {
            "tenant": tenant,
            "tenant_end": path_end(tenant),
            "thread_id": job_filter.thread_id,
            "job_ids": None if job_filter.job_ids is None else list(job_filter.job_ids),
            "statuses": [str(status) for status in job_filter.statuses],
            "limit": job_filter.limit,
        }
        listing = step("list_jobs", values, one_tenant=len(labels) == 2)
        [rows] = await self._database.run(tenant, listing)
        return job_records_of(rows)

    async def job_stats(self) -> JobStats:
        now = self._clock()
        [[(*counts, oldest, callbacks)]] = await self._database.run(
            ROOT, step("job_stats", {"now": now})
        )
        oldest_due_s = None if oldest is None else (now - oldest).total_seconds()
        return record(JobStats, (*counts, oldest_due_s, callbacks))

    async def _repeated(self, scope: str, *sent: Step) -> Rows:
        """Run steps again while another worker is first, and return the rows of the last one.

        A unique index lets only one job of a thread wait, and only one run.
        """
        for last_try in [False] * (CLAIMS - 1) + [True]:
            try:
                *_, rows = await self._database.run(scope, *sent)
            except psycopg.errors.UniqueViolation as error:
                if last_try:
                    raise Conflict("other workers were first at every try: try again") from error
            else:
                return rows
        raise AssertionError("unreachable")


def enqueue_step(
    scope: Scope,
    thread_id: ThreadId | None,
    job: NewJob,
    now: datetime,
    *,
    changed_at: datetime | None = None,
) -> Step:
    """Return the step that enqueues a job.

    changed_at: only if the thread has turns that no run has read, and changed at this moment, which
    is that of the same transaction.
    """
    tokens = job.token_threshold
    values = {
        "tenant": scope_path(scope),
        "thread_id": thread_id,
        "job_id": job.job_id,
        "job_type": str(job.job_type),
        "performer": job.performer,
        "priority": int(job.priority),
        "run_after": job.run_after,
        "payload": None if job.payload is None else to_json(job.payload, "a job's payload"),
        "event_count": job.event_count,
        "bytes": None if tokens is None else BYTES_PER_TOKEN * tokens,
        "changed_at": changed_at,
        "now": now,
    }
    return step("enqueue_job", values)


def _doable(capabilities: Sequence[Capability]) -> dict[str, object]:
    named = [known for known in capabilities if known.name is not None]
    return {
        "job_types": list(dict.fromkeys(str(known.job_type) for known in capabilities)),
        "names": [known.name for known in named],
        "applications": [to_path([] if known.app is None else [known.app]) for known in named],
    }


def _thread_columns(threads: Sequence[tuple[Scope, ThreadId]]) -> dict[str, object]:
    return {
        "tenants": [scope_path(scope) for scope, _ in threads],
        "thread_ids": [thread_id for _, thread_id in threads],
    }


async def _job_hints(database: PostgresDatabase) -> AsyncIterator[datetime | None]:
    """Yield when new jobs of the schema are due; first None, when notifications arrive.

    A hint only: the table alone tells which jobs there are. Listens on a connection of its own.
    Raises StorageUnavailable if notifications do not arrive, or the connection is lost.
    """
    connection = await database.connect()
    try:
        # Through a transaction pooler other clients would listen on, so no LISTEN is sent.
        if await database.shares_sessions():
            raise StorageUnavailable("a transaction pooler in front of the server cannot LISTEN")
        await _prove(database, connection)
        yield None
        connection.silence_s = None  # the next hint may come at any time
        async for hint in connection.notifies():
            schema, _, due = hint.payload.partition(" ")
            if schema == database.schema:
                with suppress(ValueError, OverflowError):
                    yield datetime.fromtimestamp(float(due), UTC)
    except psycopg.Error as error:
        raise StorageUnavailable(f"the connection that listens was lost: {error}") from error
    finally:
        await connection.close()


async def _prove(database: PostgresDatabase, connection: Connection) -> None:
    proof = f"proof {uuid4().hex}"
    try:
        async with asyncio.timeout(PROOF_S):
            await connection.execute(LISTEN)
            await database.rows(ROOT, "hint_worker", worker=proof)
            async for hint in connection.notifies():
                if hint.payload == proof:
                    return
    except TimeoutError:
        pass
    raise StorageUnavailable(
        "LISTEN delivers nothing: a proxy in front of the server may not support it"
    )
