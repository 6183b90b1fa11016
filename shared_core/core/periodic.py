"""What is looked after in the background: in a worker, or after a call, when it is time."""

from __future__ import annotations

import asyncio
import os
import time

from shared_core.core.sync_bridge import on_own_loop, start_on_own_loop


class NowAndThen:
    """Looks after something now and then, on the bridge's own loop, one look at a time.

    Whoever inherits from it says what a look is, and how long to wait for the first and the next.
    """

    _in_background: bool
    """False: others look; nudge() does nothing."""

    def __init__(self) -> None:
        self._pid = 0
        self._look_at = 0.0
        self._task: asyncio.Task[object] | None = None

    async def _look(self) -> None:
        raise NotImplementedError

    def _waits_s(self) -> tuple[float, float]:
        """Return the seconds from the first nudge() to the first look, and from look to look."""
        raise NotImplementedError

    async def keep(self, stop: asyncio.Event, *, every_s: float | None = None) -> None:
        """Look now and then, until stop is set."""
        while not stop.is_set():
            await self._look()
            try:
                async with asyncio.timeout(self._waits_s()[1] if every_s is None else every_s):
                    await stop.wait()
            except TimeoutError:
                pass

    def nudge(self) -> None:
        """Look in the background, when it is time. Returns at once."""
        if not self._in_background:
            return
        now = time.monotonic()
        first_s, every_s = self._waits_s()
        if self._pid != os.getpid():  # a forked child has no task
            self._pid, self._task, self._look_at = os.getpid(), None, now + first_s
        if now >= self._look_at:
            self._look_at = now + every_s
            start_on_own_loop(self._start)

    async def stop(self) -> None:
        """End a look that goes on; what it left half-way, another look takes up."""
        await on_own_loop(self._stop())

    def _start(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._look())

    async def _stop(self) -> None:
        task, self._task = self._task, None
        if task is not None and self._pid == os.getpid():
            task.cancel()
            await asyncio.wait([task])
