"""Reads the size of the queue when metrics are exported."""

from __future__ import annotations

import asyncio
import logging
import time

from shared_core.core import telemetry
from shared_core.core.event_loops import exiting, run_sync
from shared_core.core.telemetry import QueueSizes
from shared_core.errors import StorageUnavailable
from shared_core.lifecycle import StorageLifecycle
from shared_core.ports.jobs import JobStats
from shared_core.ports.storage import Storage

log = logging.getLogger("hippocampus")

READ_AGAIN_S = 1.0
"""Seconds that a size is reused: two metrics of one export share it."""
DEADLINE_S = 5.0
"""Seconds to wait for the database. Prometheus waits ten for all metrics."""


class QueueSizeReader:
    """Reads the queue of an open memory. It never opens one."""

    def __init__(self, lifecycle: StorageLifecycle) -> None:
        self._lifecycle = lifecycle
        self._sizes: QueueSizes | None = None
        self._read_again_at = 0.0
        telemetry.watch_queue(self)

    def read(self) -> QueueSizes | None:
        """Return the sizes; None while the memory is closed or its database does not answer."""
        storage = self._lifecycle.storage_if_open()
        if storage is None or exiting():
            return None
        if time.monotonic() >= self._read_again_at:
            self._sizes = self._read(storage)
            self._read_again_at = time.monotonic() + READ_AGAIN_S
        return self._sizes

    def _read(self, storage: Storage) -> QueueSizes | None:
        try:
            stats = run_sync(_stats(storage))
        except (StorageUnavailable, TimeoutError) as error:
            log.warning("metrics of the queue are missing: %s", error or "the database is slow")
            return None
        return QueueSizes(
            by_state={
                "waiting": max(stats.pending - stats.due, 0),
                "due": stats.due,
                "running": stats.running,
                "dead": stats.failed,
            },
            oldest_due_s=stats.oldest_due_s or 0.0,
        )


async def _stats(storage: Storage) -> JobStats:
    async with asyncio.timeout(DEADLINE_S):
        return await storage.jobs.job_stats()
