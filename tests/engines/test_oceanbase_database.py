"""Transactions on SeekDB: all or nothing, in line, held up by nobody, with connections that do not
leak, and texts and moments as they were given."""

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pymysql
import pytest
from every_case import every_case
from turns import said

from shared_core import InvalidInput, StorageUnavailable, run_sync
from shared_core.core.domain import MemoryId
from shared_core.core.namespaces import memories_namespace
from shared_core.errors import Conflict
from shared_core.ports.events import MemoryQuery
from shared_core.ports.items import MemoryRow
from shared_core.settings import Settings
from shared_core.storage.oceanbase.connection import attempts, connections, database, embedded
from shared_core.storage.oceanbase.connection.connections import location_of
from shared_core.storage.oceanbase.connection.database import OceanBaseDatabase, streamed
from shared_core.storage.oceanbase.connection.embedded import EmbeddedSeekdb
from shared_core.storage.oceanbase.connection.errors import UNDONE
from shared_core.storage.oceanbase.connection.migrate import checked_version
from shared_core.storage.oceanbase.connection.transactions import Transaction

COLUMNS = ("tenant_id", "state", "updated_at")
NOW = datetime(2026, 3, 1, 12, 30, 15, 123456, tzinfo=UTC)
TOO_LONG = "too long: it takes at most 1,500 bytes"


@pytest.fixture
def db(both):
    """The open database of the other tests: take `place` for names of your own."""
    return both.seekdb._database


@pytest.fixture
def place(both):
    """The tenant of this test."""
    return both.tenant


@pytest.fixture
async def opened(seekdb):
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


async def states(db: OceanBaseDatabase, *tenants: str) -> dict[str, str]:
    """Return the states of some tenants."""
    rows = "SELECT tenant_id, state FROM shared_state WHERE tenant_id IN %s"
    return dict(await db.read(lambda tx: tx.rows(rows, [list(tenants)])))


def put(state: str, *tenants: str, **more: Any) -> Callable[[Transaction], None]:
    """Return work that writes a state of some tenants."""
    return lambda tx: tx.insert("shared_state", COLUMNS, [(t, state, NOW) for t in tenants], **more)


# Values


async def test_texts_moments_and_ids_come_back_as_given_and_a_thread_belongs_to_a_user(db, place):
    texts = ["it's", "\\", "\0", "中😀", "%s", "a ", "", "'; DROP TABLE x; --"]
    years = [datetime(year, 12, 31, 23, 59, 59, 999999, tzinfo=UTC) for year in (1, 9999)]
    for moment in (NOW, *years):
        rows = [(f"{place[:-1]}x{text}/", text, moment) for text in texts]
        await db.write(lambda tx, r=rows: tx.insert("shared_state", COLUMNS, r, update=COLUMNS[1:]))
        for row in rows:
            query = "SELECT * FROM shared_state WHERE tenant_id = %s"
            assert [row] == await db.read(lambda tx, t=row[0], q=query: tx.rows(q, [t]))
    given = uuid4()
    columns = ("tenant_id", "alias_id", "alias_key", "alias", "entity_key", "entity", "merged_at")
    row = (place, given, "a", "A", "b", "B", NOW)
    await db.write(lambda tx: tx.insert("entity_aliases", columns, [row]))
    ids = "SELECT alias_id FROM entity_aliases WHERE alias_id IN %s"
    assert await db.read(lambda tx: tx.rows(ids, [[given]])) == [(given,)]
    assert await db.read(lambda tx: tx.rows(ids, [[]])) == []
    columns = ("tenant_id", "thread_id", "state", "created_at", "updated_at")
    for tenant in ("/", "/app/", "/app/ana/x/", "/app//", "/app/ana"):
        row = (tenant, "t", "{}", NOW, NOW)
        with pytest.raises(InvalidInput, match="check constraint"):
            await db.write(lambda tx, r=row: tx.insert("threads", columns, [r]))


@every_case(
    ("thread_id", f"thread_id, the id of a thread or a session, is {TOO_LONG}"),
    ("event_id", f"event_id is {TOO_LONG}")
)  # fmt: skip
async def test_a_name_that_is_too_long_is_called_as_callers_do(column, called, db):
    row = {"tenant_id": "/a/b/", "thread_id": "t", "event_id": "e", "deleted_at": NOW}
    row[column] = "x" * 1501
    with pytest.raises(InvalidInput, match=called) as raised:
        await db.write(lambda tx: tx.insert("tombstones", list(row), [list(row.values())]))
    assert "column" not in str(raised.value)


