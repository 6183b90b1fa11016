"""Export and import on PostgreSQL: all rows of a user, an application, or everything."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple, TypeAlias

import psycopg

from shared_core.core.namespaces import ROOT, from_path, path_end
from shared_core.errors import Conflict, InvalidInput
from shared_core.ports.transfer import (
    EMBEDDINGS,
    TABLES,
    ExportedRow,
    ExportScope,
    RowBatch,
    Snapshot,
    Written,
)
from shared_core.storage.postgres.connection.database import Answers, PostgresDatabase
from shared_core.storage.postgres.connection.pipeline import Connection
from shared_core.storage.postgres.connection.statements import Step, statement, step

FETCHED = 500
"""Maximum number of a table's rows in memory."""
WRITING = ("import_rows", "import_ended")
"""Statements that write rows and return their number."""


class _TableColumns(NamedTuple):
    columns: tuple[str, ...]
    key: tuple[str, ...]


_Shapes: TypeAlias = Mapping[str, _TableColumns]


class PostgresTransfer:
    """Exports and imports rows in PostgreSQL's own text form, so that no value changes."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._shapes: _Shapes | None = None

    async def rows_version(self) -> int:
        prepared = self._database.prepared
        assert prepared is not None
        return prepared.schema_version

    @asynccontextmanager
    async def snapshot(
        self, export_scope: ExportScope, *, vectors: bool
    ) -> AsyncIterator[Snapshot]:
        shapes = await self._known_shapes()
        async with self._database.snapshot(export_scope.path) as connection:
            await connection.execute(statement("plain_values"))
            cursor = await connection.execute(statement("active_model"))
            model, dimensions = await cursor.fetchone() or (None, None)
            yield Snapshot(
                schema_version=await self.rows_version(),
                model=model,
                dimensions=dimensions,
                rows=_rows(connection, export_scope, shapes, vectors),
            )

    async def applications(self) -> Sequence[str]:
        rows = await self._database.rows(ROOT, "applications")
        return [from_path(f"/{label}/")[0] for (label,) in rows]

    async def import_rows(
        self, export_scope: ExportScope, batch: RowBatch, *, restore: bool
    ) -> Written:
        shape = (await self._known_shapes())[batch.table]
        unknown = [name for name in batch.columns if name not in shape.columns]
        if unknown:
            raise InvalidInput(
                f"{batch.table} has no {', '.join(map(repr, unknown))}: a newer version wrote"
                " this, upgrade with pip install -U pg-hippocampus"
            )
        literals = (
            ("columns", _names(batch.columns)),
            ("here_key", _names(shape.key, "t.")),
            ("given_key", _names(shape.key, "g.")),
        )
        names = _import_steps(batch.table, restore=restore)
        answers = await self._run(export_scope, [_step(name, batch, *literals) for name in names])
        written = sum(answers.named(name)[0][0] for name in names if name in WRITING)
        return Written(written=written, differ=answers.named("count_other_rows")[0][0])

    async def require_unforgotten(self, export_scope: ExportScope, batch: RowBatch) -> None:
        await self._run(export_scope, [_step("require_unforgotten", batch)])

    async def _known_shapes(self) -> _Shapes:
        if self._shapes is None:
            rows = await self._database.rows(ROOT, "table_shapes", tables=list(TABLES))
            self._shapes = {
                name: _TableColumns(tuple(all_), tuple(key)) for name, all_, key in rows
            }
        return self._shapes

    async def _run(self, export_scope: ExportScope, sent: Sequence[Step]) -> Answers:
        try:
            return await self._database.run(export_scope.path, *sent, keep_plans=False)
        except Conflict as error:
            raise Conflict(str(error).partition("\n")[0]) from error
        except (psycopg.DataError, psycopg.IntegrityError, psycopg.ProgrammingError) as error:
            message = error.diag.message_primary or str(error)
            raise InvalidInput(f"it does not fit its table: {message}") from error


def _step(name: str, batch: RowBatch, *literals: tuple[str, str]) -> Step:
    quoted = (("table", _quoted(batch.table)), *literals)
    return step(name, {"rows": list(batch.lines)}, literals=quoted)


def _import_steps(table: str, *, restore: bool) -> list[str]:
    """Return the names of the statements that import rows of a table, in order."""
    if table == "conversations":
        first = [] if restore else ["require_unerased_sessions"]
        return [*first, "import_rows", "count_other_rows", "import_ended", "require_rows"]
    first = []
    if table == "events":
        first = ["restore_turns" if restore else "require_unforgotten"]
    counted = [f"count_on_{table}"] if table in ("threads", "events") else []
    return [*first, "import_rows", *counted, "count_other_rows", "require_rows"]


async def _rows(
    connection: Connection, export_scope: ExportScope, shapes: _Shapes, vectors: bool
) -> AsyncIterator[ExportedRow]:
    values = {"tenant": export_scope.path, "tenant_end": path_end(export_scope.path)}
    for table in TABLES:
        name = "export_vectors" if vectors else "export_embedded"
        literals: tuple[tuple[str, str], ...] = ()
        if table != EMBEDDINGS:
            name = "export_rows"
            literals = (("table", _quoted(table)), ("key", _names(shapes[table].key, "m.")))
        async with connection.cursor("export") as cursor:
            cursor.itersize = FETCHED
            await cursor.execute(statement(name, one_tenant=False, literals=literals), values)
            async for (text,) in cursor:
                yield ExportedRow(table=table, text=text)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _names(names: Sequence[str], of: str = "") -> str:
    return ", ".join(of + _quoted(name) for name in names)
