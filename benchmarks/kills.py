"""Kills clients and the server at random moments, and counts writes that are lost or doubled.

    python -m benchmarks.kills [--engine postgres|seekdb] [--kills 500] [--clients 4] [--json]

Several clients at once write to the same users in every documented way (benchmarks.kill_clients)
and note what succeeded. Each dies by SIGKILL after a moment, and a successor goes on: it sends the
interrupted write again, with the same ids, or leaves it. One kill in --server-every is that of the
server or, on PostgreSQL, of one of its processes. After one kill in --cut-every a connection is cut
as well, which does not count as a kill. After --round kills all clients die. Then the leases of the
killed end, all jobs run, and every row is compared with the notes (benchmarks.kill_checks). The
next round is another application of the same database. --wait-leases: at the end of the last round,
wait until the leases expire by themselves (five minutes) instead of ending them. Two runs with the
same --seed differ, because moments do. Exits with 1 if anything was found.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import gc
import importlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any, Final, NoReturn

import psutil  # type: ignore[import-untyped]
import psycopg
import pymysql

from benchmarks.kill_checks import Check, rows_by_table
from benchmarks.kill_clients import ClientOptions, Notes, write_until_killed
from benchmarks.report import load_average
from shared_core import MemoryEngine, Scope, open_memory
from shared_core.cli.doctor import examine
from shared_core.cli.work import work
from shared_core.errors import StorageUnavailable
from shared_core.extraction.rule_based import RuleExtractor
from shared_core.jobs.worker import LEASE_S
from shared_core.models.embedders import UseEmbedder
from shared_core.storage.oceanbase.connection.embedded import EmbeddedSeekdb
from shared_core.storage.postgres.connection.embedded import EmbeddedPostgres, describe

USERS: Final = 6
WARM: Final = (
    "pgvector.psycopg",
    "pylibseekdb",
    "shared_core.storage.oceanbase.storage",
    "shared_core.storage.postgres.storage",
    "shared_core.storage.postgres.connection.citus",
)
PR_SET_PDEATHSIG: Final = 1
"""Lets a child die with its parent."""
MOST_ENDED: Final = 20
LIFE_S: Final = {"postgres": (0.1, 1.2), "seekdb": (0.15, 2.0)}
"""Shortest and longest life of a client."""
GAP_S: Final = {"postgres": 2.0, "seekdb": 6.0}
"""Least time between two kills of the server, in which it comes back."""
REACHABLE_S: Final = 120.0
SHOWN: Final = 20
QUEUE_PASSES: Final = 10
END_LEASES: Final = "UPDATE {}consolidation_jobs SET lease_until = {} WHERE status = 'running'"
MAKE_DUE: Final = "UPDATE {}consolidation_jobs SET run_after = {} WHERE status = 'pending'"


@dataclass(slots=True)
class Counts:
    """What was done to the database, and what the clients did."""

    done: Counter[str] = field(default_factory=Counter)
    away_s: list[float] = field(default_factory=list)
    findings: dict[str, list[str]] = field(default_factory=dict)

    @property
    def kills(self) -> int:
        """The number of killed processes."""
        return sum(count for name, count in self.done.items() if name.startswith("killed "))

    def add(self, findings: dict[str, list[str]]) -> None:
        """Add what a round found."""
        for kind, found in findings.items():
            self.findings.setdefault(kind, []).extend(found)

    def report(self) -> dict[str, Any]:
        """Return the figures."""
        return {
            **{name: self.done[name] for name in sorted(self.done)},
            "kills": self.kills,
            "seconds without an answer after a kill of the server": {
                "median": round(median(self.away_s), 2) if self.away_s else None,
                "longest": round(max(self.away_s), 2) if self.away_s else None,
            },
            "found": {kind: len(found) for kind, found in sorted(self.findings.items())},
        }


class PostgresServer:
    """The embedded PostgreSQL of a folder."""

    name = "postgres"

    def __init__(self, folder: Path) -> None:
        self._home = folder / "h"
        self.uri = f"embedded://{self._home}"
        self._hold = EmbeddedPostgres(self._home)

    def hold(self) -> None:
        """Start or join the server, which runs until this process ends."""
        self._hold.acquire()

    def answers(self) -> bool:
        """Return whether the server takes a statement."""
        try:
            self._run("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def kill(self, chance: random.Random) -> str | None:
        """Kill the server, or one of its processes; return which, or None if it is away."""
        pid = describe(self._home).pid
        if not pid:
            return None
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            backends = psutil.Process(pid).children() if chance.random() < 0.5 else []
            os.kill(chance.choice(backends).pid if backends else pid, signal.SIGKILL)
            return "killed processes of the server" if backends else "killed servers"
        return None

    def cut(self) -> bool:
        """Cut a random connection of a client; return whether there was one."""
        with suppress(psycopg.OperationalError):
            return bool(
                self._run(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE"
                    " backend_type = 'client backend' AND pid <> pg_backend_pid()"
                    " ORDER BY random() LIMIT 1"
                )
            )
        return False

    def change_jobs(self, statement: str) -> None:
        """Run one of the statements on the queue."""
        self._run(statement.format("hippocampus.", "now() - interval '1 s'"))

    def _run(self, statement: str) -> int:
        sockets = self._home / "postgres-18"
        with psycopg.connect(
            host=str(sockets), user="postgres", dbname="hippocampus", autocommit=True
        ) as connection:
            return connection.execute(statement.encode()).rowcount


class SeekdbServer:
    """The embedded SeekDB of a folder."""

    name = "seekdb"

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "s"
        self.uri = f"seekdb://{self._folder}"
        self._hold = EmbeddedSeekdb(self._folder)

    def hold(self) -> None:
        """Start or join the server, which runs until this process ends."""
        self._hold.acquire()

    def answers(self) -> bool:
        """Return whether the server takes a statement."""
        try:
            self._run("SELECT 1")
        except (pymysql.MySQLError, OSError):
            return False
        return True

    def kill(self, chance: random.Random) -> str | None:
        """Kill the server; return what was killed, or None if it is away."""
        for process in psutil.process_iter(["name", "cmdline"]):
            line = process.info["cmdline"] or []
            if process.info["name"] == "seekdb" and any(str(self._folder) in one for one in line):
                with suppress(psutil.NoSuchProcess):
                    process.kill()
                    return "killed servers"
        return None

    def cut(self) -> bool:
        """Cut a random connection of a client; return whether there was one."""
        with suppress(pymysql.MySQLError, OSError):
            found = [row[0] for row in self._run("SHOW PROCESSLIST") if row[3]]
            if found:
                self._run(f"KILL {random.choice(found)}")
            return bool(found)
        return False

    def change_jobs(self, statement: str) -> None:
        """Run one of the statements on the queue."""
        self._run(statement.format("hippocampus.", "'2020-01-01'"))

    def _run(self, statement: str) -> Any:
        directory = os.open(self._folder / "run", os.O_PATH | os.O_CLOEXEC)
        try:
            connection = pymysql.connect(
                unix_socket=f"/proc/self/fd/{directory}/sql.sock", user="root",
                connect_timeout=5, autocommit=True,
            )  # fmt: skip
        finally:
            os.close(directory)
        with connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall()


Server = PostgresServer | SeekdbServer
SERVERS: Final[dict[str, type[PostgresServer | SeekdbServer]]] = {
    "postgres": PostgresServer,
    "seekdb": SeekdbServer,
}


def fork(work: Callable[[], object], log: Path) -> int:
    """Run a function in a child of this process, whose output goes into a file; return its pid."""
    pid = os.fork()
    if pid == 0:
        _become_child(work, log)
    return pid


def _become_child(work: Callable[[], object], log: Path) -> NoReturn:
    code = 1
    try:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.dup2(file, 1)
        os.dup2(file, 2)
        work()
        code = 0
    except BaseException:  # noqa: BLE001  as an interpreter, which prints what ends it
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def run_in_child(work: Callable[[], object], log: Path) -> None:
    """Run a function in a child and wait for it. Raises RuntimeError if it fails."""
    _, status = os.waitpid(fork(work, log), 0)
    if status:
        raise RuntimeError(f"a child failed: {log.read_text()[-4000:]}")


def awaited(work: Callable[[], Coroutine[Any, Any, Any]]) -> Callable[[], None]:
    """Return a function that runs a coroutine."""
    return lambda: asyncio.run(work())


class Round:
    """Clients on one application, and the killer."""

    def __init__(self, server: Server, folder: Path, number: int, arguments: Any) -> None:
        self.app = f"round{number}"
        self._server = server
        self._folder = folder
        self._arguments = arguments
        self._random = random.Random(f"{arguments.seed} {number}")
        self._pids: dict[int, int] = {}
        self._dies_at: dict[int, float] = {}
        self._lives: Counter[int] = Counter()
        self._server_died_at = 0.0

    def ledger(self, number: int) -> Path:
        """Return the file of a client."""
        return self._folder / f"{self.app}-{number}.jsonl"

    def kill(self, kills: int, counts: Counts) -> None:
        """Kill until the number is reached, then all clients."""
        for number in range(self._arguments.clients):
            self._start(number)
        before = counts.kills
        while counts.kills - before < kills:
            number = min(self._dies_at, key=self._dies_at.__getitem__)
            time.sleep(max(0.0, self._dies_at[number] - time.monotonic()))
            if self._may_kill_server(counts):
                self._kill_server(counts)
                continue
            self._kill_client(number, counts)
            self._start(number)
            if counts.kills % self._arguments.cut_every == 0:
                counts.done["cut connections"] += self._server.cut()
        for number in list(self._pids):
            self._kill_client(number, counts)

    def _may_kill_server(self, counts: Counts) -> bool:
        killed = counts.kills - counts.done["killed clients"]
        owed = counts.kills // self._arguments.server_every > killed
        return owed and time.monotonic() - self._server_died_at > GAP_S[self._server.name]

    def _start(self, number: int) -> None:
        options = ClientOptions(
            uri=self._server.uri, app=self.app, users=USERS, number=number,
            life=self._lives[number], ledger=self.ledger(number), seed=self._arguments.seed,
        )  # fmt: skip
        self._lives[number] += 1
        self._pids[number] = fork(
            awaited(lambda: write_until_killed(options)), self._folder / "clients.log"
        )
        least, most = LIFE_S[self._server.name]
        self._dies_at[number] = time.monotonic() + self._random.uniform(least, most)

    def _kill_client(self, number: int, counts: Counts) -> None:
        pid = self._pids.pop(number)
        del self._dies_at[number]
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        if os.waitstatus_to_exitcode(status) == -signal.SIGKILL:
            counts.done["killed clients"] += 1
        else:
            counts.done["clients that ended by themselves"] += 1
            if counts.done["clients that ended by themselves"] > MOST_ENDED:
                raise RuntimeError((self._folder / "clients.log").read_text()[-4000:])

    def _kill_server(self, counts: Counts) -> None:
        killed = self._server.kill(self._random)
        self._server_died_at = begun = time.monotonic()
        if killed is None:
            return
        counts.done[killed] += 1
        while not self._server.answers() and time.monotonic() - begun < REACHABLE_S:
            time.sleep(0.02)  # the clients start it again
        counts.away_s.append(time.monotonic() - begun)
        for number, dies_at in self._dies_at.items():
            self._dies_at[number] = dies_at + time.monotonic() - begun

    def examine(self, counts: Counts, *, wait: bool) -> None:
        """Run all jobs, and compare the rows with the notes, in a child."""
        result = self._folder / f"{self.app}.json"
        run_in_child(lambda: self._examine(result, wait=wait), self._folder / "checks.log")
        found = json.loads(result.read_text())
        counts.add(found["findings"])
        counts.done.update(found["counts"])

    def _examine(self, result: Path, *, wait: bool) -> None:
        notes = Notes()
        for number in range(self._arguments.clients):
            notes.read(self.ledger(number))
        check, queue = asyncio.run(settled(self._server, self.app, notes, wait=wait))
        findings = check.run()
        findings.jobs += queue
        findings.doctor += unhealthy(self._server.uri)
        interrupted = [op for number, op in notes.ops.items() if number not in notes.acked]
        counts = {
            "writes that succeeded": len(notes.acked),
            "writes interrupted": len(interrupted) + len(notes.resent & notes.acked),
            "writes interrupted and left": len(interrupted),
            "writes interrupted and left, stored": sum(map(check.stored, interrupted)),
            "writes sent again": len(notes.resent),
            "rows compared": check.row_count,
        }
        result.write_text(json.dumps({"findings": findings.by_kind(), "counts": counts}))


async def settled(server: Server, app: str, notes: Notes, *, wait: bool) -> tuple[Check, list[str]]:
    """Run all that waits, and return a check of the rows, and what is wrong with the queue."""
    memory = open_memory(server.uri, worker=False, track_access=False)
    async with memory:
        await until_reachable(memory)
        wrong = await leases(memory)
        server.change_jobs(MAKE_DUE)
        if wait:
            await until_leases_end(memory)
        else:
            server.change_jobs(END_LEASES)
        for number in range(USERS):
            await memory.end_session(f"u{number}", app=app)
        for _ in range(QUEUE_PASSES):
            await work(memory, once=True, poll_s=0.05)
            if not (await memory.jobs.stats()).pending:
                break
            server.change_jobs(MAKE_DUE)
        for row in (await exported(memory, app))["threads"]:
            if row["consolidated_seq"] < row["last_memory_seq"]:
                user = row["tenant_id"].split("/")[2]
                await memory.consolidate(Scope(app, user), row["thread_id"])
        return Check(app, notes, await exported(memory, app)), wrong


async def exported(memory: MemoryEngine, app: str) -> Any:
    """Return all rows of an application by table."""
    async with aclosing(memory.export(app=app)) as lines:
        return rows_by_table([line async for line in lines])


async def until_reachable(memory: MemoryEngine) -> None:
    """Wait until the server has come back."""
    deadline = time.monotonic() + REACHABLE_S
    while True:
        try:
            await memory.jobs.stats()
        except StorageUnavailable:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.2)
        else:
            return


async def leases(memory: MemoryEngine) -> list[str]:
    """Return the jobs whose leases last longer than they may."""
    latest = datetime.now(UTC) + timedelta(seconds=LEASE_S + 5)
    jobs = await memory.jobs.list(limit=1000)
    return [
        f"leased until {job.lease_until}: {job}"
        for job in jobs
        if job.status == "running" and (job.lease_until is None or job.lease_until > latest)
    ]


async def until_leases_end(memory: MemoryEngine) -> None:
    """Work until no job is leased to a killed worker, at most for the length of a lease."""
    deadline = time.monotonic() + LEASE_S + 30
    while (await memory.jobs.stats()).running and time.monotonic() < deadline:
        await work(memory, once=True, poll_s=0.05)
        await asyncio.sleep(2)


def unhealthy(uri: str) -> list[str]:
    """Return what `hippocampus doctor` complains about."""
    return [f"{one.check}: {one.found}" for one in examine(uri) if one.status == "problem"]


def hold_server(server: Server, ready: int, end: int) -> None:
    """Keep the server and its schema until the other end of a pipe is closed."""

    async def hold() -> None:
        async with open_memory(server.uri, worker=False):
            os.write(ready, b"r")
            await asyncio.to_thread(os.read, end, 1)

    asyncio.run(hold())


def run(arguments: Any, folder: Path) -> Counts:
    """Run all rounds; return the figures."""
    server, counts = SERVERS[arguments.engine](folder), Counts()
    ready, was_ready = os.pipe()
    end, ends = os.pipe()

    def holding() -> None:
        os.close(ends)
        hold_server(server, was_ready, end)

    keeper = fork(holding, folder / "keeper.log")
    os.close(was_ready)
    try:
        if not os.read(ready, 1):
            raise RuntimeError((folder / "keeper.log").read_text())
        left = arguments.kills
        for number in range(1, arguments.kills + 1):
            one = Round(server, folder, number, arguments)
            one.kill(min(left, arguments.round) - min(arguments.clients, left - 1), counts)
            left = arguments.kills - counts.kills
            one.examine(counts, wait=arguments.wait_leases and left <= 0)
            say(f"{counts.kills} kills, found {json.dumps(counts.report()['found'])}")
            if left <= 0:
                break
    finally:
        os.close(ends)
        os.waitpid(keeper, 0)
    return counts


def warm_up() -> None:
    """Import and load once what every fork of this process uses."""
    for name in WARM:
        importlib.import_module(name)
    RuleExtractor()
    UseEmbedder()._queries(["a first text"])
    gc.freeze()  # so that a fork does not copy unchanged objects


def say(progress: str) -> None:
    """Print the progress of the run to stderr."""
    print(progress, file=sys.stderr, flush=True)


def main() -> None:
    """Kill, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--engine", choices=sorted(SERVERS), default="postgres")
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--round", type=int, default=100)
    parser.add_argument("--server-every", type=int)
    parser.add_argument("--cut-every", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--wait-leases", action="store_true")
    parser.add_argument("--keep", action="store_true", help="keep the folder of the run")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.server_every is None:
        arguments.server_every = 10 if arguments.engine == "postgres" else 15
    warm_up()
    begun = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="kills-"))
    folder.chmod(0o711)  # the server of root runs as another user
    try:
        counts = run(arguments, folder)
    finally:
        if not arguments.keep:
            shutil.rmtree(folder, ignore_errors=True)
    report = {
        "engine": arguments.engine,
        "date": datetime.now(UTC).date().isoformat(),
        "seconds": round(time.monotonic() - begun),
        "load": load_average(),
        **counts.report(),
    }
    for kind, found in counts.findings.items():
        for one in found[:SHOWN]:
            say(f"{kind}: {one}")
    if arguments.json:
        print(json.dumps(report))
    else:
        for name, value in report.items():
            print(f"{name}: {value}")
    sys.exit(1 if any(counts.findings.values()) else 0)


if __name__ == "__main__":
    main()
