"""Export and import on OceanBase: all rows of a user or an application.

The lines equal those of PostgreSQL byte for byte, so either engine imports the exports of the
other. Vectors are exported as PostgreSQL stores them, in numbers of 2 bytes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import datetime
from typing import Any, TypeAlias

import pymysql

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
from shared_core.storage._migrations import SCHEMA_VERSION
from shared_core.storage.oceanbase.base import OceanBasePart
from shared_core.storage.oceanbase.connection.database import streamed
from shared_core.storage.oceanbase.connection.transactions import Transaction, grouped, pages
from shared_core.storage.oceanbase.transfer_format import (
    CHOICES,
    DIGEST_BYTES,
    NOW,
    RANGES,
    SHAPES,
    UNIQUE,
    TableShape,
    Unique,
    fields_of,
    names,
    quoted,
    read_row,
    read_value,
    row_text,
    vector_text,
)
from shared_core.storage.oceanbase.vectors import active_model, table_of

Values: TypeAlias = dict[str, Any]
_TAKEN = (
    "something else has its place here: export and forget that first, or import into another schema"
)
_FORGOTTEN = (
    "this turn was forgotten here: import it with restore (--restore) to bring such turns back"
)
_ERASED = (
    "this session was erased here: import it with restore (--restore) to bring such sessions back"
)
FETCHED = 500
"""Maximum number of a table's rows in memory."""
OF_TENANTS = (
    "threads", "memories", "tombstones", "shared_state", "instructions", "import_marks",
    "retention_policies", "erasures", "entity_aliases", "edges",
)  # fmt: skip
"""Tables that can hold the first rows of a user."""


class OceanBaseTransfer(OceanBasePart):
    """Exports and imports rows as text, losslessly, as PostgreSQL writes and reads them."""

    async def rows_version(self) -> int:
        return SCHEMA_VERSION

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

    async def import_rows(
        self, export_scope: ExportScope, batch: RowBatch, *, restore: bool
    ) -> Written:
        strangers = [name for name in batch.columns if name not in SHAPES[batch.table].columns]
        if strangers:
            raise InvalidInput(
                f"{batch.table} has no {', '.join(map(repr, strangers))}: a newer version wrote"
                " this, upgrade with pip install -U pg-hippocampus"
            )
        given, now = given_rows(batch), self._clock()
        return await self._database.write(
            lambda tx: write_rows(tx, batch, given, now, restore=restore),
            *(row["tenant_id"] for row in given),
        )

    async def require_unforgotten(self, export_scope: ExportScope, batch: RowBatch) -> None:
        given = given_rows(batch)
        await self._database.read(lambda tx: require_unforgotten(tx, given))


async def _flat(parts: AsyncIterator[list[ExportedRow]]) -> AsyncIterator[ExportedRow]:
    async for page in parts:
        for row in page:
            yield row


def _pages(tx: Transaction, table: str, export_scope: ExportScope) -> Iterator[list[ExportedRow]]:
    """Yield the rows of a table by its key, page by page."""
    shape = SHAPES[table]
    key, after = names(shape.key), "TRUE"
    values: list[object] = []
    while True:
        page = tx.rows(
            f"SELECT {shape.selected} FROM {table} WHERE tenant_id >= %s AND tenant_id < %s"
            f" AND {after} ORDER BY {key} LIMIT {FETCHED}",
            [export_scope.path, path_end(export_scope.path), *values],
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
    tx: Transaction, export_scope: ExportScope, model: tuple[str, int] | None, *, vectors: bool
) -> Iterator[list[ExportedRow]]:
    """Yield the vectors of the active model as json_build_object() writes them."""
    if model is None:
        return
    columns = "tenant_id, memory_id, field" + (", embedding" if vectors else "")
    tenants = export_scope.path, path_end(export_scope.path)
    last: tuple[object, ...] = ("", b"", "")
    while True:
        page = tx.rows(
            f"SELECT {columns} FROM {table_of(model[1])} WHERE model = %s AND tenant_id >= %s"
            " AND tenant_id < %s AND (tenant_id, memory_id, model, field) > (%s, %s, %s, %s)"
            f" ORDER BY tenant_id, memory_id, model, field LIMIT {FETCHED}",
            [model[0], *tenants, *last[:2], model[0], last[2]],
        )
        yield [ExportedRow(table=EMBEDDINGS, text=_vector_row(row)) for row in page]
        if len(page) < FETCHED:
            return
        last = page[-1][:3]


def _vector_row(row: Sequence[Any]) -> str:
    parts = {"tenant_id": quoted(row[0]), "memory_id": f'"{row[1]}"', "field": quoted(row[2])}
    if len(row) > 3:
        parts["embedding"] = quoted(vector_text(row[3]))
    return "{" + ", ".join(f'"{name}" : {text}' for name, text in parts.items()) + "}"


