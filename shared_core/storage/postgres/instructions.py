"""The instructions of PostgresStorage: the newest version is an item, the table has them all."""

from __future__ import annotations

from collections.abc import Sequence

from shared_core.core.domain import Scope
from shared_core.core.namespaces import instructions_namespace, instructions_scope, scope_path
from shared_core.ports.items import Instruction, MemoryRow, VectorRows
from shared_core.storage._rows import utc
from shared_core.storage.postgres.connection.pipeline import Rows, Statement
from shared_core.storage.postgres.connection.sql_files import statement
from shared_core.storage.postgres.items import PostgresItems


class PostgresInstructions(PostgresItems):
    """Instructions of one scope at a time."""

    async def put_instruction(self, row: MemoryRow, vectors: VectorRows | None) -> Instruction:
        scope = instructions_scope(row.namespace)
        if scope is None:
            raise AssertionError(f"{row.namespace} holds no instructions")
        *_, rows = await self._database.run(
            scope_path(scope),
            *self._put_steps([row]),
            *self._vector_steps(vectors),
            _versions_step(scope, row.key, 1),
        )
        return _instructions(scope, rows)[0]

    async def instruction_versions(
        self, scope: Scope, key: str, limit: int
    ) -> Sequence[Instruction]:
        [rows] = await self._database.run(scope_path(scope), _versions_step(scope, key, limit))
        return _instructions(scope, rows)

    async def newest_instructions(
        self, scope: Scope, limit: int, offset: int
    ) -> Sequence[Instruction]:
        values = {"tenant": scope_path(scope), "limit": limit, "offset": offset}
        step = statement("newest_instructions"), values
        [rows] = await self._database.run(scope_path(scope), step)
        return _instructions(scope, rows)

    async def drop_instruction(self, scope: Scope, key: str) -> int:
        steps = self._forget_steps([(instructions_namespace(scope), key)])
        *_, versions, _ = await self._database.run(scope_path(scope), *steps)
        return len(versions)


def _versions_step(scope: Scope, key: str, limit: int) -> Statement:
    values = {"tenant": scope_path(scope), "key": key, "limit": limit}
    return statement("instruction_versions"), values


def _instructions(scope: Scope, rows: Rows) -> list[Instruction]:
    return [
        Instruction(
            scope=scope,
            key=key,
            version=version,
            value=value,
            written_at=utc(written_at),
            created_at=utc(created_at),
        )
        for key, version, value, written_at, created_at in rows
    ]
