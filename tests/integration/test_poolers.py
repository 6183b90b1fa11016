"""Connections: shared by loops and threads, replaced when they die, few, and behind poolers."""

import asyncio
import logging
import os
import threading
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack, aclosing, asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pgbouncer import pgbouncer
from postgres_admin import column, execute, name_of, rows
from psycopg.conninfo import make_conninfo
from resident_users import DrawnVectors, by_index, by_statement, make_resident, until
from turns import Clock
from typer.testing import CliRunner

from shared_core import MemoryEngine, Scope, StorageUnavailable, open_memory, run_sync
from shared_core.cli.doctor import examine
from shared_core.cli.main import app
from shared_core.ports.storage import Storage
from shared_core.settings import Settings
from shared_core.storage import open_storage
from shared_core.storage.postgres.connection import (
    connecting,
    database as database_module,
    pool as pools,
    pooling,
)
from shared_core.storage.postgres.connection.database import PostgresDatabase
from shared_core.storage.postgres.connection.migrations import PreparedSchema
from shared_core.storage.postgres.connection.pipeline import Connection
from shared_core.storage.postgres.connection.pool import NoFreeSlot
from shared_core.storage.postgres.connection.pooling import Pooling, probe_pooling
from shared_core.storage.postgres.connection.statements import Step

ANN = Scope("app", "ann")
ONE = Step("one", b"SELECT 1", {})


@asynccontextmanager
async def pool_of(dsn: str, **settings: Any) -> AsyncIterator[PostgresDatabase]:
    """Yield an open database, whose pool has no connection yet."""
    database = PostgresDatabase(Settings(uri=dsn, home=Path(), **settings))
    await database.open()
    yield database
    await database.close()


def backends(dsn: str) -> int:
    where = "WHERE datname = current_database() AND application_name = 'hippocampus'"
    return len(rows(dsn, f"SELECT FROM pg_stat_activity {where}"))


def test_many_loops_one_after_the_other_share_one_connection(dsn):
    memory = open_memory(dsn)
    for number in range(5):
        asyncio.run(memory.remember(ANN, f"note {number}"))
    assert 1 == backends(dsn)
    assert 5 == len(asyncio.run(memory.recall(ANN, "note")))
    asyncio.run(memory.close())


def test_loops_in_several_threads_and_sync_callers_work_at_once(dsn):
    memory = open_memory(dsn, pool_size=3)

    def on_own_loop(number: int) -> None:
        async def work() -> None:
            for turn in range(5):
                await memory.remember(ANN, f"thread {number} turn {turn}")

        asyncio.run(work())

    def without_loop(number: int) -> None:
        for turn in range(5):
            run_sync(memory.remember(ANN, f"sync {number} turn {turn}"))

    with ThreadPoolExecutor(8) as threads:
        waiting = [threads.submit(on_own_loop, n) for n in range(4)]
        waiting += [threads.submit(without_loop, n) for n in range(4)]
        for done in waiting:
            done.result()
    assert backends(dsn) <= 3
    assert 40 == len(run_sync(memory.recall(ANN, "turn", limit=100)))
    run_sync(memory.close())


async def test_a_sync_call_inside_a_running_loop_works(ann):
    await ann.remember("Ann sails.")
    assert ["Ann sails."] == [hit.memory.text for hit in run_sync(ann.recall("sails"))]


async def test_a_call_goes_on_after_the_server_hung_up(dsn, memory):
    await memory.remember(ANN, "Ann sails.")
    hang_up(dsn)
    assert 1 == len(await memory.recall(ANN, "sails"))
    hang_up(dsn)
    await asyncio.sleep(0.6)  # such a connection is looked at before it is used
    await memory.remember(ANN, "Ann rows.")
    assert 2 == len(await memory.recall(ANN, "Ann"))


async def test_a_connection_lost_while_a_memory_opens_is_told_and_tried_again(dsn, monkeypatch):
    preparing = database_module.prepare

    async def hung_up(connection: Connection, *given: str, **options: bool) -> PreparedSchema:
        with psycopg.connect(dsn, autocommit=True) as admin:
            admin.execute("SELECT pg_terminate_backend(%s, 60000)", [connection.info.backend_pid])
        return await preparing(connection, *given, **options)

    async with open_memory(dsn) as other:
        await other.remember(ANN, "note")
    memory = open_memory(dsn)
    monkeypatch.setattr(database_module, "prepare", hung_up)
    with pytest.raises(StorageUnavailable, match="terminating connection"):
        await memory.recall(ANN, "note")
    monkeypatch.undo()
    assert len(await memory.recall(ANN, "note")) == 1
    await memory.close()


