"""Runs statements with bound values inside one transaction, in pages where a list is long."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import Any, TypeVar
from uuid import UUID

import pymysql
from pymysql.converters import conversions

AT_ONCE = 1000
"""Values of one IN."""

T = TypeVar("T")


def pages(values: Sequence[T], size: int = AT_ONCE) -> Iterator[list[T]]:
    """Yield values in lists of at most size; nothing of nothing."""
    return (list(values[start : start + size]) for start in range(0, len(values), size))


Row = tuple[Any, ...]

ROWS_AT_ONCE = 500
BYTES_AT_ONCE = 4_000_000
"""Of one INSERT; the server takes packets of 16 MB."""


class Transaction:
    """One transaction. All of it happens, or nothing does; it may run more than once."""

    def __init__(self, connection: pymysql.Connection[Any]) -> None:
        self.connection = connection
        self.wrote = False
        """Whether there is anything to commit."""
        self.waiting_for: str | None = None
        """The tenant whose lock is being asked for."""

    def rows(self, sql: str, *values: object) -> list[Row]:
        """Return the rows of a query; values fill its %s, a list or tuple those of IN."""
        with self.connection.cursor() as cursor:
            cursor.execute(sql, _bound(values))
            return list(cursor.fetchall())

    def plain_rows(self, sql: str, *values: object) -> list[Row]:
        """Return the rows of a query as the server sends them, for many: in half the time.

        Ids and VARBINARY are bytes, moments are text, and sort as they do otherwise.
        """
        decoders, self.connection.decoders = self.connection.decoders, _NUMBERS
        try:
            return self.rows(sql, *values)
        finally:
            self.connection.decoders = decoders

    def one(self, sql: str, *values: object) -> Row | None:
        """Return the first row of a query, or None."""
        found = self.rows(sql, *values)
        return found[0] if found else None

    def run(self, sql: str, *values: object) -> int:
        """Run a statement; return how many rows it found, changed or not."""
        with self.connection.cursor() as cursor:
            found = int(cursor.execute(sql, _bound(values)))
            self.wrote = self.wrote or found > 0
            return found

    def insert(
        self,
        table: str,
        columns: Sequence[str],
        rows: Iterable[Sequence[object]],
        *,
        update: Sequence[str] | str | None = None,
        ignore: bool = False,
    ) -> None:
        """Insert rows, many at once.

        update: columns to take over where the key exists, or what follows ON DUPLICATE KEY UPDATE.
        ignore: a key that exists is passed over. Not by INSERT IGNORE, which would cut a value that
        is too long and say nothing.
        """
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
        """Put whoever writes to these tenants in line, until the transaction ends.

        What is read afterwards is what the one before committed. Locks are taken in one order, so
        that two never wait for each other: take all of a transaction at once, before anything is
        written. The row of a new tenant is committed at once: who waits for all writers sees it.
        """
        assert not self.wrote, "locks come before whatever is written"
        wanted = sorted(set(tenants))
        missing = set(wanted) - {
            row[0]
            for row in self.rows("SELECT tenant_id FROM tenants WHERE tenant_id IN %s", wanted)
        }
        if missing:
            self.waiting_for = next(iter(missing)) if len(missing) == 1 else None
            self.insert("tenants", ["tenant_id"], [[name] for name in sorted(missing)], ignore=True)
            self.connection.commit()
            self.connection.begin()
            self.wrote = False
        for name in wanted:
            self.waiting_for = name
            self.rows("SELECT tenant_id FROM tenants WHERE tenant_id = %s FOR UPDATE", name)
        self.waiting_for = None

    def lock_free(self, tenants: Iterable[str]) -> set[str]:
        """Put others in line as lock() does, of these tenants where nobody is; return those.

        It waits for nobody. A tenant without a row is none of them.
        """
        assert not self.wrote, "locks come before whatever is written"
        found = self.rows(
            "SELECT tenant_id FROM tenants WHERE tenant_id IN %s FOR UPDATE SKIP LOCKED",
            sorted(set(tenants)),
        )
        return {row[0] for row in found}


_NUMBERS = {kind: read for kind, read in conversions.items() if read in (int, float)}


def _bound(values: Iterable[object]) -> tuple[object, ...]:
    return tuple(_bound_value(value) for value in values)


def _bound_value(value: object) -> object:
    """Return a value as the driver takes it; nothing is IN a list of none, nor NOT IN."""
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
