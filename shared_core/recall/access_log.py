"""Counts which memories answer questions: afterwards, in batches, never in the way of a read."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from uuid import UUID

from shared_core.core.domain import MemoryId, Scope
from shared_core.core.event_loops import on_own_loop, start_on_own_loop
from shared_core.errors import MemoryCoreError, StorageReadOnly
from shared_core.ports.retention import Accesses, AccessStorage, NewAccesses
from shared_core.ports.storage import Clock

log = logging.getLogger("hippocampus")

WRITE_EVERY_S = 2.0
"""So long reads are collected before they are counted."""
FULL = 500
"""So many memories at once are counted right away."""
MOST = 10_000
"""Of more memories than these the reads are lost, while the database does not keep up."""
READ_ONLY_S = 600.0
"""So long nothing is counted after the database was read only; a standby may be promoted."""


class AccessLog:
    """Collects reads, from any thread and loop, and writes them on the bridge's own loop.

    What cannot be written is logged and lost: a counter is worth no failed answer. It never opens a
    memory: what is read while is_open() is false, or not written when it closes, is not counted.
    """

    def __init__(
        self,
        storage: AccessStorage,
        clock: Clock,
        is_open: Callable[[], bool],
        *,
        wanted: bool = True,
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._is_open = is_open
        self._wanted = wanted
        self._told_read_only = False
        self._begin()

    def _begin(self) -> None:
        """Begin anew, also in a forked child: what was read before the fork its parent counts."""
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._pending: dict[tuple[Scope, UUID], Accesses] = {}
        self._counts_again_at = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._full = asyncio.Event()
        self._writing = asyncio.Lock()

    def record(self, scope: Scope, memory_ids: Iterable[MemoryId]) -> None:
        """Count memories as read now, a little later. Returns at once, and raises nothing."""
        if self._pid != os.getpid():
            self._begin()
        counted = self._wanted and time.monotonic() >= self._counts_again_at
        if not counted or not self._is_open():
            return
        now = self._clock()
        with self._lock:
            before = len(self._pending)
            for memory_id in memory_ids:
                known = self._pending.get((scope, memory_id))
                if known is None and len(self._pending) >= MOST:
                    continue
                count = 1 if known is None else known.access_count + 1
                self._pending[scope, memory_id] = Accesses(count, now)
            after = len(self._pending)
        if before == 0 < after or before < FULL <= after:
            start_on_own_loop(self._start)

    async def flush(self) -> None:
        """Write what is collected, and wait for what is being written."""
        if self._pid == os.getpid() and self._wanted:
            await on_own_loop(self._flush())

    async def stop(self) -> None:
        """Write what is collected, and end."""
        if self._pid == os.getpid() and self._wanted:
            await on_own_loop(self._stop())

    def _meet_loop(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._task = loop, None  # another one has died
            self._full, self._writing = asyncio.Event(), asyncio.Lock()

    def _start(self) -> None:
        self._meet_loop()
        if len(self._pending) >= FULL:
            self._full.set()
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._write_now_and_then())

    async def _write_now_and_then(self) -> None:
        while self._pending:
            try:
                async with asyncio.timeout(WRITE_EVERY_S):
                    await self._full.wait()
            except TimeoutError:
                pass
            self._full.clear()
            await self._flush()

    async def _stop(self) -> None:
        await self._flush()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _flush(self) -> None:
        self._meet_loop()
        async with self._writing:
            with self._lock:
                pending, self._pending = self._pending, {}
            if not pending or not self._is_open():
                return
            batch = [
                NewAccesses(scope, MemoryId(memory_id), accesses)
                for (scope, memory_id), accesses in pending.items()
            ]
            try:
                await self._storage.add_accesses(batch)
            except StorageReadOnly as error:
                self._counts_again_at = time.monotonic() + READ_ONLY_S
                if not self._told_read_only:
                    self._told_read_only = True
                    log.info("what is read here is not counted: %s", error)
            except MemoryCoreError as error:
                log.warning("reads of %d memories are not counted: %s", len(batch), error)
            except Exception:  # a read was answered long ago, and nobody is there to be told
                log.exception("reads of %d memories are not counted", len(batch))
