"""SeekDB servers and the processes that use them: how they start and end, and kill -9 of either in
the middle of writes, runs, erasures, imports and copies. Nothing is lost or half-written."""

import asyncio
import contextlib
import os
import random
import shutil
import signal
import stat
import subprocess
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import psutil
import pylibseekdb
import pymysql
import pytest
from long_forms import LONG
from turns import said
from warm_python import warm_python

from shared_core import MemoryEngine, Scope, StorageUnavailable, open_memory
from shared_core.cli.work import work
from shared_core.copy import copy_memory
from shared_core.errors import Conflict
from shared_core.settings import Settings
from shared_core.storage._server_account import find_account, give_to
from shared_core.storage.oceanbase.connection import embedded, embedded_server
from shared_core.storage.oceanbase.connection.database import OceanBaseDatabase
from shared_core.storage.oceanbase.connection.transactions import Transaction
from shared_core.storage.oceanbase.storage import OceanBaseStorage
from tests.integration.http_processes import command as hippocampus
from tests.integration.test_exit import REFLECTING, SUBMITTED, run

ANA, BOB = Scope("app", "ana"), Scope("twin", "bob")

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="root's server is another user's")


def server_of(folder: Path) -> int:
    """Return the pid of the server that has a folder."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if Path(os.fsdecode(words[0])).name == "seekdb" and any(
                os.fsencode(folder) in word for word in words
            ):
                return int(entry.name)
    raise AssertionError("no server runs there")


# Start and end

STAND_IN = """#!/bin/sh
echo "$TELEMETRY_ENABLED $(umask) $(ps -o sid= -p $$)" > "${1#--base-dir=}/log/found"
"""
"""A program in place of SeekDB, which hides its environment from others."""
READ_AND_LEFT = """
import asyncio, sys
from shared_core import Scope, open_memory

memory = open_memory(sys.argv[1], embedder=lambda texts: [[1.0, 2.0]] * len(texts))

async def main():
    await memory.remember(Scope("app", "ann"), "I sail on Sundays.")
    assert await memory.recall(Scope("app", "ann"), "When do I sail?")

