"""The queue as its callers see it: work for a caller's own code, a worker that does all, a look."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence

from shared_core.domain import JsonValue, Scope, ThreadId
from shared_core.errors import InvalidInput
from shared_core.log_ports import JobRecord, JobStorage
from shared_core.namespaces import check_label, scope_path
from shared_core.worker import REFLECT, Perform, Tally, Worker

MAX_DELAY_S = 366 * 86_400.0


class JobQueue:
    """Durable work on threads: what was left for later, of all processes on one database."""

    def __init__(
        self, storage: JobStorage, worker: Worker, open_memory: Callable[[], Awaitable[None]]
    ) -> None:
        self._storage = storage
        self._worker = worker
        self._open = open_memory

    def learn(self, perform: Perform) -> None:
        """Do reflections of this memory so, in this process. Jobs of others that wait count too."""
        self._worker.learn(REFLECT, perform)

    async def ask(
        self,
        scope: Scope,
        thread_id: str,
        payload: Mapping[str, JsonValue],
        *,
        delay_s: float = 0.0,
    ) -> None:
        """Ask for a reflection on a thread; the newest payload of a thread that waits counts."""
        check_delay(delay_s)
        scope_path(scope)
        thread = ThreadId(check_label(thread_id, "thread_id"))
        await self._open()
        job = self._worker.new_job(
            scope, thread, delay_s=delay_s, job_type=REFLECT, payload=payload
        )
        await self._storage.enqueue(scope, thread, job)
        self._worker.hand_over(scope, thread)

    async def serve(
        self, stop: asyncio.Event | None = None, *, once: bool = False, poll_s: float = 1.0
    ) -> Tally:
        """Do what is due, of any process, until stop is set; once: until nothing is due."""
        await self._open()
        return await self._worker.serve(stop or asyncio.Event(), once=once, poll_s=poll_s)

    async def list(
        self, scope: Scope | None = None, *, thread_id: str | None = None, limit: int = 1000
    ) -> Sequence[JobRecord]:
        """Return jobs that are open or were given up, newest first; of a thread, its last too."""
        await self._open()
        thread = None if thread_id is None else ThreadId(thread_id)
        return await self._storage.list_jobs(scope, thread, limit)


def check_delay(delay_s: float) -> None:
    """Raise InvalidInput for anything but a number of seconds from 0 to a year."""
    valid = isinstance(delay_s, int | float) and math.isfinite(delay_s)
    if not valid or not 0 <= delay_s <= MAX_DELAY_S:
        raise InvalidInput(f"delay_s must be from 0 to a year of seconds, not {delay_s!r}")
