"""OceanBaseStorage: the queue, work on threads, taken by one worker at a time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from shared_core.core.domain import Scope, ThreadId
from shared_core.core.namespaces import clean_text, path_end, scope_path, to_path
from shared_core.errors import Conflict
from shared_core.ports.jobs import (
    Capability,
    Job,
    JobFilter,
    JobRecord,
    JobStats,
    JobStatus,
    NewJob,
)
from shared_core.storage._job_rows import job_of, reason_of, unreadable
from shared_core.storage.oceanbase.base import OceanBasePart, reading, writing
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction
from shared_core.storage.oceanbase.job_steps import (
    RECORD_COLUMNS,
    TABLE,
    doable,
    enqueue,
    newest_first,
    open_thread,
    put_back,
    take,
)
from shared_core.storage.oceanbase.visibility import WhereClause, all_of, if_set

POLL_S = 1.0
"""Seconds between two polls of the queue."""
CANDIDATES = 64
"""Number of pending jobs in one page."""
HINTED = 1000
"""Maximum number of jobs that one poll of the queue compares."""


class OceanBaseJobs(OceanBasePart):
    """The queue of all scopes: enqueue, claim, extend, complete, return."""

    async def enqueue(self, scope: Scope, thread_id: ThreadId | None, job: NewJob) -> None:
        tenant, now = scope_path(scope), self._clock()

        def work(tx: Transaction) -> None:
            if thread_id is not None:
                open_thread(tx, tenant, thread_id, now)
            enqueue(tx, scope, thread_id, job, now)

        await self._database.write(work, tenant)

    async def claim_job(
        self,
        worker_id: str,
        lease_s: float,
        capabilities: Sequence[Capability],
        after_tenant: Scope | None,
    ) -> Job | None:
        now = self._clock()
        until = now + timedelta(seconds=lease_s)
        after = scope_path(after_tenant) if after_tenant else ""
        for attempt in range(CLAIMS):
            candidates = await self._database.read(
                lambda tx: _candidates(tx, worker_id, now, capabilities, after)
            )
            if not candidates:
                return None
            # After a lost race pick among more jobs, so that workers do not meet again.
            tenant, job_id = random.choice(candidates[: 1 + 5 * attempt])

            def work(tx: Transaction, tenant: str = tenant, job_id: UUID = job_id) -> Row | None:
                tx.lock(tenant)
                return take(tx, tenant, job_id, worker_id, now, until)

            taken = await self._database.write(work)
            if taken is None:
                continue
            try:
                return job_of(taken)
            except ValueError as error:
                await self._bury(tenant, job_id, worker_id, reason_of(error))
                raise unreadable(tenant, job_id, error) from error
        raise Conflict("other workers were first at every try: try again")

    @writing
    def _bury(self, tx: Transaction, tenant: str, job_id: UUID, worker_id: str, why: str) -> None:
        """Mark a claimed job that cannot be read as dead."""
        tx.lock(tenant)
        values = {"status": "failed", "error": clean_text(why), "lease_until": None}
        held = {"job_id": job_id, "status": "running", "worker_id": worker_id}
        tx.update(TABLE, {**values, "completed_at": self._clock()}, tenant, **held)

    @writing
    def release_jobs(self, tx: Transaction, worker_id: str) -> None:
        now = self._clock()
        held = "status = 'running' AND worker_id = %s"
        _lock_tenants(tx, held, worker_id)
        jobs = tx.rows(f"SELECT {_WORK_COLUMNS} FROM {TABLE} WHERE {held}", [worker_id])
        put_back(tx, jobs, "run_after = %s, lease_until = NULL", now)

    async def open_jobs(
        self, threads: Sequence[tuple[Scope, ThreadId]], capabilities: Sequence[Capability]
    ) -> int:
        now = self._clock()
        can, values = doable(capabilities)
        keys = [(scope_path(scope), thread_id) for scope, thread_id in threads]
        # The first condition is for the index, which knows the tenant.
        of_threads = "j.tenant_id IN %s AND (j.tenant_id, coalesce(j.thread_id, '')) IN %s"
        named = [[tenant for tenant, _ in keys], keys]

        def work(tx: Transaction) -> int:
            tx.run(
                f"UPDATE {TABLE} j SET j.run_after = %s WHERE {of_threads}"
                f" AND j.status = 'pending' AND {can} AND j.error IS NULL AND j.run_after > %s",
                [now, *named, *values, now],
            )
            return len(
                tx.rows(
                    f"SELECT 1 FROM {TABLE} j WHERE {of_threads}"
                    f" AND j.status IN ('pending', 'running') AND {can}",
                    [*named, *values],
                )
            )

        return await self._database.write(work, *(tenant for tenant, _ in keys)) if keys else 0

    @reading
    def next_job_at(self, tx: Transaction, capabilities: Sequence[Capability]) -> datetime | None:
        can, values = doable(capabilities)
        waiting = free(
            tx,
            f"SELECT j.tenant_id, j.thread_id, j.run_after FROM {TABLE} j"
            f" WHERE j.status = 'pending' AND {can} ORDER BY j.run_after",
            *values,
        )
        leased = tx.one(
            f"SELECT j.lease_until FROM {TABLE} j WHERE j.status = 'running' AND {can}"
            " AND j.lease_until IS NOT NULL ORDER BY j.lease_until LIMIT 1",
            values,
        )
        moments = [row[-1] for row in [*waiting[:1], *([leased] if leased else [])]]
        return min(moments, default=None)

    async def job_hints(self) -> AsyncIterator[datetime | None]:
        """Poll the queue every second: this engine has no notifications."""
        seen = await self._database.read(_newest)
        yield None
        while True:
            await asyncio.sleep(POLL_S)
            newest = await self._database.read(_newest)
            due = [at for job_id, at in newest.items() if job_id not in seen or at < seen[job_id]]
            seen = newest
            if due:
                yield min(due)

    @reading
    def list_jobs(self, tx: Transaction, job_filter: JobFilter) -> Sequence[JobRecord]:
        labels = [label for label in (job_filter.app, job_filter.user) if label is not None]
        tenant = to_path(labels)
        where = all_of(
            WhereClause("tenant_id >= %s AND tenant_id < %s", (tenant, path_end(tenant))),
            WhereClause("status IN %s", ([str(one) for one in job_filter.statuses],)),
            if_set("tenant_id = %s", tenant if len(labels) == 2 else None),
            if_set("thread_id = %s", job_filter.thread_id),
            if_set(
                "job_id IN %s", None if job_filter.job_ids is None else list(job_filter.job_ids)
            ),
        )
        rows = tx.rows(
            f"SELECT {RECORD_COLUMNS} FROM {TABLE} WHERE {where.sql}"
            " ORDER BY created_at DESC, job_id DESC LIMIT %s",
            [*where.values, job_filter.limit],
        )
        return newest_first(rows)

    @reading
    def job_stats(self, tx: Transaction) -> JobStats:
        now = self._clock()
        counted: dict[str, int] = dict(
            tx.rows(f"SELECT status, count(*) FROM {TABLE} GROUP BY status")
        )
        due = tx.one(
            f"SELECT count(*), min(run_after), coalesce(sum(job_type = 'callback'), 0)"
            f" FROM {TABLE} WHERE status = 'pending' AND run_after <= %s",
            [now],
        )
        assert due is not None
        count, oldest, callbacks = due
        return JobStats(
            pending=counted.get("pending", 0),
            due=count,
            running=counted.get("running", 0),
            failed=counted.get("failed", 0),
            oldest_due_s=None if oldest is None else (now - oldest).total_seconds(),
            due_callbacks=int(callbacks),
        )


def free(tx: Transaction, query: str, *values: object) -> list[Row]:
    """Return the first pending jobs of idle threads; rows begin with tenant and thread.

    The few running jobs are read apart, so that the query stops at its limit.
    """
    busy = set(tx.rows(f"SELECT tenant_id, thread_id FROM {TABLE} WHERE status = 'running'"))
    start = 0
    while True:
        page = tx.rows(f"{query} LIMIT %s OFFSET %s", [*values, CANDIDATES, start])
        found = [row for row in page if row[:2] not in busy]
        if found or len(page) < CANDIDATES:
            return found
        start += CANDIDATES


def _newest(tx: Transaction) -> dict[UUID, datetime]:
    """Return id and time of the pending jobs that are due first or are newest."""
    some = f"SELECT job_id, run_after FROM {TABLE} WHERE status = %s ORDER BY"
    waiting = str(JobStatus.PENDING)
    return dict(
        [
            *tx.rows(f"{some} run_after LIMIT {HINTED}", [waiting]),
            *tx.rows(f"{some} created_at DESC LIMIT {HINTED}", [waiting]),
        ]
    )


CLAIMS = 8
"""Maximum number of tries to claim a job while other workers are first."""
_WORK_COLUMNS = "tenant_id, job_id, thread_id, job_type, performer"


def _lock_tenants(tx: Transaction, condition: str, *values: object) -> None:
    """Lock the tenants of the jobs that meet a condition; read the jobs again after that."""
    tenants = tx.rows(f"SELECT DISTINCT tenant_id FROM {TABLE} WHERE {condition}", values)
    tx.lock(*(row[0] for row in tenants))


def _candidates(
    tx: Transaction, worker_id: str, now: datetime, capabilities: Sequence[Capability], after: str
) -> list[Row]:
    """Return tenant and id of jobs to claim, the first in line first.

    Jobs with an expired lease come first, then due ones by priority. At equal priority the tenants
    take turns, beginning after the given one.
    """
    can, values = doable(capabilities)
    expired = tx.rows(
        f"SELECT j.tenant_id, j.job_id FROM {TABLE} j WHERE j.status = 'running'"
        f" AND (j.lease_until <= %s OR j.worker_id = %s) AND {can}"
        " ORDER BY j.lease_until LIMIT %s",
        [now, worker_id, *values, CANDIDATES],
    )
    if expired:
        return expired
    for (priority,) in tx.rows(
        f"SELECT DISTINCT priority FROM {TABLE} WHERE status = 'pending' AND run_after <= %s"
        " ORDER BY priority DESC",
        [now],
    ):
        for lap in (">", "<="):
            found = free(
                tx,
                f"SELECT j.tenant_id, j.thread_id, j.job_id FROM {TABLE} j"
                " WHERE j.status = 'pending'"
                f" AND j.priority = %s AND j.tenant_id {lap} %s AND j.run_after <= %s AND {can}"
                " ORDER BY j.tenant_id, j.run_after",
                priority, after, now, *values,
            )  # fmt: skip
            if found:
                return [(tenant, job_id) for tenant, _, job_id in found]
    return []
