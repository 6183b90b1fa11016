"""A pool of async connections that belongs to no event loop.

A psycopg connection asks for the running loop at every wait, so one that is idle can serve the
next loop as well. Sync callers, an ADK runner that makes a loop per call and a long-lived server
therefore share the same few connections (docs/decisions/0002-connections-without-a-loop.md).
"""

from __future__ import annotations

import asyncio
import os
import re
import select
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import psycopg
from psycopg.pq import TransactionStatus

from shared_core.core.event_loops import exiting, start_on_own_loop
from shared_core.core.telemetry import connections_busy, waited_for_connection
from shared_core.errors import StorageUnavailable
from shared_core.storage.postgres.connection.pipeline import Connection

_SURELY_ALIVE_S = 0.5
"""A connection used this recently is handed out without a look at its socket."""


IDLE_S = 5.0
"""Seconds after which all idle connections but one are closed. Shorter than the time for which
another process waits for a slot of the server."""

_PAUSES_S = (0.05, 1.0)
"""Seconds to the second attempt to get a slot of the server, and the most between two attempts."""

_NO_SLOT = re.compile("too many clients|too many connections|connection slots|no more connections")
"""What PostgreSQL and PgBouncer say. A refused connection has no SQLSTATE in libpq."""


class NoFreeSlot(StorageUnavailable):
    """The server has as many connections as it allows."""


def has_no_slot(error: psycopg.Error) -> bool:
    """Return whether a server refused a connection because it has too many."""
    return _NO_SLOT.search(str(error)) is not None


def pauses_s() -> Iterator[float]:
    """Yield the seconds to wait before each further attempt to get a slot."""
    pause_s, longest_s = _PAUSES_S
    while True:
        yield pause_s
        pause_s = min(2 * pause_s, longest_s)


