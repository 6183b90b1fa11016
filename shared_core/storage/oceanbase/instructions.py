"""OceanBaseStorage: instructions with all their versions."""

from __future__ import annotations

import json
from collections.abc import Sequence

from shared_core.core.domain import Scope
from shared_core.core.namespaces import (
    instructions_namespace,
    instructions_scope,
    scope_path,
    storable,
)
from shared_core.ports.items import Instruction, MemoryRow, VectorRows
from shared_core.storage.oceanbase.base import OceanBasePart, reading
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction
from shared_core.storage.oceanbase.item_writes import (
    drop_versions,
    forget_at,
    put_rows,
    put_vectors,
    strengths_of,
)

_COLUMNS = "i.instruction_key, i.version, i.metadata, i.created_at, n.first_at"


class OceanBaseInstructions(OceanBasePart):
    """Instructions and their versions."""

    async def put_instruction(self, row: MemoryRow, vectors: VectorRows | None) -> Instruction:
        scope = instructions_scope(row.namespace)
        if scope is None:
            raise AssertionError(f"{row.namespace} holds no instructions")
        tenant, now = scope_path(scope), self._clock()
        strengths = strengths_of(self._strength, [row])

        def work(tx: Transaction) -> list[Row]:
            put_rows(tx, [row], now, strengths)
            put_vectors(tx, vectors)
            return _versions(tx, tenant, row.key, 1)

        return _instructions(scope, await self._database.write(work, tenant))[0]

    async def instruction_versions(
        self, scope: Scope, key: str, limit: int
    ) -> Sequence[Instruction]:
        tenant = scope_path(scope)
        rows = await self._database.read(lambda tx: _versions(tx, tenant, key, limit))
        return _instructions(scope, rows)

    @reading
    def newest_instructions(
        self, tx: Transaction, scope: Scope, limit: int, offset: int
    ) -> Sequence[Instruction]:
        tenant = scope_path(scope)
        rows = tx.rows(
            f"SELECT {_COLUMNS} FROM instructions i JOIN"
            " (SELECT instruction_key, MAX(version) AS version, MIN(created_at) AS first_at"
            " FROM instructions WHERE tenant_id = %s GROUP BY instruction_key) n"
            " ON n.instruction_key = i.instruction_key AND n.version = i.version"
            " WHERE i.tenant_id = %s ORDER BY i.created_at DESC, i.instruction_key"
            " LIMIT %s OFFSET %s",
            [tenant, tenant, limit, offset],
        )
        return _instructions(scope, rows)

    async def drop_instruction(self, scope: Scope, key: str) -> int:
        tenant, now = scope_path(scope), self._clock()
        address = (instructions_namespace(scope), key)
        if not storable(key):
            return 0

        def work(tx: Transaction) -> int:
            versions = drop_versions(tx, [address])
            forget_at(tx, [address], now)
            return versions

        return await self._database.write(work, tenant)


def _versions(tx: Transaction, tenant: str, key: str, limit: int) -> list[Row]:
    return tx.rows(
        f"SELECT {_COLUMNS} FROM instructions i JOIN"
        " (SELECT MIN(created_at) AS first_at FROM instructions"
        " WHERE tenant_id = %s AND instruction_key = %s) n"
        " WHERE i.tenant_id = %s AND i.instruction_key = %s ORDER BY i.version DESC LIMIT %s",
        [tenant, key, tenant, key, limit],
    )


def _instructions(scope: Scope, rows: Sequence[Row]) -> list[Instruction]:
    return [
        Instruction(
            scope=scope,
            key=key,
            version=version,
            value=json.loads(value),
            written_at=written_at,
            created_at=created_at,
        )
        for key, version, value, written_at, created_at in rows
    ]