asyncio.run(main())
"""


def open_to_others(folder: Path) -> list[Path]:
    """Return what another OS user may read, write or pass through, the folder included."""
    modes: dict[Path, int] = {}
    for path in (folder, *folder.rglob("*")):
        with contextlib.suppress(FileNotFoundError):  # the running server deletes files meanwhile
            modes[path] = path.lstat().st_mode
    return [path for path, mode in modes.items() if not stat.S_ISLNK(mode) and mode & 0o077]


def test_the_server_starts_apart_and_a_folder_with_files_of_somebody_else_stays_open(tmp_path):
    program, folder = tmp_path / "program", tmp_path / "seekdb"
    program.write_text(STAND_IN)
    program.chmod(0o755)
    account = embedded_server.make_private(folder)
    starting = embedded_server.running(folder, program, account)
    with pytest.raises(ChildProcessError, match="ended while it started"), starting:
        pass
    telemetry, umask, session = (folder / "log" / "found").read_text().split()
    assert (telemetry, umask) == ("false", "0077")
    assert int(session) != os.getsid(0)
    shared = tmp_path / "shared"
    for name in ("store", "photos"):
        (shared / name).mkdir(parents=True)
        (shared / name).chmod(0o755)
    if account := find_account(tmp_path):
        give_to(account, shared / "store")
    shared.chmod(0o755)
    embedded_server.make_private(shared)
    assert open_to_others(shared) == [shared, shared / "photos"]


@needs_root
def test_root_takes_nothing_that_is_not_seekdbs(tmp_path):
    secret, folder = tmp_path / "secret", tmp_path / "seekdb"
    secret.mkdir(mode=0o700)
    (secret / "key").touch(mode=0o600)
    folder.mkdir(mode=0o711)
    (folder / "store").symlink_to(secret)
    with pytest.raises(StorageUnavailable, match="store belongs to root: .* chown -R pgserver"):
        embedded_server.make_private(folder)
    (folder / "store").unlink()
    (folder / "log").mkdir()
    with pytest.raises(StorageUnavailable, match="log belongs to root"):
        embedded_server.make_private(folder)
    (folder / "log").rmdir()
    account = embedded_server.make_private(folder)
    (folder / "run" / "seekdb.clients").symlink_to(secret / "key")
    with pytest.raises(OSError), embedded_server.running(folder, tmp_path / "none", account):
        pass
    assert {secret.owner(), (secret / "key").owner()} == {"root"}


@needs_root
@pytest.mark.parametrize(("owner", "mode", "why"), [(65534, 0o755, "nobody"), (0, 0o777, "go-w")])
def test_root_uses_no_folder_that_another_user_may_write_to(tmp_path, owner, mode, why):
    folder = tmp_path / "seekdb"
    folder.mkdir()
    folder.chmod(mode)
    os.chown(folder, owner, owner)
    with pytest.raises(StorageUnavailable, match=why):
        embedded_server.make_private(folder)
    assert list(folder.iterdir()) == []


async def test_a_full_disk_is_told_and_leaves_no_folder_that_looks_whole(tmp_path, monkeypatch):
    folder, usage = tmp_path / "seekdb", shutil.disk_usage(tmp_path)._replace(free=5 * 1024**2)
    monkeypatch.setattr(embedded.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(StorageUnavailable, match=r"is full: 5 MB are free.* make room"):
        await open_memory(f"seekdb://{folder}").open()
    assert not folder.exists()
    embedded_server.make_private(folder)
    assert not embedded.is_initialised(folder)


@pytest.mark.tail
@pytest.mark.timeout(240)
async def test_a_process_that_ends_without_closing_loses_nothing(seekdb_dsn):
    """Its reads are counted, and the job in work goes back to the queue; in silence."""
    assert "" == run(READ_AND_LEFT + REFLECTING + SUBMITTED, seekdb_dsn)
    asked = ("SELECT access_count FROM memory_access WHERE access_count > 0",
             "SELECT status, lease_until FROM consolidation_jobs")  # fmt: skip
    async with open_memory(seekdb_dsn, worker=False) as memory:
        storage: Any = memory._storage
        counts, jobs = await storage._database.read(lambda tx: [*map(tx.rows, asked)])
    assert (counts, jobs) == ([(1,)], [("pending", None)])


async def test_every_table_is_found_at_once_and_tells_bytes_apart(seekdb_dsn):
    async with open_memory(seekdb_dsn, worker=False) as memory:
        await memory.remember(ANA, "I like tea.")
        database, shown = memory._storage._database, "SHOW CREATE TABLE `{}`"
        tables = await database.read(
            lambda tx: [tx.rows(shown.format(name))[0][1] for (name,) in tx.rows("SHOW TABLES")]
        )
    vectors = [table for table in tables if "CREATE TABLE `embeddings_" in table]
    assert vectors and all("hnsw_sq" in table.lower() for table in vectors)
    for table in tables:
        assert "ORGANIZATION INDEX" in table.upper().replace("=", "").replace("  ", " "), table
        assert "tenant_id` varchar" not in table.lower(), table


@pytest.mark.parametrize(
    ("told", "is_advised"),
    [("No memory for vector index", True), ("Table is being changed", False)],
)
async def test_a_cluster_without_memory_for_vectors_is_advised(
    seekdb_dsn, monkeypatch, told, is_advised
):
    def never() -> Any:
        raise AssertionError("the clock is not asked")

    async def define(self: OceanBaseDatabase, *statements: str) -> None:
        error = pymysql.OperationalError(4013, told)
        raise StorageUnavailable("'seekdb:///my/memory' cannot be used") from error

    storage = OceanBaseStorage(Settings(uri=seekdb_dsn, home=Path("/memory")), never)
    await storage.open()
    with monkeypatch.context() as patched:
        patched.setattr(OceanBaseDatabase, "define", define)
        with pytest.raises(StorageUnavailable) as refused:
            await storage.use_model("new", 17)
    assert ("ob_vector_memory_limit_percentage" in str(refused.value)) == is_advised
    await storage.close()


# A process that is killed while it works

TURNS = ["I live in Leeds.", "I love green tea.", "My sister is called Ida.", "I work at Acme."]


async def told(memory: MemoryEngine, scope: Scope, *, tag: str = "e", later: bool = False) -> None:
    """Append the turns, under ids that begin with the tag: those of an erased user stay away."""
    turns = [said(f"{tag}{number}", text) for number, text in enumerate(TURNS)]
    await memory.append_events(scope, "t", turns, later=later, delay_s=0)


async def statements(memory: MemoryEngine, scope: Scope) -> list[str]:
    return sorted(fact.statement for fact in await memory.facts(scope, history=True))


async def let_go(memory: MemoryEngine) -> None:
    """End the leases of jobs, as if the time were over."""
    over = "UPDATE consolidation_jobs SET lease_until = '2020-01-01' WHERE status = 'running'"
    await memory._storage._database.write(lambda tx: tx.run(over))  # type: ignore[attr-defined]


POINTS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9) if LONG else (0.4, 0.8)
"""Of all that is sent to the server: after which part the process dies."""
KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
import pymysql
from shared_core import Scope, open_memory
from shared_core.copy import copy_memory
from shared_core.cli.work import work

verb, last, *uris = sys.argv[1:]
sent, send = [], pymysql.Connection._execute_command

def sending(connection, *command):
    sent.append(1)
    send(connection, *command)
    if len(sent) >= int(last):  # its answer is on the way
        os.kill(os.getpid(), signal.SIGKILL)

async def main():
    ana = Scope("app", "ana")
    async with open_memory(uris[0], worker=False, track_access=False) as memory:
        await memory.list_memories(ana, limit=1)
        if verb != "copy":
            pymysql.Connection._execute_command = sending
        if verb == "work":
            await work(memory, once=True, poll_s=0.05)
        elif verb == "erase":
            await memory.erase(ana)
        elif verb == "import":
            await memory.import_lines(Path(uris[1]))
        else:
            async with open_memory(uris[1], worker=False) as target:
                await target.list_memories(ana, limit=1)
                pymysql.Connection._execute_command = sending
                await copy_memory(memory, target, apps=["app"])

asyncio.run(main())
"""


