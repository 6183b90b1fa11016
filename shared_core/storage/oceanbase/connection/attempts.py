"""Repeats a transaction that failed, and finds out whether one was committed whose answer was lost.

Each connection has a row in the table `writes`. A transaction that wrote something gives that row a
new id as its last step: the id is there afterwards if, and only if, it was committed (decision 14).
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4
from weakref import WeakKeyDictionary

import pymysql

from shared_core.storage.oceanbase.connection.errors import (
    LOCK_WAIT,
    LOST,
    ROLLED_BACK,
    UNDONE,
    UNKNOWN,
    UNREACHED,
    code_of,
    is_silent,
)

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


TRIES = 6
PAUSE_S = 0.02
"""Before the second try; twice as long before each that follows, up to 32 times."""
LONGEST_PAUSE = 5


class Attempts:
    """The attempts at one piece of work. until: by time.monotonic(), when waiting ends.

    What passes by itself is waited for until then: a lock, a new leader, and a server that alone
    knows whether what was written is committed. All else is tried so many times.
    """

    def __init__(self, until: float) -> None:
        self._until = until
        self._failed = self._tried = 0
        self.are_in_doubt = False

    def failed(self, error: pymysql.MySQLError, *, has_looked: bool, wrote: bool) -> None:
        """Note an attempt. has_looked: none before it was committed. wrote: it may have been."""
        if has_looked:
            self.are_in_doubt = False
        if wrote and (code_of(error) in (*LOST, UNKNOWN) or is_silent(error)):
            self.are_in_doubt = True
        self._failed += 1
        self._tried += not self._waits(error)

    def go_on(self, error: pymysql.MySQLError) -> bool:
        """Tell whether to try again.

        A server that was silent for as long as a statement may take is not asked again.
        """
        if is_silent(error):
            return False
        if self._waits(error):
            return time.monotonic() < self._until
        return code_of(error) in (*ROLLED_BACK, *LOST) and self._tried < TRIES

    def pause(self) -> None:
        """Sleep for a moment, longer from one attempt to the next."""
        time.sleep(random.uniform(0, PAUSE_S * 2 ** min(self._failed - 1, LONGEST_PAUSE)))

    def _waits(self, error: pymysql.MySQLError) -> bool:
        code = code_of(error)
        passes = code == LOCK_WAIT or code in UNDONE
        return passes or (self.are_in_doubt and code in (*LOST, *UNREACHED))