async def test_a_key_that_exists_is_passed_over_and_none_is_cut(db, place):
    for state in ("first", "second"):
        await db.write(put(state, place, ignore=True))
    assert await states(db, place) == {place: "first"}
    for work in (put("", "a" * 2000), put("", f"/{'a' * 1500}/", ignore=True)):
        with pytest.raises(InvalidInput, match=TOO_LONG):
            await db.write(work)
    with pytest.raises(InvalidInput, match=TOO_LONG):
        await db.write(lambda tx: tx.lock("a" * 1501))
    with pytest.raises(Conflict, match="another writer stored this key first"):
        await db.write(lambda tx: tx.insert("tenants", ["tenant_id"], [["/a/"], ["/a/"]]))


async def test_a_large_text_is_kept_whole(both):
    large = "I like tea. 我喜欢茶。 " + "x" * 6_000_000  # in a statement of more than 16 MB
    row = MemoryRow(
        memory_id=MemoryId(uuid4()), namespace=memories_namespace(both.scope), key="k",
        kind="episodic", text=large, value={"content": large}, terms=[large[-5_000_000:]],
        occurred_at=NOW,
    )  # fmt: skip
    await both.seekdb.items.put_memories([row], None)
    query = MemoryQuery(scope=both.scope, namespace=row.namespace)
    [found] = await both.seekdb.events.list_memories(query, "newest", 9, 0)
    assert found.text == large


# Transactions


@pytest.fixture
def short_locks(monkeypatch):
    init = connections.INIT.replace("ob_trx_lock_timeout=5000000", "ob_trx_lock_timeout=200000")
    assert init != connections.INIT
    monkeypatch.setattr(connections, "INIT", init)


@pytest.mark.usefixtures("short_locks")
async def test_who_waits_for_each_other_tries_again(opened):
    """SeekDB does not see a deadlock: both wait until the time for a lock is over."""
    one, names = await opened(), ("/a/1/", "/a/2/")
    await one.write(lambda tx: tx.lock(*names))
    both_hold_one, tries = threading.Barrier(2, timeout=30), []

    def work(tx: Transaction, first: str, second: str) -> None:
        tx.lock(first)
        tries.append(first)
        if len(tries) <= 2:
            both_hold_one.wait()
        tx.lock(second)
        put("", first)(tx)

    orders = (names, names[::-1])
    await asyncio.gather(*(one.write(lambda tx, o=order: work(tx, *o)) for order in orders))
    assert len(tries) > 2
    assert await states(one, *names) == dict.fromkeys(names, "")


async def held_by(
    call: Callable[[Callable[[Transaction], Any]], Any], *tenants: str
) -> tuple[asyncio.Task[Any], threading.Event]:
    """Return a read or write that goes on, with the locks of tenants, until the event is set."""
    held, done = threading.Event(), threading.Event()

    def hold(tx: Transaction) -> bool:
        if tenants:
            tx.lock(*tenants)
        held.set()
        return done.wait(60)

    holding = asyncio.create_task(call(hold))
    assert await asyncio.to_thread(held.wait, 30)
    return holding, done


@pytest.mark.usefixtures("short_locks")
async def test_who_waits_for_a_writer_waits_as_long_as_a_statement_may(opened):
    """Longer than a few tries for the lock take; and who waits too long is told for whom."""
    one, other = await opened(), await opened(statement_timeout_s=1)
    holding, done = await held_by(one.write, "/app/ana/")
    with pytest.raises(StorageUnavailable, match=r"other writers of 'app/ana'.*1 s.*try again"):
        await other.write(lambda tx: tx.lock("/app/ana/"))
    tries = []

    def work(tx: Transaction) -> int:
        tries.append(1)
        if len(tries) == 10:
            done.set()
        tx.lock("/app/ana/")
        return 5

    assert await one.write(work) == 5
    await holding
    assert len(tries) >= 10
    await other.write(lambda tx: tx.lock("/app/ana/"))


async def test_a_statement_that_takes_too_long_is_not_sent_again(opened):
    one, tries = await opened(statement_timeout_s=1), []

    def work(tx: Transaction) -> None:
        tries.append(1)
        tx.one("SELECT SLEEP(5)")

    for verb in (one.read, one.write):
        with pytest.raises(StorageUnavailable, match="longer than 1 s .* the disk is full"):
            await verb(work)
    assert len(tries) == 2


