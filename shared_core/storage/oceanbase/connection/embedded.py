"""SeekDB in this process's care: pylibseekdb starts a server per folder and stops it with its last
user. Several processes may open one folder; they share the one server."""

from __future__ import annotations

import os
import shutil
import socket
import struct
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared_core.errors import InvalidInput, StorageUnavailable

SIOCGIFADDR = 0x8915
LEAST_FREE_BYTES = 64 * 1024**2

_lock = threading.Lock()


@dataclass(slots=True)
class _Opened:
    """An open folder, by how many it is used, and how often it was started.

    instance: None where the server died and did not start again.
    """

    instance: Any
    users: int = 0
    started: int = 1
    pid: int = 0

    def start(self, folder: Path) -> None:
        self.instance = _open(folder)
        self.started += 1


_opened: dict[Path, _Opened] = {}


def _forked() -> None:
    """Another thread may have held the lock when a process was forked; it is not in the child."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class EmbeddedSeekdb:
    """One user of the SeekDB of a folder. Every method is safe from any thread, and may block."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()  # one server, by whatever name
        self._uses = 0
        self._pid = 0

    def acquire(self) -> None:
        """Start the server or join it. Raises StorageUnavailable where it does not start."""
        with _lock:
            self._join()
            self._uses = self._uses + 1 if self._pid == os.getpid() else 1
            self._pid = os.getpid()

    def release(self) -> None:
        """Leave the server, if it was joined; the last one of this process closes it."""
        with _lock:
            if self._uses == 0 or self._pid != os.getpid():
                return
            self._uses -= 1
            there = _opened[self._folder]
            there.users -= 1
            if there.users <= 0:
                del _opened[self._folder]
                if there.instance is not None:
                    there.instance.close()

    def options(self) -> Mapping[str, Any]:
        """Return how to reach the server: the arguments of a connection.

        A forked child joins it first: the handle is its parent's.
        """
        with _lock:
            if self._uses == 0:
                raise StorageUnavailable("the memory is closed: open a new one with open_memory()")
            if self._pid != os.getpid():
                self._join()
                self._uses, self._pid = 1, os.getpid()
            there = _opened[self._folder]
            if there.instance is None:
                there.start(self._folder)
            return dict(there.instance.connection_options())

    def started(self) -> int:
        """Return how often this process has started the server."""
        with _lock:
            there = _opened.get(self._folder)
            return there.started if there else 0

    def restart(self, started: int) -> None:
        """Start a server that died again, unless somebody of this process did so already.

        started: what started() said before the server was found dead. As long as any handle of the
        dead one is open, opening would return that one.
        """
        with _lock:
            there = _opened.get(self._folder)
            if there is None or there.pid != os.getpid() or there.started != started:
                return
            dead, there.instance = there.instance, None
            if dead is not None:
                dead.close()
            there.start(self._folder)

    def _join(self) -> None:
        there = _opened.get(self._folder)
        if there is None or there.pid != os.getpid():
            there = _Opened(_open(self._folder), pid=os.getpid())
            _opened[self._folder] = there
        there.users += 1


def _open(folder: Path) -> Any:
    os.environ["TELEMETRY_ENABLED"] = "false"  # read at the start; exactly this word
    try:
        import pylibseekdb
    except ImportError as error:
        raise InvalidInput(
            "an embedded SeekDB needs its package: pip install 'pg-hippocampus[oceanbase]'"
            " (on Linux; elsewhere name a server: seekdb://user:password@host:2881)"
        ) from error
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _check_free(folder)
        return pylibseekdb.open(db_dir=str(folder))
    except (pylibseekdb.SeekdbError, OSError) as error:
        needs = (
            "It needs the right to write there, 1 GB of memory, 2 GB of disk, and a path that is"
            " not too long"
            if has_network()
            else "It needs a network interface that is up besides the loopback, although it listens"
            " on none: SeekDB 1.4 crashes without one"
        )
        raise StorageUnavailable(
            f"SeekDB does not start in {str(folder)!r}: {error}. {needs}"
        ) from error


def is_initialised(folder: Path) -> bool:
    """Tell whether a SeekDB was ever started in a folder."""
    return (folder / "store").is_dir()


def _check_free(folder: Path) -> None:
    """Raise StorageUnavailable for a full disk: SeekDB would wait for space without an end."""
    free = shutil.disk_usage(folder).free
    if free < LEAST_FREE_BYTES:
        raise StorageUnavailable(
            f"the disk of {str(folder)!r} is full: {free // 1024**2} MB are free, and SeekDB does"
            f" not start with less than {LEAST_FREE_BYTES // 1024**2} MB; make room"
        )


def has_network() -> bool:
    """Tell whether an interface other than the loopback has an address, on Linux."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        return any(_address(asked, name) for _, name in socket.if_nameindex() if name != "lo")


def _address(asked: socket.socket, name: str) -> bytes:
    import fcntl  # an embedded server is for Linux alone

    try:
        return fcntl.ioctl(asked, SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
    except OSError:  # it has none
        return b""
