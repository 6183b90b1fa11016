"""One database of an OceanBase, reached by transactions that run on threads of their own.

An async driver binds each connection to one event loop, and callers here come from many. So a
transaction is a plain function, and a thread runs it (decision 14).
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar
from weakref import WeakSet

import pymysql

from shared_core.core.event_loops import exiting
from shared_core.errors import InvalidInput, NotFound, StorageUnavailable
from shared_core.settings import Settings
from shared_core.storage.oceanbase.connection.attempts import Attempts, Mark, Marks, is_there
from shared_core.storage.oceanbase.connection.connections import Location, connect, location_of
from shared_core.storage.oceanbase.connection.embedded import EmbeddedSeekdb, is_initialised
from shared_core.storage.oceanbase.connection.errors import (
    LOST,
    UNREACHED,
    code_of,
    meant,
)
from shared_core.storage.oceanbase.connection.migrate import ServerVersions, prepare, table_ending
from shared_core.storage.oceanbase.connection.transactions import Transaction

CLOSED = "the memory is closed: open a new one with open_memory()"


class Threads:
    """At most size threads; safe from any loop and thread."""

    def __init__(self, size: int, timeout_s: float) -> None:
        self._size = size
        self._timeout_s = timeout_s
        self._pool = ThreadPoolExecutor(size, "hippocampus-sql")
        self._moved_at = time.monotonic()

    async def run(self, work: Callable[[], T]) -> T:
        """Return what work returns. A cancelled caller leaves, and what runs comes to its end.

        Raises StorageUnavailable when none at all came free for timeout_s: however many wait, the
        time counts anew whenever one of them is served.
        """
        asked_at = time.monotonic()
        try:
            future = self._pool.submit(self._moved, work)
        except RuntimeError as error:
            if exiting():
                return work()  # no thread is started any more: what is left is done in place
            raise StorageUnavailable(CLOSED) from error
        answer = asyncio.wrap_future(future)
        try:
            await self._begun(future, answer, asked_at)
            return await answer
        except BaseException:
            answer.cancel()
            raise

    def shut_down(self) -> None:
        """Wait for what runs and for what was asked for."""
        self._pool.shutdown(wait=True)

    def _moved(self, work: Callable[[], T]) -> T:
        self._moved_at = time.monotonic()
        return work()

    async def _begun(self, future: Future[T], answer: asyncio.Future[T], asked_at: float) -> None:
        while not (future.running() or answer.done()):
            idle_s = time.monotonic() - max(asked_at, self._moved_at)
            if idle_s >= self._timeout_s and future.cancel():
                raise StorageUnavailable(
                    f"none of all {self._size} connections came free for {self._timeout_s:g} s:"
                    " raise pool_size, or look for calls that never return"
                )
            await asyncio.wait([answer], timeout=max(self._timeout_s - idle_s, 0.01))


READING = ("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION READ ONLY")
WRITING = ("START TRANSACTION",)
RESTARTS = 2
"""Others may kill the server, or start it, while this process does."""
SNAPSHOTS = 64
"""So many may be open at once, each on a connection of its own."""
SNAPSHOT_S = 8 * 3600.0
"""So long a snapshot is held for who reads it slowly."""

T = TypeVar("T")


class OceanBaseDatabase:
    """Opened once, used from any loop and thread."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.location: Location = location_of(settings.uri, settings.db_schema)
        folder = self.location.folder
        self._embedded = EmbeddedSeekdb(folder) if folder else None
        self.prepared: ServerVersions | None = None
        self._lock = threading.Lock()
        self._idle: list[pymysql.Connection[Any]] = []
        self._snapshots: WeakSet[pymysql.Connection[Any]] = WeakSet()
        self._marks = Marks()
        self._threads: Threads | None = None
        self._pid = 0

    async def open(self) -> None:
        """Start the embedded server if there is one, and bring the schema up to date.

        After a failure everything is closed again, and open may be called again.
        """
        self._reset()
        try:
            self.prepared = await self.run(self._prepare)
        except BaseException:
            await self.close()
            raise

    def _prepare(self) -> ServerVersions:
        folder = self.location.folder
        if folder and not self._settings.create and not is_initialised(folder):
            raise NotFound(f"there is no memory in the folder {str(folder)!r}: check the uri")
        if self._embedded:
            self._embedded.acquire()
        try:
            connection = self._reach(database=None)
        except pymysql.MySQLError as error:
            raise meant(error, self._settings) from error
        try:
            return prepare(connection, self.location, create=self._settings.create)
        except pymysql.MySQLError as error:
            raise meant(error, self._settings) from error
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
            raise meant(error, self._settings) from error
        finally:
            if self._embedded:
                self._embedded.release()

    async def close(self) -> None:
        """Wait for what runs, close all connections, and leave the embedded server."""
        threads, self._threads = self._threads, None
        if threads is None or exiting() or self._pid != os.getpid():
            return
        await asyncio.to_thread(self._shut, threads)

    def _shut(self, threads: Threads) -> None:
        threads.shut_down()
        with self._lock:
            idle, self._idle = self._idle, []
            snapshots = list(self._snapshots)
        for connection in (*idle, *snapshots):
            _drop(connection)
        if self._embedded:
            self._embedded.release()

    async def read(self, work: Callable[[Transaction], T]) -> T:
        """Return what work reads, all of it of one moment; it writes nothing."""
        return await self.run(lambda: self._tried(work, READING))

    async def write(self, work: Callable[[Transaction], T]) -> T:
        """Return what work returns, once all it wrote is committed, which happens once.

        Each statement sees what is committed when it starts. After a deadlock work runs again, and
        after a lost connection, unless it was committed. What work raises undoes all of it.
        """
        return await self.run(lambda: self._tried(work, WRITING))

    def table_ending(self) -> str:
        """Return what ends a table of tenants."""
        return table_ending(self.location)

    async def define(self, *statements: str) -> None:
        """Run statements that change tables; each commits by itself."""

        def work() -> None:
            try:
                connection = self._take()
                try:
                    with connection.cursor() as cursor:
                        for statement in statements:
                            cursor.execute(statement)
                finally:
                    self._give_back(connection)
            except pymysql.MySQLError as error:
                raise meant(error, self._settings) from error

        await self.run(work)

    async def run(self, work: Callable[[], T]) -> T:
        """Run work on a thread; a cancelled caller leaves, and the transaction comes to its end."""
        if self._threads is not None and self._pid != os.getpid():
            self._reset()  # a forked child must not speak on its parent's sockets
        if self._threads is None:
            raise StorageUnavailable(CLOSED)
        return await self._threads.run(work)

    def snapshot(self, what: str) -> pymysql.Connection[Any]:
        """Return a connection of its own on which all reads are of one moment.

        Whoever asks closes it. what: how messages call it.
        """
        with self._lock:
            if sum(one.open for one in self._snapshots) >= SNAPSHOTS:
                raise StorageUnavailable(
                    f"{what} has to wait: {SNAPSHOTS} others are read halfway. Read them to their"
                    " end, or close them (contextlib.aclosing)"
                )
        try:
            connection = self._reach(self.location.database, transaction_s=SNAPSHOT_S)
            _begin(connection, READING)
        except pymysql.MySQLError as error:
            raise meant(error, self._settings) from error
        with self._lock:
            self._snapshots.add(connection)
        return connection

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._idle = []
        self._snapshots = WeakSet()
        self._pid = os.getpid()
        self._threads = Threads(self._settings.pool_size, self._settings.connect_timeout_s)

    def _tried(self, work: Callable[[Transaction], T], begin: Sequence[str]) -> T:
        unheard: list[tuple[Mark, T]] = []
        attempts = Attempts(time.monotonic() + self._settings.statement_timeout_s)
        while True:
            connection, marked = None, _Marked(work, self._marks, unheard)
            try:
                connection = self._take()
                if begin == WRITING:
                    self._marks.prepare(connection)
                _begin(connection, begin)
                return self._once(connection, marked)
            except pymysql.MySQLError as error:
                if code_of(error) in LOST:  # the others are as old as this one
                    self._drop_idle()
                if connection is not None and marked.has_answered:
                    _drop(connection)  # the next writer on it would overwrite the mark
                attempts.failed(error, has_looked=marked.has_looked, wrote=marked.has_answered)
                if not attempts.go_on(error):
                    raise meant(
                        error,
                        self._settings,
                        waiting_for=marked.waiting_for,
                        is_in_doubt=attempts.are_in_doubt,
                    ) from error
                attempts.pause()
            finally:
                if connection is not None:
                    self._give_back(connection)

    def _once(self, connection: pymysql.Connection[Any], work: Callable[[Transaction], T]) -> T:
        try:
            result = work(Transaction(connection))
            connection.commit()
        except BaseException:
            try:
                connection.rollback()
            except pymysql.MySQLError:
                _drop(connection)  # it is lost; what it began is undone by the server
            raise
        return result

    def _take(self) -> pymysql.Connection[Any]:
        with self._lock:
            while self._idle:
                connection = self._idle.pop()
                if connection.open:
                    return connection
        return self._reach(self.location.database)

    def _reach(
        self, database: str | None, transaction_s: float | None = None
    ) -> pymysql.Connection[Any]:
        """Connect; an embedded server that died is started again first. Raises pymysql's errors."""
        for _ in range(RESTARTS):
            started = self._embedded.started() if self._embedded else 0
            try:
                return self._connect(database, transaction_s)
            except pymysql.MySQLError as error:
                if self._embedded is None or code_of(error) not in UNREACHED:
                    raise
            self._embedded.restart(started)
        return self._connect(database, transaction_s)

    def _drop_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            _drop(connection)

    def _give_back(self, connection: pymysql.Connection[Any]) -> None:
        if connection.open:
            with self._lock:
                self._idle.append(connection)

    def _connect(
        self, database: str | None, transaction_s: float | None
    ) -> pymysql.Connection[Any]:
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
            transaction_s=transaction_s,
        )