async def test_what_the_server_gave_up_is_done_again(opened, monkeypatch):
    monkeypatch.setattr(attempts, "PAUSE_S", 0.001)
    one, codes = await opened(), (1213, 4038, 6002, 6224, 6225, 6235)
    for code in codes:
        left = [*range(8 if code in UNDONE else 3)]

        def work(tx: Transaction, code: int = code, left: list[int] = left) -> bool:
            if left.pop():
                raise pymysql.OperationalError(code, "rolled back")
            return True

        assert await one.write(work)
    monkeypatch.setattr(one, "_settings", replace(one._settings, statement_timeout_s=0.3))
    for code in codes:

        def never(tx: Transaction, code: int = code) -> None:
            raise pymysql.OperationalError(code, "rolled back")

        with pytest.raises(StorageUnavailable, match=rf"[Tt]ry again.*\({code}\)"):
            await one.write(never)


# Connections and threads


async def connected(one: OceanBaseDatabase) -> int:
    """Return how many connections this database has at the server, with that of the question."""
    found = await one.read(lambda tx: tx.rows("SHOW PROCESSLIST"))
    return sum(row[3] == one.location.database for row in found)


async def until_connected(one: OceanBaseDatabase, number: int) -> None:
    while await connected(one) != number:  # noqa: ASYNC110 # the server tells of no end
        await asyncio.sleep(0.02)


def numbers(tx: Transaction) -> Any:
    for number in range(100):
        yield tx.one("SELECT count(*) + %s FROM schema_migrations", [number])


@pytest.mark.both_engines
async def test_half_read_exports_hold_nobody_up(shared_memory, scope):
    await shared_memory.append_events(scope, "t", [said(n, f"Turn {n}.") for n in range(9)])
    async with AsyncExitStack() as half_read:
        begun = [aclosing(shared_memory.export(scope)) for _ in range(12)]
        exports = [await half_read.enter_async_context(one) for one in begun]
        for export in exports:
            for _ in range(3):
                await anext(export)
        await shared_memory.append_events(scope, "t", [said(9, "I like late tea.")])
        [hit, *_] = await shared_memory.recall(scope, "late tea")
        assert hit.memory.text == "I like late tea."
        rest = [line async for line in exports[0]]
        assert rest and not any("late tea" in line for line in rest)


async def test_what_is_left_behind_is_freed(opened):
    one = await opened(pool_size=2)
    before, threads = await connected(one), threading.active_count()
    half_read = [streamed(one, "it", numbers) for _ in range(5)]
    for parts in half_read:
        assert await anext(parts)
    assert await connected(one) == before + 5
    await half_read.pop().aclose()
    half_read.clear()
    del parts
    await until_connected(one, before)
    assert threading.active_count() <= threads + 2
    begun = threading.Event()

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
    await until_connected(one, before)


async def test_a_moment_that_is_lost_is_told_with_the_way_out(opened, monkeypatch):
    one = await opened()
    monkeypatch.setattr(database, "SNAPSHOT_S", 0.2)
    parts = streamed(one, "the export of 'app/ana'", numbers)
    await anext(parts)
    with pytest.raises(StorageUnavailable, match=r"export of 'app/ana' broke off.*Begin it again"):
        while True:
            await anext(parts)
            await asyncio.sleep(0.1)


async def test_snapshots_that_cannot_be_held_are_refused_and_closing_ends_them(opened, monkeypatch):
    one = await opened()
    monkeypatch.setattr(database, "SNAPSHOTS", 2)
    half_read = [streamed(one, name, numbers) for name in "ab"]
    for parts in half_read:
        await anext(parts)
    with pytest.raises(StorageUnavailable, match="c has to wait: 2 others are read halfway"):
        await anext(streamed(one, "c", numbers))
    await half_read[0].aclose()
    third = streamed(one, "c", numbers)
    await anext(third)
    await one.close()
    for closed in (anext(third), one.read(lambda tx: tx.rows("SELECT 1"))):
        with pytest.raises(StorageUnavailable, match="closed"):
            await closed


async def test_who_waits_for_a_thread_does_not_wait_for_ever(opened):
    one = await opened(pool_size=1, connect_timeout_s=0.3)
    holding, done = await held_by(one.read)
    with pytest.raises(StorageUnavailable, match=r"all 1 connections were busy for 0.3 s"):
        await one.read(lambda tx: 1)
    done.set()
    assert await holding
    assert await one.read(lambda tx: 1) == 1