async def killed(verb: str, sent: int, *places: object) -> None:
    """Run a verb in its own process, which kills itself after a number of commands."""
    command = [*warm_python(), "-c", KILLED, verb, str(max(1, sent)), *map(str, places)]
    done = await asyncio.to_thread(subprocess.run, command, timeout=120, capture_output=True)
    signalled = (-signal.SIGKILL, 128 + signal.SIGKILL)
    assert done.returncode in signalled, done.stderr.decode()


async def commands_of(call: Callable[[], Awaitable[object]]) -> int:
    """Return how many commands a call sends to the server."""
    sent, send = list[int](), pymysql.Connection._execute_command  # type: ignore[attr-defined]

    def sending(connection: Any, *command: Any) -> None:
        sent.append(1)
        send(connection, *command)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pymysql.Connection, "_execute_command", sending)
        await call()
    return len(sent)


async def lines(memory: MemoryEngine) -> list[str]:
    async with aclosing(memory.export(app="app", vectors=True)) as exported:
        return sorted([line async for line in exported][1:-1])


@pytest.mark.tail
@pytest.mark.timeout(300)
async def test_a_killed_run_is_written_once_and_a_killed_erasure_is_whole_or_not_at_all(seekdb_dsn):
    async with open_memory(seekdb_dsn, worker=False, track_access=False) as memory:
        for tag in "ab":  # the first makes what later ones find: rows to lock
            await told(memory, BOB, tag=tag, later=True)
            of_work = await commands_of(lambda: work(memory, once=True, poll_s=0.05))
            expected = await statements(memory, BOB)
            assert len(expected) == 4
            of_erasure = await commands_of(lambda: memory.erase(BOB))
        for number, point in enumerate(POINTS):
            await memory.erase(ANA)
            await told(memory, ANA, tag=f"{number}/", later=True)
            await killed("work", int(of_work * point), seekdb_dsn)
            assert await statements(memory, ANA) in ([], expected), point
            await let_go(memory)
            assert await work(memory, once=True, poll_s=0.05) == 0
            assert await statements(memory, ANA) == expected, point
            assert len(await memory.runs(ANA)) == 1
            assert not (await memory.consolidate(ANA, "t")).events
            before, receipts = await lines(memory), len(await memory.erasures(scope=ANA))
            await killed("erase", int(of_erasure * point), seekdb_dsn)
            held = await memory.list_memories(ANA, limit=100)
            is_erased = not held and len(await memory.erasures(scope=ANA)) > receipts
            assert is_erased or await lines(memory) == before, point
            await memory.erase(ANA)
            assert not await memory.list_memories(ANA, limit=100)
            assert not await memory.facts(ANA)