def given_rows(batch: RowBatch) -> list[Values]:
    """Return the rows of a batch as they are stored, None for missing columns.

    Raises InvalidInput for values that do not fit the table.
    """
    shape = SHAPES[batch.table]
    return [read_row(shape, fields_of(line)) for line in batch.lines]


def checked(table: str, columns: Sequence[str], given: Values, now: datetime) -> Values:
    """Return a row with defaults for missing columns. Raises InvalidInput."""
    row = dict(given)
    for name, column in SHAPES[table].columns.items():
        if name not in columns and column.default is not None:
            row[name] = now if column.default == NOW else read_value(column, column.default)
        if row[name] is None and not column.nullable:
            raise InvalidInput(
                f'it does not fit its table: null value in column "{name}" of {table}'
            )
        if row[name] is not None and not _fits(table, name, row[name]):
            raise InvalidInput(
                f"it does not fit its table: {name} {row[name]!r:.80} of {table} violates check"
                " constraint"
            )
    return row


def _fits(table: str, name: str, value: Any) -> bool:
    low, high = RANGES.get((table, name), (None, None))
    if low is not None and high is not None and not low <= value <= high:
        return False
    choices = CHOICES.get((table, name))
    return choices is None or value in choices


def write_rows(
    tx: Transaction, batch: RowBatch, given: Sequence[Values], now: datetime, *, restore: bool
) -> Written:
    """Insert rows that do not exist yet; all their tenants are locked."""
    table, shape = batch.table, SHAPES[batch.table]
    if table == "events":
        (restore_turns if restore else require_unforgotten)(tx, given)
    if table == "conversations" and not restore:
        _require_unerased(tx, given)
    if table == "threads":
        count_on_threads(tx, given)
    rows: dict[tuple[Any, ...], Values] = {}
    for row in given:
        rows.setdefault(_key(shape, row), row)
    here = stored_rows(tx, table, shape, list(rows))
    new = {
        key: checked(table, batch.columns, row, now) for key, row in rows.items() if key not in here
    }
    differ = sum(
        row_text(shape, here[key] if key in here else new[key]) != row_text(shape, row)
        for key, row in ((_key(shape, row), row) for row in given)
    )
    if table == "conversations":
        _end_second(tx, new.values())
    _require_free(tx, table, list(new.values()))
    insert_rows(tx, table, new.values())
    if table == "events":
        count_on_events(tx, given)
    return Written(written=len(new), differ=differ)


def insert_rows(tx: Transaction, table: str, rows: Iterable[Values]) -> None:
    """Insert rows of a table. Raises InvalidInput if they do not fit it."""
    columns = tuple(SHAPES[table].columns)
    try:
        tx.insert(
            table,
            tuple(f"`{name}`" for name in columns),
            ([row[name] for name in columns] for row in rows),
        )
    except (pymysql.IntegrityError, pymysql.DataError) as error:
        raise InvalidInput(f"it does not fit its table: {error.args[-1]}") from error


def stored_rows(
    tx: Transaction, table: str, shape: TableShape, keys: Sequence[tuple[Any, ...]]
) -> dict[tuple[Any, ...], Values]:
    """Return the existing ones of some rows by key."""
    found = {}
    for page in pages(keys):
        for row in tx.rows(
            f"SELECT {shape.selected} FROM {table} WHERE ({names(shape.key)}) IN %s",
            [[_padded(table, key) for key in page]],
        ):
            values = stored_row(table, shape, row)
            found[_key(shape, values)] = values
    return found


def stored_row(table: str, shape: TableShape, row: Sequence[Any]) -> Values:
    """Return a row of the database by column name."""
    values = dict(zip(shape.columns, row, strict=True))
    if table == "import_marks":
        values["address_hash"] = _unpadded(values["address_hash"])
    return values


def restore_turns(tx: Transaction, rows: Sequence[Values]) -> None:
    """Delete the tombstones of turns."""
    tx.run_in("DELETE FROM tombstones WHERE (tenant_id, thread_id, event_id) IN %s", [_turns(rows)])


def require_unforgotten(tx: Transaction, rows: Sequence[Values]) -> None:
    """Raise Conflict if a turn was forgotten here."""
    sql = "SELECT 1 FROM tombstones WHERE (tenant_id, thread_id, event_id) IN %s LIMIT 1"
    if tx.rows_in(sql, [_turns(rows)]):
        raise Conflict(_FORGOTTEN)