async def test_who_did_not_join_the_server_does_not_stop_it(opened, monkeypatch):
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


def test_a_forked_child_joins_by_itself(seekdb):
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


async def test_a_lock_that_a_killed_process_left_locks_nobody_out(opened):
    one = await opened()
    name = f"{one.location.database}_locked"
    there = Settings(uri=f"seekdb://{one.location.folder}?database={name}", home=Path())
    with one.inspected() as cursor:
        cursor.execute("SELECT get_lock(%s, 1)", (f"hippocampus:{name}",))
        locked = OceanBaseDatabase(there)
        await locked.open()
        assert await locked.read(lambda tx: tx.rows("SELECT 1 FROM memories")) == []
        await locked.close()


# Names of servers


@every_case(
    ("oceanbase://root@shop#east:p@w#d@db:2883/app", "root@shop#east", "p@w#d", "db", 2883,
     "app"),
    ("seekdb://ann@127.0.0.1", "ann", "", "127.0.0.1", 2881, "hippocampus"),
    ("oceanbase://a%3Ab:c%2Fd@[::1]:1/x", "a:b", "c/d", "::1", 1, "x"),
    ("seekdb://u:p@h", "u", "p", "h", 2881, "hippocampus"),
    ("seekdb://u:p@h:/", "u", "p", "h", 2881, "hippocampus"),
    ("seekdb://u:p@h?database=hippocampus", "u", "p", "h", 2881, "hippocampus"),
)  # fmt: skip
def test_servers_are_named_as_their_users_know_them(uri, user, password, host, port, database):
    place = location_of(uri)
    named = (place.user, place.password, place.host, place.port, place.database)
    assert named == (user, password, host, port, database)
    assert f"{password}@" not in repr(place) or not password


def test_a_schema_is_a_database_of_its_own_and_old_servers_are_refused():
    assert location_of("seekdb:///x", "other").database == "other"
    assert location_of("seekdb:///x?database=app", "other").database == "app_other"
    assert location_of("seekdb:///x?database=app").database == "app"
    assert checked_version("5.7.25-OceanBase seekdb-v1.4.0.0") == ("SeekDB", (1, 4, 0, 0))
    assert checked_version("5.7.25-OceanBase-v4.3.5.3")[0] == "OceanBase"
    for text in ("5.7.25-OceanBase-v4.3.5.2", "5.7.25-OceanBase seekdb-v1.3.9.9", "8.0.33"):
        with pytest.raises(StorageUnavailable):
            checked_version(text)


@every_case(
    ("seekdb:///", "root of all files"),
    ("seekdb://", "seekdb://user:password@host"),
    ("seekdb://127.0.0.1", "seekdb://user"),
    ("seekdb://data/memory", f"'seekdb://{Path.cwd()}/data/memory'"),
    ("seekdb://~/memory", f"'seekdb://{Path.home()}/memory'"),
    ("oceanbase:///data/memory", "'seekdb:///data/memory'"),
    ("oceanbase://memory", "oceanbase://user@tenant#cluster"),
    ("seekdb:///x?typo=1&ssl=2", r"\['typo', 'ssl'\]: the options are database, ssl_ca"),
    ("oceanbase://u:geheim@h:99999/db", "port in the uri .* 1 and 65535, got '99999'"),
    ("oceanbase://u:geheim@h:0/db", "port .* got '0'"),
    ("oceanbase://u:geheim@h:port/db", "port .* got 'port'"),
    ("oceanbase://u:geheim@h/Some-Db", "database 'Some-Db' is not usable"),
    ("oceanbase://u:geheim@h/a/b", "database 'a/b' is not usable"),
    ("seekdb:///folder?database=oceanbase", "database 'oceanbase' is the server's own"),
    ("oceanbase://u:geheim@h/information_schema", "the server's own: name another"),
    ("seekdb://db.invalid:2881/memory", "'seekdb://root@db.invalid:2881/memory'"),
    ("oceanbase://u:ge?heim@h/db", "'\\?' as %3F"),
    ("oceanbase://u:ge?heim@h/db?database=x", "'\\?' as %3F"),
)
def test_a_bad_uri_is_refused_with_the_way_out(uri, told):
    with pytest.raises(InvalidInput, match=told) as refused:
        location_of(uri)
    assert "heim" not in str(refused.value)
