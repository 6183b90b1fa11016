"""Behind a pooler of transactions, with prepared statements or without, or of whole sessions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, aclosing, asynccontextmanager
from pathlib import Path

import psycopg
import pytest
from pgbouncer import pgbouncer
from postgres_admin import column, rows
from resident_users import DrawnVectors, by_index, by_statement, make_resident
from standing_clock import StandingClock
from typer.testing import CliRunner

from shared_core import MemoryEngine, Scope, StorageUnavailable, open_memory
from shared_core.cli.doctor import examine
from shared_core.cli.main import app
from shared_core.ports.storage import Storage
from shared_core.settings import Settings
from shared_core.storage import open_storage
from shared_core.storage.postgres.connection import connecting, pooling
from shared_core.storage.postgres.connection.pipeline import Connection
from shared_core.storage.postgres.connection.pooling import Pooling, probe_pooling

ANN = Scope("app", "ann")
BOB = Scope("app", "bob")


@pytest.fixture
def losing(postgres_dsn: str) -> Iterator[str]:
    """The DSN of a database behind a pooler that loses prepared statements."""
    with pgbouncer(postgres_dsn) as pooled:
        yield pooled


@pytest.fixture
def keeping(postgres_dsn: str) -> Iterator[str]:
    """The DSN of a database behind a pooler that keeps prepared statements."""
    with pgbouncer(postgres_dsn, prepared=100) as pooled:
        yield pooled


@pytest.fixture
def single(postgres_dsn: str) -> Iterator[str]:
    """The DSN of a database behind a pooler that lends its only session as a whole."""
    with pgbouncer(postgres_dsn, sessions=1, pool_mode="session") as pooled:
        yield pooled


@asynccontextmanager
async def opened(dsn: str) -> AsyncIterator[Storage]:
    storage = open_storage(Settings(uri=dsn, home=Path()), StandingClock())
    await storage.open()
    yield storage
    await storage.close()


def connecting_to(dsn: str) -> Callable[[], Awaitable[Connection]]:
    return connecting_to(dsn)


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


def open_sessions(dsn: str, sessions: int) -> None:
    """Let a pooler open this many sessions, each for a transaction that keeps it."""
    with ExitStack() as stack:
        for _ in range(sessions):
            stack.enter_context(psycopg.connect(dsn)).execute("SELECT 1")


def statements(dsn: str) -> list[str]:
    """Return the names of the prepared statements of the pooler's sessions, found by chance."""
    return column(dsn, "SELECT name FROM pg_prepared_statements")


async def test_a_pooler_that_loses_statements_is_noticed_and_all_calls_succeed(
    losing: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "hippocampus"):
        await answers(losing)
    warnings = [one.getMessage() for one in caplog.records if "pooler" in one.getMessage()]
    assert 1 <= len(warnings) <= 2  # at most one for each of the two memories
    assert "HIPPOCAMPUS_PREPARE=off" in warnings[0]