def _turns(rows: Sequence[Values]) -> list[tuple[str, str, str]]:
    return [
        (row["tenant_id"], row["thread_id"], row["event_id"])
        for row in rows
        if row["memory_seq"] is not None
    ]


def _require_unerased(tx: Transaction, rows: Sequence[Values]) -> None:
    threads = [(row["tenant_id"], row["thread_id"]) for row in rows]
    buried, here = (
        set(
            tx.rows_in(
                f"SELECT DISTINCT tenant_id, thread_id FROM {table}"
                " WHERE (tenant_id, thread_id) IN %s",
                [threads],
            )
        )
        for table in ("tombstones", "conversations")
    )
    if buried - here:
        raise Conflict(_ERASED)


def _end_second(tx: Transaction, rows: Iterable[Values]) -> None:
    """Mark active conversations of users who have one here as ending, or ended if empty."""
    active = [row for row in rows if row["status"] == "active"]
    tenants = sorted({row["tenant_id"] for row in active})
    busy = set(
        tx.column_in(
            "SELECT tenant_id FROM conversations WHERE tenant_id IN %s AND status = 'active'",
            [tenants],
        )
    )
    for row in active:
        if row["tenant_id"] in busy:
            row["ended_at"] = row["last_active_at"]
            row["status"] = "ending" if row["event_count"] > 0 else "ended"
        busy.add(row["tenant_id"])


def _require_free(tx: Transaction, table: str, rows: Sequence[Values]) -> None:
    """Raise Conflict if another row has the place of a new one."""
    for unique in UNIQUE.get(table, ()):
        places = [tuple(row[name] for name in unique.columns) for row in rows if unique.holds(row)]
        taken = _taken(tx, table, unique, places)
        if len(set(places)) < len(places) or taken & set(places):
            raise Conflict(_TAKEN)


def _taken(
    tx: Transaction, table: str, unique: Unique, places: Sequence[tuple[Any, ...]]
) -> set[tuple[Any, ...]]:
    by_tenant = any(None in place for place in places)  # IN matches no place that contains NULL
    select = f"SELECT {names(unique.columns)} FROM {table} WHERE {unique.condition}"
    values = sorted({place[0] for place in places}) if by_tenant else list(places)
    columns = ("tenant_id",) if by_tenant else unique.columns
    return {tuple(row) for row in tx.rows_in(f"{select} AND ({names(columns)}) IN %s", [values])}


def _key(shape: TableShape, row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in shape.key)


def _padded(table: str, key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a key as the table holds it: a shorter digest is padded with zeros."""
    if table != "import_marks":
        return key
    return key[0], key[1].ljust(DIGEST_BYTES, b"\0")


def _unpadded(digest: bytes) -> bytes:
    return b"" if not any(digest) else digest


def count_on_threads(tx: Transaction, given: Sequence[Mapping[str, Any]]) -> None:
    """Raise the counters of existing threads. Read marks stay, so no unread turn is skipped."""
    for row in given:
        counters = (row["last_seq"] or 0, row["last_memory_seq"] or 0, row["unread_bytes"] or 0)
        _raise(tx, row, counters, row["updated_at"])


def count_on_events(tx: Transaction, given: Sequence[Mapping[str, Any]]) -> None:
    """Raise the counters of threads to the given events, whatever the thread's own line holds."""
    threads = grouped(((row["tenant_id"], row["thread_id"]), row) for row in given)
    for rows in threads.values():
        last_memory_seq = max(row["memory_seq"] or 0 for row in rows)
        _raise(tx, rows[0], (max(row["seq"] for row in rows), last_memory_seq, 0), None)


def _raise(
    tx: Transaction, thread: Mapping[str, Any], counters: tuple[int, int, int], updated_at: object
) -> None:
    """Raise last_seq, last_memory_seq and unread_bytes of a thread to the given counters."""
    last_seq, last_memory_seq, unread_bytes = counters
    # MySQL assigns from left to right: unread_bytes must see the counter before it is raised.
    tx.run(
        "UPDATE threads SET unread_bytes = IF(last_memory_seq < %s,"
        " GREATEST(unread_bytes, %s), unread_bytes),"
        " updated_at = GREATEST(updated_at, COALESCE(%s, updated_at)),"
        " last_seq = GREATEST(last_seq, %s), last_memory_seq = GREATEST(last_memory_seq, %s)"
        " WHERE tenant_id = %s AND thread_id = %s AND (last_seq < %s OR last_memory_seq < %s)",
        [
            last_memory_seq,
            unread_bytes,
            updated_at,
            last_seq,
            last_memory_seq,
            thread["tenant_id"],
            thread["thread_id"],
            last_seq,
            last_memory_seq,
        ],
    )