class _Marked(Generic[T]):
    """Work of one attempt, which is not done where an earlier attempt was committed after all.

    What it answered is noted with its mark, before anybody commits it.
    """

    def __init__(
        self, work: Callable[[Transaction], T], marks: Marks, noted: list[tuple[Mark, T]]
    ) -> None:
        self._work, self._marks, self._noted = work, marks, noted
        self._tx: Transaction | None = None
        self.has_looked = False
        """Whether it was seen that no earlier attempt was committed."""
        self.has_answered = False

    @property
    def waiting_for(self) -> str | None:
        return self._tx.waiting_for if self._tx else None

    def __call__(self, tx: Transaction) -> T:
        self._tx = tx
        for mark, answer in self._noted:
            if is_there(tx.connection, mark):
                return answer
        self.has_looked = True
        answer = self._work(tx)
        if tx.wrote:
            self._noted.append((self._marks.put(tx.connection), answer))
            self.has_answered = True
        return answer


def _begin(connection: pymysql.Connection[Any], statements: Sequence[str]) -> None:
    """Begin a transaction; nothing of it was sent where this fails."""
    try:
        with connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
    except BaseException:
        _drop(connection)
        raise


def _drop(connection: pymysql.Connection[Any]) -> None:
    if connection.open:
        connection.close()


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
    database: OceanBaseDatabase, what: str, work: Callable[[Transaction], Iterator[Any]]
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
