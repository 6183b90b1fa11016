"""The part of PostgresStorage that counts reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import psycopg

from shared_core.core.domain import MemoryId, Scope
from shared_core.core.namespaces import common_prefix, scope_path, tenant_of
from shared_core.errors import StorageReadOnly
from shared_core.ports.retention import Accesses, NewAccesses
from shared_core.storage._rows import utc
from shared_core.storage.postgres.connection.database import PostgresDatabase
from shared_core.storage.postgres.connection.pipeline import Statement
from shared_core.storage.postgres.connection.sql_files import statement


class PostgresAccesses:
    """Counters of reads, apart from the rows that are expensive to rewrite."""

    _database: PostgresDatabase

    async def add_accesses(self, batch: Sequence[NewAccesses]) -> None:
        values = {
            "tenants": [scope_path(one.scope) for one in batch],
            "memory_ids": [one.memory_id for one in batch],
            "counts": [one.accesses.access_count for one in batch],
            "moments": [one.accesses.last_accessed_at for one in batch],
        }
        within = tenant_of(common_prefix((one.scope.app, one.scope.user) for one in batch))
        soon: Statement = (statement("commit_without_waiting"), {})
        try:
            held: Statement = (statement("hold_policies"), values)
            counting: Statement = (statement("add_accesses"), values)
            await self._database.run(within, soon, held, counting, repeats=False)
        except psycopg.errors.InsufficientPrivilege as error:
            raise StorageReadOnly(
                f"reads cannot be counted: {error.diag.message_primary}"
            ) from error

    async def accesses(
        self, scope: Scope, memory_ids: Sequence[MemoryId]
    ) -> Mapping[MemoryId, Accesses]:
        tenant = scope_path(scope)
        values = {"tenant": tenant, "memory_ids": list(memory_ids)}
        [rows] = await self._database.run(tenant, (statement("accesses"), values))
        return {MemoryId(row[0]): Accesses(row[1], utc(row[2])) for row in rows}
