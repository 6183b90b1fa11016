"""Rows of an export, written in one transaction as if PostgreSQL had looked after them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias

import pymysql

from shared_core.errors import Conflict, InvalidInput
from shared_core.ports.transfer import RowBatch, Written
from shared_core.storage.oceanbase.connection.batching import pages
from shared_core.storage.oceanbase.connection.transactions import Transaction
from shared_core.storage.oceanbase.transfer_counters import count_on_events, count_on_threads
from shared_core.storage.oceanbase.transfer_shapes import (
    CHOICES,
    NOW,
    RANGES,
    SHAPES,
    UNIQUE,
    Shape,
    Unique,
    names,
)
from shared_core.storage.oceanbase.transfer_values import (
    DIGEST_BYTES,
    fields_of,
    read_row,
    read_value,
    row_text,
)

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


def given_rows(batch: RowBatch) -> list[Values]:
    """Return the rows of a batch as they are stored, None for columns they do not name.

    Raises InvalidInput for what does not fit the table.
    """
    shape = SHAPES[batch.table]
    return [read_row(shape, fields_of(line)) for line in batch.lines]


def checked(table: str, columns: Sequence[str], given: Values, now: datetime) -> Values:
    """Return a row with the defaults of columns that were not named. Raises InvalidInput."""
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
    """Write rows that are not here; the tenants of all of them are locked."""
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
    """Insert rows of a table. Raises InvalidInput where they do not fit it."""
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
    tx: Transaction, table: str, shape: Shape, keys: Sequence[tuple[Any, ...]]
) -> dict[tuple[Any, ...], Values]:
    """Return those of some rows that are here, by their keys."""
    found = {}
    for page in pages(keys):
        for row in tx.rows(
            f"SELECT {shape.selected} FROM {table} WHERE ({names(shape.key)}) IN %s",
            [_padded(table, key) for key in page],
        ):
            values = stored_row(table, shape, row)
            found[_key(shape, values)] = values
    return found


def stored_row(table: str, shape: Shape, row: Sequence[Any]) -> Values:
    """Return a row of the database by its columns."""
    values = dict(zip(shape.columns, row, strict=True))
    if table == "import_marks":
        values["address_hash"] = _unpadded(values["address_hash"])
    return values


def restore_turns(tx: Transaction, rows: Sequence[Values]) -> None:
    """Take back that turns were forgotten, because they are given."""
    for page in pages(_turns(rows)):
        tx.run("DELETE FROM tombstones WHERE (tenant_id, thread_id, event_id) IN %s", page)


def require_unforgotten(tx: Transaction, rows: Sequence[Values]) -> None:
    """Raise Conflict if a turn was forgotten here."""
    for page in pages(_turns(rows)):
        if tx.rows(
            "SELECT 1 FROM tombstones WHERE (tenant_id, thread_id, event_id) IN %s LIMIT 1",
            page,
        ):
            raise Conflict(_FORGOTTEN)


def _turns(rows: Sequence[Values]) -> list[tuple[str, str, str]]:
    return [
        (row["tenant_id"], row["thread_id"], row["event_id"])
        for row in rows
        if row["memory_seq"] is not None
    ]


def _require_unerased(tx: Transaction, rows: Sequence[Values]) -> None:
    threads = [(row["tenant_id"], row["thread_id"]) for row in rows]
    for page in pages(threads):
        buried = tx.rows(
            "SELECT DISTINCT tenant_id, thread_id FROM tombstones"
            " WHERE (tenant_id, thread_id) IN %s",
            page,
        )
        here = tx.rows(
            "SELECT tenant_id, thread_id FROM conversations WHERE (tenant_id, thread_id) IN %s",
            page,
        )
        if set(buried) - set(here):
            raise Conflict(_ERASED)


def _end_second(tx: Transaction, rows: Iterable[Values]) -> None:
    """Let conversations that are active have ended, where another one of the user is active here.

    One in which nothing was said has no more to wait for.
    """
    active = [row for row in rows if row["status"] == "active"]
    tenants = sorted({row["tenant_id"] for row in active})
    busy = {
        row[0]
        for page in pages(tenants)
        for row in tx.rows(
            "SELECT tenant_id FROM conversations WHERE tenant_id IN %s AND status = 'active'",
            page,
        )
    }
    for row in active:
        if row["tenant_id"] in busy:
            row["ended_at"] = row["last_active_at"]
            row["status"] = "ending" if row["event_count"] > 0 else "ended"
        busy.add(row["tenant_id"])


def _require_free(tx: Transaction, table: str, rows: Sequence[Values]) -> None:
    """Raise Conflict where something else has the place of a new row."""
    for unique in UNIQUE.get(table, ()):
        places = [tuple(row[name] for name in unique.columns) for row in rows if unique.holds(row)]
        taken = _taken(tx, table, unique, places)
        if len(set(places)) < len(places) or taken & set(places):
            raise Conflict(_TAKEN)


def _taken(
    tx: Transaction, table: str, unique: Unique, places: Sequence[tuple[Any, ...]]
) -> set[tuple[Any, ...]]:
    by_tenant = any(None in place for place in places)  # nothing is IN what holds a null
    select = f"SELECT {names(unique.columns)} FROM {table} WHERE {unique.condition}"
    wanted = sorted({place[0] for place in places}) if by_tenant else list(places)
    columns = ("tenant_id",) if by_tenant else unique.columns
    return {
        tuple(row)
        for page in pages(wanted)
        for row in tx.rows(f"{select} AND ({names(columns)}) IN %s", page)
    }


def _key(shape: Shape, row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in shape.key)


def _padded(table: str, key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a key as the table holds it: a digest of less has zeros behind."""
    if table != "import_marks":
        return key
    return key[0], key[1].ljust(DIGEST_BYTES, b"\0")


def _unpadded(digest: bytes) -> bytes:
    return b"" if not any(digest) else digest