@pytest.mark.tail
@pytest.mark.timeout(300)
async def test_a_killed_import_and_a_killed_copy_are_completed(seekdb, tmp_path):
    lent_source, lent_first = seekdb.lend(), seekdb.lend()
    source_uri, first = next(lent_source), next(lent_first)
    file = tmp_path / "lines.jsonl"
    async with open_memory(source_uri, worker=False, track_access=False) as source:
        await told(source, ANA)
        await source.consolidate(ANA, "t")
        await source.remember(ANA, [f"Ana has note {number}." for number in range(40)])
        async with aclosing(source.export(app="app", vectors=True)) as exported:
            file.write_text("".join([line + "\n" async for line in exported]), "utf-8")
        expected = await lines(source)
        async with open_memory(first, worker=False) as target:
            await target.open()
            commands = await commands_of(lambda: copy_memory(source, target, apps=["app"]))
        next(lent_first, None)
        points = (0.2, 0.4) if LONG else (0.3,)
        for verb, point in [(verb, point) for verb in ("import", "copy") for point in points]:
            lent = seekdb.lend()
            uri = next(lent)
            places = (uri, file) if verb == "import" else (source_uri, uri)
            await killed(verb, int(commands * point), *places)
            async with open_memory(uri, worker=False, track_access=False) as target:
                assert set(await lines(target)) < set(expected), (verb, point)
                if verb == "import":
                    await target.import_lines(file)
                else:
                    assert (await copy_memory(source, target, apps=["app"])).complete
                assert await lines(target) == expected, (verb, point)
            next(lent, None)
    next(lent_source, None)


@pytest.mark.tail
@pytest.mark.timeout(300)
async def test_readers_see_a_fact_or_its_successor_and_never_both_or_none(seekdb_dsn):
    async with open_memory(seekdb_dsn, worker=False, track_access=False) as memory:
        await memory.append_events(ANA, "t0", [said(0, "I live in Oslo.")])
        await memory.consolidate(ANA, "t0")
        states, done = set[tuple[str, ...]](), asyncio.Event()

        async def read() -> None:
            while not done.is_set():
                facts = await memory.facts(ANA)
                states.add(tuple(sorted(f.value for f in facts if f.slot == "residence")))

        readers = [asyncio.create_task(read()) for _ in range(2)]
        for number, city in enumerate(["Bergen", "Rome", "Lima", "Kyoto"], start=1):
            await memory.append_events(ANA, f"t{number}", [said(number, f"I moved to {city}.")])
            await memory.consolidate(ANA, f"t{number}")
        while len(states) < 2:  # noqa: ASYNC110 # the readers see the last one, too
            await asyncio.sleep(0.01)
        done.set()
        await asyncio.gather(*readers)
        assert {len(state) for state in states} == {1}, states


