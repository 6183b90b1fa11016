"""Wake a waiting worker when a job is due, when another process hints at one, or to stop."""

from __future__ import annotations

import asyncio
import logging
import time
from datetime import datetime

from shared_core.errors import StorageUnavailable
from shared_core.ports.jobs import JobStorage
from shared_core.ports.storage import Clock

log = logging.getLogger("hippocampus")

RELISTEN_S = 60.0
"""Seconds between the end of hints and the next attempt to listen."""


class Wakeup:
    """Waits for hints of new jobs while a worker serves. Without hints the worker polls.

    works: whether hints are known to arrive.
    """

    def __init__(self, storage: JobStorage, clock: Clock) -> None:
        self.works = False
        self._storage = storage
        self._clock = clock
        self._news = asyncio.Event()
        self._due: datetime | None = None

    async def listen(self) -> None:
        """Listen until cancelled. When hints stop, warn once and try again later."""
        warned = False
        while True:
            try:
                async for due in self._storage.job_hints():
                    if due is None:
                        self.works, warned = True, False
                    elif self._due is None or due < self._due:
                        self._due = due
                    self._news.set()
            except StorageUnavailable as error:
                if not warned:
                    log.warning("no hints of new jobs, so the worker polls the queue: %s", error)
                warned = True
            self.works = False
            self._news.set()
            await asyncio.sleep(RELISTEN_S)

    def interrupt(self) -> None:
        """End the current rest()."""
        self._due = self._clock()
        self._news.set()

    async def rest(self, seconds: float) -> None:
        """Wait at most this long; less if a hint names an earlier time, or on interrupt()."""
        end = time.monotonic() + seconds
        worked = self.works
        while self.works == worked:
            if self._due is not None:
                wait_s = (self._due - self._clock()).total_seconds()
                end = min(end, time.monotonic() + max(wait_s, 0.0))
                self._due = None
            self._news.clear()
            remaining_s = end - time.monotonic()
            if remaining_s <= 0:
                return
            try:
                async with asyncio.timeout(remaining_s):
                    await self._news.wait()
            except TimeoutError:
                return
