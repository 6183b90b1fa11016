"""The OS user that runs root's embedded server of either engine, and what it can reach.

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
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from shared_core.errors import StorageUnavailable

if sys.platform != "win32":
    import pwd

Account: TypeAlias = "pwd.struct_passwd | None"
"""The OS user that runs root's server; None where the server runs as the user of this process."""

SERVER_USER = "pgserver"
"""The OS user that runs root's servers: PostgreSQL refuses to run as root."""
ADMIN_PATH = "/usr/sbin:/sbin"  # not on the PATH of a cron job
COPIES = "programs-*"
"""The copies of programs in a memory's folder."""


def known_account() -> Account:
    """Return the OS user that root's server runs as; None if it is missing, or for our own user."""
    if os.geteuid() == 0:
        with suppress(KeyError):
            return pwd.getpwnam(SERVER_USER)
    return None


def find_account(folder: Path) -> Account:
    """Return the OS user that root's server runs as, created if missing; None for our own user.

    Raises StorageUnavailable, which names the folder, if it cannot be created.
    """
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
    raise StorageUnavailable(
        f"the embedded server in {folder} needs an OS user {SERVER_USER} that root runs it as, and"
        f" useradd did not create it: create {SERVER_USER}, run as an ordinary user, or set"
        " HIPPOCAMPUS_URI"
    )


def owner_name(uid: int) -> str:
    """Return the OS user whose files have this owner: root for those of its servers."""
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
    return "root" if name == SERVER_USER else name


def give_to(account: Account, path: Path) -> None:
    """Make account the owner of a file or folder; nothing for our own user."""
    if account:
        os.chown(path, account.pw_uid, account.pw_gid, follow_symlinks=False)


def make_home(home: Path, own_names: Collection[str]) -> Account:
    """Create the folder of a memory if it is missing; return the OS user of its server.

    own_names: patterns of what the memory keeps there. Raises StorageUnavailable, and changes
    nothing, where root's server may not pass a folder that is not the memory's alone, or where
    another OS user could put links in root's way.
    """
    if os.geteuid() == 0:
        _check_way(home, own_names)
        _check_owner(home)
    account = find_account(home)
    for step in (*reversed(home.parents), home):
        if not step.exists():
            _make_folder(step, account)
    home.mkdir(exist_ok=True)  # raises for a file
    if os.geteuid() == 0:
        _check_owner(home)  # another user may have been faster
    if account and not _may(home, account, 0o1):
        home.chmod(stat.S_IMODE(home.stat().st_mode) | stat.S_IXOTH)
    return account


def _make_folder(folder: Path, account: Account) -> None:
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
        if account:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            os.fchmod(descriptor, 0o711)
            os.close(descriptor)


def _check_way(home: Path, own_names: Collection[str]) -> None:
    closed = closed_to(known_account(), home)
    if closed == [home] and all(any(map(entry.match, own_names)) for entry in home.iterdir()):
        return
    if closed:
        folders = " ".join(map(str, closed))
        raise _refused(
            home,
            f"root runs it as the OS user {SERVER_USER}, which may not pass {folders}; run chmod"
            f" o+x {folders}",
        )


def _check_owner(home: Path) -> None:
    try:
        status = home.lstat()
    except FileNotFoundError:
        return
    account = known_account()
    if account and status.st_uid == account.pw_uid:
        raise _refused(home, f"the folder itself must be root's; run chown root {home}")
    if status.st_uid != 0:
        owner = owner_name(status.st_uid)
        raise _refused(home, f"the folder belongs to the OS user {owner}; run as {owner}")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise _refused(home, f"other OS users may write to it; run chmod go-w {home}")


def _refused(home: Path, why: str) -> StorageUnavailable:
    return StorageUnavailable(
        f"the embedded server in {home}: {why}, or give the memory a folder that every user can"
        " reach and root alone can write to, such as /var/lib/hippocampus (HIPPOCAMPUS_HOME, or"
        " the path of a seekdb:// uri), or run as an ordinary user"
    )


def closed_to(account: Account, folder: Path) -> list[Path]:
    """Return the folders on the way to folder, itself included, that account may not pass.

    account: None for one that does not exist yet. Missing folders are left out.
    """
    way = (step for step in (*reversed(folder.parents), folder) if step.is_dir())
    return [step for step in way if not _may(step, account, 0o1)]


def runnable_copy(
    program: Path, trees: Sequence[Path], root: Path, home: Path, account: pwd.struct_passwd
) -> Path:
    """Return a program, or its copy in home if account may not run it.

    Programs are closed below the home of root, or after an installation under a umask of 077. The
    program does not run in home now, so its copies of other installations may go.

    Args:
        program: the executable file.
        trees: folders to copy with it, so that it finds its libraries by relative paths; those
            that do not exist are left out.
        root: the folder above program and trees.
        home: takes the copy.
        account: the OS user that will run it.
    """
    if not closed_to(account, program.parent) and _may(program, account, 0o5):
        return program
    prefix, status = f"programs-{program.name}-", program.stat()
    copy = home / f"{prefix}{status.st_size}-{status.st_mtime_ns}"
    if not copy.exists():
        for other in home.glob(f"{prefix}*"):
            shutil.rmtree(other)
        partial = Path(tempfile.mkdtemp(prefix=f"{prefix}partial-", dir=home))
        for source in trees:
            if source.exists():
                shutil.copytree(source, partial / source.relative_to(root), symlinks=True)
        for path in (partial, *partial.rglob("*")):
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
        partial.rename(copy)
    return copy / program.relative_to(root)


def _may(path: Path, account: Account, wanted: int) -> bool:
    """Return whether account has the wanted rights, as the digit of a mode."""
    status = path.stat()
    if account and status.st_uid == account.pw_uid:
        return status.st_mode >> 6 & wanted == wanted
    if account and status.st_gid == account.pw_gid:
        return status.st_mode >> 3 & wanted == wanted
    return status.st_mode & wanted == wanted
