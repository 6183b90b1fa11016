"""Repeats failed transactions, and finds out whether one with a lost answer was committed.

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
"""Maximum number of old rows that one clean-up deletes."""
DROPPED_AFTER_DAYS = 7
"""Age at which the row of a connection counts as abandoned."""
RENEWED_AFTER_S = 6 * 3600.0
"""How often a live connection renews its row, so that nobody drops it."""


@dataclass(frozen=True, slots=True)
class CommitMark:
    """Identifies one transaction of one connection."""

    writer_id: UUID
    write_id: UUID


class CommitMarks:
    """The rows of connections in `writes`; one thread at a time uses a connection."""

    def __init__(self) -> None:
        self._writers: WeakKeyDictionary[Any, tuple[UUID, float]] = WeakKeyDictionary()

    def prepare(self, connection: pymysql.Connection[Any]) -> None:
        """Insert or renew the row of a connection, outside of any transaction."""
        # The row must exist before the first transaction: nobody waits for an uncommitted row.
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
            _insert(cursor, CommitMark(writer_id, uuid4()))
        self._writers[connection] = (writer_id, now)

    def put(self, connection: pymysql.Connection[Any]) -> CommitMark:
        """Mark the transaction of a connection as its last step, and return the mark."""
        mark = CommitMark(self._writers[connection][0], uuid4())
        with connection.cursor() as cursor:
            found = cursor.execute(
                "UPDATE writes SET write_id = %s, written_at = UTC_TIMESTAMP(6)"
                " WHERE writer_id = %s",
                (mark.write_id.bytes, mark.writer_id.bytes),
            )
            if not found:  # somebody deleted the row
                _insert(cursor, mark)
        return mark


def was_committed(connection: pymysql.Connection[Any], mark: CommitMark) -> bool:
    """Return whether a marked transaction was committed, waiting for one that still commits."""
    with connection.cursor() as cursor:
        # The lock waits: a transaction with a lost answer may still commit (decision 14).
        cursor.execute(
            "SELECT write_id FROM writes WHERE writer_id = %s FOR UPDATE", (mark.writer_id.bytes,)
        )
        return bool(cursor.fetchall() == ((mark.write_id,),))


def _insert(cursor: Any, mark: CommitMark) -> None:
    cursor.execute(
        "INSERT INTO writes (writer_id, write_id, written_at) VALUES (%s, %s, UTC_TIMESTAMP(6))"
        " ON DUPLICATE KEY UPDATE write_id = VALUES(write_id), written_at = VALUES(written_at)",
        (mark.writer_id.bytes, mark.write_id.bytes),
    )


TRIES = 6
"""Maximum number of attempts, besides those that wait for a lock or a new leader."""
PAUSE_S = 0.02
"""Maximum pause before the second attempt; it doubles before each further one."""
LONGEST_PAUSE = 5
"""Number of times the pause doubles."""


class Attempts:
    """Decides whether one piece of work runs again. until: when waiting ends (time.monotonic()).

    Until then it waits for temporary conditions: a lock, a new leader, or a lost server while a
    write is in doubt. Other errors count towards TRIES.
    """

    def __init__(self, until: float) -> None:
        self._until = until
        self._failed = self._tried = 0
        self.are_in_doubt = False

    def failed(self, error: pymysql.MySQLError, *, has_looked: bool, wrote: bool) -> None:
        """Count a failed attempt.

        has_looked: no earlier attempt was committed. wrote: this one may have been.
        """
        if has_looked:
            self.are_in_doubt = False
        if wrote and (code_of(error) in (*LOST, UNKNOWN) or is_silent(error)):
            self.are_in_doubt = True
        self._failed += 1
        self._tried += not self._waits(error)

    def go_on(self, error: pymysql.MySQLError) -> bool:
        """Return whether to try again."""
        if is_silent(error):  # the next call would wait as long again
            return False
        if self._waits(error):
            return time.monotonic() < self._until
        return code_of(error) in (*ROLLED_BACK, *LOST) and self._tried < TRIES

    def pause(self) -> None:
        """Sleep for a random pause that grows with each attempt."""
        time.sleep(random.uniform(0, PAUSE_S * 2 ** min(self._failed - 1, LONGEST_PAUSE)))

    def _waits(self, error: pymysql.MySQLError) -> bool:
        code = code_of(error)
        passes = code == LOCK_WAIT or code in UNDONE
        return passes or (self.are_in_doubt and code in (*LOST, *UNREACHED))
