"""What a transaction reads, handed on while it reads: memory use does not grow with it.

It has a connection of its own. Between two parts it has no thread, so nobody waits for a stream
that is read slowly, or not at all.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any

import pymysql

from shared_core.errors import StorageUnavailable
from shared_core.storage.oceanbase.connection.database import Database
from shared_core.storage.oceanbase.connection.errors import code_of
from shared_core.storage.oceanbase.connection.transactions import Transaction

_END = object()


class _Reading:
    """A transaction and what it reads, part by part, by one thread at a time."""

    def __init__(
        self,
        what: str,
        connection: pymysql.Connection[Any],
        work: Callable[[Transaction], Iterator[Any]],
    ) -> None:
        self._what = what
        self._connection = connection
        self._parts = work(Transaction(connection))
        self._began = time.monotonic()
        self._pid = os.getpid()
        self._busy = threading.Lock()
        self._is_left = False

    def next(self) -> Any:
        """Return the next part, or _END. Raises StorageUnavailable when its moment was lost."""
        if self._pid != os.getpid():
            raise StorageUnavailable(f"{self._what} belongs to another process: begin one here")
        try:
            with self._busy:
                return next(self._parts, _END)
        except pymysql.MySQLError as error:
            minutes = (time.monotonic() - self._began) / 60
            raise StorageUnavailable(
                f"{self._what} broke off after {minutes:.1f} minutes, the database does not hold"
                f" its moment any longer: {error.args[-1]} ({code_of(error)}). Begin it again; one"
                " that is read slowly is better written to a file first"
            ) from error
        finally:
            if self._is_left:
                self.leave()

    def leave(self) -> None:
        """End the transaction, now or when the part that is being read is there.

        A forked child leaves it to its parent: the socket is one.
        """
        if self._pid != os.getpid():
            return
        self._is_left = True
        if self._busy.acquire(blocking=False):
            try:
                if self._connection.open:
                    self._connection.close()
            finally:
                self._busy.release()


async def streamed(
    database: Database, what: str, work: Callable[[Transaction], Iterator[Any]]
) -> AsyncGenerator[Any, None]:
    """Yield what work yields, all of it read at one moment. Close it when you leave it early.

    what: how messages call it. Raises StorageUnavailable when the transaction was lost on the way:
    what was handed on cannot be read again.
    """
    connection = await database.run(lambda: database.snapshot(what))
    reading = _Reading(what, connection, work)
    try:
        while (part := await database.run(reading.next)) is not _END:
            yield part
    finally:
        reading.leave()
