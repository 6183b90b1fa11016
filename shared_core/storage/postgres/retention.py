"""Retention on PostgreSQL: policies, and memories of many users in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import uuid4

from shared_core.core.domain import MemoryKind
from shared_core.core.namespaces import ROOT, from_path, path_end
from shared_core.core.retention_policy import Rules
from shared_core.ports.retention import DueMemory, MemoryPlace
from shared_core.ports.storage import Clock
from shared_core.storage._rows import policy_columns
from shared_core.storage.postgres.connection.database import PostgresDatabase
from shared_core.storage.postgres.connection.pipeline import Rows
from shared_core.storage.postgres.connection.statements import step
from shared_core.storage.postgres.items import TENANT_DEPTH


@dataclass
class PostgresRetention:
    """Policies, and due memories of many users."""

    _database: PostgresDatabase
    _clock: Clock

    async def set_retention_rules(
        self, path: str, rules: Rules | None, of: Sequence[MemoryKind] | None = None
    ) -> None:
        # The mark's id tells this retiming from one that begins while a page of it is written.
        values: dict[str, object] = {"path": path, "now": self._clock(), "mark": uuid4()}
        sent = [step("lock_policies", values)]
        if of is None:
            sent.append(step("drop_policies", values))
        else:
            sent.append(step("drop_policies_of", values | {"kinds": list(of)}))
        if rules is not None:
            sent.append(step("add_policies", values | policy_columns(rules)))
        await self._database.run(path, *sent, step("begin_retiming", values))

    async def retimings(self, path: str) -> Sequence[str]:
        rows = await self._database.rows(path, "retimings", tenant_end=path_end(path))
        return [row[0] for row in rows]

    async def memories_below(
        self, path: str, after: MemoryPlace, limit: int
    ) -> Sequence[MemoryPlace]:
        values = {"after_tenant": after[0], "after_id": after[1], "limit": limit}
        return [(row[0], row[1]) for row in await self._across(path, "memories_below", values)]

    async def due_memories(
        self, path: str, now: datetime, after: DueMemory, limit: int
    ) -> Sequence[DueMemory]:
        forget_at, tenant, memory_id = after
        values = {"now": now, "after_at": forget_at, "after_tenant": tenant, "after_id": memory_id,
                  "limit": limit}  # fmt: skip
        rows = await self._across(path, "due_memories", values)
        return [(row[0], row[1], row[2]) for row in rows]

    async def _across(self, path: str, name: str, values: Mapping[str, object]) -> Rows:
        values = {"tenant": path, "tenant_end": path_end(path), **values}
        one_tenant = len(from_path(path)) == TENANT_DEPTH
        across = step(name, values, one_tenant=one_tenant)
        _, rows = await self._database.run(path, step("by_index"), across)
        return rows

    async def ahead_of_server(self, now: datetime) -> timedelta:
        [(ahead,)] = await self._database.rows(ROOT, "ahead_of_server", now=now)
        return timedelta(seconds=round(ahead))
