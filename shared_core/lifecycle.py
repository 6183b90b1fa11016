"""Whether a memory is open in this process: opened once, closed once, and at exit at the latest."""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
from collections.abc import Awaitable, Callable
from weakref import WeakSet

from shared_core.core.event_loops import PeriodicTask, in_background, on_own_loop, run_at_exit
from shared_core.errors import MemoryCoreError, StorageUnavailable
from shared_core.jobs.index_maintenance import Indexes
from shared_core.jobs.queue import JobQueue
from shared_core.ports.storage import Storage
from shared_core.recall.access_log import AccessLog

log = logging.getLogger("hippocampus")

EXIT_DRAIN_S = 0.5
"""How long the job in work may take when the interpreter ends and nobody closed the memory."""
EXIT_S = 3.0
"""How long closing may take then."""
CLOSED = -1


class MemoryClosed(StorageUnavailable):
    """Work in the background met a memory that was closed; it ends, and opens nothing."""


class Lifetime:
    """Opens and closes a storage and who works on it, from any event loop, and after a fork.

    What runs in the background opens no memory that was closed. opened: called after each opening.
    """

    def __init__(self, storage: Storage, opened: Callable[[], None]) -> None:
        self._storage = storage
        self._opened = opened
        self._opened_in = self._opening_in = 0
        self._opening = asyncio.Lock()
        self._stop: Callable[[float], Awaitable[None]] | None = None

    def ends_with(
        self,
        jobs: JobQueue,
        indexes: Indexes,
        accesses: AccessLog,
        *looks: PeriodicTask,
    ) -> None:
        """Stop these before the storage is closed."""

        async def stop(drain_s: float) -> None:
            await jobs.stop(drain_s)
            await indexes.stop()
            for look in looks:
                await look.stop()
            await accesses.stop()

        self._stop = stop

    @property
    def is_open(self) -> bool:
        """Whether it is open in this process."""
        return self._opened_in == os.getpid()

    async def open(self) -> None:
        """Open the storage if it is not. Raises StorageUnavailable, MemoryClosed."""
        if self.is_open:
            return
        if self._opened_in == CLOSED and in_background.get():
            raise MemoryClosed("the memory was closed, so work in the background ends")
        # Who gives up waiting does not undo the opening: the next caller finds it done.
        await asyncio.shield(on_own_loop(self._open()))

    async def _open(self) -> None:
        # Every opening runs on the bridge's one loop; a forked child has a loop of its own.
        if self._opening_in != os.getpid():
            self._opening_in, self._opening = os.getpid(), asyncio.Lock()
        async with self._opening:
            if not self.is_open:
                await self._storage.open()
                self._opened_in = os.getpid()
                _close_at_exit(self)
                self._opened()

    async def close(self, drain_s: float) -> None:
        """Stop who works on the storage, the job in work within drain_s, and close it."""
        if self.is_open:
            if self._stop is not None:
                await self._stop(drain_s)
            self._opened_in = CLOSED
            await self._storage.close()


_lifetimes: WeakSet[Lifetime] = WeakSet()
_registered_in = 0


def _close_at_exit(lifetime: Lifetime) -> None:
    global _registered_in
    _lifetimes.add(lifetime)
    if _registered_in != os.getpid():  # a child of multiprocessing begins without its parent's
        _registered_in = os.getpid()
        atexit.unregister(_close_all)
        atexit.register(_close_all)


def _close_all() -> None:
    left_open = [lifetime for lifetime in _lifetimes if lifetime.is_open]
    if left_open:
        run_at_exit(_closed(left_open), EXIT_S)


async def _closed(lifetimes: list[Lifetime]) -> None:
    ended = await asyncio.gather(
        *(lifetime.close(EXIT_DRAIN_S) for lifetime in lifetimes), return_exceptions=True
    )
    for error in ended:
        if isinstance(error, MemoryCoreError):
            log.warning("a memory could not be closed at the exit: %s", error)
        elif error is not None:
            raise error
