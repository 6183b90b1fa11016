"""The process of an embedded PostgreSQL: how it is found, stopped, and stopped by its supervisor.

The supervisor is this file, run as a program. It waits until no process uses the folder, whatever
ended the last one, and stops the server. Waiting for a lock costs no processor time. The program
imports the standard library and _file_locks.py alone, so that it is small and starts fast.

home/start.lock        held while a process joins, leaves, starts or stops the server
home/users.lock        each user shares it; who gets it alone, under start.lock, may stop the server
home/alive.lock        each user shares it until it has left; the supervisor waits for it
home/supervisor.lock   held by the supervisor
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

if __name__ == "__main__":  # the packages import what is not in the standard library
    sys.path.append(str(Path(__file__).parents[2]))
    from _file_locks import keep_in_forks, lock, locked, open_lock, unlock  # type: ignore[import-not-found]
else:
    from shared_core.storage._file_locks import keep_in_forks, lock, locked, open_lock, unlock

START_LOCK = "start.lock"
USERS_LOCK = "users.lock"
ALIVE_LOCK = "alive.lock"
SUPERVISOR_LOCK = "supervisor.lock"
PROC = Path("/proc")  # macOS has none
STOP_TIMEOUT_S = 60.0
POLL_S = 0.01
RETRY_S = 0.2


@dataclass(frozen=True, slots=True)
class ServerRecord:
    """The entries of a server's postmaster.pid."""

    pid: int
    sockets: Path
    is_ready: bool


def read_record(cluster: Path) -> ServerRecord | None:
    """Return the entries of postmaster.pid; None if it is missing, incomplete or a copy."""
    with suppress(FileNotFoundError):
        lines = os.fsdecode((cluster / "postmaster.pid").read_bytes()).splitlines()
        if len(lines) >= 5 and lines[0].isdecimal() and lines[1] == str(cluster) and lines[4]:
            ready = len(lines) > 7 and lines[7].strip() == "ready"
            return ServerRecord(int(lines[0]), Path(lines[4]), ready)
    return None


def is_server(pid: int, cluster: Path) -> bool:
    """Return whether pid is this folder's server, and not a later process with its number."""
    return _mark(cluster) in _command_line(pid)


def find_servers(cluster: Path) -> list[int]:
    """Return the pids of the servers of a data directory, also of a deleted one."""
    return _find_pids(_mark(cluster))


def stop_server(cluster: Path, known: ServerRecord | None = None) -> None:
    """Stop the server without waiting for its clients. Raises TimeoutError.

    known: the server's record, in case its files were deleted.
    """
    record = read_record(cluster) or known
    if record is None or not is_server(record.pid, cluster):
        return
    for signum, patience_s in ((signal.SIGINT, STOP_TIMEOUT_S), (signal.SIGQUIT, 5.0)):
        with suppress(ProcessLookupError):
            os.kill(record.pid, signum)
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            if not is_server(record.pid, cluster):
                if record.sockets != cluster:
                    with suppress(OSError):
                        record.sockets.rmdir()
                return
            time.sleep(POLL_S)
    raise TimeoutError(f"the server (pid {record.pid}) does not stop")


def stop_if_unused(home: Path, cluster: Path) -> bool:
    """Stop the server unless a process uses it or it is still starting; return whether none runs.

    The caller holds `start.lock`. Raises TimeoutError, and FileNotFoundError if the folder is
    being deleted.
    """
    try:
        with locked(home / USERS_LOCK, wait=False, create=False):
            record = read_record(cluster)
            # A recovery that is stopped starts again from its beginning, and would never end.
            if record and record.is_ready:
                stop_server(cluster, record)
                return True
            return not _find_pids(f"-D {cluster} ")  # pg_ctl, or a server without a record yet
    except BlockingIOError:
        return False


def pid_exists(pid: int) -> bool:
    """Return whether any process has this number; a zombie counts."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def begin_supervisor(home: Path, cluster: Path, errors: int) -> subprocess.Popen[bytes] | None:
    """Start the supervisor of a folder unless it has one; the caller holds `start.lock`.

    errors: the file for its stderr. Wait for the process: it ends at once with 0, and leaves a
    child that belongs to nobody, so that no process gets a zombie. Raises OSError.
    """
    try:
        with locked(home / SUPERVISOR_LOCK, wait=False):
            pass
    except BlockingIOError:
        return None
    return subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, str(home), str(cluster)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=errors,
        cwd="/",
        start_new_session=True,  # the terminal's Ctrl-C and hang-up are for its users
    )


def _mark(cluster: Path) -> str:
    """Return a text that only the command line of this folder's server contains."""
    return f"/postgres -D {cluster} "


def _command_line(pid: int) -> str:
    """Return the arguments of a process separated by blanks; empty without one or for a zombie."""
    if not PROC.is_dir():
        return _ps("-p", str(pid), "-o", "command=")
    with suppress(OSError):
        return os.fsdecode((PROC / str(pid) / "cmdline").read_bytes()).replace("\0", " ")
    return ""


def _find_pids(part: str) -> list[int]:
    """Return the pids of the processes with part in their command line."""
    if not PROC.is_dir():
        lines = _ps("-ax", "-o", "pid=,command=").splitlines()
        return [int(line.split()[0]) for line in lines if part in line]
    pids = [int(entry.name) for entry in PROC.iterdir() if entry.name.isdecimal()]
    return [pid for pid in pids if part in _command_line(pid)]


def _ps(*arguments: str) -> str:
    command = ["ps", "-ww", *arguments]
    return subprocess.run(command, capture_output=True, text=True, errors="replace").stdout


def _supervise(home: Path, cluster: Path, supervisor_lock: int) -> None:
    """Return when nobody uses the folder and its server has stopped."""
    alive_lock = open_lock(home / ALIVE_LOCK)
    while True:
        lock(alive_lock)  # waits for the end of the last user
        unlock(alive_lock)
        if not _is_at(alive_lock, home / ALIVE_LOCK):  # the folder was deleted
            if not cluster.exists():
                for pid in find_servers(cluster):
                    stop_server(cluster, ServerRecord(pid, cluster, True))
            return
        with suppress(FileNotFoundError), locked(home / START_LOCK, create=False):
            if stop_if_unused(home, cluster):
                os.close(supervisor_lock)  # the next user needs a supervisor of its own
                return
        time.sleep(RETRY_S)


def _is_at(descriptor: int, path: Path) -> bool:
    """Return whether an open file is still the one with this path."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), path.stat())
    return False


def _main(home: Path, cluster: Path) -> None:
    # It ends after its users, so a signal to all processes of a service must not end it first.
    for signum in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, signal.SIG_IGN)
    supervisor_lock = open_lock(home / SUPERVISOR_LOCK)
    lock(supervisor_lock)
    keep_in_forks(supervisor_lock)
    if os.fork() == 0:  # the child has the lock, and the caller sees this process end
        _supervise(home, cluster, supervisor_lock)


if __name__ == "__main__":
    _main(Path(sys.argv[1]), Path(sys.argv[2]))