async def test_waiting_callers_are_served_in_turn_and_cancelled_ones_give_connections_back(dsn):
    async with open_memory(dsn, pool_size=1) as memory:
        await memory.remember(ANN, "Ann sails.")
        for _ in range(5):
            call = asyncio.create_task(memory.recall(ANN, "sails"))
            await asyncio.sleep(0.004)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
        assert 1 == len(await memory.recall(ANN, "sails"))
        keys = await asyncio.gather(*(memory.remember(ANN, f"note {n}") for n in range(30)))
        assert 30 == len({key for [key] in keys})


async def test_a_closed_memory_opens_again_at_the_next_call(dsn):
    memory = open_memory(dsn)
    await memory.remember(ANN, "Ann sails.")
    await memory.close()
    await until(lambda: 0 == backends(dsn))  # the server notices a moment later
    assert 1 == len(await memory.recall(ANN, "sails"))
    await memory.close()


def test_a_forked_child_opens_its_own_connections(dsn):
    memory = open_memory(dsn)
    asyncio.run(memory.remember(ANN, "Ann sails."))
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:  # whatever happens, the child must not go on with the tests of its parent
            os.write(writer, str(len(run_sync(memory.recall(ANN, "sails")))).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert b"1" == os.read(reader, 10)
    assert 1 == len(asyncio.run(memory.recall(ANN, "sails")))
    asyncio.run(memory.close())
    for end in (reader, writer):
        os.close(end)


async def test_a_full_pool_is_an_error_that_names_the_way_out(dsn):
    async with pool_of(dsn, pool_size=1, connect_timeout_s=0.2) as database:
        slow = asyncio.create_task(database.run("/", Step("sleep", b"SELECT pg_sleep(60)", {})))
        sleeps = "SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = %s"
        await until(lambda: rows(dsn, sleeps, [name_of(dsn)]))
        with pytest.raises(StorageUnavailable, match="raise pool_size"):
            await database.run("/", ONE)
        slow.cancel()
        await asyncio.wait([slow])


async def test_a_long_queue_that_moves_is_served_to_its_end(dsn):
    """Together they wait for longer than one of them may."""
    async with pool_of(dsn, pool_size=1, connect_timeout_s=1) as database:
        naps = (database.run("/", Step("sleep", b"SELECT pg_sleep(0.1)", {})) for _ in range(12))
        assert 12 == len(await asyncio.gather(*naps))


def test_a_loop_that_ends_while_it_waits_hands_its_turn_on(dsn):
    memory = open_memory(dsn, pool_size=1)
    asyncio.run(memory.remember(ANN, "Ann sails."))

    async def give_up() -> None:
        calls = [asyncio.create_task(memory.recall(ANN, "sails")) for _ in range(8)]
        await asyncio.sleep(0.01)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)

    threads = [threading.Thread(target=lambda: asyncio.run(give_up())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 1 == len(asyncio.run(memory.recall(ANN, "sails")))
    asyncio.run(memory.close())


def hang_up(dsn: str) -> None:
    execute(
        dsn, "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )  # fmt: skip


async def test_a_temporary_table_of_another_client_hides_no_table(dsn):
    async with pool_of(dsn, pool_size=1) as database:
        hide = b"CREATE TEMP TABLE memories (LIKE hippocampus.memories)"
        await database.run("/app/ann/", Step("hide", hide, {}))
        where = b"SELECT 'memories'::regclass::oid = 'hippocampus.memories'::regclass"
        [[[is_ours]]] = await database.run("/app/ann/", Step("where", where, {}))
        paths = (
            b"SELECT array_agg(p.proconfig::text) FROM pg_proc p WHERE"
            b" p.proconfig::text LIKE '%%search_path%%'"
            b" AND p.pronamespace = 'hippocampus'::regnamespace"
        )
        [[[functions]]] = await database.run("/app/ann/", Step("paths", paths, {}))
    assert is_ours and len(functions) > 1
    assert not [path for path in functions if not path.rstrip('"}').endswith(", pg_temp")]


SLOTS = 3
NAP = Step("nap", b"SELECT pg_sleep(0.05)", {})


@pytest.fixture
def tight(postgres_dsn):
    """The DSN of a user who may have no more than SLOTS connections."""
    name = f"tight_{uuid.uuid4().hex}"
    with psycopg.connect(postgres_dsn, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {name} LOGIN CONNECTION LIMIT {SLOTS} IN ROLE hippocampus_app")
        yield make_conninfo(postgres_dsn, user=name)
        held = f"pg_stat_activity WHERE usename = '{name}'"
        admin.execute(f"SELECT pg_terminate_backend(pid, 60000) FROM {held}")
        admin.execute(f"DROP ROLE {name}")


@pytest.fixture
async def waiting(tight):
    """An open database whose pool has no connection yet."""
    async with pool_of(tight, pool_size=8) as database:
        yield database


@asynccontextmanager
async def all_slots_taken(dsn: str) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for _ in range(SLOTS):
            await stack.enter_async_context(await psycopg.AsyncConnection.connect(dsn))
        yield


async def test_callers_share_the_slots_that_there_are(waiting):
    naps = (waiting.run("/", NAP) for _ in range(24))
    assert 24 == len(await asyncio.gather(*naps))


async def test_processes_that_write_at_once_lose_nothing(tight):
    async with open_memory(tight) as one, open_memory(tight) as other:
        writes = [memory.remember(ANN, f"note {n}") for n in range(20) for memory in (one, other)]
        assert 40 == len({key for [key] in await asyncio.gather(*writes)})


async def test_idle_connections_are_closed_for_others(tight, waiting, monkeypatch):
    monkeypatch.setattr(pools, "IDLE_S", 0.05)
    await asyncio.gather(*(waiting.run("/", NAP) for _ in range(24)))
    async with pool_of(tight) as other:
        held = [await other.connect() for _ in range(SLOTS - 1)]  # one stays with the first
        assert [[[(1,)]]] == [await waiting.run("/", ONE)]
        for connection in held:
            await connection.close()


async def test_a_slot_that_comes_free_is_taken(tight, waiting):
    async with all_slots_taken(tight):
        call = asyncio.create_task(waiting.run("/", ONE))
        await asyncio.wait([call], timeout=0.2)
        assert not call.done()
    assert [[(1,)]] == await call


async def test_without_a_slot_the_error_names_both_limits(tight):
    database = PostgresDatabase(Settings(uri=tight, home=Path(), connect_timeout_s=0.2))
    async with all_slots_taken(tight):
        with pytest.raises(NoFreeSlot, match=r"raise its max_connections.* pool_size"):
            await database.open()
        with pytest.raises(NoFreeSlot):
            await database.connect()


async def test_a_caller_that_gives_up_leaves_its_turn(tight):
    async with pool_of(tight, pool_size=2) as database:
        async with all_slots_taken(tight):
            calls = [asyncio.create_task(database.run("/", ONE)) for _ in range(6)]
            await asyncio.wait(calls, timeout=0.1)
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
        again = (database.run("/", ONE) for _ in range(6))
        assert 6 == len(await asyncio.gather(*again))


BOB = Scope("app", "bob")


@pytest.fixture
def losing(postgres_dsn):
    """The DSN of a database behind a pooler that loses prepared statements."""
    with pgbouncer(postgres_dsn) as pooled:
        yield pooled


@pytest.fixture
def keeping(postgres_dsn):
    """The DSN of a database behind a pooler that keeps prepared statements."""
    with pgbouncer(postgres_dsn, prepared=100) as pooled:
        yield pooled


@pytest.fixture
def single(postgres_dsn):
    """The DSN of a database behind a pooler that lends its only session as a whole."""
    with pgbouncer(postgres_dsn, sessions=1, pool_mode="session") as pooled:
        yield pooled


@asynccontextmanager
async def opened(dsn: str) -> AsyncIterator[Storage]:
    storage = open_storage(Settings(uri=dsn, home=Path()), Clock())
    await storage.open()
    yield storage
    await storage.close()


def connecting_to(dsn: str) -> Callable[[], Awaitable[Connection]]:
    return lambda: Connection.connect(dsn, autocommit=True)


async def use(memory: MemoryEngine, scope: Scope, begin: int) -> None:
    await asyncio.gather(
        *(memory.remember(scope, f"note {n}") for n in range(begin, begin + 5)),
        *(memory.recall(scope, "note") for _ in range(5)),
    )


async def answers(dsn: str) -> None:
    """Use two memories at once, and look at what is there."""
    async with open_memory(dsn) as one, open_memory(dsn) as other:
        for begin in (0, 5):
            await asyncio.gather(use(one, ANN, begin), use(other, BOB, begin))
        for memory in (one, other):
            for scope in (ANN, BOB):
                found = await memory.recall(scope, "note", limit=20)
                assert {f"note {n}" for n in range(10)} == {hit.memory.text for hit in found}


def statements(dsn: str) -> list[str]:
    """Return the names of the prepared statements of the pooler's sessions, found by chance."""
    return column(dsn, "SELECT name FROM pg_prepared_statements")


async def test_a_pooler_that_loses_statements_is_noticed_and_all_calls_succeed(losing, caplog):
    with caplog.at_level(logging.WARNING, "hippocampus"):
        await answers(losing)
    warnings = [one.getMessage() for one in caplog.records if "pooler" in one.getMessage()]
    assert 1 <= len(warnings) <= 2  # at most one for each of the two memories
    assert "HIPPOCAMPUS_PREPARE=off" in warnings[0]


async def test_without_preparing_no_statement_stays_on_a_session(losing, monkeypatch, caplog):
    monkeypatch.setenv("HIPPOCAMPUS_PREPARE", "off")
    await answers(losing)
    assert [] == statements(losing)
    assert "pooler" not in caplog.text


async def test_a_pooler_that_keeps_statements_needs_nothing(keeping, caplog):
    await answers(keeping)
    assert "pooler" not in caplog.text


@pytest.mark.parametrize("pooled", ["losing", "keeping", "single"])
async def test_an_index_behind_a_pooler_answers_as_the_statement(request, pooled):
    dsn = request.getfixturevalue(pooled)
    async with open_memory(dsn, embedder=DrawnVectors(), worker=False) as memory:
        await memory.remember(ANN, [f"note {number}" for number in range(10)])
        await make_resident(memory, ANN)
        for number in range(10, 15):
            await memory.remember(ANN, f"note {number}")
            answer = await by_index(memory, ANN, "note 3")
            assert answer == await by_statement(memory, ANN, "note 3")
            assert number + 1 == len(answer[0])


async def test_a_name_never_reaches_another_statement(losing):
    async def connect() -> Connection:
        return await Connection.connect(losing, autocommit=True, prepare_threshold=None)

    async with await connect() as one, await connect() as other:
        assert [[(1,)]] == await one.exchange([(b"SELECT 1", {})])
        assert [[(2,)]] == await other.exchange([(b"SELECT 2", {})])  # on the same session
        assert [[(1,)]] == await one.exchange([(b"SELECT 1", {})])
        with pytest.raises(psycopg.errors.DuplicatePreparedStatement):
            await other.exchange([(b"SELECT 1", {})])
        assert [[(1,)]] == await other.exchange([(b"SELECT 1", {})], prepare=False)


@pytest.mark.parametrize(
    ("pooler", "shares", "keeps"),
    [
        (None, False, True), ({}, True, False), ({"prepared": 100}, True, True),
        ({"sessions": 2, "server_round_robin": 1}, True, False),
        ({"sessions": 3, "server_round_robin": 1}, True, False),
        ({"sessions": 1, "pool_mode": "session"}, False, True),
        ({"sessions": 2, "pool_mode": "session"}, False, True),
    ],
)  # fmt: skip
async def test_a_probe_tells_what_a_pooler_does(postgres_dsn, monkeypatch, pooler, shares, keeps):
    """With one whole session the second connection gets none while the first is open."""
    given = pooler or {}
    if "pool_mode" in given:
        monkeypatch.setattr(pooling, "_WAIT_S", 0.2)
    direct = nullcontext(postgres_dsn)
    with direct if pooler is None else pgbouncer(postgres_dsn, **given) as pooled:
        if "server_round_robin" in given:
            with ExitStack() as stack:  # each session is kept by a transaction
                for _ in range(given["sessions"]):
                    stack.enter_context(psycopg.connect(pooled)).execute("SELECT 1")
        found = await probe_pooling(connecting_to(pooled))
    assert Pooling(shares_sessions=shares, keeps_statements=keeps) == found


async def test_a_probe_waits_for_its_first_session_as_long_as_a_statement(single, monkeypatch):
    monkeypatch.setattr(pooling, "_WAIT_S", 0.1)  # for the second session
    with psycopg.connect(single, autocommit=True) as holder:
        holder.execute("SELECT 1")
        probing = asyncio.create_task(probe_pooling(connecting_to(single)))
        ended, _ = await asyncio.wait([probing], timeout=0.6)
        assert not ended
    assert Pooling(shares_sessions=False, keeps_statements=True) == await probing


async def test_a_memory_and_the_doctor_need_one_session_and_leave_it(single, monkeypatch):
    for begin in (0, 5):
        async with open_memory(single, pool_size=1) as memory:
            await use(memory, ANN, begin)
            assert begin + 5 == len(await memory.recall(ANN, "note", limit=20))
    monkeypatch.setattr(pooling, "_WAIT_S", 0.2)  # for a second session
    told = {one.status for one in await asyncio.to_thread(examine, single)}
    assert "ok" in told and told <= {"ok", "note"}
    monkeypatch.setattr(connecting, "silence_s", lambda _: 0.1)
    with psycopg.connect(single, autocommit=True) as holder:
        holder.execute("SELECT 1")
        found = {one.check: one for one in await asyncio.to_thread(examine, single)}["server"]
    assert "problem" == found.status and "free session" in found.advice


async def test_an_index_is_built_and_a_worker_listens_with_whole_sessions(postgres_dsn):
    with pgbouncer(postgres_dsn, sessions=3, pool_mode="session") as pooled:
        async with opened(pooled) as storage:
            await storage.report()  # its connection keeps a session
            async with storage.indexes.index_builder() as builder:
                assert builder is not None
            async with aclosing(storage.jobs.job_hints()) as hints:  # type: ignore[type-var]
                assert None is await anext(hints)


async def test_without_a_free_session_calls_end_and_say_why(single, monkeypatch):
    async with opened(single) as storage:
        await storage.report()  # its connection keeps the session
        monkeypatch.setattr(connecting, "ANSWER_GRACE_S", 0.1)
        monkeypatch.setattr(connecting, "silence_s", lambda _: 0.1)  # of connections from now on
        impatient = Settings(uri=single, home=Path(), statement_timeout_s=0.1)
        why = "pooler .* smaller pool_size, got 16"
        with pytest.raises(StorageUnavailable, match=why):
            await open_storage(impatient, Clock()).open()
        with pytest.raises(StorageUnavailable, match=why):
            await anext(storage.jobs.job_hints())
        with pytest.raises(StorageUnavailable, match=why):
            async with storage.indexes.index_builder():
                pass


async def test_opening_names_a_pooler_that_ends_those_who_wait(postgres_dsn):
    with (
        pgbouncer(postgres_dsn, sessions=1, pool_mode="session", query_wait_timeout=1) as pooled,
        psycopg.connect(pooled, autocommit=True) as holder,
    ):
        holder.execute("SELECT 1")
        with pytest.raises(StorageUnavailable, match="cannot be used"):
            async with open_memory(pooled):
                pass


async def test_a_pooler_that_loses_statements_has_no_index_or_listener_and_the_doctor_tells(losing):
    async with opened(losing) as storage:
        with pytest.raises(StorageUnavailable, match="pooler"):
            async with storage.indexes.index_builder():
                pass
        with pytest.raises(StorageUnavailable, match="pooler"):
            await anext(storage.jobs.job_hints())
    # Other tests hold locks in other databases of the server.
    here = "JOIN pg_database ON pg_database.oid = database WHERE datname = current_database()"
    assert [] == rows(losing, f"SELECT FROM pg_locks {here} AND locktype = 'advisory'")
    assert ['"$user", public'] == column(losing, "SHOW search_path")
    assert [] == rows(losing, "SELECT pg_listening_channels()")
    asked = partial(CliRunner().invoke, app, ["doctor", "--uri", losing], env={"COLUMNS": "500"})
    told = (await asyncio.to_thread(asked)).output
    assert "loses prepared statements" in told and "HIPPOCAMPUS_PREPARE=off" in told


async def test_a_schema_is_made_through_a_pooler(empty_dsn):
    with pgbouncer(empty_dsn) as pooled:
        async with open_memory(pooled) as memory:
            await memory.remember(ANN, "Ann sails.")
            assert 1 == len(await memory.recall(ANN, "sails"))
