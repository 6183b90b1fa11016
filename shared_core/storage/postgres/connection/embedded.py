"""A private PostgreSQL in a folder, shared by the processes that use it, stopped by the last one.

The operating system counts the users: each process shares the flocks on `users.lock` and
`alive.lock`. Starts and stops hold an exclusive flock on `start.lock`. A killed process loses its
locks, so nothing needs repair afterwards, and the supervisor stops the server (server_process.py).
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict

from shared_core.storage._file_locks import close_lock, lock, locked, open_lock
from shared_core.storage.postgres.connection.embedded_errors import explained, unavailable
from shared_core.storage.postgres.connection.embedded_server import (
    CLUSTER,
    DATABASE,
    EmbeddedServer,
    conninfo,
    log_tail,
    ping_server,
    socket_directories,
)
from shared_core.storage.postgres.connection.server_process import (
    ALIVE_LOCK,
    START_LOCK,
    USERS_LOCK,
    ServerRecord,
    pid_exists,
    read_record,
    stop_if_unused,
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedStatus:
    """The visible state of an embedded PostgreSQL.

    size_bytes: of the data directory. users: pids of the processes that use it, best effort.
    """

    data_directory: Path
    initialised: bool
    running: bool
    pid: int | None
    socket_directory: Path | None
    size_bytes: int
    users: list[int]


class EmbeddedPostgres:
    """A user of the PostgreSQL in home; reads and starts nothing before acquire."""

    def __init__(self, home: Path) -> None:
        self._home = home.absolute()
        self._membership: _Membership | None = None
        self._holds = 0

    @property
    def data_directory(self) -> Path:
        """The folder with the database files."""
        return self._home / CLUSTER

    def acquire(self) -> str:
        """Return the conninfo of a running server that stays up until the matching release.

        Creates the folder, the files and the database if they are missing. Blocks for about
        0.15 s, 1 s the first time, up to a minute after a crash. Raises StorageUnavailable.
        """
        with _registry_lock:
            membership = _join(self._home)
            if membership is not self._membership:  # the first time, or the first after a fork
                self._membership, self._holds = membership, 0
            self._holds += 1
            return conninfo(membership.record.sockets, DATABASE)

    def release(self) -> None:
        """Undo one acquire of this object; the last user of the folder stops the server.

        Does nothing without an acquire, and in a fork of the process that acquired.
        """
        with _registry_lock:
            membership = self._membership
            if membership is None or self._holds == 0 or not _is_current(membership):
                return
            self._holds -= 1
            membership.holds -= 1
            if membership.holds == 0:
                _leave(membership)

    def log_tail(self, lines: int = 20) -> str:
        """Return the last lines of the server's log, empty when there is none."""
        return log_tail(self._home, lines)


def describe(home: Path) -> EmbeddedStatus:
    """Return the state of the embedded PostgreSQL in home; start, create and lock nothing.

    Raises StorageUnavailable for a folder that this OS user may not read.
    """
    home = home.resolve()
    with explained(home):
        record = read_record(home / CLUSTER)
        if ping_server(record) == pq.Ping.NO_RESPONSE:
            record = None
        return EmbeddedStatus(
            data_directory=home / CLUSTER,
            initialised=(home / CLUSTER / "PG_VERSION").exists(),
            running=record is not None,
            pid=record.pid if record else None,
            socket_directory=record.sockets if record else None,
            size_bytes=_size_bytes(home / CLUSTER),
            users=_read_users(home),
        )


def embedded_behind(dsn: str, home: Path | None) -> EmbeddedPostgres | None:
    """Return the embedded PostgreSQL behind a DSN, or None for another server or no DSN.

    home: a folder that may hold it, besides the one that the DSN names.
    """
    try:
        host = str(conninfo_to_dict(dsn).get("host") or "")
    except psycopg.ProgrammingError:
        return None
    if not host.startswith("/"):
        return None
    sockets = Path(host).resolve()
    for folder in (sockets.parent, *([home.resolve()] if home else [])):
        cluster = folder / CLUSTER
        if sockets in socket_directories(cluster) and (cluster / "PG_VERSION").exists():
            return EmbeddedPostgres(folder)
    return None


