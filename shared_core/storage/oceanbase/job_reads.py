"""OceanBaseStorage: what is in the queue, and when more comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from uuid import UUID

from shared_core.core.domain import Scope, ThreadId
from shared_core.core.namespaces import path_end, scope_path, to_path
from shared_core.ports.jobs import Capability, JobFilter, JobRecord, JobStats, JobStatus
from shared_core.storage.oceanbase.base import OceanBasePart
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction
from shared_core.storage.oceanbase.job_rows import (
    RECORD_COLUMNS,
    TABLE,
    doable,
    newest_first,
)

POLL_S = 1.0
CANDIDATES = 64
"""Jobs that wait, of one page."""
HINTED = 1000
"""Jobs that one look tells of at most."""


class OceanBaseJobReads(OceanBasePart):
    """The queue of all scopes, as it is."""

    async def next_job_at(self, capabilities: Sequence[Capability]) -> datetime | None:
        can, values = doable(capabilities)

        def work(tx: Transaction) -> datetime | None:
            waiting = free(
                tx,
                f"SELECT j.tenant_id, j.thread_id, j.run_after FROM {TABLE} j"
                f" WHERE j.status = 'pending' AND {can} ORDER BY j.run_after",
                *values,
            )
            leased = tx.one(
                f"SELECT j.lease_until FROM {TABLE} j WHERE j.status = 'running' AND {can}"
                " AND j.lease_until IS NOT NULL ORDER BY j.lease_until LIMIT 1",
                *values,
            )
            moments = [row[-1] for row in [*waiting[:1], *([leased] if leased else [])]]
            return min(moments, default=None)

        return await self._database.read(work)

    async def job_hints(self) -> AsyncIterator[datetime | None]:
        """Look at the queue every second, as this engine tells nobody of what is new."""
        seen = await self._database.read(_newest)
        yield None
        while True:
            await asyncio.sleep(POLL_S)
            newest = await self._database.read(_newest)
            due = [at for job_id, at in newest.items() if job_id not in seen or at < seen[job_id]]
            seen = newest
            if due:
                yield min(due)

    async def list_jobs(self, wanted: JobFilter) -> Sequence[JobRecord]:
        labels = [label for label in (wanted.app, wanted.user) if label is not None]
        tenant = to_path(labels)
        conditions = ["tenant_id >= %s AND tenant_id < %s AND status IN %s"]
        values: list[object] = [tenant, path_end(tenant), [str(one) for one in wanted.statuses]]
        if len(labels) == 2:
            conditions.append("tenant_id = %s")
            values.append(tenant)
        if wanted.thread_id is not None:
            conditions.append("thread_id = %s")
            values.append(wanted.thread_id)
        if wanted.job_id is not None:
            conditions.append("job_id = %s")
            values.append(wanted.job_id)
        rows = await self._database.read(
            lambda tx: tx.rows(
                f"SELECT {RECORD_COLUMNS} FROM {TABLE} WHERE {' AND '.join(conditions)}"
                " ORDER BY created_at DESC, job_id DESC LIMIT %s",
                *values,
                wanted.limit,
            )
        )
        return newest_first(rows)

    async def jobs_of_threads(
        self, threads: Sequence[tuple[Scope, ThreadId]]
    ) -> Sequence[JobRecord]:
        asked = [(scope_path(scope), thread_id) for scope, thread_id in threads]
        if not asked:
            return []
        rows = await self._database.read(
            lambda tx: tx.rows(
                f"SELECT {RECORD_COLUMNS} FROM {TABLE} WHERE (tenant_id, thread_id) IN %s", asked
            )
        )
        return newest_first(rows)

    async def job_stats(self) -> JobStats:
        now = self._clock()

        def work(tx: Transaction) -> JobStats:
            counted: dict[str, int] = dict(
                tx.rows(f"SELECT status, count(*) FROM {TABLE} GROUP BY status")
            )
            due = tx.one(
                f"SELECT count(*), min(run_after), coalesce(sum(job_type = 'callback'), 0)"
                f" FROM {TABLE} WHERE status = 'pending' AND run_after <= %s",
                now,
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

        return await self._database.read(work)


def free(tx: Transaction, query: str, *values: object) -> list[Row]:
    """Return the first jobs that wait whose threads no worker is at; the rows begin with these.

    Who runs is few, and read apart: so the query stops at its limit.
    """
    busy = set(tx.rows(f"SELECT tenant_id, thread_id FROM {TABLE} WHERE status = 'running'"))
    start = 0
    while True:
        page = tx.rows(f"{query} LIMIT %s OFFSET %s", *values, CANDIDATES, start)
        found = [row for row in page if row[:2] not in busy]
        if found or len(page) < CANDIDATES:
            return found
        start += CANDIDATES


def _newest(tx: Transaction) -> dict[UUID, datetime]:
    """Return id and time of the jobs that wait and are due first, or came last."""
    some = f"SELECT job_id, run_after FROM {TABLE} WHERE status = %s ORDER BY"
    waiting = str(JobStatus.PENDING)
    return dict(
        [
            *tx.rows(f"{some} run_after LIMIT {HINTED}", waiting),
            *tx.rows(f"{some} created_at DESC LIMIT {HINTED}", waiting),
        ]
    )
