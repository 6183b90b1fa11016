"""Exports on PostgreSQL: all rows of a user, an application, or everything."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager

from shared_core.core.namespaces import ROOT, from_path, path_end
from shared_core.ports.tables import tables
from shared_core.ports.transfer import EMBEDDINGS, TABLES, ExportedRow, ExportScope, Snapshot
from shared_core.storage.postgres.connection.database import PostgresDatabase
from shared_core.storage.postgres.connection.pipeline import Connection
from shared_core.storage.postgres.connection.statements import statement

FETCHED = 500
"""Maximum number of a table's rows in memory."""


class PostgresTransfer:
    """Exports rows in PostgreSQL's own text form, so that no value changes."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    @asynccontextmanager
    async def snapshot(
        self, export_scope: ExportScope, *, vectors: bool
    ) -> AsyncIterator[Snapshot]:
        async with self._database.snapshot(export_scope.path) as connection:
            await connection.execute(statement("plain_values"))
            cursor = await connection.execute(statement("active_model"))
            model, dimensions = await cursor.fetchone() or (None, None)
            async with aclosing(_rows(connection, export_scope, model, vectors=vectors)) as rows:
                yield Snapshot(model=model, dimensions=dimensions, rows=rows)

    async def applications(self) -> Sequence[str]:
        rows = await self._database.rows(ROOT, "applications")
        return [from_path(f"/{label}/")[0] for (label,) in rows]


async def _rows(
    connection: Connection, export_scope: ExportScope, model: str | None, *, vectors: bool
) -> AsyncGenerator[ExportedRow, None]:
    path = export_scope.path
    values = {"tenant": path, "tenant_end": path_end(path), "model": model}
    for table in TABLES:
        key = ", ".join(f'm."{column}"' for column in ("tenant_id", *tables()[table].key))
        name = "export_rows"
        literals: tuple[tuple[str, str], ...] = (("table", table), ("key", key))
        if table == EMBEDDINGS:
            vector = ", 'embedding', m.embedding" if vectors else ""
            name, literals = "export_vectors", (("vector", vector),)
        is_user = export_scope.user is not None
        cursor = connection.cursor("export")
        try:
            async with cursor:
                cursor.itersize = FETCHED
                await cursor.execute(statement(name, one_tenant=is_user, literals=literals), values)
                async for (text,) in cursor:
                    yield ExportedRow(table=table, text=text)
        finally:
            if not cursor.closed:  # a cancelled reader did not let it wait for the server
                await connection.close()
                await cursor.close()