# The life of a server: one for all that needs one of its own

USER = """
import sys, time
from pathlib import Path
from shared_core.storage.oceanbase.connection.embedded import EmbeddedSeekdb

EmbeddedSeekdb(Path(sys.argv[1])).acquire()
print("joined", flush=True)
time.sleep(600)
"""


async def settings_are_ours(memory: MemoryEngine) -> None:
    storage: Any = memory._storage
    asked = ("SHOW PARAMETERS LIKE 'syslog_level'", "SHOW PARAMETERS LIKE '_private_buffer_size'",
             "SELECT @@session.time_zone, @@session.sql_mode")  # fmt: skip
    level, buffer, session = await storage._database.read(lambda tx: [*map(tx.rows, asked)])
    assert "ERROR" in level[0] and "0B" in buffer[0]
    assert session == [("+00:00", "STRICT_ALL_TABLES")]
    assert any((storage._database.location.folder / "store" / "redo").rglob("*"))


async def until_reachable(memory: MemoryEngine) -> None:
    while True:
        try:
            await memory.list_memories(ANA, limit=1)
        except StorageUnavailable:
            await asyncio.sleep(0.1)
        else:
            return


async def event_ids(memory: MemoryEngine, user: Scope) -> set[str]:
    """Return the ids of the turns that a user's memories come from."""
    found = await memory.list_memories(user, limit=1000)
    return {event_id for one in found for event_id in one.source_event_ids}


class Working:
    """Users of a memory who write and consolidate until the server dies under them."""

    def __init__(self, memory: MemoryEngine, app: str) -> None:
        self.memory = memory
        self.users = [Scope(app, f"user {number}") for number in range(6)]
        self.acknowledged, self.reported = list[str](), set[Scope]()
        self.enough = threading.Event()

    async def write(self) -> None:
        for number in count(1):
            event = said(number, f"Turn number {number}.")
            try:
                await self.memory.append_events(ANA, "t1", [event])
            except StorageUnavailable:
                return
            self.acknowledged.append(event.event_id)
            self._look()

    async def consolidate(self, user: Scope) -> None:
        try:
            if (await self.memory.consolidate(user, "t")).events:
                self.reported.add(user)
        except (StorageUnavailable, Conflict):
            return
        self._look()

    def _look(self) -> None:
        if len(self.acknowledged) >= 20 and len(self.reported) >= 2:
            self.enough.set()

    async def until_killed(self, uri: str, folder: Path) -> None:
        """Work until 20 turns and two runs are told of, kill the server, and end."""
        writing = asyncio.create_task(self.write())
        runs = [asyncio.create_task(self.consolidate(user)) for user in self.users]
        await dying(uri, folder, self.enough)
        writing.cancel()  # it may start the server anew, and would go on
        await asyncio.wait([writing, *runs])

    async def lost_nothing(self) -> None:
        assert set(self.acknowledged) <= await event_ids(self.memory, ANA)
        for user in self.users:
            found = await statements(self.memory, user)
            assert len(found) in ((4,) if user in self.reported else (0, 4)), (user, found)
        await let_go(self.memory)
        for user in self.users:
            await self.memory.consolidate(user, "t")
            assert len(await statements(self.memory, user)) == 4
            assert len(await self.memory.runs(user)) == 1


