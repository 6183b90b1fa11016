"""The threads that run transactions: so many at once, and nobody waits for one without end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from shared_core.core.sync_bridge import exiting
from shared_core.errors import StorageUnavailable

T = TypeVar("T")

CLOSED = "the memory is closed: open a new one with open_memory()"


class Threads:
    """At most size threads; safe from any loop and thread."""

    def __init__(self, size: int, timeout_s: float) -> None:
        self._size = size
        self._timeout_s = timeout_s
        self._pool = ThreadPoolExecutor(size, "hippocampus-sql")
        self._moved_at = time.monotonic()

    async def run(self, work: Callable[[], T]) -> T:
        """Return what work returns. A cancelled caller leaves, and what runs comes to its end.

        Raises StorageUnavailable when none at all came free for timeout_s: however many wait, the
        time counts anew whenever one of them is served.
        """
        asked_at = time.monotonic()
        try:
            future = self._pool.submit(self._moved, work)
        except RuntimeError as error:
            if exiting():
                return work()  # no thread is started any more: what is left is done in place
            raise StorageUnavailable(CLOSED) from error
        answer = asyncio.wrap_future(future)
        try:
            await self._begun(future, answer, asked_at)
            return await answer
        except BaseException:
            answer.cancel()
            raise

    def shut_down(self) -> None:
        """Wait for what runs and for what was asked for."""
        self._pool.shutdown(wait=True)

    def _moved(self, work: Callable[[], T]) -> T:
        self._moved_at = time.monotonic()
        return work()

    async def _begun(self, future: Future[T], answer: asyncio.Future[T], asked_at: float) -> None:
        while not (future.running() or answer.done()):
            idle_s = time.monotonic() - max(asked_at, self._moved_at)
            if idle_s >= self._timeout_s and future.cancel():
                raise StorageUnavailable(
                    f"none of all {self._size} connections came free for {self._timeout_s:g} s:"
                    " raise pool_size, or look for calls that never return"
                )
            await asyncio.wait([answer], timeout=max(self._timeout_s - idle_s, 0.01))
