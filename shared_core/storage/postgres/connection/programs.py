"""The programs of the embedded PostgreSQL, as its OS user can run them."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

if sys.platform != "win32":
    import pwd

from shared_core.storage._server_account import runnable_copy


def runnable_binaries(binaries: Path, home: Path, account: pwd.struct_passwd) -> Path:
    """Return the folder of PostgreSQL's programs, or of a copy in home if account may not run them.

    No server runs in home.
    """
    package = binaries.parent.parent
    libraries = (package / ".dylibs", package.with_name(f"{package.name}.libs"))
    program = runnable_copy(
        binaries / "postgres", [binaries.parent, *libraries], package.parent, home, account
    )
    return program.parent


@contextmanager
def initdb_for_nobody(binaries: Path, folder: Path) -> Iterator[Path]:
    """Yield a folder of programs whose initdb runs as an OS user without a name, as in containers.

    initdb, and the postgres that it runs, look up the name of their OS user with getpwuid() and
    refuse one without, although --username takes its place. In the copies here they call
    getpwent() instead, which returns the first user of the machine. The server itself is started
    from the original programs. folder: takes the copies for the time of the block.
    """
    package = binaries.parent.parent
    copied = folder / binaries.relative_to(package.parent)
    copied.mkdir(parents=True)
    try:
        for name in ("initdb", "postgres"):
            program = (binaries / name).read_bytes().replace(b"\0getpwuid\0", b"\0getpwent\0")
            (copied / name).write_bytes(program)
            (copied / name).chmod(0o700)
        for name in ("lib", "share"):
            (copied.parent / name).symlink_to(binaries.parent / name)
        libraries = f"{package.name}.libs"
        (folder / libraries).symlink_to(package.with_name(libraries))
        yield copied
    finally:
        shutil.rmtree(folder)


def has_name() -> bool:
    """Return whether the OS user of this process is in the user database."""
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        return False
    return True
