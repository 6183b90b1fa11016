"""Keeps temporary files of the test run in memory: a database copy costs a tenth of one on disk."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

MEMORY_DISK = Path("/dev/shm")
NEEDED_BYTES = 6 * 1024**3
"""Room for two servers of each engine and the folders of the running tests."""


@contextmanager
def temporary_files_in_memory() -> Iterator[Path | None]:
    """Let this process and its children put temporary files into memory; yield the folder.

    Yields None and changes nothing where TMPDIR is set, or where the memory disk is absent, small
    or refuses programs.
    """
    if "TMPDIR" in os.environ or not _is_fit(MEMORY_DISK):
        yield None
        return
    _remove_leftovers()
    before = tempfile.tempdir
    folder = Path(tempfile.mkdtemp(prefix=f"hippo-{os.getpid()}-", dir=MEMORY_DISK))
    folder.chmod(0o711)  # the servers of root run as another user
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    try:
        yield folder
    finally:
        del os.environ["TMPDIR"]
        tempfile.tempdir = before
        shutil.rmtree(folder, ignore_errors=True)


def _is_fit(disk: Path) -> bool:
    try:
        room = os.statvfs(disk)
    except OSError:
        return False
    free = min(room.f_bavail * room.f_frsize, psutil.virtual_memory().available)
    return free >= NEEDED_BYTES and os.access(disk, os.W_OK) and not room.f_flag & os.ST_NOEXEC


def _remove_leftovers() -> None:
    """Remove the folders of runs that were killed."""
    for folder in MEMORY_DISK.glob("hippo-*-*"):
        pid = folder.name.split("-")[1]
        if pid.isdecimal() and not Path("/proc", pid).exists():
            shutil.rmtree(folder, ignore_errors=True)