class _Waiter:
    """A caller on some loop that waits for a connection, or for leave to open one (None)."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Connection | None] = self._loop.create_future()

    def offer(self, connection: Connection | None, refused: Callable[[], None]) -> bool:
        """Hand over from any thread; return False if the loop is closed.

        refused: called if the waiting caller gave up.
        """

        def deliver() -> None:
            if self.future.done():
                refused()
            else:
                self.future.set_result(connection)

        try:
            self._loop.call_soon_threadsafe(deliver)
        except RuntimeError:  # the loop is closed
            return False
        return True


class ConnectionPool:
    """At most max_size connections, last used first; safe from any thread and any loop.

    It belongs to no event loop, because callers come from many (decision 2). It opens a connection
    when all others are lent, and closes those that nobody used for IDLE_S, except one.
    """

    def __init__(
        self, connect: Callable[[], Awaitable[Connection]], *, max_size: int, timeout_s: float
    ) -> None:
        self._connect = connect
        self._max_size = max_size
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._reset()

    def _reset(self) -> None:
        self._idle: list[tuple[Connection, float]] = []
        self._open = 0
        self._waiting: OrderedDict[_Waiter, None] = OrderedDict()
        self._moved_at = time.monotonic()
        self._closed = False
        self._will_shrink = False
        self._pid = os.getpid()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Lend a connection; callers are served in order.

        Raises StorageUnavailable if no connection came free for timeout_s. The time restarts
        whenever any waiting caller is served.
        """
        asked_at = time.monotonic()
        taken = await self._take()
        try:
            waited_for_connection("postgresql", time.monotonic() - asked_at)
            yield taken
        finally:
            await self._give_back(taken)

    async def close(self) -> None:
        """Close idle connections now, lent ones when they come back; lend none any more."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            self._open -= len(idle)
        for connection, _ in idle:
            await connection.close()

    async def _take(self) -> Connection:
        if self._pid != os.getpid():
            # A forked child must not speak on its parent's sockets; psycopg leaves them open.
            self._lock = threading.Lock()
            self._reset()
        with self._lock:
            if self._closed:
                raise StorageUnavailable("the memory is closed: open a new one with open_memory()")
            if found := self._idle_one():
                return found
            waiter = None
            if self._open < self._max_size:
                self._open += 1
            else:
                waiter = _Waiter()
                self._waiting[waiter] = None
        waited = await self._wait(waiter) if waiter else None
        return waited or await self._open_one()

    def _idle_one(self) -> Connection | None:
        """Return the connection that was used last; the caller holds the lock."""
        while self._idle:
            connection, since = self._idle.pop()
            if _alive(connection, since):
                return connection
            self._open -= 1
            connection.pgconn.finish()
        return None

    async def _wait(self, waiter: _Waiter) -> Connection | None:
        asked_at = time.monotonic()
        with self._queued(waiter):
            while not waiter.future.done():
                idle_s = self._idle_s(asked_at)
                if idle_s >= self._timeout_s:
                    connections_busy("postgresql")
                    raise StorageUnavailable(
                        f"all {self._max_size} connections were busy for"
                        f" {self._timeout_s:g} s: raise pool_size, or look for calls that never"
                        " return"
                    )
                await asyncio.wait([waiter.future], timeout=self._timeout_s - idle_s)
            return waiter.future.result()

    def _idle_s(self, asked_at: float) -> float:
        """Return for how long a caller has waited while no other was served."""
        return time.monotonic() - max(asked_at, self._moved_at)

    @contextmanager
    def _queued(self, waiter: _Waiter) -> Iterator[None]:
        """Hand on what comes at the moment when the waiting caller gives up."""
        try:
            yield
        except BaseException:
            if waiter.future.done() and not waiter.future.cancelled():
                self._pass_on(waiter.future.result())
            raise
        finally:
            waiter.future.cancel()
            with self._lock:
                self._waiting.pop(waiter, None)

    async def _open_one(self) -> Connection:
        try:
            return await self._opened_or_freed()
        except BaseException:
            self._pass_on(None)
            raise

    async def _opened_or_freed(self) -> Connection:
        """Open a connection; while the server has no slot, one that comes free does as well."""
        asked_at = time.monotonic()
        for pause_s in pauses_s():
            try:
                return await self._connect()
            except NoFreeSlot:
                if self._idle_s(asked_at) >= self._timeout_s:
                    raise
            if found := await self._freed(pause_s):
                self._pass_on(None)  # the leave to open one is not needed any more
                return found
        raise AssertionError("unreachable")

    async def _freed(self, pause_s: float) -> Connection | None:
        """Wait this long for a connection that another caller gives back."""
        with self._lock:
            if found := self._idle_one():
                return found
            waiter = _Waiter()
            self._waiting[waiter] = None
            self._waiting.move_to_end(waiter, last=False)  # it has waited longer than the others
        with self._queued(waiter):
            await asyncio.wait([waiter.future], timeout=pause_s)
            if not waiter.future.done():
                return None
        if (given := waiter.future.result()) is None:
            self._pass_on(None)  # a second leave to open one
        return given

    async def _give_back(self, connection: Connection) -> None:
        usable = (
            not connection.closed
            and connection.pgconn.transaction_status == TransactionStatus.IDLE
            and self._pid == os.getpid()
        )
        if not usable or self._closed:
            await connection.close()
            self._pass_on(None)
        else:
            self._pass_on(connection)

    def _pass_on(self, connection: Connection | None) -> None:
        """Give a connection, or the right to open one, to the longest waiter; else keep it."""
        while True:
            with self._lock:
                if connection is not None:
                    self._moved_at = time.monotonic()
                waiter = self._waiting.popitem(last=False)[0] if self._waiting else None
                if waiter is None:
                    if connection is None or self._closed:
                        self._open -= 1
                    else:
                        self._idle.append((connection, time.monotonic()))
                        self._plan_to_shrink()
                    break
            if waiter.offer(connection, lambda: self._pass_on(connection)):
                return
        if connection is not None and self._closed:
            connection.pgconn.finish()

    def _plan_to_shrink(self) -> None:
        """Close idle connections later, if there are several; the caller holds the lock."""
        if len(self._idle) > 1 and not self._will_shrink and not exiting():
            self._will_shrink = True
            start_on_own_loop(self._shrink_later)

    def _shrink_later(self) -> None:
        asyncio.get_running_loop().call_later(IDLE_S, self._shrink)

    def _shrink(self) -> None:
        with self._lock:
            self._will_shrink = False
            if self._pid != os.getpid():
                return
            since = time.monotonic() - IDLE_S
            unused = [one for one in self._idle[:-1] if one[1] <= since]
            self._idle = self._idle[len(unused) :]  # the first were used least recently
            self._open -= len(unused)
            self._plan_to_shrink()
        for connection, _ in unused:
            connection.pgconn.finish()


def _alive(connection: Connection, idle_since: float) -> bool:
    """Return False for a connection that its server has closed; costs no round trip.

    An idle server sends nothing, so a readable socket means that it closed the connection.
    """
    if connection.closed:
        return False
    if time.monotonic() - idle_since < _SURELY_ALIVE_S:
        return True
    if hasattr(select, "poll"):
        watch = select.poll()
        watch.register(connection.fileno(), select.POLLIN)
        return not watch.poll(0)
    return not select.select([connection.fileno()], [], [], 0)[0]
