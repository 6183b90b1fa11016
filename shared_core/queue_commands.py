"""What `hippocampus worker` and `hippocampus jobs` do."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from rich import box
from rich.table import Table

from shared_core.domain import JsonValue
from shared_core.engine import MemoryEngine
from shared_core.log_ports import JobRecord

log = logging.getLogger("hippocampus")

ORDER = ("running", "pending", "failed")


async def work(memory: MemoryEngine, *, once: bool, poll_s: float) -> int:
    """Do jobs of all processes until SIGTERM or SIGINT; once: until nothing is due.

    The first signal lets the job in work be finished, the second gives it back to the queue.
    Returns the exit code: 1 if once and a job failed.
    """
    stop = asyncio.Event()
    async with memory:
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
        try:
            with suppress(asyncio.CancelledError):
                tally = await working
                log.info("worker ends: %d jobs done, %d tries failed", tally.done, tally.failed)
                return 1 if once and tally.failed else 0
            log.warning("worker ends: the job in work went back to the queue")
            return 1
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)


def jobs_json(jobs: Sequence[JobRecord], now: datetime) -> list[dict[str, JsonValue]]:
    """Return jobs as JSON values, by state, the oldest first."""
    return [
        {
            "state": job.status,
            "app": job.scope.app,
            "user": job.scope.user,
            "thread": job.thread_id,
            "type": job.job_type,
            "attempts": job.attempts,
            "age_s": round((now - job.created_at).total_seconds(), 3),
            "run_after": job.run_after.isoformat(),
            "lease_until": job.lease_until.isoformat() if job.lease_until else None,
            "error": job.error,
            "job_id": str(job.job_id),
        }
        for job in _in_order(jobs)
    ]


def jobs_table(jobs: Sequence[JobRecord], now: datetime) -> Table:
    """Return jobs as a table, by state, the oldest first."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in ("state", "age", "due", "tries", "app", "user", "thread", "error"):
        table.add_column(name, overflow="fold")
    for job in _in_order(jobs):
        wait = job.run_after - now
        due = "" if job.status != "pending" else f"in {_span(wait)}" if wait > _NOW else "now"
        table.add_row(
            job.status,
            _span(now - job.created_at),
            due,
            str(job.attempts),
            job.scope.app,
            job.scope.user,
            job.thread_id,
            job.error or "",
        )
    return table


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
