"""Ends sessions that nobody goes on with: in a worker, or while this process has inputs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from uuid import uuid4

from shared_core.core.domain import Scope
from shared_core.core.event_loops import PeriodicTask, in_background
from shared_core.errors import MemoryCoreError, StorageUnavailable
from shared_core.lifecycle import Handle

log = logging.getLogger("hippocampus")

TASK = "end_sessions"
LEASE_S = 60.0
BATCH = 100


class ConversationExpiry(PeriodicTask):
    """Looks for sessions that are over, of all users, one process at a time.

    end: ends the session of one scope if it is over, and tells whether it was. every_s: how often
    is looked at most. In a process that hears inputs the look sleeps until the next session is to
    end, and ends itself when none is active.
    """

    def __init__(
        self,
        handle: Handle,
        end: Callable[[Scope], Awaitable[bool]],
        every_s: Callable[[], float],
        *,
        in_background: bool = True,
    ) -> None:
        super().__init__()
        self._handle = handle
        self._clock = handle.clock
        self._end = end
        self._every_s = every_s
        self._in_background = in_background

    async def run(self) -> int:
        """End the sessions that are over, unless another process is at it; return how many."""
        return (await self._run())[0]

    async def _run(self) -> tuple[int, datetime | None]:
        """Return how many sessions ended, and when the next is to end; None for never."""
        storage = await self._handle.storage()
        worker_id = uuid4().hex
        if not await storage.retention.take_turn(TASK, worker_id, self._clock(), LEASE_S):
            return 0, self._clock()
        ended = 0
        try:
            while True:
                over, next_end = await storage.conversations.conversations_over(BATCH)
                went = [await self._end(scope) for scope in over]
                ended += sum(went)
                if not any(went):
                    return ended, next_end
                await storage.retention.keep_turn(TASK, worker_id, self._clock(), LEASE_S)
        finally:
            now = self._clock()
            await storage.retention.end_turn(TASK, worker_id, now, now, {"ended": ended})

    def _waits_s(self) -> tuple[float, float]:
        return 0.0, self._every_s()

    async def _look(self) -> None:
        try:
            await self.run()
        except MemoryCoreError as error:
            log.warning("sessions that are over are not ended: %s", error)

    def _start(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        in_background.set(True)
        while True:
            try:
                _, next_end = await self._run()
            except StorageUnavailable:
                return  # whoever has the next input begins anew
            except MemoryCoreError as error:
                log.warning("sessions that are over are not ended: %s", error)
                next_end = self._clock()
            if next_end is None:
                return
            rest = next_end - self._clock()
            await asyncio.sleep(max(rest, timedelta(seconds=self._every_s())).total_seconds())
