"""Counts the reads of memories in the background, in batches."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from shared_core.core.domain import MemoryId, Scope
from shared_core.core.event_loops import on_own_loop, start_on_own_loop
from shared_core.core.failure_reason import reason
from shared_core.core.namespaces import scope_path
from shared_core.core.validation import memory_ids_of
from shared_core.errors import StorageReadOnly
from shared_core.lifecycle import StorageLifecycle
from shared_core.policies.retention import accesses_of, select_accesses
from shared_core.ports.retention import Accesses, NewAccesses
from shared_core.ports.storage import Clock

log = logging.getLogger("hippocampus")

WRITE_EVERY_S = 2.0
"""Seconds between writes of collected reads."""
FULL = 500
"""Number of pending memories that triggers an immediate write."""
MOST = 10_000
"""Maximum number of pending memories; reads of further ones are dropped."""
READ_ONLY_S = 600.0
"""Seconds without counting after a read-only error; a standby may be promoted meanwhile."""


class AccessLog:
    """Counters of reads. Call it as engine.accesses(scope, memory_ids).

    It collects reads from any thread and loop, and writes them on the bridge's loop. Failed writes
    are logged and dropped, because a counter must not fail a read. Collecting never opens the
    memory: reads of a closed memory are not counted. counts: False counts no reads.
    """

    def __init__(self, lifecycle: StorageLifecycle, clock: Clock, *, counts: bool = True) -> None:
        self._lifecycle = lifecycle
        self._clock = clock
        self._counts = counts
        self._read_only_logged = False
        self._begin()

    def _begin(self) -> None:
        """Reset the state, also in a forked child; the parent counts the reads before the fork."""
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._pending: dict[tuple[Scope, UUID], Accesses] = {}
        self._counts_again_at = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._full = asyncio.Event()
        self._writing = asyncio.Lock()

    async def __call__(
        self, scope: Scope, memory_ids: Sequence[UUID | str]
    ) -> Mapping[MemoryId, Accesses]:
        """Return how often recall() and search() returned memories, and when last.

        This is the documented verb `engine.accesses(...)`. Memories that were never returned are
        not in the answer.
        """
        scope_path(scope)
        ids = memory_ids_of(memory_ids)
        storage = await self._lifecycle.open()
        await self.flush()
        [rows] = await storage.read(scope_path(scope), [select_accesses(ids)])
        return accesses_of(rows)

    async def record_now(self, scope: Scope, memory_ids: Sequence[UUID | str]) -> None:
        """Count memories as read now, in one round trip. Unknown ids are passed over.

        recall() and search() count what they return by themselves, in the background.
        """
        scope_path(scope)
        ids = dict.fromkeys(memory_ids_of(memory_ids))
        storage = await self._lifecycle.open()
        now = Accesses(1, self._clock())
        await storage.accesses.add_accesses([NewAccesses(scope, one, now) for one in ids])

    def record(self, scope: Scope, memory_ids: Iterable[MemoryId]) -> None:
        """Schedule the count of a read of these memories. Returns immediately and never raises."""
        if self._pid != os.getpid():
            self._begin()
        counted = self._counts and time.monotonic() >= self._counts_again_at
        if not counted or not self._lifecycle.is_open:
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
        """Write all collected reads, and wait for writes in progress."""
        if self._pid == os.getpid() and self._counts:
            await on_own_loop(self._flush())

    async def stop(self, drain_s: float = 0.0) -> None:
        """Write all collected reads, and stop."""
        if self._pid == os.getpid() and self._counts:
            await on_own_loop(self._stop())

    def _meet_loop(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._task = loop, None  # the former loop ended
            self._full, self._writing = asyncio.Event(), asyncio.Lock()

    def _start(self) -> None:
        self._meet_loop()
        if len(self._pending) >= FULL:
            self._full.set()
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._write_periodically())

    async def _write_periodically(self) -> None:
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
            storage = self._lifecycle.storage_if_open()
            if not pending or storage is None:
                return
            batch = [
                NewAccesses(scope, MemoryId(memory_id), accesses)
                for (scope, memory_id), accesses in pending.items()
            ]
            try:
                await storage.accesses.add_accesses(batch)
            except StorageReadOnly as error:
                self._counts_again_at = time.monotonic() + READ_ONLY_S
                if not self._read_only_logged:
                    self._read_only_logged = True
                    log.info("what is read here is not counted: %s", error)
            except Exception as error:  # noqa: BLE001 # nobody awaits this write: it is logged
                log.warning("reads of %d memories are not counted: %s", len(batch), reason(error))
