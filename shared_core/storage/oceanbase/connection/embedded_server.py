"""Starts the SeekDB server of a folder, readable by its OS user alone; embedded.py counts users.

Root's server runs as another OS user, which owns SeekDB's own folders (_server_account.py).

pylibseekdb joins a server that runs. Otherwise it starts one with the caller's umask and session
and without an environment, so that TELEMETRY_ENABLED never arrives. The locks here are its own:

folder/run/seekdb.clients   each process with an open handle shares it; the server ends after them
folder/run/seekdb.startup   held while the server starts
"""

from __future__ import annotations

import os
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pymysql

from shared_core.errors import StorageUnavailable
from shared_core.storage._file_locks import locked
from shared_core.storage._server_account import (
    COPIES,
    Account,
    give_to,
    make_home,
    owner_name,
    runnable_copy,
)
from shared_core.storage.oceanbase.connection.connections import connect

if TYPE_CHECKING:
    import pwd

OWN_FOLDERS = ("etc", "log", "run", "store")
"""What SeekDB writes to in its folder."""
MIGRATION_LOCK = "hippocampus.lock"
"""Our own file in its folder."""
OWN_NAMES = (*OWN_FOLDERS, MIGRATION_LOCK, COPIES)
DATA = Path("store", "sstable")
"""What a folder holds once SeekDB has started in it."""
FIRST_PARAMETERS = ("--parameter", "memory_budget=1G", "--parameter", "log_disk_size=2G")
"""The sizes that pylibseekdb gives a new database."""
IN_BACKGROUND = '"$@" >/dev/null 2>&1 & echo $!'
"""A server that is no child of this process leaves it no zombie."""
START_TIMEOUT_S = 300.0
"""Recovery after a crash included."""
ANSWER_S = 10.0
POLL_S = 0.05


@contextmanager
def running(folder: Path, program: Path, account: Account) -> Iterator[None]:
    """Keep the server of a folder running meanwhile; start it if it does not run.

    folder, account: as make_private() left and returned them. program: the server's executable
    file. Raises OSError if the server does not start.
    """
    run = folder / "run"
    # SeekDB opens the first of these files, too.
    with locked(_lock_file(run, "seekdb.clients", account), shared=True):
        if not _answers(run):
            with locked(_lock_file(run, "seekdb.startup", account)):
                if not _answers(run):
                    _start(folder, program, account)
        yield


def make_private(folder: Path) -> Account:
    """Create the folder and SeekDB's own folders in it, closed to other OS users.

    A folder that also holds files of somebody else stays open; SeekDB's own folders in it do not.
    Returns the OS user of root's server. Raises StorageUnavailable if root opens a memory that does
    not belong to that user.
    """
    account = make_home(folder, OWN_NAMES)
    own_folders = [folder / name for name in OWN_FOLDERS]
    if account:
        for own in own_folders:
            _check_own(own, account)
    for own in own_folders:
        if not own.exists():
            own.mkdir(mode=0o700)
            give_to(account, own)
        _close(own, 0o700)
    if all(any(map(entry.match, OWN_NAMES)) for entry in folder.iterdir()):
        _close(folder, 0o711 if account else 0o700)
    return account


def _check_own(own: Path, account: pwd.struct_passwd) -> None:
    with suppress(FileNotFoundError):
        status = own.lstat()
        if stat.S_ISDIR(status.st_mode) and status.st_uid == account.pw_uid:
            return
        owner = owner_name(status.st_uid)
        raise StorageUnavailable(
            f"root's SeekDB runs as the OS user {account.pw_name}, and {own} belongs to {owner}:"
            f" run as {owner}, give another folder, or, if all in it is SeekDB's, run"
            f" chown -R {account.pw_name} {own}"
        )


def _close(folder: Path, most: int) -> None:
    """Take the rights beyond the mode `most` from a folder."""
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode & ~most:
        folder.chmod(mode & most)


def _lock_file(run: Path, name: str, account: Account) -> Path:
    """Return a file that the server's OS user can open, made if it is missing.

    That user may have put a link there, which root must not follow.
    """
    path = run / name
    with suppress(FileExistsError):
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o600)
        if account:
            os.fchown(descriptor, account.pw_uid, account.pw_gid)
        os.close(descriptor)
    return path


def _answers(run: Path) -> bool:
    """Return whether a server accepts connections on the socket in run."""
    directory = os.open(run, os.O_PATH | os.O_CLOEXEC)
    try:
        # The path of the folder may be too long for a socket.
        options = {"unix_socket": f"/proc/self/fd/{directory}/sql.sock", "user": "root"}
        connect(options, timeout_s=ANSWER_S, statement_timeout_s=ANSWER_S).close()
    except (pymysql.MySQLError, OSError):
        return False
    finally:
        os.close(directory)
    return True


def _start(folder: Path, program: Path, account: Account) -> None:
    """Start the server and return when it answers.

    A session of its own keeps the terminal's Ctrl-C from it.
    """
    if account:
        package = program.parent
        libraries = package.with_name(f"{package.name}.libs")
        program = runnable_copy(program, [package, libraries], package.parent, folder, account)
    command = [str(program), f"--base-dir={folder}", "--embedded", "--nodaemon"]
    if not (folder / DATA).is_dir():
        command += FIRST_PARAMETERS
    started = subprocess.run(
        ["/bin/sh", "-c", IN_BACKGROUND, "sh", *command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        cwd=folder,
        env={"TELEMETRY_ENABLED": "false"},  # SeekDB knows this spelling only
        umask=0o077,
        start_new_session=True,
        user=account.pw_uid if account else None,
        group=account.pw_gid if account else None,
        extra_groups=[] if account else None,
    )
    pid = int(started.stdout)
    deadline = time.monotonic() + START_TIMEOUT_S
    while _is_alive(pid):
        if _answers(folder / "run"):
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"the server (pid {pid}) does not answer")
        time.sleep(POLL_S)
    raise ChildProcessError("the server ended while it started")


def _is_alive(pid: int) -> bool:
    """Return whether the process runs; a zombie does not."""
    with suppress(OSError):
        return (Path("/proc") / str(pid) / "cmdline").read_bytes() != b""
    return False
