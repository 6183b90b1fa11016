"""OceanBaseStorage: hands out all rows of a user or application, and takes them.

The lines are those of PostgreSQL, letter by letter: an export of one engine is an import of the
other. Vectors are exported as PostgreSQL keeps them, in numbers of 2 bytes.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any
from uuid import uuid4

import pymysql

from shared_core.core.namespaces import ROOT, from_path, path_end
from shared_core.errors import Conflict, InvalidInput
from shared_core.ports.items import VectorRows
from shared_core.ports.jobs import JobPriority, JobType, NewJob
from shared_core.ports.transfer import (
    EMBEDDINGS,
    TABLES,
    ExportedRow,
    RowBatch,
    Snapshot,
    Unembedded,
    Whose,
    Written,
)
from shared_core.storage._schema_version import SCHEMA_VERSION
from shared_core.storage.oceanbase.base import OceanBasePart
from shared_core.storage.oceanbase.connection.batching import pages
from shared_core.storage.oceanbase.connection.streams import streamed
from shared_core.storage.oceanbase.connection.transactions import Transaction
from shared_core.storage.oceanbase.item_writes import put_vectors, tenants_of
from shared_core.storage.oceanbase.job_steps import insert_job
from shared_core.storage.oceanbase.transfer_rows import (
    given_rows,
    require_unforgotten,
    stored_row,
    write_rows,
)
from shared_core.storage.oceanbase.transfer_shapes import SHAPES, names
from shared_core.storage.oceanbase.transfer_values import quoted, row_text, vector_text
from shared_core.storage.oceanbase.vectors import active_model, add_vectors, models, table_of

FETCHED = 500
"""Rows of a table that are in memory at once."""


OF_TENANTS = (
    "threads", "memories", "tombstones", "shared_state", "instructions", "import_marks",
    "retention_policies", "erasures", "entity_aliases", "edges",
)  # fmt: skip
"""Tables whose rows can be the first ones of a user."""


class OceanBaseTransfer(OceanBasePart):
    """Rows as text, as PostgreSQL writes and reads them: nothing is lost on the way."""

    async def rows_version(self) -> int:
        return SCHEMA_VERSION

    @asynccontextmanager
    async def snapshot(self, whose: Whose, *, vectors: bool) -> AsyncIterator[Snapshot]:
        def work(tx: Transaction) -> Iterator[Any]:
            model = active_model(tx)
            yield model
            for table in TABLES:
                if table == EMBEDDINGS:
                    yield from _vector_pages(tx, whose, model, vectors=vectors)
                else:
                    yield from _pages(tx, table, whose)

        owner = whose.app if whose.user is None else f"{whose.app}/{whose.user}"
        async with aclosing(streamed(self._database, f"the export of {owner!r}", work)) as parts:
            model, dimensions = await anext(parts) or (None, None)
            yield Snapshot(
                schema_version=await self.rows_version(),
                model=model,
                dimensions=dimensions,
                rows=_flat(parts),
            )

    async def applications(self) -> Sequence[str]:
        def work(tx: Transaction) -> set[str]:
            paths = {
                row[0]
                for table in OF_TENANTS
                for row in tx.rows(f"SELECT DISTINCT tenant_id FROM {table}")
            }
            return {path.split("/")[1] for path in paths if path != ROOT}

        labels = await self._database.read(work)
        return [from_path(f"/{label}/")[0] for label in sorted(labels)]

    async def import_rows(self, whose: Whose, batch: RowBatch, *, restore: bool) -> Written:
        strangers = [name for name in batch.columns if name not in SHAPES[batch.table].columns]
        if strangers:
            raise InvalidInput(
                f"{batch.table} has no {', '.join(map(repr, strangers))}: a newer version wrote"
                " this, upgrade with pip install -U pg-hippocampus"
            )
        given, now = given_rows(batch), self._clock()

        def work(tx: Transaction) -> Written:
            tx.lock(*_tenants(given))
            return write_rows(tx, batch, given, now, restore=restore)

        return await self._database.write(work)

    async def require_unforgotten(self, whose: Whose, batch: RowBatch) -> None:
        given = given_rows(batch)
        await self._database.read(lambda tx: require_unforgotten(tx, given))

    async def ask_for_ends(self, whose: Whose) -> None:
        now = self._clock()
        kind = JobType.DEEP_REFLECTION
        ended = (
            "SELECT c.tenant_id, c.thread_id FROM conversations c"
            " JOIN threads t ON t.tenant_id = c.tenant_id AND t.thread_id = c.thread_id"
            " WHERE c.tenant_id >= %s AND c.tenant_id < %s AND c.status = 'ending' AND NOT EXISTS"
            " (SELECT 1 FROM consolidation_jobs j WHERE j.tenant_id = c.tenant_id"
            " AND j.thread_id = c.thread_id AND j.job_type = %s)"
        )
        values = (whose.path, path_end(whose.path), str(kind))

        def work(tx: Transaction) -> None:
            locked = {tenant for tenant, _ in tx.rows(ended, *values)}
            if not locked:
                return
            tx.lock(*locked)
            for tenant, thread_id in tx.rows(ended, *values):
                if tenant in locked:
                    job = NewJob(
                        job_id=uuid4(),
                        job_type=kind,
                        run_after=now,
                        priority=JobPriority.SESSION_END,
                    )
                    insert_job(tx, tenant, thread_id, job, now, run_after=now)

        await self._database.write(work)

    async def import_vectors(
        self, whose: Whose, batch: RowBatch, model: str, dimensions: int
    ) -> Written:
        given = given_rows(batch)
        vectors = [json.loads(row["embedding"] or "[]") for row in given]
        if any(len(vector) != dimensions for vector in vectors):
            raise Conflict("a vector is not of the dimensions that the first line names")
        fields = [_field(row) for row in given]

        def work(tx: Transaction) -> Written:
            tx.lock(*_tenants(given))
            here = _embedded(tx, model, fields)
            new = {
                field: (*field, vector)
                for field, vector in zip(fields, vectors, strict=True)
                if field not in here
            }
            try:
                add_vectors(tx, model, new.values())
            except (pymysql.IntegrityError, pymysql.DataError) as error:
                raise InvalidInput(f"it does not fit its table: {error.args[-1]}") from error
            return Written(written=len(new))

        return await self._database.write(work)

    async def unembedded(self, whose: Whose, batch: RowBatch, model: str) -> Sequence[Unembedded]:
        fields = [_field(row) for row in given_rows(batch)]

        def work(tx: Transaction) -> list[Unembedded]:
            here = _embedded(tx, model, fields)
            said = _memories(tx, {field[:2] for field in fields})
            found = []
            for field in fields:
                if field in here or field[:2] not in said:
                    continue
                tenant, namespace, key, text, value = said[field[:2]]
                found.append(
                    Unembedded(
                        address=(from_path(tenant + namespace[1:]), key),
                        field=field[2],
                        text=text,
                        value=json.loads(value),
                    )
                )
            return found

        return await self._database.read(work)

    async def add_made_vectors(self, whose: Whose, vectors: VectorRows) -> None:
        def work(tx: Transaction) -> None:
            tx.lock(*tenants_of(vectors.addresses))
            put_vectors(tx, vectors)

        await self._database.write(work)


async def _flat(parts: AsyncIterator[list[ExportedRow]]) -> AsyncIterator[ExportedRow]:
    async for page in parts:
        for row in page:
            yield row


def _pages(tx: Transaction, table: str, whose: Whose) -> Iterator[list[ExportedRow]]:
    """Yield the rows of a table in the order of its key, page by page."""
    shape = SHAPES[table]
    key, after = names(shape.key), "TRUE"
    values: list[object] = []
    while True:
        page = tx.rows(
            f"SELECT {shape.selected} FROM {table} WHERE tenant_id >= %s AND tenant_id < %s"
            f" AND {after} ORDER BY {key} LIMIT {FETCHED}",
            whose.path,
            path_end(whose.path),
            *values,
        )
        if page:
            yield [
                ExportedRow(table=table, text=row_text(shape, stored_row(table, shape, row)))
                for row in page
            ]
        if len(page) < FETCHED:
            return
        last = dict(zip(shape.columns, page[-1], strict=True))
        after = f"({key}) > ({', '.join(['%s'] * len(shape.key))})"
        values = [last[name] for name in shape.key]


def _vector_pages(
    tx: Transaction, whose: Whose, model: tuple[str, int] | None, *, vectors: bool
) -> Iterator[list[ExportedRow]]:
    """Yield what has vectors of the active model, as json_build_object() has it."""
    if model is None:
        return
    columns = "tenant_id, memory_id, field" + (", embedding" if vectors else "")
    last: tuple[object, ...] = ("", b"", "")
    while True:
        page = tx.rows(
            f"SELECT {columns} FROM {table_of(model[1])} WHERE model = %s AND tenant_id >= %s"
            " AND tenant_id < %s AND (tenant_id, memory_id, model, field) > (%s, %s, %s, %s)"
            f" ORDER BY tenant_id, memory_id, model, field LIMIT {FETCHED}",
            model[0], whose.path, path_end(whose.path), last[0], last[1], model[0], last[2],
        )  # fmt: skip
        yield [ExportedRow(table=EMBEDDINGS, text=_vector_row(row)) for row in page]
        if len(page) < FETCHED:
            return
        last = page[-1][:3]


def _vector_row(row: Sequence[Any]) -> str:
    parts = {"tenant_id": quoted(row[0]), "memory_id": f'"{row[1]}"', "field": quoted(row[2])}
    if len(row) > 3:
        parts["embedding"] = quoted(vector_text(row[3]))
    return "{" + ", ".join(f'"{name}" : {text}' for name, text in parts.items()) + "}"


def _tenants(given: Sequence[dict[str, Any]]) -> set[str]:
    return {row["tenant_id"] for row in given}


def _field(row: dict[str, Any]) -> tuple[str, Any, str]:
    """Return tenant, memory and field. Raises InvalidInput where one is missing."""
    for name in ("tenant_id", "memory_id", "field"):
        if row[name] is None:
            raise InvalidInput(
                f'it does not fit its table: null value in column "{name}" of {EMBEDDINGS}'
            )
    return row["tenant_id"], row["memory_id"], row["field"]


def _embedded(
    tx: Transaction, model: str, fields: Sequence[tuple[str, Any, str]]
) -> set[tuple[Any, ...]]:
    """Return those of some fields that have a vector of a model."""
    dimensions = models(tx).get(model)
    if dimensions is None:
        return set()
    return {
        tuple(row)
        for page in pages(fields)
        for row in tx.rows(
            f"SELECT tenant_id, memory_id, field FROM {table_of(dimensions)}"
            " WHERE model = %s AND (tenant_id, memory_id, field) IN %s",
            model,
            page,
        )
    }


def _memories(tx: Transaction, wanted: set[tuple[str, Any]]) -> dict[tuple[Any, ...], Any]:
    return {
        (row[0], row[1]): (row[0], *row[2:])
        for page in pages(sorted(wanted))
        for row in tx.rows(
            "SELECT tenant_id, memory_id, namespace, `key`, text, value FROM memories"
            " WHERE (tenant_id, memory_id) IN %s",
            page,
        )
    }
