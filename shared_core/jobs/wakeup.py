"""Wakes a worker that rests: when a job is due, by a hint from another process, or to stop."""

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
"""How long after hints stopped they are listened for again."""


class Hearing:
    """Hints of new jobs, while a worker serves. Without them all goes on by looking at the queue.

    arrives: whether hints are known to arrive.
    """

    def __init__(self, storage: JobStorage, clock: Clock) -> None:
        self.arrives = False
        self._storage = storage
        self._clock = clock
        self._news = asyncio.Event()
        self._due: datetime | None = None

    async def listen(self) -> None:
        """Listen until cancelled. When hints stop, say so once and try again later."""
        told = False
        while True:
            try:
                async for due in self._storage.job_hints():
                    if due is None:
                        self.arrives, told = True, False
                    elif self._due is None or due < self._due:
                        self._due = due
                    self._news.set()
            except StorageUnavailable as error:
                if not told:
                    log.warning("no hints of new jobs, so the queue is looked at often: %s", error)
                told = True
            self.arrives = False
            self._news.set()
            await asyncio.sleep(RELISTEN_S)

    def interrupt(self) -> None:
        """End a rest now."""
        self._due = self._clock()
        self._news.set()

    async def rest(self, seconds: float) -> None:
        """Wait so long at most: less when a hint names an earlier time, or on interrupt()."""
        end = time.monotonic() + seconds
        heard = self.arrives
        while self.arrives == heard:
            if self._due is not None:
                wait_s = (self._due - self._clock()).total_seconds()
                end = min(end, time.monotonic() + max(wait_s, 0.0))
                self._due = None
            self._news.clear()
            left = end - time.monotonic()
            if left <= 0:
                return
            try:
                async with asyncio.timeout(left):
                    await self._news.wait()
            except TimeoutError:
                return
