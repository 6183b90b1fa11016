"""A server with fewer connections than its clients want: they wait for one another."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from shared_core import Scope, open_memory
from shared_core.settings import Settings
from shared_core.storage.postgres.connection import pool as pools
from shared_core.storage.postgres.connection.database import PostgresDatabase
from shared_core.storage.postgres.connection.pool import NoFreeSlot
from shared_core.storage.postgres.connection.statements import Step

ANN = Scope("app", "ann")
SLOTS = 3
ONE = Step("one", b"SELECT 1", {})
NAP = Step("nap", b"SELECT pg_sleep(0.05)", {})
LONG_S = 60
"""Ends a test that hangs; no test waits for it."""


@pytest.fixture
def tight(postgres_dsn: str) -> Iterator[str]:
    """The DSN of a user who may have no more than SLOTS connections."""
    name = f"tight_{uuid.uuid4().hex}"
    with psycopg.connect(postgres_dsn, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {name} LOGIN CONNECTION LIMIT {SLOTS} IN ROLE hippocampus_app")
        yield make_conninfo(postgres_dsn, user=name)
        admin.execute(f"SELECT pg_terminate_backend(pid, 60000) FROM {of_user(name)}")
        admin.execute(f"DROP ROLE {name}")


def of_user(name: str) -> str:
    return f"pg_stat_activity WHERE usename = '{name}'"


@pytest.fixture
async def waiting(tight: str) -> AsyncIterator[PostgresDatabase]:
    """An open database whose pool has no connection yet."""
    database = PostgresDatabase(Settings(uri=tight, home=Path(), pool_size=8))
    await database.open()
    yield database
    await database.close()


async def test_callers_share_the_slots_that_there_are(waiting: PostgresDatabase) -> None:
    naps = (waiting.run("/", NAP) for _ in range(24))
    assert 24 == len(await asyncio.wait_for(asyncio.gather(*naps), LONG_S))


async def test_processes_that_write_at_once_lose_nothing(tight: str) -> None:
    async with open_memory(tight) as one, open_memory(tight) as other:
        writes = [memory.remember(ANN, f"note {n}") for n in range(20) for memory in (one, other)]
        keys = await asyncio.wait_for(asyncio.gather(*writes), LONG_S)
        assert 40 == len({key for [key] in keys})


async def test_idle_connections_are_closed_for_others(
    tight: str, waiting: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "IDLE_S", 0.05)
    await asyncio.gather(*(waiting.run("/", NAP) for _ in range(24)))
    other = PostgresDatabase(Settings(uri=tight, home=Path()))
    await asyncio.wait_for(other.open(), LONG_S)
    held = [await other.connect() for _ in range(SLOTS - 1)]  # one stays with the first
    assert [[[(1,)]]] == [await waiting.run("/", ONE)]
    for connection in held:
        await connection.close()
    await other.close()


async def test_a_slot_that_comes_free_is_taken(tight: str, waiting: PostgresDatabase) -> None:
    held = [await psycopg.AsyncConnection.connect(tight) for _ in range(SLOTS)]
    call = asyncio.create_task(waiting.run("/", ONE))
    await asyncio.wait([call], timeout=0.2)
    assert not call.done()
    for connection in held:
        await connection.close()
    assert [[(1,)]] == await asyncio.wait_for(call, LONG_S)


async def test_without_a_slot_the_error_names_both_limits(tight: str) -> None:
    held = [await psycopg.AsyncConnection.connect(tight) for _ in range(SLOTS)]
    database = PostgresDatabase(Settings(uri=tight, home=Path(), connect_timeout_s=0.2))
    with pytest.raises(NoFreeSlot, match=r"raise its max_connections.* pool_size"):
        await asyncio.wait_for(database.open(), LONG_S)
    with pytest.raises(NoFreeSlot):
        await asyncio.wait_for(database.connect(), LONG_S)
    for connection in held:
        await connection.close()


async def test_a_caller_that_gives_up_leaves_its_turn(tight: str) -> None:
    database = PostgresDatabase(Settings(uri=tight, home=Path(), pool_size=2))
    await database.open()
    held = [await psycopg.AsyncConnection.connect(tight) for _ in range(SLOTS)]
    calls = [asyncio.create_task(database.run("/", ONE)) for _ in range(6)]
    await asyncio.wait(calls, timeout=0.1)
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    for connection in held:
        await connection.close()
    again = (database.run("/", ONE) for _ in range(6))
    assert 6 == len(await asyncio.wait_for(asyncio.gather(*again), LONG_S))
    await database.close()
