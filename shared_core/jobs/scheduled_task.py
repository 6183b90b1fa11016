"""A periodic task that one process at a time does, for all tenants of a database."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial

from shared_core.core.domain import JsonValue
from shared_core.core.namespaces import ROOT
from shared_core.policies import schedules as policies
from shared_core.ports.retention import TaskRun
from shared_core.ports.storage import Storage


class ScheduledTask:
    """A task by its name; a process claims it for a while, and others leave it alone meanwhile."""

    def __init__(self, storage: Storage, name: str) -> None:
        self._storage = storage
        self._name = name

    async def take(self, worker_id: str, now: datetime, lease_s: float) -> bool:
        """Claim the task if it is due and nobody is at it. One that never ran is due."""
        until = now + timedelta(seconds=lease_s)
        taking = partial(policies.take_turn, self._name, worker_id, now, until)
        return await self._storage.transact(ROOT, taking)

    async def keep(self, worker_id: str, now: datetime, lease_s: float) -> bool:
        """Extend the claim; return False if another worker took the task."""
        until = now + timedelta(seconds=lease_s)
        keeping = partial(policies.keep_turn, self._name, worker_id, until)
        return await self._storage.transact(ROOT, keeping, lock="none")

    async def end(
        self, worker_id: str, now: datetime, next_at: datetime, result: Mapping[str, JsonValue]
    ) -> None:
        """Store the result and when the task is due again, unless another worker took it."""
        ending = partial(policies.end_turn, self._name, worker_id, now, next_at, result)
        await self._storage.transact(ROOT, ending, lock="none")

    async def last(self) -> TaskRun | None:
        """Return the last run of any process, or None before the first."""
        [rows] = await self._storage.read(ROOT, [policies.last_turn(self._name)])
        return TaskRun(*rows[0]) if rows else None

    async def drop(self) -> None:
        """Forget that the task ever ran."""
        await self._storage.transact(ROOT, partial(policies.drop_task, self._name), lock="none")