@dataclass(slots=True, eq=False)
class _Membership:
    """This process as one user of a folder, shared by all its objects and acquires."""

    server: EmbeddedServer
    record: ServerRecord
    user_locks: list[int]
    holds: int = 0


_registry_lock = threading.RLock()
_memberships: dict[tuple[int, Path], _Membership] = {}  # by pid and folder


def _is_current(membership: _Membership) -> bool:
    return _memberships.get((os.getpid(), membership.server.home)) is membership


def _join(home: Path) -> _Membership:
    """Return this process's membership with one more hold; the server runs."""
    if sys.platform == "win32":
        raise unavailable(home, "Windows is not supported", "set HIPPOCAMPUS_URI to a server")
    with explained(home):
        home = home.resolve()
        server = EmbeddedServer(home)
        server.is_initialised()  # refuses a foreign folder before a file is created in it
        server.make_home()
        with locked(home / START_LOCK):
            user_locks = _lock_as_user(home)
            try:
                with server.supervised():
                    record = server.start()
            except BaseException:
                _close_locks(user_locks[:1])
                stop_if_unused(home, server.cluster)
                _close_locks(user_locks)
                raise
            # Locked again each time: the folder may have been deleted and created again.
            known = _memberships.get((os.getpid(), home))
            membership = known or _Membership(server, record, user_locks)
            if known:
                _close_locks(known.user_locks)
                known.record, known.user_locks = record, user_locks
            _memberships[os.getpid(), home] = membership
            membership.holds += 1
            _write_users(home, {*_read_users(home), os.getpid()})
            return membership


def _lock_as_user(home: Path) -> list[int]:
    """Return the shared locks of a user: on `users.lock`, and on `alive.lock`."""
    locks = [open_lock(home / name) for name in (USERS_LOCK, ALIVE_LOCK)]
    for one in locks:
        lock(one, shared=True)
    return locks


def _leave(membership: _Membership) -> None:
    """Give up the membership; stops the server when no other process has one."""
    server = membership.server
    _memberships.pop((os.getpid(), server.home))
    try:
        with locked(server.home / START_LOCK, create=False):
            # The supervisor waits for the second lock, and would stop the server beside us.
            _close_locks(membership.user_locks[:1])
            _write_users(server.home, {*_read_users(server.home)} - {os.getpid()})
            stop_if_unused(server.home, server.cluster)
    except FileNotFoundError:  # the folder was deleted: its server is useless
        server.stop(membership.record)
    except OSError as error:
        logger.warning("embedded PostgreSQL in %s was left running: %s", server.home, error)
    finally:
        _close_locks(membership.user_locks)


def _close_locks(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        close_lock(descriptor)


def _read_users(home: Path) -> list[int]:
    with suppress(OSError, ValueError):
        pids = {int(word) for word in (home / USERS_LOCK).read_text().split()}
        return sorted(pid for pid in pids if pid_exists(pid))
    return []


def _write_users(home: Path, pids: set[int]) -> None:
    """Record the users for describe; only the locks count, so a full disk does not matter."""
    with suppress(OSError), (home / USERS_LOCK).open("r+") as file:
        file.truncate()
        file.write("".join(f"{pid}\n" for pid in sorted(pids)))


def _size_bytes(directory: Path) -> int:
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            with suppress(FileNotFoundError):
                total += (Path(folder) / name).lstat().st_size
    return total


def _leave_all() -> None:
    with _registry_lock:
        for (pid, _), membership in list(_memberships.items()):
            if pid == os.getpid():
                _leave(membership)


def _forget_parent() -> None:
    """In a fork, leave the folders to the parent; _file_locks leaves its locks to it."""
    global _registry_lock
    _registry_lock = threading.RLock()
    _memberships.clear()


atexit.register(_leave_all)
if sys.platform != "win32":
    os.register_at_fork(after_in_child=_forget_parent)
