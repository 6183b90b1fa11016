"""Exports on OceanBase: all rows of a user or an application.

The lines equal those of PostgreSQL byte for byte, so either engine imports the exports of the
other. Vectors are exported as PostgreSQL stores them, in numbers of 2 bytes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

from shared_core.core.namespaces import ROOT, from_path, path_end
from shared_core.core.row_text import row_text, value_text
from shared_core.ports.tables import tables as described
from shared_core.ports.transfer import EMBEDDINGS, TABLES, ExportedRow, ExportScope, Snapshot
from shared_core.storage._rows import to_tsvector
from shared_core.storage.oceanbase.base import OceanBasePart
from shared_core.storage.oceanbase.connection.columns import ColumnType, tables
from shared_core.storage.oceanbase.connection.database import streamed
from shared_core.storage.oceanbase.connection.transactions import Transaction
from shared_core.storage.oceanbase.vectors import active_model, table_of

FETCHED = 500
"""Maximum number of a table's rows in memory."""
OF_TENANTS = (
    "threads", "memories", "tombstones", "shared_state", "instructions", "import_marks",
    "retention_policies", "erasures", "entity_aliases", "edges",
)  # fmt: skip
"""Tables that can hold the first rows of a user."""


class OceanBaseTransfer(OceanBasePart):
    """Exports rows as text, losslessly, as PostgreSQL writes them."""

    @asynccontextmanager
    async def snapshot(
        self, export_scope: ExportScope, *, vectors: bool
    ) -> AsyncIterator[Snapshot]:
        def work(tx: Transaction) -> Iterator[Any]:
            model = active_model(tx)
            yield model
            for table in TABLES:
                if table == EMBEDDINGS:
                    yield from _vector_pages(tx, export_scope, model, vectors=vectors)
                else:
                    yield from _pages(tx, table, export_scope)

        owner = "/".join(filter(None, (export_scope.app, export_scope.user)))
        async with aclosing(streamed(self._database, f"the export of {owner!r}", work)) as parts:
            model, dimensions = await anext(parts) or (None, None)
            yield Snapshot(model=model, dimensions=dimensions, rows=_flat(parts))

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


async def _flat(parts: AsyncIterator[list[ExportedRow]]) -> AsyncIterator[ExportedRow]:
    async for page in parts:
        for row in page:
            yield row


def _pages(tx: Transaction, table: str, export_scope: ExportScope) -> Iterator[list[ExportedRow]]:
    """Yield the rows of a table by its key, page by page."""
    columns, kinds = described()[table].columns.values(), tables()[table].columns
    forms = [(one.name, one.type, kinds[one.name]) for one in columns]
    shown = ", ".join(f"`{one.name}`" for one in columns)
    for page in _by_key(tx, table, shown, ("tenant_id", *described()[table].key), export_scope):
        yield [ExportedRow(table=table, text=_text_of(forms, row)) for row in page]


def _text_of(forms: Sequence[tuple[str, str, ColumnType]], row: Sequence[Any]) -> str:
    return row_text(
        (name, kind, _plain(kind, stored, value))
        for (name, kind, stored), value in zip(forms, row, strict=True)
    )


def _plain(kind: str, stored: ColumnType, value: Any) -> Any:
    """Return a stored value as value_text() takes it."""
    if value is None or stored is ColumnType.JSON:
        return value
    return to_tsvector(value[1:-1].split(" ")) if kind == "tsvector" else stored.loaded(value)


def _by_key(
    tx: Transaction,
    table: str,
    columns: str,
    key: Sequence[str],
    export_scope: ExportScope,
    model: str | None = None,
) -> Iterator[list[Any]]:
    """Yield columns of the rows of a table, of a model if one is named, in pages."""
    names = ", ".join(f"`{name}`" for name in key)
    of_model = [] if model is None else [model]
    where = "tenant_id >= %s AND tenant_id < %s" + " AND model = %s" * len(of_model)
    last: list[Any] = []
    while True:
        after = f" AND ({names}) > %s" if last else ""
        page = tx.rows(
            f"SELECT {columns}, {names} FROM {table} WHERE {where}{after}"
            f" ORDER BY {names} LIMIT {FETCHED}",
            [export_scope.path, path_end(export_scope.path), *of_model, *last],
        )
        yield [row[: -len(key)] for row in page]
        if len(page) < FETCHED:
            return
        last = [page[-1][-len(key) :]]


def _vector_pages(
    tx: Transaction, export_scope: ExportScope, model: tuple[str, int] | None, *, vectors: bool
) -> Iterator[list[ExportedRow]]:
    """Yield the vectors of the active model as json_build_object() writes them."""
    if model is None:
        return
    columns = "tenant_id, memory_id, field" + (", embedding" if vectors else "")
    key = ("tenant_id", "memory_id", "model", "field")
    for page in _by_key(tx, table_of(model[1]), columns, key, export_scope, model[0]):
        yield [ExportedRow(table=EMBEDDINGS, text=_vector_row(row)) for row in page]


def _vector_row(row: Sequence[Any]) -> str:
    columns = described()[EMBEDDINGS].columns
    named = zip(("tenant_id", "memory_id", "field", EMBEDDINGS[:-1]), row, strict=False)
    parts = (f'"{name}" : {value_text(columns[name].type, value)}' for name, value in named)
    return "{" + ", ".join(parts) + "}"
