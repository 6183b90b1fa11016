"""OceanBaseStorage: how often memories are read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from uuid import UUID

import pymysql
from pymysql.constants import ER

from shared_core.core.domain import MemoryId, Scope
from shared_core.core.namespaces import scope_path
from shared_core.errors import StorageReadOnly, StorageUnavailable
from shared_core.ports.retention import Accesses, NewAccesses
from shared_core.storage.oceanbase.base import OceanBasePart
from shared_core.storage.oceanbase.connection.transactions import Transaction, pages
from shared_core.storage.oceanbase.retention_timing import retime

MOST = 2_147_483_647
"""What a counter holds; what is more stays at that."""

_COUNTED = (
    f"access_count = LEAST(access_count + VALUES(access_count), {MOST}), last_accessed_at ="
    " GREATEST(COALESCE(last_accessed_at, VALUES(last_accessed_at)), VALUES(last_accessed_at))"
)

_REFUSED = (ER.TABLEACCESS_DENIED_ERROR, ER.DBACCESS_DENIED_ERROR, ER.COLUMNACCESS_DENIED_ERROR)


class OceanBaseAccesses(OceanBasePart):
    """See the port."""

    async def add_accesses(self, batch: Sequence[NewAccesses]) -> None:
        counted: dict[str, dict[UUID, Accesses]] = defaultdict(dict)
        for one in batch:
            of_tenant = counted[scope_path(one.scope)]
            of_tenant[one.memory_id] = _sum(of_tenant.get(one.memory_id), one.accesses)

        def work(tx: Transaction) -> None:
            tx.lock(*counted)
            for tenant, accesses in sorted(counted.items()):
                _count(tx, tenant, accesses)

        try:
            await self._database.write(work)
        except StorageUnavailable as error:
            cause = error.__cause__
            if isinstance(cause, pymysql.MySQLError) and cause.args[0] in _REFUSED:
                raise StorageReadOnly(f"reads cannot be counted: {cause.args[1]}") from error
            raise

    async def accesses(
        self, scope: Scope, memory_ids: Sequence[MemoryId]
    ) -> Mapping[MemoryId, Accesses]:
        tenant = scope_path(scope)
        rows = await self._database.read(
            lambda tx: [
                row
                for page in pages(memory_ids)
                for row in tx.rows(
                    "SELECT memory_id, access_count, last_accessed_at FROM memory_access"
                    " WHERE tenant_id = %s AND memory_id IN %s AND last_accessed_at IS NOT NULL",
                    tenant,
                    page,
                )
            ]
        )
        return {MemoryId(memory_id): Accesses(count, last) for memory_id, count, last in rows}


def _count(tx: Transaction, tenant: str, accesses: Mapping[UUID, Accesses]) -> None:
    """Add reads of memories that are there, and put off the moment each leaves its stage."""
    there = [
        memory_id
        for page in pages(sorted(accesses))
        for (memory_id,) in tx.rows(
            "SELECT memory_id FROM memories WHERE tenant_id = %s AND memory_id IN %s", tenant, page
        )
    ]
    tx.insert(
        "memory_access",
        ("tenant_id", "memory_id", "access_count", "last_accessed_at"),
        (
            (tenant, one, min(accesses[one].access_count, MOST), accesses[one].last_accessed_at)
            for one in there
        ),
        update=_COUNTED,
    )
    retime(tx, tenant, there)


def _sum(old: Accesses | None, new: Accesses) -> Accesses:
    if old is None:
        return new
    return Accesses(
        old.access_count + new.access_count, max(old.last_accessed_at, new.last_accessed_at)
    )
