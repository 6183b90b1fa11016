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

from shared_core.core.event_loops import exiting, until_done
from shared_core.core.telemetry import connections_busy, waited_for_connection
from shared_core.errors import InvalidInput, NotFound, StorageUnavailable
from shared_core.settings import Settings
from shared_core.storage.oceanbase.connection.attempts import (
    Attempts,
    CommitMark,
    CommitMarks,
    was_committed,
)
from shared_core.storage.oceanbase.connection.connections import Location, connect, location_of
from shared_core.storage.oceanbase.connection.embedded import EmbeddedSeekdb, is_initialised
from shared_core.storage.oceanbase.connection.errors import LOST, UNREACHED, code_of, translated
from shared_core.storage.oceanbase.connection.migrate import ServerVersions, prepare, table_ending
from shared_core.storage.oceanbase.connection.transactions import Transaction

CLOSED = "the memory is closed: open a new one with open_memory()"
READING = ("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION READ ONLY")
WRITING = ("START TRANSACTION",)
RESTARTS = 2
"""How often a connection restarts a dead embedded server: other processes may kill it meanwhile."""
SNAPSHOTS = 64
"""Maximum number of open snapshots, each on a connection of its own."""
SNAPSHOT_S = 8 * 3600.0
"""Time limit of a snapshot, for readers that read it slowly."""
_END = object()
T = TypeVar("T")


class ThreadPool:
    """Runs work on at most `size` threads; safe from any loop and thread."""

    def __init__(self, size: int, timeout_s: float) -> None:
        self._size = size
        self._timeout_s = timeout_s
        self._pool = ThreadPoolExecutor(size, "hippocampus-sql")
        self._moved_at = time.monotonic()

    async def run(self, work: Callable[[], T]) -> T:
        """Return what work returns; work that has begun ends even if the caller is cancelled.

        Raises StorageUnavailable if no thread starts any work for timeout_s.
        """
        asked_at = time.monotonic()
        try:
            future = self._pool.submit(self._moved, work, asked_at)
        except RuntimeError as error:
            if exiting():
                return work()  # the interpreter exits and starts no threads any more
            raise StorageUnavailable(CLOSED) from error
        answer = asyncio.wrap_future(future)
        try:
            await self._begun(future, answer, asked_at)
            return await answer
        except BaseException:
            answer.cancel()
            raise

    def shut_down(self) -> None:
        """Wait for all work, running and queued."""
        self._pool.shutdown(wait=True)

    def _moved(self, work: Callable[[], T], asked_at: float) -> T:
        self._moved_at = time.monotonic()
        waited_for_connection("oceanbase", self._moved_at - asked_at)
        return work()

    async def _begun(self, future: Future[T], answer: asyncio.Future[T], asked_at: float) -> None:
        while not (future.running() or answer.done()):
            idle_s = time.monotonic() - max(asked_at, self._moved_at)
            if idle_s >= self._timeout_s and future.cancel():
                connections_busy("oceanbase")
                raise StorageUnavailable(
                    f"all {self._size} connections were busy for {self._timeout_s:g} s:"
                    " raise pool_size, or look for calls that never return"
                )
            await asyncio.wait([answer], timeout=max(self._timeout_s - idle_s, 0.01))


