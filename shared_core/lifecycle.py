"""Opens and closes a memory in this process, and hands its services the open storage."""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol
from weakref import WeakSet

from shared_core.core.domain import Namespace
from shared_core.core.event_loops import in_background, note_hosts_loop, on_own_loop, run_at_exit
from shared_core.core.namespaces import MEMORIES
from shared_core.core.timestamps import ServerClock
from shared_core.errors import MemoryCoreError, StorageUnavailable
from shared_core.models.embedding import Embedding
from shared_core.ports.storage import Clock, Storage
from shared_core.privacy.sanitizing import Intake

log = logging.getLogger("hippocampus")

COLD_RETRY_S = 60.0
"""Seconds after a failed warm_up() during which no other is tried."""
EXIT_DRAIN_S = 0.5
"""Seconds that a running job may take when the interpreter exits with the memory still open."""
EXIT_S = 3.0
"""Seconds that closing all memories may take at the exit of the interpreter."""
CLOSED = -1


class MemoryClosed(StorageUnavailable):
    """Background work met a closed memory: it ends, and does not open the memory again."""


class Background(Protocol):
    """Work of this process on a storage, which must stop before the storage is closed."""

    async def stop(self, drain_s: float) -> None:
        """Stop. Work that is under way may take drain_s seconds to finish."""
        ...


class StorageLifecycle:
    """Opens and closes one storage, from any event loop and after a fork.

    Background work never opens a storage that was closed.
    """

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock
        self._opened_in = self._opening_in = 0
        self._cold_until = 0.0
        self._opening = asyncio.Lock()
        self._after_opening: Sequence[Callable[[], None]] = ()
        self._background: Sequence[Background] = ()

    def attach(
        self, background: Sequence[Background], *, after_opening: Sequence[Callable[[], None]] = ()
    ) -> None:
        """Call after_opening after each opening; stop background, in order, before each closing."""
        self._background = background
        self._after_opening = after_opening

    @property
    def is_open(self) -> bool:
        """Whether the storage is open in this process."""
        return self._opened_in == os.getpid()

    def storage_if_open(self) -> Storage | None:
        """Return the storage, or None while it is closed. Never opens it."""
        return self._storage if self.is_open else None

    async def open(self) -> Storage:
        """Open the storage if it is closed, and return it.

        Raises StorageUnavailable, or MemoryClosed for background work on a closed memory.
        """
        if self.is_open:
            await self.compare_clock()
            return self._storage
        if self._opened_in == CLOSED and in_background.get():
            raise MemoryClosed("the memory was closed, so work in the background ends")
        # A caller that is cancelled does not undo the opening: the next caller finds it done.
        await asyncio.shield(on_own_loop(self._open()))
        return self._storage

    async def warm_up(self, embedding: Embedding | None, remote_s: float | None) -> None:
        """Open the storage and load an embedding; see MemoryEngine.warm_up()."""
        if time.monotonic() < self._cold_until:
            return
        try:
            async with asyncio.timeout(None if self._storage.is_embedded else remote_s):
                await self.open()
        except (MemoryCoreError, TimeoutError):
            self._cold_until = time.monotonic() + COLD_RETRY_S
        if embedding is not None:
            try:
                await embedding.load(is_open=self.is_open)
            except MemoryCoreError:
                self._cold_until = time.monotonic() + COLD_RETRY_S

    async def compare_clock(self) -> None:
        """Correct the clock of the memory by the server's; a caller's own clock stays."""
        if isinstance(self._clock, ServerClock):
            await self._clock.compare(self._storage.retention.ahead_of_server)

    async def _open(self) -> None:
        # Every opening runs on the bridge's one loop; a forked child has a loop of its own.
        if self._opening_in != os.getpid():
            self._opening_in, self._opening = os.getpid(), asyncio.Lock()
        async with self._opening:
            if not self.is_open:
                await self._storage.open()
                try:
                    await self.compare_clock()
                except BaseException:
                    await self._storage.close()
                    raise
                self._opened_in = os.getpid()
                _close_at_exit(self)
                for call in self._after_opening:
                    call()

    async def close(self, drain_s: float) -> None:
        """Stop the background work, a running job within drain_s seconds, and close the storage."""
        if self.is_open:
            for one in self._background:
                await one.stop(drain_s)
            self._opened_in = CLOSED
            await self._storage.close()


@dataclass(frozen=True, slots=True)
class Handle:
    """What the services of one memory share (decision 15).

    A service reaches the storage only through `storage()`, so it cannot forget to open it.
    item_embedding: of items outside of the shared memories.
    """

    lifecycle: StorageLifecycle
    embedding: Embedding
    item_embedding: Embedding
    sanitizer: Intake
    clock: Clock

    async def storage(self) -> Storage:
        """Return the storage, opened if it was closed.

        Call it after all argument checks: bad input needs no database.
        """
        note_hosts_loop()
        return await self.lifecycle.open()

    def embedding_of(self, namespace: Namespace) -> Embedding:
        """Return what embeds the items below a namespace."""
        return self.embedding if namespace[2:3] == (MEMORIES,) else self.item_embedding


_lifecycles: WeakSet[StorageLifecycle] = WeakSet()
_registered_in = 0


def _close_at_exit(lifecycle: StorageLifecycle) -> None:
    global _registered_in
    _lifecycles.add(lifecycle)
    # A child of multiprocessing starts without the exit handlers of its parent.
    if _registered_in != os.getpid():
        _registered_in = os.getpid()
        atexit.unregister(_close_all)
        atexit.register(_close_all)


def _close_all() -> None:
    still_open = [lifecycle for lifecycle in _lifecycles if lifecycle.is_open]
    if still_open:
        run_at_exit(_close_each(still_open), EXIT_S)


async def _close_each(lifecycles: list[StorageLifecycle]) -> None:
    outcomes = await asyncio.gather(
        *(lifecycle.close(EXIT_DRAIN_S) for lifecycle in lifecycles), return_exceptions=True
    )
    for error in outcomes:
        if isinstance(error, MemoryCoreError):
            log.warning("a memory could not be closed at exit: %s", error)
        elif error is not None:
            raise error