class Cancelled:
    """Twenty tasks of a memory that write, read and consolidate, and are cancelled at random."""

    def __init__(self, memory: MemoryEngine) -> None:
        self.memory, self.chance = memory, random.Random(0)
        self.users = [Scope("many", f"user {number}") for number in range(4)]
        self.acknowledged = set[tuple[Scope, str]]()
        self.numbers, self.calls, self.over = count(100), count(), False

    async def append(self, user: Scope) -> None:
        event = said(number := next(self.numbers), f"Note number {number}.")
        await self.memory.append_events(user, f"t{number % 3}", [event])
        self.acknowledged.add((user, event.event_id))

    async def export(self, user: Scope) -> None:
        async with aclosing(self.memory.export(user)) as exported:
            for _ in range(self.chance.randrange(9)):
                await anext(exported, None)

    async def consolidate(self, user: Scope) -> None:
        await self.memory.consolidate(user, "t1")

    async def recall(self, user: Scope) -> None:
        await self.memory.recall(user, "note", limit=3)

    async def go_on(self) -> None:
        verbs = [self.append, self.append, self.append, self.export, self.consolidate, self.recall]
        while not self.over:
            call = self.chance.choice(verbs)(self.chance.choice(self.users))
            limit_s = self.chance.choice([None, self.chance.uniform(0.001, 0.05)])
            with suppress(TimeoutError, StorageUnavailable, Conflict):
                await asyncio.wait_for(call, limit_s)
            next(self.calls)

    async def written(self, more: int) -> None:
        goal = len(self.acknowledged) + more
        while len(self.acknowledged) < goal:  # noqa: ASYNC110 # the tasks count on
            await asyncio.sleep(0.02)

    async def beside(self, kill: Callable[[], Awaitable[None]]) -> None:
        """Go on before and after a call that kills the server; lose and leak nothing."""
        await asyncio.gather(*(told(self.memory, user) for user in self.users))
        tasks = [asyncio.create_task(self.go_on()) for _ in range(20)]
        await self.written(20)
        await kill()
        await self.written(20)
        self.over = True
        done, pending = await asyncio.wait(tasks, timeout=200)
        assert not pending and next(self.calls) > 40
        assert [task.exception() for task in done] == [None] * len(tasks)
        await until_reachable(self.memory)
        held = {(user, one) for user in self.users for one in await event_ids(self.memory, user)}
        assert self.acknowledged <= held


async def dying(uri: str, folder: Path, enough: threading.Event) -> None:
    """Kill the server after an event, in a transaction that has written and is not committed."""
    database = OceanBaseDatabase(Settings(uri=uri, home=folder))
    await database.open()
    server = server_of(folder)

    def work(tx: Transaction) -> None:
        tx.lock("/app/carl/")
        row = ("/app/carl/", "x" * 1_000_000, datetime.now(UTC))
        tx.insert("shared_state", ("tenant_id", "state", "updated_at"), [row])
        assert enough.wait(60)
        os.kill(server, signal.SIGKILL)
        raise LookupError

    with pytest.raises(LookupError):
        await database.write(work)
    await database.close()


async def nothing_is_lost_when_it_dies(uri: str, folder: Path, number: int) -> None:
    """Kill a server below runs, cancelled calls, idle connections and an open transaction.

    A call is never sent twice. SeekDB would keep the lock of an uncommitted transaction for good,
    once a part of it is in its log.
    """
    options: dict[str, Any] = {"worker": False, "track_access": False}
    async with (
        open_memory(uri, **options) as memory,
        open_memory(uri, **options) as idle,
        open_memory(uri, **options, pool_size=4) as small,
    ):
        working, cancelled = Working(memory, f"runs {number}"), Cancelled(small)
        for user in working.users:
            await told(memory, user)
        await asyncio.gather(*(idle.list_memories(ANA) for _ in range(10)))
        await cancelled.beside(lambda: working.until_killed(uri, folder))
        # Ten of its connections are lost.
        [hit, *_] = await idle.recall(ANA, "I like tea.", limit=3)
        assert hit.memory.text == "I like tea."
        await working.lost_nothing()
        free = OceanBaseDatabase(Settings(uri=uri, home=folder, statement_timeout_s=20))
        await free.open()
        await free.write(lambda tx: tx.lock("/app/carl/"))
        assert await free.read(lambda tx: tx.rows("SELECT 1 FROM shared_state")) == []
        await free.close()
        database: Any = small._storage._database  # type: ignore[attr-defined]
        own = [*database._threads._pool._threads]
        assert len(own) <= 4
    assert not any(one.is_alive() for one in own)


