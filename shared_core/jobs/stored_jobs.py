"""The jobs of the queue as one process changes them: start, extend, complete, return, cancel."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar
from uuid import UUID

from shared_core.core.domain import JsonValue, Scope, ThreadId
from shared_core.core.namespaces import scope_path
from shared_core.errors import Conflict
from shared_core.policies import jobs as policies
from shared_core.ports.jobs import Job, JobFilter, JobRecord, JobStatus, NewJob
from shared_core.ports.operations import PolicyFactory
from shared_core.ports.storage import Clock, Storage

log = logging.getLogger("hippocampus")

TRIES = 5
"""Number of attempts while other processes enqueue or claim jobs of the same thread first."""
MOST_FOUND = 1_000_000
T = TypeVar("T")


class StoredJobs:
    """Changes of jobs that are known by thread or id."""

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock

    async def end_session(self, scope: Scope, thread_id: ThreadId, job: NewJob) -> bool:
        """Enqueue a job if a thread has unread turns; return whether it has."""
        ending = partial(policies.end_session, thread_id, job)
        return await self._storage.transact(scope_path(scope), ending)

    async def start(
        self, scope: Scope, thread_id: ThreadId, job: NewJob, worker_id: str, lease_s: float
    ) -> Job | None:
        """Store a job as claimed by a worker; return it, or None if there is no such thread.

        Raises Conflict while another job of the thread runs.
        """
        now = self._clock()
        until = now + timedelta(seconds=lease_s)
        starting = partial(policies.start_job, thread_id, job, worker_id, until, now)
        if not await self._storage.transact(scope_path(scope), starting):
            return None
        return Job(
            job_id=job.job_id,
            scope=scope,
            thread_id=thread_id,
            job_type=job.job_type,
            attempts=1,
            payload=job.payload,
        )

    async def extend(self, job: Job, worker_id: str, lease_s: float) -> bool:
        """Extend a lease; return False if the worker lost the job."""
        until = self._clock() + timedelta(seconds=lease_s)
        extending = partial(policies.extend_job, job.job_id, worker_id, until)
        # Without the lock: a heartbeat never waits for an import or an erasure of the user.
        return await self._storage.transact(scope_path(job.scope), extending, lock="none")

    async def complete(self, job: Job, worker_id: str, result: Mapping[str, JsonValue]) -> None:
        """Mark a job as done, unless the worker lost it."""
        done = partial(policies.complete_job, job.job_id, worker_id, result, self._clock())
        await self._storage.transact(scope_path(job.scope), done, lock="none")

    async def give_back(
        self,
        job: Job,
        worker_id: str,
        error: str,
        retry_at: datetime | None,
        *,
        counted: bool = True,
    ) -> None:
        """Return a job to the queue for a retry at retry_at; None makes it a dead job.

        counted: False if this attempt does not count.
        """
        now = self._clock()
        returning = partial(
            policies.return_job, job.job_id, worker_id, error, retry_at, now, counted=counted
        )
        await self._repeated({scope_path(job.scope): returning})

    async def retry(self, job_ids: Sequence[UUID]) -> int:
        """Enqueue dead jobs again, due now; return the number."""
        found = await self._by_tenant(job_ids, [JobStatus.FAILED])
        now = self._clock()
        return await self._counted(
            {tenant: partial(policies.retry_jobs, ids, now) for tenant, ids in found.items()}
        )

    async def cancel(self, job_ids: Sequence[UUID]) -> int:
        """Cancel open jobs; return the number. A worker notices it at its next heartbeat."""
        found = await self._by_tenant(job_ids, [JobStatus.PENDING, JobStatus.RUNNING])
        now = self._clock()
        return await self._counted(
            {tenant: partial(policies.cancel_jobs, ids, now) for tenant, ids in found.items()}
        )

    async def of_threads(self, threads: Sequence[tuple[Scope, ThreadId]]) -> list[JobRecord]:
        """Return all jobs of some threads, newest first."""
        by_scope: dict[Scope, list[ThreadId]] = {}
        for scope, thread_id in threads:
            by_scope.setdefault(scope, []).append(thread_id)
        found: list[JobRecord] = []
        for scope, thread_ids in by_scope.items():
            reading = policies.jobs_of_threads(thread_ids)
            [rows] = await self._storage.read(scope_path(scope), [reading])
            found += [policies.record_of(scope, row) for row in rows]
        return sorted(found, key=lambda job: (job.created_at, job.job_id), reverse=True)

    async def _by_tenant(
        self, job_ids: Sequence[UUID], statuses: Sequence[JobStatus]
    ) -> dict[str, list[UUID]]:
        """Return the ids of jobs in some states by their tenant."""
        found: dict[str, list[UUID]] = {}
        if job_ids:
            chosen = JobFilter(job_ids=job_ids, statuses=statuses, limit=MOST_FOUND)
            for job in await self._storage.jobs.list_jobs(chosen):
                found.setdefault(scope_path(job.scope), []).append(job.job_id)
        return found

    async def _counted(self, changes: Mapping[str, PolicyFactory[int]]) -> int:
        return sum((await self._repeated(changes)).values()) if changes else 0

    async def _repeated(self, changes: Mapping[str, PolicyFactory[T]]) -> dict[str, T]:
        """Run policies again while a newer job of the same work comes first."""
        for _ in range(TRIES - 1):
            try:
                return await self._storage.transact_all(changes)
            except Conflict as error:
                log.debug("another process was first: %s", error)
        return await self._storage.transact_all(changes)
