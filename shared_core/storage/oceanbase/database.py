"""One database of an OceanBase, reached by transactions that run on threads of their own.

An async driver binds each connection to one event loop; callers here come from many. So a
transaction is a plain function, and a thread runs it (docs/decisions/0014).
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pymysql

from shared_core.errors import (
    InvalidInput,
    MemoryCoreError,
    NotFound,
    StorageReadOnly,
    StorageUnavailable,
)
from shared_core.settings import Settings, redacted
from shared_core.storage.oceanbase.connections import connect
from shared_core.storage.oceanbase.embedded import EmbeddedSeekdb, is_initialised
from shared_core.storage.oceanbase.lengths import told_too_large
from shared_core.storage.oceanbase.locations import Location, location_of
from shared_core.storage.oceanbase.migrate import Prepared, prepare, table_ending
from shared_core.storage.oceanbase.transactions import Transaction
from shared_core.sync_bridge import exiting

READING = ("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION READ ONLY")
WRITING = ("START TRANSACTION",)
TRIES = 6
ROLLED_BACK = (1205, 1213, 4012, 6235)
"""Lock wait, deadlock, timeout, written since the snapshot: all is undone, send it again."""
LOST = (2006, 2013, 2014, 0)
UNREACHED = (2002, 2003, 2006)
READ_ONLY = (1290, 1836, 5148)
TOO_LARGE = (1071, 1118, 1153, 1406, 1264, 1292, 1366)
"""A key, row, packet or value that the server does not take."""

T = TypeVar("T")


class Database:
    """Opened once, used from any loop and thread."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.location: Location = location_of(settings.uri, settings.db_schema)
        folder = self.location.folder
        self._embedded = EmbeddedSeekdb(folder) if folder else None
        self.prepared: Prepared | None = None
        self._lock = threading.Lock()
        self._idle: list[pymysql.Connection[Any]] = []
        self._threads: ThreadPoolExecutor | None = None
        self._pid = 0

    async def open(self) -> None:
        """Start the embedded server if there is one, and bring the schema up to date.

        After a failure everything is closed again, and open may be called again.
        """
        self._reset()
        try:
            self.prepared = await self._on_thread(self._prepare)
        except BaseException:
            await self.close()
            raise

    def _prepare(self) -> Prepared:
        folder = self.location.folder
        if folder and not self._settings.create and not is_initialised(folder):
            raise NotFound(f"there is no memory in the folder {str(folder)!r}: check the uri")
        if self._embedded:
            self._embedded.acquire()
        try:
            connection = self._reach(database=None)
        except pymysql.MySQLError as error:
            raise self._meant(error) from error
        try:
            return prepare(connection, self.location, create=self._settings.create)
        except pymysql.MySQLError as error:
            raise self._meant(error) from error
        finally:
            connection.close()

    @contextmanager
    def looked_at(self) -> Iterator[Any]:
        """Yield a cursor of the server as it is: nothing is made there, and nothing migrated."""
        if self._embedded:
            self._embedded.acquire()
        try:
            with closing(self._reach(database=None)) as connection, connection.cursor() as cursor:
                yield cursor
        except pymysql.MySQLError as error:
            raise self._meant(error) from error
        finally:
            if self._embedded:
                self._embedded.release()

    async def close(self) -> None:
        """Wait for what runs, close all connections, and leave the embedded server."""
        threads, self._threads = self._threads, None
        if threads is None or exiting() or self._pid != os.getpid():
            return
        await asyncio.to_thread(self._shut, threads)

    def _shut(self, threads: ThreadPoolExecutor) -> None:
        threads.shutdown(wait=True)
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
        if self._embedded:
            self._embedded.release()

    async def read(self, work: Callable[[Transaction], T]) -> T:
        """Return what work reads, all of it of one moment; it writes nothing."""
        return await self._on_thread(
            lambda: self._tried(
                work,
                "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
                "START TRANSACTION READ ONLY",
            )
        )

    async def write(self, work: Callable[[Transaction], T], *, repeats: bool = True) -> T:
        """Return what work returns, once all it wrote is committed.

        Each statement sees what is committed when it starts. After a deadlock work runs again,
        and after a lost connection, which leaves open whether it was committed. repeats: False
        for what counts twice if it is done twice. What work raises undoes all of it.
        """
        return await self._on_thread(lambda: self._tried(work, *WRITING, repeats=repeats))

    def table_ending(self) -> str:
        """Return what ends a table of tenants."""
        return table_ending(self.location)

    async def define(self, *statements: str) -> None:
        """Run statements that change tables; each commits by itself."""

        def work() -> None:
            connection = self._take()
            try:
                with connection.cursor() as cursor:
                    for statement in statements:
                        cursor.execute(statement)
            except pymysql.MySQLError as error:
                raise self._meant(error) from error
            finally:
                self._give_back(connection)

        await self._on_thread(work)

    async def _on_thread(self, work: Callable[[], T]) -> T:
        """Run work on a thread; a cancelled caller leaves, and the transaction comes to its end."""
        if self._threads is not None and self._pid != os.getpid():
            self._reset()  # a forked child must not speak on its parent's sockets
            if self._embedded:
                await asyncio.to_thread(self._embedded.acquire)
        if self._threads is None:
            raise StorageUnavailable("the memory is closed: open a new one with open_memory()")
        return await asyncio.wrap_future(self._threads.submit(work))

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._idle = []
        self._pid = os.getpid()
        self._threads = ThreadPoolExecutor(self._settings.pool_size, "hippocampus-sql")

    def _tried(self, work: Callable[[Transaction], T], *begin: str, repeats: bool = True) -> T:
        for attempt in range(TRIES):
            connection, begun = self._take(), False
            try:
                _begin(connection, begin)
                begun = True
                return self._once(connection, work)
            except pymysql.MySQLError as error:
                code = _code(error)
                if code in LOST:  # the others are as old as this one
                    self._drop_idle()
                again = code in ROLLED_BACK or (code in LOST and (repeats or not begun))
                if not again or attempt == TRIES - 1:
                    raise self._meant(error) from error
                time.sleep(random.uniform(0, 0.02 * 2**attempt))
            finally:
                self._give_back(connection)
        raise AssertionError("unreachable")

    def _once(self, connection: pymysql.Connection[Any], work: Callable[[Transaction], T]) -> T:
        try:
            result = work(Transaction(connection))
            connection.commit()
        except BaseException:
            try:
                connection.rollback()
            except pymysql.MySQLError:
                connection.close()  # it is lost; what it began is undone by the server
            raise
        return result

    def _take(self) -> pymysql.Connection[Any]:
        with self._lock:
            while self._idle:
                connection = self._idle.pop()
                if connection.open:
                    return connection
        try:
            return self._reach(self.location.database)
        except pymysql.MySQLError as error:
            raise self._meant(error) from error

    def _reach(self, database: str | None) -> pymysql.Connection[Any]:
        """Connect; an embedded server that died is started again first. Raises pymysql's errors."""
        try:
            return self._connect(database)
        except pymysql.MySQLError as error:
            if self._embedded is None or _code(error) not in UNREACHED:
                raise
        self._embedded.restart()
        return self._connect(database)

    def _drop_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _give_back(self, connection: pymysql.Connection[Any]) -> None:
        if connection.open:
            with self._lock:
                self._idle.append(connection)

    def _connect(self, database: str | None) -> pymysql.Connection[Any]:
        place = self.location
        if self._embedded:
            options = dict(self._embedded.options())
        else:
            if place.ssl_ca and not Path(place.ssl_ca).is_file():
                raise InvalidInput(f"ssl_ca names no file: {place.ssl_ca!r}")
            options = {
                "host": place.host,
                "port": place.port,
                "user": place.user,
                "password": place.password,
                **({"ssl_ca": place.ssl_ca} if place.ssl_ca else {}),
            }
        return connect(
            options | ({"database": database} if database else {}),
            timeout_s=self._settings.connect_timeout_s,
            statement_timeout_s=self._settings.statement_timeout_s,
        )

    def _meant(self, error: pymysql.MySQLError) -> MemoryCoreError:
        code, where = _code(error), redacted(self._settings.uri)
        said = str(error.args[1]) if len(error.args) > 1 else str(error)
        if code in TOO_LARGE:
            return InvalidInput(told_too_large(code, said))
        if code in READ_ONLY:
            return StorageReadOnly(f"the database at {where!r} is read only: {said}")
        if code == 4012:
            return StorageUnavailable(
                f"a statement took longer than {self._settings.statement_timeout_s:g} s"
                " (statement_timeout_s) and was cancelled"
            )
        return StorageUnavailable(
            f"the database at {where!r} cannot be used: {said} ({code})."
            " Check HIPPOCAMPUS_URI or the uri argument"
        )


def _begin(connection: pymysql.Connection[Any], statements: Sequence[str]) -> None:
    """Begin a transaction; nothing of it was sent where this fails."""
    try:
        with connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
    except BaseException:
        connection.close()
        raise


def _code(error: pymysql.MySQLError) -> int:
    return error.args[0] if error.args and isinstance(error.args[0], int) else -1
