"""Locks on files. Processes use them to share an embedded server.

The operating system frees the locks of a killed process. A lock (flock) belongs to the open file,
which a fork shares: closing it here would leave the lock to the fork. So a lock is unlocked before
it is closed, and a fork closes its copies at once, without unlocking them.

It imports the standard library alone, because the supervisor of PostgreSQL does so too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

if sys.platform != "win32":
    import fcntl

_opened: set[int] = set()
"""Descriptors of this process; a fork has none of them."""


def open_lock(path: Path, *, create: bool = True) -> int:
    """Return the descriptor of a lock file; it is not locked.

    create: whether to make a missing file. One who leaves does not: somebody may be deleting the
    folder, and a file that comes back would keep it. Raises FileNotFoundError.
    """
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags | os.O_CREAT if create else flags, 0o600)
    _opened.add(descriptor)
    return descriptor


def lock(descriptor: int, *, shared: bool = False, wait: bool = True) -> None:
    """Take a lock. Raises BlockingIOError if wait is False and another process has it."""
    how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    fcntl.flock(descriptor, how if wait else how | fcntl.LOCK_NB)


def unlock(descriptor: int) -> None:
    """Free a lock and keep its file open."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)


def close_lock(descriptor: int) -> None:
    """Unlock and close; do nothing the second time, and in a fork of the process that opened it."""
    if descriptor in _opened:
        _opened.remove(descriptor)
        unlock(descriptor)
        os.close(descriptor)


@contextmanager
def locked(
    path: Path, *, shared: bool = False, wait: bool = True, create: bool = True
) -> Iterator[None]:
    """Hold the lock of a file meanwhile. Raises as open_lock() and lock() do."""
    descriptor = open_lock(path, create=create)
    try:
        lock(descriptor, shared=shared, wait=wait)
        yield
    finally:
        close_lock(descriptor)


def keep_in_forks(descriptor: int) -> None:
    """Let forks share a lock; it is free when the last of them has ended."""
    _opened.discard(descriptor)


def _close_in_fork() -> None:
    for descriptor in _opened:
        os.close(descriptor)
    _opened.clear()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_close_in_fork)
