"""Runs statements with bound values inside one transaction, in pages where a list is long."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import Any, TypeGuard, TypeVar
from uuid import UUID

import pymysql
from pymysql.converters import conversions

Row = tuple[Any, ...]
K = TypeVar("K")
T = TypeVar("T")
AT_ONCE = 1000
"""Maximum number of values in one IN."""
ROWS_AT_ONCE = 500
"""Maximum number of rows in one INSERT."""
BYTES_AT_ONCE = 4_000_000
"""Maximum size of one INSERT; the server accepts packets of 16 MB."""


def pages(values: Iterable[T], size: int = AT_ONCE) -> Iterator[list[T]]:
    """Yield values in lists of at most `size`; an empty input yields nothing."""
    given = list(values)
    return (given[start : start + size] for start in range(0, len(given), size))


def grouped(pairs: Iterable[tuple[K, T]]) -> dict[K, list[T]]:
    """Return the second parts of pairs, in order, by their first parts."""
    found: dict[K, list[T]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


class Transaction:
    """One transaction: it commits as a whole or not at all, and it may run more than once."""

    def __init__(self, connection: pymysql.Connection[Any]) -> None:
        self.connection = connection
        self.wrote = False
        """Whether there is anything to commit."""
        self.waiting_for: str | None = None
        """The tenant that the transaction waits to lock."""

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[Row]:
        """Return the rows of a query; values fill its %s, a list or tuple the one of an IN."""
        with self.connection.cursor() as cursor:
            cursor.execute(sql, _bound(values))
            return list(cursor.fetchall())

    def rows_in(self, sql: str, values: Sequence[object]) -> list[Row]:
        """Return the rows of a query as rows() does, its first list of values sent in pages."""
        return [row for page in _paged(values) for row in self.rows(sql, page)]

    def column(self, sql: str, values: Sequence[object] = ()) -> list[Any]:
        """Return the first column of a query's rows."""
        return [row[0] for row in self.rows(sql, values)]

    def column_in(self, sql: str, values: Sequence[object]) -> list[Any]:
        """Return the first column of the rows that rows_in() returns."""
        return [row[0] for row in self.rows_in(sql, values)]

    def has(self, sql: str, values: Sequence[object] = ()) -> bool:
        """Return whether a query has a row."""
        return bool(self.rows(sql, values))

    def select(self, table: str, columns: str, tenant: str, **where: object) -> list[Row]:
        """Return a tenant's rows where columns hold a value, or one of several, sent in pages."""
        condition, pages_of_values = _where(tenant, where)
        sql = f"SELECT {columns} FROM {table} WHERE {condition}"
        return [row for values in pages_of_values for row in self.rows(sql, values)]

    def select_one(self, table: str, columns: str, tenant: str, **where: object) -> Row | None:
        """Return the first row that select() returns, or None."""
        return next(iter(self.select(table, columns, tenant, **where)), None)

    def plain_rows(self, sql: str, values: Sequence[object] = ()) -> list[Row]:
        """Return many rows in half the time, as the server sends them.

        Ids and VARBINARY stay bytes, and timestamps stay text; both sort as they do otherwise.
        """
        decoders, self.connection.decoders = self.connection.decoders, _NUMBERS
        try:
            return self.rows(sql, values)
        finally:
            self.connection.decoders = decoders

    def one(self, sql: str, values: Sequence[object] = ()) -> Row | None:
        """Return the first row of a query, or None."""
        found = self.rows(sql, values)
        return found[0] if found else None

    def run(self, sql: str, values: Sequence[object] = ()) -> int:
        """Run a statement; return how many rows it found, changed or not."""
        with self.connection.cursor() as cursor:
            found = int(cursor.execute(sql, _bound(values)))
            self.wrote = self.wrote or found > 0
            return found

    def run_in(self, sql: str, values: Sequence[object]) -> int:
        """Run a statement as run() does, its first list of values sent in pages."""
        return sum(self.run(sql, page) for page in _paged(values))

    def update(
        self, table: str, changes: Mapping[str, object], tenant: str, **where: object
    ) -> int:
        """Change columns of the rows that select() returns; return how many it found."""
        condition, pages_of_values = _where(tenant, where)
        assigned = ", ".join(f"{name} = %s" for name in changes)
        sql = f"UPDATE {table} SET {assigned} WHERE {condition}"
        return sum(self.run(sql, [*changes.values(), *values]) for values in pages_of_values)

    def delete(self, table: str, tenant: str, **where: object) -> int:
        """Delete the rows that select() returns; return their number."""
        condition, pages_of_values = _where(tenant, where)
        sql = f"DELETE FROM {table} WHERE {condition}"
        return sum(self.run(sql, values) for values in pages_of_values)

    def insert(
        self,
        table: str,
        columns: Sequence[str],
        rows: Iterable[Sequence[object]],
        *,
        update: Sequence[str] | str | None = None,
        ignore: bool = False,
    ) -> None:
        """Insert rows, many with one statement.

        update: columns to overwrite where the key exists, or the text after ON DUPLICATE KEY
        UPDATE. ignore: skip rows with an existing key.
        """
        # Not INSERT IGNORE, which would silently cut values that are too long.
        head = f"INSERT INTO {table} ({', '.join(columns)}) VALUES "
        tail = _on_duplicate(f"{columns[-1]} = {columns[-1]}" if ignore else update)
        one = f"({', '.join(['%s'] * len(columns))})"
        parts: list[str] = []
        size = 0
        with self.connection.cursor() as cursor:
            for row in rows:
                part = cursor.mogrify(one, _bound(row))
                if parts and (size + len(part) > BYTES_AT_ONCE or len(parts) == ROWS_AT_ONCE):
                    cursor.execute(head + ", ".join(parts) + tail)
                    self.wrote = True
                    parts, size = [], 0
                parts.append(part)
                size += len(part)
            if parts:
                cursor.execute(head + ", ".join(parts) + tail)
                self.wrote = True

    def lock(self, *tenants: str) -> None:
        """Lock tenants until the transaction ends, so that it is their only writer (decision 14).

        Later reads see everything that earlier writers committed. Take all locks of a transaction
        in one call before its first write: they are taken in one order, so two transactions never
        wait for each other. The row of a new tenant is committed immediately, so that a caller who
        waits for all writers sees it.
        """
        assert not self.wrote, "take locks before the first write"
        names = sorted(set(tenants))
        missing = set(names) - {
            row[0]
            for row in self.rows("SELECT tenant_id FROM tenants WHERE tenant_id IN %s", [names])
        }
        if missing:
            self.waiting_for = next(iter(missing)) if len(missing) == 1 else None
            self.insert("tenants", ["tenant_id"], [[name] for name in sorted(missing)], ignore=True)
            self.connection.commit()
            self.connection.begin()
            self.wrote = False
        for name in names:
            self.waiting_for = name
            self.rows("SELECT tenant_id FROM tenants WHERE tenant_id = %s FOR UPDATE", [name])
        self.waiting_for = None

    def lock_free(self, tenants: Iterable[str]) -> set[str]:
        """Lock those of some tenants that no other transaction holds, and return them.

        It never waits. A tenant without a row is not locked.
        """
        assert not self.wrote, "take locks before the first write"
        found = self.rows(
            "SELECT tenant_id FROM tenants WHERE tenant_id IN %s FOR UPDATE SKIP LOCKED",
            [sorted(set(tenants))],
        )
        return {row[0] for row in found}


