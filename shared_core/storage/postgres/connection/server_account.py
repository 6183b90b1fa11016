"""The OS user that runs root's server, and what it can reach.

Nothing outside of the memory's own folder is changed for it: a closed folder on the way is refused
with the command that opens it, and closed programs are copied.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from shared_core.storage.postgres.connection.embedded_errors import SERVER_USER, unavailable

if sys.platform != "win32":
    import pwd

ADMIN_PATH = "/usr/sbin:/sbin"  # not on the PATH of a cron job
OWN_NAMES = ("postgres-*", "postgres.log*", "programs-*", "*.lock")
"""What the folder of an embedded PostgreSQL holds."""


def known_account() -> pwd.struct_passwd | None:
    """Return the OS user that root's server runs as; None if it is missing, or for our own user."""
    if os.geteuid() == 0:
        with suppress(KeyError):
            return pwd.getpwnam(SERVER_USER)
    return None


def find_account(home: Path) -> pwd.struct_passwd | None:
    """Return the OS user that root's server runs as, created if missing; None for our own user."""
    if os.geteuid() != 0:
        return None
    if known := known_account():
        return known
    useradd = shutil.which("useradd", path=f"{os.environ.get('PATH', '')}:{ADMIN_PATH}")
    if useradd:
        subprocess.run(
            [useradd, "--system", "--shell", "/bin/false", SERVER_USER], capture_output=True
        )
    if known := known_account():
        return known
    what = f"root needs an OS user {SERVER_USER} to run the server, and useradd did not create it"
    advice = f"create {SERVER_USER}, run as an ordinary user, or set HIPPOCAMPUS_URI"
    raise unavailable(home, what, advice)


def closed_to(account: pwd.struct_passwd | None, folder: Path) -> list[Path]:
    """Return the folders on the way to folder, itself included, that account may not pass.

    account: None for one that does not exist yet. Missing folders are left out.
    """
    way = (step for step in (*reversed(folder.parents), folder) if step.is_dir())
    return [step for step in way if not _may(step, account, 0o1)]


def check_way(home: Path) -> None:
    """Raise StorageUnavailable if root's server could not reach home; call it before any change.

    The folder itself may be closed if it holds nothing else than the memory: open_home() opens it.
    """
    if os.geteuid() != 0:
        return
    closed = closed_to(known_account(), home)
    if not closed or (closed == [home] and _holds_memory_alone(home)):
        return
    folders = " ".join(map(str, closed))
    raise unavailable(
        home,
        f"root's server runs as the OS user {SERVER_USER}, which may not pass {folders}",
        f"run chmod o+x {folders}, or set HIPPOCAMPUS_HOME to a folder that every user can"
        " reach, such as /var/lib/hippocampus, or run as an ordinary user",
    )


def open_home(home: Path, account: pwd.struct_passwd) -> None:
    """Let account pass through home, but not list it."""
    if not _may(home, account, 0o1):
        home.chmod(stat.S_IMODE(home.stat().st_mode) | stat.S_IXOTH)


def _holds_memory_alone(home: Path) -> bool:
    return all(any(map(entry.match, OWN_NAMES)) for entry in home.iterdir())


def runnable_binaries(binaries: Path, home: Path, account: pwd.struct_passwd) -> Path:
    """Return the folder of PostgreSQL's programs, or of a copy in home if account may not run them.

    They are closed below the home of root, or after an installation under a umask of 077. No server
    runs in home, so copies of other installations may go.
    """
    if not closed_to(account, binaries) and _may(binaries / "postgres", account, 0o5):
        return binaries
    installed, package = binaries.parent, binaries.parent.parent
    copy = home / f"programs-{int((binaries / 'postgres').stat().st_mtime)}"
    if not copy.exists():
        for other in home.glob("programs-*"):
            shutil.rmtree(other)
        partial = Path(tempfile.mkdtemp(prefix="programs-partial-", dir=home))
        libraries = (package / ".dylibs", package.with_name(f"{package.name}.libs"))
        for source in (installed, *libraries):
            if source.exists():  # the programs find their libraries by relative paths
                shutil.copytree(source, partial / source.relative_to(package.parent), symlinks=True)
        for path in (partial, *partial.rglob("*")):
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
        partial.rename(copy)
    return copy / binaries.relative_to(package.parent)


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


def _may(path: Path, account: pwd.struct_passwd | None, wanted: int) -> bool:
    """Return whether account, or for None a new one, has the wanted rights: the digit of a mode."""
    status = path.stat()
    if account and status.st_uid == account.pw_uid:
        return status.st_mode >> 6 & wanted == wanted
    if account and status.st_gid == account.pw_gid:
        return status.st_mode >> 3 & wanted == wanted
    return status.st_mode & wanted == wanted
