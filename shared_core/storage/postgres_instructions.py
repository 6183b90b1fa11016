"""The instructions of PostgresStorage: versions that are added, read and dropped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shared_core.domain import JsonValue, Scope
from shared_core.instruction_ports import Instruction
from shared_core.jsontext import to_json
from shared_core.namespaces import scope_path
from shared_core.ports import Clock
from shared_core.storage.database import Database, Rows, Statement
from shared_core.storage.rows import utc
from shared_core.storage.sql_files import statement


class PostgresInstructions:
    """Instructions of one scope at a time."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def add_instruction(
        self, scope: Scope, key: str, value: Mapping[str, JsonValue], text: str
    ) -> Instruction:
        tenant = scope_path(scope)
        values = {
            "tenant": tenant,
            "tenants": [tenant],
            "key": key,
            "content": text,
            "value": to_json(value, f"instruction {key!r}"),
            "limit": 1,
            "now": self._clock(),
        }
        names = ("lock_tenants", "add_instruction", "instruction_versions")
        steps: list[Statement] = [(statement(name), values) for name in names]
        *_, rows = await self._database.run(tenant, *steps)
        return _instructions(scope, rows)[0]

    async def restore_instruction(self, scope: Scope, key: str, version: int) -> Instruction | None:
        tenant = scope_path(scope)
        values = {
            "tenant": tenant,
            "tenants": [tenant],
            "key": key,
            "version": version,
            "limit": 1,
            "now": self._clock(),
        }
        names = ("lock_tenants", "restore_instruction", "instruction_versions")
        steps: list[Statement] = [(statement(name), values) for name in names]
        *_, rows = await self._database.run(tenant, *steps)
        newest = _instructions(scope, rows)
        return newest[0] if newest else None

    async def instruction_versions(
        self, scope: Scope, key: str, limit: int
    ) -> Sequence[Instruction]:
        values = {"tenant": scope_path(scope), "key": key, "limit": limit}
        step = statement("instruction_versions"), values
        [rows] = await self._database.run(scope_path(scope), step)
        return _instructions(scope, rows)

    async def newest_instructions(
        self, scope: Scope, limit: int, offset: int
    ) -> Sequence[Instruction]:
        values = {"tenant": scope_path(scope), "limit": limit, "offset": offset}
        step = statement("newest_instructions"), values
        [rows] = await self._database.run(scope_path(scope), step)
        return _instructions(scope, rows)

    async def drop_instruction(self, scope: Scope, key: str) -> int:
        values = {"tenant": scope_path(scope), "key": key}
        [rows] = await self._database.run(
            scope_path(scope), (statement("drop_instruction"), values)
        )
        return len(rows)


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
