"""What tells whether a transaction was committed although its answer was lost.

Each connection has a row in the table writes. A transaction that wrote something gives it a new id
as its last step; the id is there afterwards if, and only if, the transaction was committed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4
from weakref import WeakKeyDictionary

import pymysql

TABLE = """CREATE TABLE IF NOT EXISTS writes (
    writer_id BINARY(16) NOT NULL PRIMARY KEY,
    write_id BINARY(16) NOT NULL,
    written_at DATETIME(6) NOT NULL
) ORGANIZATION = INDEX"""

DROPPED_AT_ONCE = 1000
DROPPED_AFTER_DAYS = 7
RENEWED_AFTER_S = 6 * 3600.0


@dataclass(frozen=True, slots=True)
class Mark:
    """One transaction of one connection."""

    writer_id: UUID
    write_id: UUID


class Marks:
    """The rows of connections. A connection is used by one thread at a time."""

    def __init__(self) -> None:
        self._writers: WeakKeyDictionary[Any, tuple[UUID, float]] = WeakKeyDictionary()

    def prepare(self, connection: pymysql.Connection[Any]) -> None:
        """Give a connection its row, outside of any transaction.

        It must be there before the first one: nobody waits for a row that is not committed. It is
        renewed long before others drop it as that of a connection which is gone.
        """
        now = time.monotonic()
        writer_id, renewed_at = self._writers.get(connection, (uuid4(), -RENEWED_AFTER_S))
        if now - renewed_at < RENEWED_AFTER_S:
            return
        with connection.cursor() as cursor:
            cursor.execute(
                "DELETE FROM writes WHERE written_at <"
                f" TIMESTAMPADD(DAY, -{DROPPED_AFTER_DAYS}, UTC_TIMESTAMP(6))"
                f" LIMIT {DROPPED_AT_ONCE}"
            )
            _insert(cursor, Mark(writer_id, uuid4()))
        self._writers[connection] = (writer_id, now)

    def put(self, connection: pymysql.Connection[Any]) -> Mark:
        """Mark the transaction of a connection, as its last step."""
        mark = Mark(self._writers[connection][0], uuid4())
        with connection.cursor() as cursor:
            found = cursor.execute(
                "UPDATE writes SET write_id = %s, written_at = UTC_TIMESTAMP(6)"
                " WHERE writer_id = %s",
                (mark.write_id.bytes, mark.writer_id.bytes),
            )
            if not found:  # somebody emptied the table
                _insert(cursor, mark)
        return mark


def is_there(connection: pymysql.Connection[Any], mark: Mark) -> bool:
    """Tell whether a marked transaction was committed; wait for it where it has not ended yet."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT write_id FROM writes WHERE writer_id = %s FOR UPDATE", (mark.writer_id.bytes,)
        )
        return bool(cursor.fetchall() == ((mark.write_id,),))


def _insert(cursor: Any, mark: Mark) -> None:
    cursor.execute(
        "INSERT INTO writes (writer_id, write_id, written_at) VALUES (%s, %s, UTC_TIMESTAMP(6))"
        " ON DUPLICATE KEY UPDATE write_id = VALUES(write_id), written_at = VALUES(written_at)",
        (mark.writer_id.bytes, mark.write_id.bytes),
    )
