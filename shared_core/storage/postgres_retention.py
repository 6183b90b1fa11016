"""The part of PostgresStorage that forgets by policies: the policies, and when memories are due."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args
from uuid import UUID

from shared_core.domain import MemoryKind, Scope
from shared_core.namespaces import check_label, path_end, scope_path, to_path
from shared_core.ports import Clock
from shared_core.retention_ports import Kept, Retimed, Rules
from shared_core.storage.database import Database
from shared_core.storage.retention_columns import kept_of, policy_columns, policy_of
from shared_core.storage.sql_files import statement
from shared_core.storage.wire import Statement

FIRST = UUID(int=0)


class PostgresRetention:
    """Policies and moments, on the tables retention_policies and memory_access."""

    _database: Database
    _clock: Clock

    async def retention_rules(self, scope: Scope | None, app: str | None) -> Rules:
        path = path_of(scope, app)
        values = {"kinds": list(get_args(MemoryKind)), "path": path}
        [rows] = await self._database.run(path, (statement("retention_rules"), values))
        return {row[0]: policy_of(row[1:]) for row in rows}

    async def set_retention_rules(
        self, scope: Scope | None, app: str | None, rules: Rules | None
    ) -> None:
        path = path_of(scope, app)
        values = {"path": path, "now": self._clock()}
        steps: list[Statement] = [(statement("drop_policies"), values)]
        if rules is not None:
            steps.append((statement("add_policies"), values | policy_columns(rules)))
        await self._database.run(path, *steps)

    async def retime(
        self, scope: Scope | None, app: str | None, after: tuple[str, UUID] | None, limit: int
    ) -> Retimed:
        path = path_of(scope, app)
        after_tenant, after_id = after or ("", FIRST)
        values = {
            "tenant": path,
            "tenant_end": path_end(path),
            "after_tenant": after_tenant,
            "after_id": after_id,
            "limit": limit,
        }
        [rows] = await self._database.run(path, (statement("retime_memories"), values))
        if not rows:
            return Retimed(changed=0, last=None)
        tenant, memory_id, changed = rows[0]
        return Retimed(changed=changed, last=(tenant, memory_id))

    async def kept(self, scope: Scope, memory_ids: Sequence[UUID]) -> Sequence[Kept]:
        tenant = scope_path(scope)
        values = {"tenant": tenant, "memory_ids": list(memory_ids)}
        [rows] = await self._database.run(tenant, (statement("kept"), values))
        return [kept_of(row) for row in rows]


def path_of(scope: Scope | None, app: str | None) -> str:
    """Return the path of a user, an application, or all."""
    if scope is not None:
        return scope_path(scope)
    return to_path(() if app is None else (check_label(app, "app"),))