def until_stopped(server: int) -> None:
    """Wait until no thread runs: one may still answer for a moment after the signal."""
    for status in Path(f"/proc/{server}/task").glob("*/stat"):
        while status.read_text().rpartition(")")[2].split()[0] != "T":
            time.sleep(0.01)


async def nobody_is_held_while_it_hangs(uri: str, server: int) -> None:
    one = OceanBaseDatabase(Settings(uri=uri, home=Path(), statement_timeout_s=0.5))
    await one.open()
    assert await one.read(lambda tx: tx.one("SELECT 1")) == (1,)
    os.kill(server, signal.SIGSTOP)
    try:
        until_stopped(server)
        with pytest.raises(StorageUnavailable, match="does not answer"):
            await one.read(lambda tx: tx.one("SELECT 2"))
    finally:
        os.kill(server, signal.SIGCONT)
    assert await one.read(lambda tx: tx.one("SELECT 3")) == (3,)
    await one.close()


@pytest.mark.tail
@pytest.mark.timeout(400)
async def test_a_server_from_its_first_users_to_its_last(tmp_path, monkeypatch):
    """Two start it at once; it is killed and starts again, root's as another user; it hangs; it is
    killed in the middle of much; it ends with its last user."""
    folder = tmp_path / "seekdb"
    folder.mkdir(mode=0o755)
    uri, texts = f"seekdb://{folder}", ["I like tea.", "我喜欢喝茶。"]
    beside = subprocess.Popen(
        [*hippocampus(), "remember", "app", "ana", texts[1], "--uri", uri],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    async with open_memory(uri, worker=False) as memory:
        await memory.remember(ANA, texts[0])
        printed, _ = await asyncio.to_thread(beside.communicate, timeout=240)
        assert beside.returncode == 0, printed.decode()
        assert set(open_to_others(folder)) <= {folder}  # root's server passes through it
        assert stat.S_IMODE(folder.stat().st_mode) == (0o711 if os.geteuid() == 0 else 0o700)
        installed, closed = Path(pylibseekdb.__file__).parent, tmp_path / "closed"
        if os.geteuid() == 0:
            closed.mkdir(mode=0o700)
            for name in (installed.name, f"{installed.name}.libs"):
                shutil.copytree(installed.parent / name, closed / name)
            there = str(closed / installed.name / "__init__.py")
            monkeypatch.setattr(pylibseekdb, "__file__", there)
        await settings_are_ours(memory)
        await asyncio.gather(*(memory.list_memories(ANA) for _ in range(10)))
        server = psutil.Process(server_of(folder))
        server.kill()
        await asyncio.to_thread(server.wait, 120)
        assert {*texts} == {one.text for one in await memory.list_memories(ANA)}  # it starts again
        await nobody_is_held_while_it_hangs(uri, server_of(folder))
        for number in range(4 if LONG else 1):
            await nothing_is_lost_when_it_dies(uri, folder, number)
        server = psutil.Process(server_of(folder))
        if os.geteuid() == 0:
            assert server.username() == "pgserver"
            assert Path(server.exe()).is_relative_to(folder)
            assert {path.owner() for path in (folder / "store").rglob("*")} == {"pgserver"}
        user = subprocess.Popen([*warm_python(), "-c", USER, str(folder)], stdout=subprocess.PIPE)
        assert user.stdout and user.stdout.readline() == b"joined\n"
    assert server.is_running()
    user.kill()
    user.communicate()
    await asyncio.to_thread(server.wait, 120)
