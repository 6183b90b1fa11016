"""OceanBaseStorage: tasks that are done for all now and then, by one worker at a time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta

from shared_core.core.domain import JsonValue
from shared_core.core.json_text import to_json
from shared_core.core.namespaces import ROOT
from shared_core.ports.retention import Turn
from shared_core.storage.oceanbase.base import OceanBasePart
from shared_core.storage.oceanbase.connection.transactions import Transaction

_OURS = "tenant_id = %s AND task = %s AND worker_id = %s"


class OceanBaseSchedules(OceanBasePart):
    """Turns at a task."""

    async def take_turn(self, task: str, worker_id: str, now: datetime, lease_s: float) -> bool:
        until = now + timedelta(seconds=lease_s)

        def work(tx: Transaction) -> bool:
            tx.lock(ROOT)
            row = tx.one(
                "SELECT next_at, lease_until FROM schedules WHERE tenant_id = %s AND task = %s",
                ROOT,
                task,
            )
            if row is None:
                tx.insert(
                    "schedules",
                    ("tenant_id", "task", "next_at", "worker_id", "lease_until", "result"),
                    [(ROOT, task, now, worker_id, until, "{}")],
                )
                return True
            next_at, lease_until = row
            if next_at > now or (lease_until is not None and lease_until > now):
                return False
            tx.run(
                "UPDATE schedules SET worker_id = %s, lease_until = %s"
                " WHERE tenant_id = %s AND task = %s",
                worker_id,
                until,
                ROOT,
                task,
            )
            return True

        return await self._database.write(work)

    async def keep_turn(self, task: str, worker_id: str, now: datetime, lease_s: float) -> bool:
        until = now + timedelta(seconds=lease_s)

        def work(tx: Transaction) -> bool:
            tx.lock(ROOT)
            sql = f"UPDATE schedules SET lease_until = %s WHERE {_OURS}"
            return bool(tx.run(sql, until, ROOT, task, worker_id))

        return await self._database.write(work)

    async def end_turn(
        self,
        task: str,
        worker_id: str,
        now: datetime,
        next_at: datetime,
        result: Mapping[str, JsonValue],
    ) -> None:
        told = to_json(result)

        def work(tx: Transaction) -> None:
            tx.lock(ROOT)
            tx.run(
                "UPDATE schedules SET worker_id = NULL, lease_until = NULL, next_at = %s,"
                f" done_at = %s, result = %s WHERE {_OURS}",
                next_at, now, told, ROOT, task, worker_id,
            )  # fmt: skip

        await self._database.write(work)

    async def last_turn(self, task: str) -> Turn | None:
        row = await self._database.read(
            lambda tx: tx.one(
                "SELECT next_at, done_at, result FROM schedules WHERE tenant_id = %s AND task = %s",
                ROOT,
                task,
            )
        )
        return Turn(row[0], row[1], json.loads(row[2])) if row else None

    async def drop_task(self, task: str) -> None:
        def work(tx: Transaction) -> None:
            tx.lock(ROOT)
            tx.run("DELETE FROM schedules WHERE tenant_id = %s AND task = %s", ROOT, task)

        await self._database.write(work)
