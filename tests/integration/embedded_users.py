"""Processes, folders and queries that the tests of the embedded PostgreSQL share."""

import atexit
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import psycopg
import pytest
from warm_python import warm_python

from shared_core import open_memory, run_sync
from shared_core.errors import StorageUnavailable
from shared_core.storage.postgres.connection.embedded import EmbeddedPostgres, describe
from shared_core.storage.postgres.connection.embedded_server import CLUSTER, EmbeddedServer
from shared_core.storage.postgres.connection.server_process import SUPERVISOR_LOCK

if sys.platform != "win32":
    import fcntl

ROOT = Path(__file__).parents[2]

# Privileges are dropped after the imports: another user may not be able to reach the interpreter.
USER_PROGRAM = """
import fcntl, gc, json, logging, os, signal, subprocess, sys, time, warnings
warnings.simplefilter("error")
os.setsid()
# As in a terminal: what a shell starts in the background is deaf to both, and so are its children.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from pathlib import Path
from shared_core.errors import StorageUnavailable
from shared_core.storage.postgres.connection.embedded import EmbeddedPostgres
import psycopg

home, uid = Path(sys.argv[1]), int(sys.argv[2])
if uid:
    os.setgroups([]); os.setgid(uid); os.setuid(uid)
    logging.disable(logging.WARNING)  # nor can it start a supervisor then
server = EmbeddedPostgres(home)

def connect():
    try:
        psycopg.connect(host=str(home / "postgres-18"), user="postgres").close()
    except psycopg.OperationalError as error:
        return str(error)

def work():
    with psycopg.connect(server.acquire(), autocommit=True) as session:
        try:
            session.execute("SET jit = off; SELECT count(*) FROM generate_series(1, 9000000)")
        except psycopg.OperationalError as error:
            return str(error)

def fork(stay_s):
    child = os.fork()
    if child:
        return child
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    time.sleep(stay_s)
    server.release()
    sys.exit()

def is_supervised():
    with open(home / "supervisor.lock") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True

def die_in_initdb():
    run = subprocess.run
    def dying(command, **options):
        if not str(command[0]).endswith("initdb"):
            return run(command, **options)
        initdb = subprocess.Popen(command, **options)  # its end would warn
        while not (is_supervised() and list(home.glob("postgres-18.partial-*/base/1"))):
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGKILL)
    subprocess.run = dying
    server.acquire()

for line in sys.stdin:
    try:
        answer = eval(line)
    except StorageUnavailable as error:
        answer = f"StorageUnavailable: {error}"
    print(json.dumps(answer), flush=True)
del server
gc.collect()  # what is left open warns
"""


class User:
    """Another process that uses home, as the OS user uid (0: as ours).

    It evaluates the lines it is sent. It runs in its own session, with warnings as errors. `pid` is
    its number; `process` waits for it and ends with it.
    """

    def __init__(self, home: Path, uid: int = 0) -> None:
        environment = {k: v for k, v in os.environ.items() if k != "XDG_RUNTIME_DIR"}
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
        self._stderr = tempfile.TemporaryFile("w+")  # noqa: SIM115  closed by close()
        self.process = subprocess.Popen(
            [*warm_python(), "-c", USER_PROGRAM, str(home), str(uid)], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr,
            env=environment | {"HOME": str(home)},
        )  # fmt: skip
        self.pid = int(self.ask("os.getpid()"))

    def send(self, call: str) -> None:
        """Start a call without waiting for its answer."""
        assert self.process.stdin
        self.process.stdin.write(call + "\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        """Return the answer to the oldest call, waiting for it."""
        assert self.process.stdout
        return str(json.loads(self.process.stdout.readline()))

    def ask(self, call: str) -> str:
        self.send(call)
        return self.answer()

    def acquire(self) -> str:
        """Return the conninfo; fail if there is an error instead."""
        conninfo = self.ask("server.acquire()")
        assert conninfo.startswith("host="), conninfo
        return conninfo

    def kill(self, signum: int = signal.SIGKILL) -> None:
        """End the process by a signal, by default without a chance to clean up."""
        os.kill(self.pid, signum)
        self.process.wait()

    def close(self) -> str:
        """End the process normally, unless it has ended; return its stderr, the first time."""
        self.process.communicate()
        if self._stderr.closed:
            return ""
        with self._stderr:
            self._stderr.seek(0)
            return self._stderr.read()


@contextmanager
def empty_folder() -> Iterator[Path]:
    """Yield a folder, and remove it at the end; fail if a server is left in it."""
    # Not tmp_path: its path is too long for the socket.
    folder = Path(tempfile.mkdtemp(prefix="hippo-")).resolve()
    folder.chmod(0o711)  # the servers of root run as another user
    yield folder
    left = kill_servers(folder)
    shutil.rmtree(folder)
    assert left == []


@functools.cache
def cluster() -> Path:
    """Return the files of a database with our schema and one note, made once a process."""
    folder = Path(tempfile.mkdtemp(prefix="hippo-")).resolve()
    folder.chmod(0o711)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    server = EmbeddedPostgres(folder)
    with psycopg.connect(server.acquire()) as session:
        session.execute("CREATE TABLE note AS SELECT 'committed' AS text")
    memory = open_memory(folder, worker=False)
    run_sync(memory.open())
    run_sync(memory.close())
    server.release()
    return folder / CLUSTER


def copy_cluster(home: Path) -> None:
    subprocess.run(["cp", "-Rp", cluster(), home / CLUSTER], check=True)


@pytest.fixture
def copied_clusters(monkeypatch):
    """Let each new embedded PostgreSQL of this process copy cluster(), which is made by initdb."""
    cluster()
    monkeypatch.setattr(EmbeddedServer, "_initialise", lambda server: copy_cluster(server.home))


@contextmanager
def lent(prepared: Path, home: Path) -> Iterator[Path]:
    """Yield home with the database of prepared in it, and move it back at the end."""
    home.mkdir(parents=True, exist_ok=True)
    (prepared / "postgres-18").rename(home / "postgres-18")
    yield home
    left = kill_servers(home)
    (home / "postgres-18").rename(prepared / "postgres-18")
    assert left == []


def until_unused(home: Path) -> None:
    """Return when the supervisor of a folder has ended."""
    with (home / SUPERVISOR_LOCK).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)


def servers_of(home: Path) -> list[int]:
    """Return the pids of the servers that were started in home or below."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        program, *arguments = process.info["cmdline"] or [""]
        if program.endswith("/postgres") and any(a.startswith(str(home)) for a in arguments):
            found.append(process.pid)
    return found


def kill_servers(home: Path) -> list[int]:
    """Kill the servers that servers_of() finds; return their pids."""
    left = servers_of(home)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return left


def notes(conninfo: str) -> list[str]:
    """Return the rows of the table of a prepared folder."""
    with psycopg.connect(conninfo) as session:
        return [text for (text,) in session.execute("SELECT text FROM note")]


def pid_of(home: Path) -> int:
    pid = describe(home).pid
    assert pid is not None
    return pid


def error_of(home: Path) -> str:
    """Return the error message of acquire(), which must name the folder and a remedy."""
    with pytest.raises(StorageUnavailable) as caught:
        EmbeddedPostgres(home).acquire()
    message = str(caught.value)
    assert str(home) in message and "HIPPOCAMPUS_" in message
    return message
