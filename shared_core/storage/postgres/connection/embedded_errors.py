"""The errors of an embedded PostgreSQL: each names the folder, what failed and what to do."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from shared_core.errors import StorageUnavailable
from shared_core.storage._server_account import owner_name

DISK_NEEDED_BYTES = 128 * 1024 * 1024
ELSEWHERE = "set HIPPOCAMPUS_HOME to another folder, or HIPPOCAMPUS_URI to a PostgreSQL server"


def unavailable(home: Path, what: str, advice: str) -> StorageUnavailable:
    """Return the error of the embedded PostgreSQL in home: what failed and what to do."""
    return StorageUnavailable(f"embedded PostgreSQL in {home}: {what}; {advice}")


@contextmanager
def explained(home: Path) -> Iterator[None]:
    """Turn an OSError of the block into a StorageUnavailable that says what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise disk_full(home) from error
        where = f": {error.filename}" if error.filename else ""
        if isinstance(error, PermissionError):
            with suppress(OSError):
                if home.stat().st_uid != os.geteuid():
                    raise belongs_to(home, home.stat().st_uid) from error
        what = f"the folder cannot be used ({error.strerror or error}{where})"
        raise unavailable(home, what, ELSEWHERE) from error


def disk_full(home: Path) -> StorageUnavailable:
    needed = f"free {DISK_NEEDED_BYTES // 1024**2} MB, or {ELSEWHERE}"
    return unavailable(home, "the disk is full", needed)


def belongs_to(home: Path, uid: int) -> StorageUnavailable:
    name = owner_name(uid)
    return unavailable(home, f"it belongs to the OS user {name}", f"run as {name}, or {ELSEWHERE}")
