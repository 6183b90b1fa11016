"""What `hippocampus worker` and `hippocampus jobs` do."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from uuid import UUID

from rich import box
from rich.table import Table

from shared_core.core.domain import JsonValue, Scope
from shared_core.core.ids import chosen_id
from shared_core.engine import MemoryEngine
from shared_core.errors import InvalidInput
from shared_core.ports.jobs import JobRecord, JobStats, JobStatus

log = logging.getLogger("hippocampus")

ORDER = ("running", "pending", "failed", "completed", "cancelled")
SHOWN_OF_ID = 6
"""So many last characters of an id are shown; the first ones are of its time."""
MOST_JOBS = 100_000


async def work(
    memory: MemoryEngine, *, once: bool, poll_s: float, done: dict[str, int] | None = None
) -> int:
    """Do jobs of all processes until SIGTERM or SIGINT; once: until nothing is due.

    The first signal lets the job in work be finished, the second gives it back to the queue.
    Returns the exit code: 1 if once and a job failed. done: is told how many jobs were done, and
    how many tries failed.
    """
    stop = asyncio.Event()
    async with memory:
        if once:
            await memory.session_ends.run()
        working = asyncio.create_task(memory.jobs.serve(stop, once=once, poll_s=poll_s))

        def asked_to_stop() -> None:
            if stop.is_set():
                working.cancel()
            else:
                log.info("stopping after the job in work; once more to give it back")
                stop.set()

        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, asked_to_stop)
        log.info("worker %d waits for jobs", os.getpid())
        keeping = (
            []
            if once
            else [
                asyncio.create_task(memory.indexes.keep(stop)),
                asyncio.create_task(memory.forgetting_schedule.keep(stop)),
                asyncio.create_task(memory.session_ends.keep(stop)),
            ]
        )
        try:
            with suppress(asyncio.CancelledError):
                tally = await working
                if done is not None:
                    done |= {"done": tally.done, "failed": tally.failed}
                if once:
                    await memory.forgetting_schedule.run_if_due()
                log.info("worker ends: %d jobs done, %d tries failed", tally.done, tally.failed)
                if once and (left := (await memory.jobs.stats()).due_callbacks):
                    log.info(
                        "%d callbacks are due and were left: only a process with their code,"
                        " for example the DurableReflectionExecutor they came from, does them",
                        left,
                    )
                return 1 if once and tally.failed else 0
            log.warning("worker ends: the job in work went back to the queue")
            return 1
        finally:
            for task in keeping:
                task.cancel()
            if keeping:
                await asyncio.wait(keeping)
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)


async def change(
    memory: MemoryEngine,
    retry: str | None,
    cancel: str | None,
    scope: Scope | None,
    app: str | None,
    limit: int,
) -> str:
    """Put jobs back or cancel one, and return what was done, in a line.

    retry, cancel: the id of a job, or how it begins or ends; or "all" that were given up, limit
    at most.
    Raises InvalidInput for a name that means no job, or more than one.
    """
    if retry is not None and cancel is not None:
        raise InvalidInput("give either --retry or --cancel")
    failed = [JobStatus.FAILED]
    if cancel is not None:
        cancelled = await memory.jobs.cancel(
            await _named(memory, cancel, [JobStatus.PENDING, JobStatus.RUNNING])
        )
        return f"{cancelled} cancelled"
    if retry == "all":
        found = await memory.jobs.list(scope, app=app, statuses=failed, limit=limit)
        ids = [job.job_id for job in found]
    else:
        ids = await _named(memory, retry or "", failed)
    return f"{await memory.jobs.retry(ids)} put back"


async def _named(memory: MemoryEngine, name: str, statuses: Sequence[JobStatus]) -> list[UUID]:
    candidates = await memory.jobs.list(statuses=statuses, limit=MOST_JOBS)
    ids = [job.job_id for job in candidates]
    what = f"{' or '.join(statuses)} job"
    return [chosen_id(name, ids, what=what, shown_by="hippocampus jobs")]


def jobs_json(jobs: Sequence[JobRecord], now: datetime) -> list[dict[str, JsonValue]]:
    """Return jobs as JSON values, by state, the oldest first."""
    return [
        {
            "state": job.status,
            "app": job.scope.app,
            "user": job.scope.user,
            "thread": job.thread_id,
            "type": job.job_type,
            "performer": job.performer,
            "priority": job.priority,
            "attempts": job.attempts,
            "age_s": round((now - job.created_at).total_seconds(), 3),
            "run_after": job.run_after.isoformat(),
            "lease_until": _iso(job.lease_until),
            "started_at": _iso(job.started_at),
            "completed_at": _iso(job.completed_at),
            "error": job.error,
            "job_id": str(job.job_id),
        }
        for job in _in_order(jobs)
    ]


def jobs_table(jobs: Sequence[JobRecord], now: datetime) -> Table:
    """Return jobs as a table, by state, the oldest first."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in ("state", "job", "type", "age", "due", "tries", "app", "user", "thread", "error"):
        table.add_column(name, overflow="fold")
    for job in _in_order(jobs):
        wait = job.run_after - now
        due = "" if job.status != "pending" else f"in {_span(wait)}" if wait > _NOW else "now"
        table.add_row(
            job.status,
            str(job.job_id)[-SHOWN_OF_ID:],
            f"{job.job_type} {job.performer}" if job.performer else job.job_type,
            _span(now - job.created_at),
            due,
            str(job.attempts),
            job.scope.app,
            job.scope.user,
            job.thread_id or "",
            job.error or "",
        )
    return table


def stats_line(stats: JobStats) -> str:
    """Return how full the queue is, in a line."""
    waits = ""
    if stats.due_callbacks:
        waits = f", {stats.due_callbacks} of them for a process that knows their code"
    if stats.oldest_due_s is not None:
        waits += f", the oldest for {_span(timedelta(seconds=stats.oldest_due_s))}"
    return (
        f"{stats.pending} pending ({stats.due} due{waits}),"
        f" {stats.running} running, {stats.failed} given up"
    )


def _iso(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None


_NOW = timedelta(0)


def utc_now() -> datetime:
    """Return the time, in UTC."""
    return datetime.now(UTC)


def _in_order(jobs: Sequence[JobRecord]) -> list[JobRecord]:
    return sorted(jobs, key=lambda job: (ORDER.index(job.status), job.created_at))


def _span(span: timedelta) -> str:
    seconds = int(max(span, _NOW).total_seconds())
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