class OceanBaseDatabase:
    """Runs transactions on one database; opened once, used from any loop and thread."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.location: Location = location_of(settings.uri, settings.db_schema)
        folder = self.location.folder
        self._embedded = EmbeddedSeekdb(folder) if folder else None
        self.prepared: ServerVersions | None = None
        self._lock = threading.Lock()
        self._idle: list[pymysql.Connection[Any]] = []
        self._snapshots: WeakSet[pymysql.Connection[Any]] = WeakSet()
        self._marks = CommitMarks()
        self._threads: ThreadPool | None = None
        self._pid = 0

    async def open(self) -> None:
        """Start the embedded server, if any, and migrate; after a failure open may be retried."""
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
        with self._translated(), closing(self._reach(database=None)) as connection:
            return prepare(connection, self.location, create=self._settings.create)

    @contextmanager
    def inspected(self) -> Iterator[Any]:
        """Yield a cursor on the server without creating or migrating anything."""
        if self._embedded:
            self._embedded.acquire()
        try:
            with (
                self._translated(),
                closing(self._reach(database=None)) as connection,
                connection.cursor() as cursor,
            ):
                yield cursor
        finally:
            if self._embedded:
                self._embedded.release()

    async def close(self) -> None:
        """Wait for running work, close all connections, and leave the embedded server."""
        threads, self._threads = self._threads, None
        if threads is None or exiting() or self._pid != os.getpid():
            return
        await until_done(asyncio.to_thread(self._shut, threads))

    def _shut(self, threads: ThreadPool) -> None:
        threads.shut_down()
        with self._lock:
            idle, self._idle = self._idle, []
            snapshots = list(self._snapshots)
        for connection in (*idle, *snapshots):
            _drop(connection)
        if self._embedded:
            self._embedded.release()

    async def read(self, work: Callable[[Transaction], T]) -> T:
        """Return what work reads, all from one snapshot; work writes nothing."""
        return await self.run(lambda: self._retried(work, READING))

    async def write(self, work: Callable[[Transaction], T], *tenants: str) -> T:
        """Lock tenants, run work, commit exactly once, and return what work returned.

        Each statement sees what is committed when it starts. Work runs again after a deadlock, and
        after a lost connection unless it was committed. An error in work undoes everything.
        """

        def locked(tx: Transaction) -> T:
            if tenants:
                tx.lock(*tenants)
            return work(tx)

        return await self.run(lambda: self._retried(locked, WRITING))

    def table_ending(self) -> str:
        """Return the end of CREATE TABLE for a table of tenants."""
        return table_ending(self.location)

    async def define(self, *statements: str) -> None:
        """Run statements that change tables; each one commits alone."""

        def work() -> None:
            with self._translated():
                connection = self._take()
                try:
                    with connection.cursor() as cursor:
                        for statement in statements:
                            cursor.execute(statement)
                finally:
                    self._give_back(connection)

        await self.run(work)

    async def run(self, work: Callable[[], T]) -> T:
        """Run work on a thread; cancelling the caller does not stop work that has begun."""
        if self._threads is not None and self._pid != os.getpid():
            self._reset()  # a forked child must not use its parent's sockets
        if self._threads is None:
            raise StorageUnavailable(CLOSED)
        return await self._threads.run(work)

    def snapshot(self, what: str) -> pymysql.Connection[Any]:
        """Return a new connection that reads one snapshot; the caller closes it.

        what: names it in messages.
        """
        with self._lock:
            if sum(one.open for one in self._snapshots) >= SNAPSHOTS:
                raise StorageUnavailable(
                    f"{what} has to wait: {SNAPSHOTS} others are read halfway. Read them to their"
                    " end, or close them (contextlib.aclosing)"
                )
        with self._translated():
            connection = self._reach(self.location.database, transaction_s=SNAPSHOT_S)
            _begin(connection, READING)
        with self._lock:
            self._snapshots.add(connection)
        return connection

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except pymysql.MySQLError as error:
            raise translated(error, self._settings) from error

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._idle = []
        self._snapshots = WeakSet()
        self._pid = os.getpid()
        self._threads = ThreadPool(self._settings.pool_size, self._settings.connect_timeout_s)

    def _retried(self, work: Callable[[Transaction], T], begin: Sequence[str]) -> T:
        noted: list[tuple[CommitMark, T]] = []
        attempts = Attempts(time.monotonic() + self._settings.statement_timeout_s)
        while True:
            connection, marked = None, _MarkedWork(work, self._marks, noted)
            try:
                connection = self._take()
                if begin == WRITING:
                    self._marks.prepare(connection)
                _begin(connection, begin)
                return self._once(connection, marked)
            except pymysql.MySQLError as error:
                if code_of(error) in LOST:  # the idle connections are probably lost as well
                    self._drop_idle()
                if connection is not None and marked.has_answered:
                    # The next writer on it would overwrite the mark (decision 14).
                    _drop(connection)
                attempts.failed(error, has_looked=marked.has_looked, wrote=marked.has_answered)
                if not attempts.go_on(error):
                    raise translated(
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
                _drop(connection)  # it is lost, and the server undoes its transaction
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
        """Connect, restarting an embedded server that died. Raises pymysql's errors."""
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
                raise InvalidInput(f"ssl_ca must name a file, got {place.ssl_ca!r}")
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


class _MarkedWork(Generic[T]):
    """Runs the work of one attempt, unless an earlier attempt was committed (decision 14).

    Then it returns that attempt's answer, which was noted with its mark before the commit.
    """

    def __init__(
        self,
        work: Callable[[Transaction], T],
        marks: CommitMarks,
        noted: list[tuple[CommitMark, T]],
    ) -> None:
        self._work, self._marks, self._noted = work, marks, noted
        self._tx: Transaction | None = None
        self.has_looked = False
        """Whether this attempt found no earlier one committed."""
        self.has_answered = False

    @property
    def waiting_for(self) -> str | None:
        return self._tx.waiting_for if self._tx else None

    def __call__(self, tx: Transaction) -> T:
        self._tx = tx
        for mark, answer in self._noted:
            if was_committed(tx.connection, mark):
                return answer
        self.has_looked = True
        answer = self._work(tx)
        if tx.wrote:
            self._noted.append((self._marks.put(tx.connection), answer))
            self.has_answered = True
        return answer


def _begin(connection: pymysql.Connection[Any], statements: Sequence[str]) -> None:
    """Begin a transaction; drop the connection if that fails."""
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


class _RowStream:
    """A transaction that is read part by part, by one thread at a time."""

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
        """Return the next part, or _END. Raises StorageUnavailable if the snapshot is lost."""
        if self._pid != os.getpid():
            raise StorageUnavailable(f"{self._what} belongs to another process: begin one here")
        try:
            with self._busy:
                return next(self._parts, _END)
        except pymysql.MySQLError as error:
            minutes = (time.monotonic() - self._began) / 60
            raise StorageUnavailable(
                f"{self._what} broke off after {minutes:.1f} minutes: the database lost its"
                f" snapshot, {error.args[-1]} ({code_of(error)}). Begin it again; if the reader is"
                " slow, write it to a file first"
            ) from error
        finally:
            if self._is_left:
                self.leave()

    def leave(self) -> None:
        """End the transaction now, or once the part being read has arrived."""
        if self._pid != os.getpid():  # a forked child: the socket belongs to its parent
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
    """Yield what work yields, all from one snapshot, while it reads; close it if you stop early.

    It has its own connection, but no thread between two parts, so a slow reader blocks nobody.
    what: names it in messages. Raises StorageUnavailable if the transaction is lost on the way.
    """
    connection = await database.run(lambda: database.snapshot(what))
    reading = _RowStream(what, connection, work)
    try:
        while (part := await database.run(reading.next)) is not _END:
            yield part
    finally:
        reading.leave()