_NUMBERS = {kind: read for kind, read in conversions.items() if read in (int, float)}


def _paged(values: Sequence[object]) -> Iterator[list[object]]:
    """Yield values with the first list among them cut into pages; nothing for an empty list."""
    place, listed = next((place, value) for place, value in enumerate(values) if _is_several(value))
    for page in pages(listed):
        yield [*values[:place], page, *values[place + 1 :]]


def _is_several(value: object) -> TypeGuard[Iterable[object]]:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes)


def _where(tenant: str, where: Mapping[str, object]) -> tuple[str, Iterable[list[object]]]:
    """Return the condition of select(), and the values for each statement."""
    tests = (f"`{name}` {'IN' if _is_several(value) else '='} %s" for name, value in where.items())
    values = [tenant, *where.values()]
    is_paged = any(map(_is_several, values))
    return " AND ".join(["tenant_id = %s", *tests]), _paged(values) if is_paged else [values]


def _bound(values: Iterable[object]) -> tuple[object, ...]:
    return tuple(_bound_value(value) for value in values)


def _bound_value(value: object) -> object:
    """Return a value for the driver; an empty list becomes [NULL], which matches nothing."""
    if isinstance(value, UUID):
        return value.bytes
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "microseconds")
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, list | tuple):
        return list(_bound(value)) or [None]
    return value


def _on_duplicate(update: Sequence[str] | str | None) -> str:
    if update is None:
        return ""
    if not isinstance(update, str):
        update = ", ".join(f"{name} = VALUES({name})" for name in update)
    return f" ON DUPLICATE KEY UPDATE {update}"