async def test_without_preparing_no_statement_stays_on_a_session(
    losing: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HIPPOCAMPUS_PREPARE", "off")
    await answers(losing)
    assert [] == statements(losing)
    assert "pooler" not in caplog.text


async def test_a_pooler_that_keeps_statements_needs_nothing(
    keeping: str, caplog: pytest.LogCaptureFixture
) -> None:
    await answers(keeping)
    assert "pooler" not in caplog.text


@pytest.mark.parametrize("pooled", ["losing", "keeping", "single"])
async def test_an_index_behind_a_pooler_answers_as_the_statement(
    request: pytest.FixtureRequest, pooled: str
) -> None:
    dsn = request.getfixturevalue(pooled)
    async with open_memory(dsn, embedder=DrawnVectors(), worker=False) as memory:
        await memory.remember(ANN, [f"note {number}" for number in range(10)])
        await make_resident(memory, ANN)
        for number in range(10, 15):
            await memory.remember(ANN, f"note {number}")
            answer = await by_index(memory, ANN, "note 3")
            assert answer == await by_statement(memory, ANN, "note 3")
            assert number + 1 == len(answer[0])


async def test_a_name_never_reaches_another_statement(losing: str) -> None:
    async def connect() -> Connection:
        return await Connection.connect(losing, autocommit=True, prepare_threshold=None)

    async with await connect() as one, await connect() as other:
        assert [[(1,)]] == await one.exchange([(b"SELECT 1", {})])
        assert [[(2,)]] == await other.exchange([(b"SELECT 2", {})])  # on the same session
        assert [[(1,)]] == await one.exchange([(b"SELECT 1", {})])
        with pytest.raises(psycopg.errors.DuplicatePreparedStatement):
            await other.exchange([(b"SELECT 1", {})])
        assert [[(1,)]] == await other.exchange([(b"SELECT 1", {})], prepare=False)


@pytest.mark.parametrize(("pooled", "keeps"), [("losing", False), ("keeping", True)])
async def test_a_probe_tells_what_a_pooler_does(
    request: pytest.FixtureRequest, pooled: str, keeps: bool
) -> None:
    dsn = request.getfixturevalue(pooled)
    found = await probe_pooling(connecting_to(dsn))
    assert Pooling(shares_sessions=True, keeps_statements=keeps) == found


@pytest.mark.parametrize("sessions", [2, 3])
async def test_a_pooler_that_takes_its_sessions_in_turn_is_noticed(
    postgres_dsn: str, sessions: int
) -> None:
    with pgbouncer(postgres_dsn, sessions=sessions, server_round_robin=1) as pooled:
        open_sessions(pooled, sessions)
        found = await probe_pooling(connecting_to(pooled))
    assert Pooling(shares_sessions=True, keeps_statements=False) == found


async def test_a_server_without_a_pooler_shares_nothing(postgres_dsn: str) -> None:
    found = await probe_pooling(connecting_to(postgres_dsn))
    assert Pooling(shares_sessions=False, keeps_statements=True) == found


@pytest.mark.parametrize("sessions", [1, 2])
async def test_a_pooler_of_whole_sessions_shares_nothing(postgres_dsn: str, sessions: int) -> None:
    """With one session the second connection gets none while the first is open."""
    with pgbouncer(postgres_dsn, sessions=sessions, pool_mode="session") as pooled:
        found = await probe_pooling(connecting_to(pooled))
    assert Pooling(shares_sessions=False, keeps_statements=True) == found


async def test_a_probe_waits_for_its_first_session_as_long_as_a_statement(
    single: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pooling, "_WAIT_S", 0.1)  # for the second session
    with psycopg.connect(single, autocommit=True) as holder:
        holder.execute("SELECT 1")
        probing = asyncio.create_task(probe_pooling(connecting_to(single)))
        ended, _ = await asyncio.wait([probing], timeout=0.6)
        assert not ended
    found = await probing
    assert Pooling(shares_sessions=False, keeps_statements=True) == found


async def test_a_memory_works_with_one_session_and_leaves_it(single: str) -> None:
    for begin in (0, 5):
        async with open_memory(single, pool_size=1) as memory:
            await use(memory, ANN, begin)
            assert begin + 5 == len(await memory.recall(ANN, "note", limit=20))


async def test_an_index_is_built_and_a_worker_listens_with_whole_sessions(
    postgres_dsn: str,
) -> None:
    with pgbouncer(postgres_dsn, sessions=3, pool_mode="session") as pooled:
        async with opened(pooled) as storage:
            await storage.report()  # its connection keeps a session
            async with storage.indexes.index_builder() as builder:
                assert builder is not None
            async with aclosing(storage.jobs.job_hints()) as hints:  # type: ignore[type-var]
                assert None is await anext(hints)


async def test_without_a_free_session_calls_end_and_say_why(
    single: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(single) as storage:
        await storage.report()  # its connection keeps the session
        monkeypatch.setattr(connecting, "ANSWER_GRACE_S", 0.1)
        monkeypatch.setattr(connecting, "silence_s", lambda _: 0.1)  # of connections from now on
        impatient = Settings(uri=single, home=Path(), statement_timeout_s=0.1)
        why = "pooler .* smaller pool_size, got 16"
        with pytest.raises(StorageUnavailable, match=why):
            await open_storage(impatient, StandingClock()).open()
        with pytest.raises(StorageUnavailable, match=why):
            await anext(storage.jobs.job_hints())
        with pytest.raises(StorageUnavailable, match=why):
            async with storage.indexes.index_builder():
                pass


async def test_opening_names_a_pooler_that_ends_those_who_wait(postgres_dsn: str) -> None:
    with (
        pgbouncer(postgres_dsn, sessions=1, pool_mode="session", query_wait_timeout=1) as pooled,
        psycopg.connect(pooled, autocommit=True) as holder,
    ):
        holder.execute("SELECT 1")
        with pytest.raises(StorageUnavailable, match="cannot be used"):
            async with open_memory(pooled):
                pass


def test_the_doctor_says_what_a_pooler_loses(losing: str) -> None:
    told = CliRunner().invoke(app, ["doctor", "--uri", losing], env={"COLUMNS": "500"}).output
    assert "loses prepared statements" in told and "HIPPOCAMPUS_PREPARE=off" in told


def test_the_doctor_needs_one_session(single: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert {"ok", "note"} == {one.status for one in examine(single)}
    monkeypatch.setattr(connecting, "silence_s", lambda _: 0.1)
    with psycopg.connect(single, autocommit=True) as holder:
        holder.execute("SELECT 1")
        found = {one.check: one for one in examine(single)}["server"]
    assert "problem" == found.status and "free session" in found.advice


async def test_an_index_is_not_built_through_a_pooler_and_leaves_nothing(losing: str) -> None:
    async with opened(losing) as storage:
        with pytest.raises(StorageUnavailable, match="pooler"):
            async with storage.indexes.index_builder():
                pass
    # Other tests hold locks in other databases of the server.
    here = "JOIN pg_database ON pg_database.oid = database WHERE datname = current_database()"
    assert [] == rows(losing, f"SELECT FROM pg_locks {here} AND locktype = 'advisory'")
    assert ['"$user", public'] == column(losing, "SHOW search_path")


async def test_a_listener_behind_a_pooler_leaves_nothing_and_says_so(losing: str) -> None:
    async with opened(losing) as storage:
        with pytest.raises(StorageUnavailable, match="pooler"):
            await anext(storage.jobs.job_hints())
    assert [] == rows(losing, "SELECT pg_listening_channels()")


async def test_a_schema_is_made_through_a_pooler(empty_dsn: str) -> None:
    with pgbouncer(empty_dsn) as pooled:
        async with open_memory(pooled) as memory:
            await memory.remember(ANN, "Ann sails.")
            assert 1 == len(await memory.recall(ANN, "sails"))
