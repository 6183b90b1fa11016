"""The part of PostgresStorage that hands out all rows of a user or application, and takes them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple, TypeAlias

import psycopg

from shared_core.core.namespaces import ROOT, from_path, path_end
from shared_core.errors import Conflict, InvalidInput
from shared_core.ports.items import VectorRows
from shared_core.ports.jobs import JobPriority, JobType
from shared_core.ports.storage import Clock
from shared_core.ports.transfer import (
    EMBEDDINGS,
    TABLES,
    ExportedRow,
    ExportScope,
    RowBatch,
    Snapshot,
    Unembedded,
    Written,
)
from shared_core.storage.postgres.connection.database import PostgresDatabase
from shared_core.storage.postgres.connection.pipeline import Connection, Rows, Statement
from shared_core.storage.postgres.connection.sql_files import statement

FETCHED = 500
"""Rows of a table that are in memory at once."""
WRITING = ("import_rows", "import_ended")
"""Statements that write rows, and count them."""


class _TableColumns(NamedTuple):
    columns: tuple[str, ...]
    key: tuple[str, ...]


_Shapes: TypeAlias = Mapping[str, _TableColumns]


class PostgresTransfer:
    """Rows as text, as PostgreSQL itself writes and reads them: nothing is lost on the way."""

    _database: PostgresDatabase
    _clock: Clock
    _shapes: _Shapes | None = None

    def _vector_steps(self, vectors: VectorRows | None) -> list[Statement]:
        raise NotImplementedError

    async def rows_version(self) -> int:
        prepared = self._database.prepared
        assert prepared is not None
        return prepared.schema_version

    @asynccontextmanager
    async def snapshot(self, whose: ExportScope, *, vectors: bool) -> AsyncIterator[Snapshot]:
        shapes = await self._known_shapes()
        async with self._database.snapshot(whose.path) as connection:
            await connection.execute(statement("plain_values"))
            cursor = await connection.execute(statement("active_model"))
            model, dimensions = await cursor.fetchone() or (None, None)
            yield Snapshot(
                schema_version=await self.rows_version(),
                model=model,
                dimensions=dimensions,
                rows=_rows(connection, whose, shapes, vectors),
            )

    async def applications(self) -> Sequence[str]:
        [rows] = await self._database.run(ROOT, (statement("applications"), {}))
        return [from_path(f"/{label}/")[0] for (label,) in rows]

    async def import_rows(self, whose: ExportScope, batch: RowBatch, *, restore: bool) -> Written:
        shape = (await self._known_shapes())[batch.table]
        strangers = [name for name in batch.columns if name not in shape.columns]
        if strangers:
            raise InvalidInput(
                f"{batch.table} has no {', '.join(map(repr, strangers))}: a newer version wrote"
                " this, upgrade with pip install -U pg-hippocampus"
            )
        literals = (
            ("columns", _names(batch.columns)),
            ("here_key", _names(shape.key, "t.")),
            ("given_key", _names(shape.key, "g.")),
        )
        names = _import_steps(batch.table, restore=restore)
        steps = [self._step(name, batch, *literals) for name in names]
        answers = dict(zip(names, await self._run(whose, steps), strict=True))
        written = sum(answers[name][0][0] for name in names if name in WRITING)
        return Written(written=written, differ=answers["count_other_rows"][0][0])

    async def require_unforgotten(self, whose: ExportScope, batch: RowBatch) -> None:
        await self._run(whose, [self._step("require_unforgotten", batch)])

    async def ask_for_ends(self, whose: ExportScope) -> None:
        values = {
            "tenant": whose.path,
            "tenant_end": path_end(whose.path),
            "job_type": str(JobType.DEEP_REFLECTION),
            "priority": int(JobPriority.SESSION_END),
            "now": self._clock(),
        }
        await self._database.run(
            whose.path, (statement("ask_for_ends", one_tenant=False), values), keep_plans=False
        )

    async def import_vectors(
        self, whose: ExportScope, batch: RowBatch, model: str, dimensions: int
    ) -> Written:
        steps = [self._step(name, batch) for name in ("require_dimensions", "import_vectors")]
        common = {"model": model, "dimensions": dimensions}
        _, [(written,)] = await self._run(whose, [(text, given | common) for text, given in steps])
        return Written(written=written)

    async def unembedded(
        self, whose: ExportScope, batch: RowBatch, model: str
    ) -> Sequence[Unembedded]:
        text, values = self._step("unembedded", batch)
        [rows] = await self._run(whose, [(text, values | {"model": model})])
        return [
            Unembedded(
                address=(from_path(path), key), field=field, text=said, value=json.loads(value)
            )
            for path, key, field, said, value in rows
        ]

    async def add_made_vectors(self, whose: ExportScope, vectors: VectorRows) -> None:
        await self._database.run(whose.path, *self._vector_steps(vectors))

    async def _known_shapes(self) -> _Shapes:
        if self._shapes is None:
            asked = (statement("table_shapes"), {"tables": list(TABLES)})
            [rows] = await self._database.run("/", asked)
            self._shapes = {
                name: _TableColumns(tuple(all_), tuple(key)) for name, all_, key in rows
            }
        return self._shapes

    def _step(
        self, name: str, batch: RowBatch, *literals: tuple[str, str]
    ) -> tuple[bytes, dict[str, object]]:
        text = statement(name, literals=(("table", _quoted(batch.table)), *literals))
        return text, {"rows": list(batch.lines)}

    async def _run(self, whose: ExportScope, steps: Sequence[Statement]) -> list[Rows]:
        try:
            return await self._database.run(whose.path, *steps, keep_plans=False)
        except Conflict as error:
            raise Conflict(str(error).partition("\n")[0]) from error
        except (psycopg.DataError, psycopg.IntegrityError, psycopg.ProgrammingError) as error:
            raise InvalidInput(f"it does not fit its table: {_told(error)}") from error


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
    connection: Connection, whose: ExportScope, shapes: _Shapes, vectors: bool
) -> AsyncIterator[ExportedRow]:
    values = {"tenant": whose.path, "tenant_end": path_end(whose.path)}
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


def _told(error: psycopg.Error) -> str:
    return error.diag.message_primary or str(error)
