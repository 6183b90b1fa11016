"""Starts one SeekDB server per folder with pylibseekdb, and stops it with its last user.

Several processes may open one folder; they share its server.
"""

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
from shared_core.storage.oceanbase.connection.embedded_server import DATA, make_private, running

SIOCGIFADDR = 0x8915
"""The ioctl of Linux that returns the address of an interface."""
LEAST_FREE_BYTES = 64 * 1024**2
"""Minimum free space on the disk for a start."""
_lock = threading.Lock()


@dataclass(slots=True)
class _Opened:
    """An open folder, its number of users and of starts.

    instance: None if the server died and did not start again.
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
    """Replace the lock in a forked child: the thread that held it does not exist there."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class EmbeddedSeekdb:
    """One user of the SeekDB in a folder. All methods are thread-safe and may block."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()  # two names of one folder share its server
        self._uses = 0
        self._pid = 0

    def acquire(self) -> None:
        """Start or join the server. Raises StorageUnavailable if it does not start."""
        with _lock:
            self._join()
            self._uses = self._uses + 1 if self._pid == os.getpid() else 1
            self._pid = os.getpid()

    def release(self) -> None:
        """Leave the server if it was joined; the last user in this process closes it."""
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
        """Return the arguments for a connection to the server."""
        with _lock:
            if self._uses == 0:
                raise StorageUnavailable("the memory is closed: open a new one with open_memory()")
            if self._pid != os.getpid():  # a forked child: the open handle is its parent's
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
        """Restart a server that died, unless this process did so already.

        started: the result of started() from before the server was found dead.
        """
        with _lock:
            there = _opened.get(self._folder)
            if there is None or there.pid != os.getpid() or there.started != started:
                return
            dead, there.instance = there.instance, None
            if dead is not None:  # while its handle is open, opening returns the dead server
                dead.close()
            there.start(self._folder)

    def _join(self) -> None:
        there = _opened.get(self._folder)
        if there is None or there.pid != os.getpid():
            there = _Opened(_open(self._folder), pid=os.getpid())
            _opened[self._folder] = there
        there.users += 1


def _open(folder: Path) -> Any:
    try:
        import pylibseekdb
    except ImportError as error:
        raise InvalidInput(
            "an embedded SeekDB needs its package: pip install 'pg-hippocampus[oceanbase]'"
            " (on Linux; elsewhere name a server: seekdb://user:password@host:2881)"
        ) from error
    try:
        _check_free(folder)
        account = make_private(folder)
        with running(folder, Path(pylibseekdb.__file__).with_name("seekdb"), account):
            return pylibseekdb.open(db_dir=str(folder))
    except (pylibseekdb.SeekdbError, OSError) as error:
        needs = (
            "It needs write access to the folder, 1 GB of memory, 2 GB of disk, and a shorter path"
            " if this one is long"
            if has_network()  # SeekDB 1.4 crashes without one, although it listens on none
            else "SeekDB 1.4 needs an active network interface other than the loopback"
        )
        raise StorageUnavailable(
            f"SeekDB does not start in {str(folder)!r}: {error}. {needs}"
        ) from error


def is_initialised(folder: Path) -> bool:
    """Return whether a SeekDB was ever started in a folder."""
    return (folder / DATA).is_dir()


def _check_free(folder: Path) -> None:
    """Raise StorageUnavailable if the disk is full."""
    there = next(step for step in (folder, *folder.parents) if step.is_dir())
    free = shutil.disk_usage(there).free  # SeekDB itself waits for space without end
    if free < LEAST_FREE_BYTES:
        raise StorageUnavailable(
            f"the disk of {str(folder)!r} is full: {free // 1024**2} MB are free, and SeekDB does"
            f" not start with less than {LEAST_FREE_BYTES // 1024**2} MB; make room"
        )


def has_network() -> bool:
    """Return whether an interface other than the loopback has an address, on Linux."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        return any(_address(probe, name) for _, name in socket.if_nameindex() if name != "lo")


def _address(probe: socket.socket, name: str) -> bytes:
    import fcntl  # an embedded server runs on Linux only

    try:
        return fcntl.ioctl(probe, SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
    except OSError:  # no address
        return b""
