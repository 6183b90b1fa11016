"""Threads, connections and waiting: nobody is held up by what is not done, and nothing leaks."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import Any

import pymysql
import pytest
from seekdb_databases import SeekdbDatabases
from test_oceanbase_durability import said, server_of

from shared_core import Scope, StorageUnavailable, open_memory, run_sync
from shared_core.errors import Conflict
from shared_core.settings import Settings
from shared_core.storage.oceanbase.connection import connections, database, embedded
from shared_core.storage.oceanbase.connection.database import OceanBaseDatabase, streamed
from shared_core.storage.oceanbase.connection.embedded import EmbeddedSeekdb
from shared_core.storage.oceanbase.connection.errors import UNDONE
from shared_core.storage.oceanbase.connection.transactions import Transaction

ANA = Scope("app", "ana")
TENANT = "/app/ana/"

Opened = Callable[..., Any]


@pytest.fixture
async def opened(seekdb: SeekdbDatabases) -> AsyncIterator[Opened]:
    """Opens one empty database with settings of its own, as often as asked."""
    lent = seekdb.lend()
    uri, made = next(lent), list[OceanBaseDatabase]()

    async def opened(**settings: Any) -> OceanBaseDatabase:
        made.append(OceanBaseDatabase(Settings(uri=uri, home=Path(), **settings)))
        await made[-1].open()
        return made[-1]

    yield opened
    for one in made:
        await one.close()
    next(lent, None)


async def connected(one: OceanBaseDatabase) -> int:
    """Return how many connections this database has at the server, with that of the question."""
    name = one.location.database
    found = await one.read(lambda tx: tx.rows("SHOW PROCESSLIST"))
    return sum(row[3] == name for row in found)


def numbers(tx: Transaction) -> Any:
    for number in range(100):
        yield tx.one("SELECT count(*) + %s FROM schema_migrations", [number])


@pytest.mark.both_engines
async def test_half_read_exports_hold_nobody_up(dsn: str) -> None:
    async with open_memory(dsn, worker=False, pool_size=2) as memory:
        await memory.append_events(ANA, "t", [said(n, f"Turn {n}.") for n in range(9)])
        async with AsyncExitStack() as half_read:
            exports = [
                await half_read.enter_async_context(aclosing(memory.export(ANA))) for _ in range(6)
            ]
            for export in exports:
                for _ in range(3):
                    await anext(export)
            await memory.append_events(ANA, "t", [said(9, "I like late tea.")])
            assert (await memory.recall(ANA, "late tea"))[0].memory.text == "I like late tea."
            rest = [line async for line in exports[0]]
            assert rest and not any("late tea" in line for line in rest)


async def test_what_is_left_behind_is_freed(opened: Opened) -> None:
    one = await opened(pool_size=2)
    before, threads = await connected(one), threading.active_count()
    half_read = [streamed(one, "it", numbers) for _ in range(5)]
    for parts in half_read:
        assert await anext(parts)
    assert await connected(one) == before + 5
    await half_read.pop().aclose()
    half_read.clear()
    for _ in range(100):
        if await connected(one) == before:
            break
        await asyncio.sleep(0.05)
    assert await connected(one) == before
    assert threading.active_count() <= threads + 2


async def test_a_reader_that_is_cancelled_leaves_nothing(opened: Opened) -> None:
    one = await opened(pool_size=2)
    before, begun = await connected(one), threading.Event()

    def slow(tx: Transaction) -> Any:
        yield 1
        begun.set()
        yield tx.one("SELECT SLEEP(0.5)")

    async def read() -> None:
        async with aclosing(streamed(one, "it", slow)) as parts:
            async for _ in parts:
                pass

    reading = asyncio.create_task(read())
    await asyncio.to_thread(begun.wait, 30)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    for _ in range(100):
        if await connected(one) == before:
            break
        await asyncio.sleep(0.05)
    assert await connected(one) == before


async def test_a_moment_that_is_lost_is_told_with_the_way_out(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = await opened()
    monkeypatch.setattr(database, "SNAPSHOT_S", 1.0)
    parts = streamed(one, "the export of 'app/ana'", numbers)
    await anext(parts)
    await asyncio.sleep(1.5)
    with pytest.raises(StorageUnavailable, match=r"export of 'app/ana' broke off.*Begin it again"):
        async for _ in parts:
            pass


async def test_more_snapshots_than_can_be_held_are_refused(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = await opened()
    monkeypatch.setattr(database, "SNAPSHOTS", 2)
    half_read = [streamed(one, name, numbers) for name in "ab"]
    for parts in half_read:
        await anext(parts)
    with pytest.raises(StorageUnavailable, match="c has to wait: 2 others are read halfway"):
        await anext(streamed(one, "c", numbers))
    await half_read[0].aclose()
    await anext(streamed(one, "c", numbers))


async def test_a_closed_database_ends_what_is_half_read(opened: Opened) -> None:
    one = await opened()
    parts = streamed(one, "it", numbers)
    await anext(parts)
    await one.close()
    with pytest.raises(StorageUnavailable, match="closed"):
        await anext(parts)


async def test_who_waits_for_a_thread_does_not_wait_for_ever(opened: Opened) -> None:
    one = await opened(pool_size=1, connect_timeout_s=0.3)
    held, done = threading.Event(), threading.Event()

    def hold(tx: Transaction) -> bool:
        held.set()
        return done.wait(30)

    holding = asyncio.create_task(one.read(hold))
    await asyncio.to_thread(held.wait, 30)
    with pytest.raises(StorageUnavailable, match="all 1 connections were busy for 0.3 s"):
        await one.read(lambda tx: 1)
    done.set()
    assert await holding
    assert await one.read(lambda tx: 1) == 1


@pytest.fixture
def short_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    init = connections.INIT.replace("ob_trx_lock_timeout=5000000", "ob_trx_lock_timeout=200000")
    assert init != connections.INIT
    monkeypatch.setattr(connections, "INIT", init)


async def locked(database: OceanBaseDatabase) -> tuple[asyncio.Task[None], threading.Event]:
    """Return a write that holds the lock of the tenant, until the event is set."""
    held, done = threading.Event(), threading.Event()

    def hold(tx: Transaction) -> None:
        tx.lock(TENANT)
        held.set()
        done.wait(60)

    holding = asyncio.create_task(database.write(hold))
    assert await asyncio.to_thread(held.wait, 30)
    return holding, done


@pytest.mark.usefixtures("short_locks")
async def test_who_waits_for_a_writer_waits_as_long_as_a_statement_may(opened: Opened) -> None:
    """Longer than a few tries for the lock take."""
    one = await opened()
    holding, done = await locked(one)
    tries = []

    def work(tx: Transaction) -> int:
        tries.append(1)
        if len(tries) == 10:
            done.set()
        tx.lock(TENANT)
        return 5

    assert await one.write(work) == 5
    await holding
    assert len(tries) >= 10


@pytest.mark.usefixtures("short_locks")
async def test_who_waits_too_long_is_told_for_whom(opened: Opened) -> None:
    one, other = await opened(), await opened(statement_timeout_s=1)
    holding, done = await locked(one)
    with pytest.raises(StorageUnavailable, match=r"other writers of 'app/ana'.*1 s.*try again"):
        await other.write(lambda tx: tx.lock(TENANT))
    done.set()
    await holding
    await other.write(lambda tx: tx.lock(TENANT))


async def test_a_statement_that_takes_too_long_is_not_sent_again(opened: Opened) -> None:
    one = await opened(statement_timeout_s=1)
    tries = []

    def work(tx: Transaction) -> None:
        tries.append(1)
        tx.one("SELECT SLEEP(5)")

    with pytest.raises(StorageUnavailable, match="a statement took longer than 1 s"):
        await one.read(work)
    assert len(tries) == 1


@pytest.mark.parametrize("code", [1213, 4038, 6002, 6224, 6225, 6235])
async def test_what_the_server_gave_up_is_done_again(opened: Opened, code: int) -> None:
    one = await opened(statement_timeout_s=4)
    needed, tries = 8 if code in UNDONE else 3, []

    def work(tx: Transaction) -> int:
        tries.append(1)
        if len(tries) < needed:
            raise pymysql.OperationalError(code, "rolled back")
        return len(tries)

    assert await one.write(work) == needed

    def never(tx: Transaction) -> None:
        raise pymysql.OperationalError(code, "rolled back")

    with pytest.raises(StorageUnavailable, match=rf"[Tt]ry again.*\({code}\)"):
        await one.write(never)


async def test_a_key_that_is_there_is_a_conflict(opened: Opened) -> None:
    one = await opened()
    with pytest.raises(Conflict, match="another writer stored this key first"):
        await one.write(lambda tx: tx.insert("tenants", ["tenant_id"], [["/a/"], ["/a/"]]))


async def test_who_did_not_join_the_server_does_not_stop_it(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = await opened()
    folder = one.location.folder
    assert folder is not None
    users = embedded._opened[folder].users

    def fails(self: EmbeddedSeekdb) -> None:
        raise StorageUnavailable("it does not start")

    with monkeypatch.context() as patched:
        patched.setattr(EmbeddedSeekdb, "_join", fails)
        with pytest.raises(StorageUnavailable, match="does not start"):
            await opened()
    assert embedded._opened[folder].users == users
    assert await one.read(lambda tx: tx.one("SELECT 1")) == (1,)


def test_a_forked_child_joins_by_itself(seekdb: SeekdbDatabases) -> None:
    lent = seekdb.lend()
    one = OceanBaseDatabase(Settings(uri=next(lent), home=Path()))
    run_sync(one.open())
    run_sync(one.read(lambda tx: 1))
    child = os.fork()
    if child == 0:
        failed = 1
        try:
            asyncio.run(one.write(lambda tx: tx.insert("tenants", ["tenant_id"], [["/child/"]])))
            asyncio.run(one.close())
            failed = 0
        finally:
            os._exit(failed)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    found = run_sync(one.read(lambda tx: tx.rows("SELECT tenant_id FROM tenants")))
    assert found == [("/child/",)]
    run_sync(one.close())
    next(lent, None)


def until_stopped(server: int) -> None:
    """Wait until no thread runs: one may still answer for a moment after the signal."""
    for status in Path(f"/proc/{server}/task").glob("*/stat"):
        while status.read_text().rpartition(")")[2].split()[0] != "T":
            time.sleep(0.01)


@pytest.mark.timeout(120)
async def test_a_server_that_hangs_holds_nobody_for_ever(tmp_path: Path) -> None:
    uri = f"seekdb://{tmp_path / 'seekdb'}"
    one = OceanBaseDatabase(Settings(uri=uri, home=Path(), statement_timeout_s=0.5))
    await one.open()
    assert await one.read(lambda tx: tx.one("SELECT 1")) == (1,)
    server = server_of(tmp_path / "seekdb")
    os.kill(server, signal.SIGSTOP)
    try:
        until_stopped(server)
        began = time.monotonic()
        with pytest.raises(StorageUnavailable, match="does not answer"):
            await one.read(lambda tx: tx.one("SELECT 2"))
        assert time.monotonic() - began < 60
    finally:
        os.kill(server, signal.SIGCONT)
    assert await one.read(lambda tx: tx.one("SELECT 3")) == (3,)
    await one.close()
