"""A message of several statements: one transaction, prepared once, and nothing left half-way."""

import asyncio

import psycopg
import pytest

from shared_core import run_sync
from shared_core.storage.postgres.connection import pipeline as wire
from shared_core.storage.postgres.connection.pipeline import Connection

MIB = 1 << 20


@pytest.fixture
async def connection(dsn):
    async with await Connection.connect(dsn, autocommit=True) as opened:
        yield opened


async def prepared(connection: Connection) -> int:
    [[[count]]] = await connection.exchange(
        [(b"SELECT count(*) FROM pg_prepared_statements WHERE statement NOT LIKE '%%count(%%'", {})]
    )
    assert isinstance(count, int)
    return count


async def test_placeholders_are_numbered_large_messages_flow_wrong_ones_leave_nothing(connection):
    both = b"SELECT %(word)s::text, %(number)s::int, %(word)s::text || '%%', %(numbers)b::int[]"
    sent = [
        (both, {"word": "Wörter", "number": 7, "numbers": [1, 2], "unused": None}),
        (b"CREATE TABLE t (n int)", {}),
        (b"INSERT INTO t VALUES (%(n)s), (%(m)s)", {"n": 1, "m": None}),
        (b"SELECT n FROM t ORDER BY n", {}),
    ]
    answers = await connection.exchange(sent)
    assert answers == [[("Wörter", 7, "Wörter%", [1, 2])], [], [], [(1,), (None,)]]
    other = (b"SELECT %(n)s::int + 1", {"n": 1})
    with pytest.raises(psycopg.ProgrammingError):
        await connection.exchange([other, (b"SELECT %(n)s", {"n": object()})])
    assert [[(2,)]] == await connection.exchange([other])
    step = (b"SELECT %(text)s::text || repeat('y', 1048576)", {"text": "x" * MIB})
    answers = await asyncio.wait_for(connection.exchange([step] * 20), 60)
    assert [2 * MIB] * 20 == [len(rows[0][0]) for rows in answers]


async def test_a_refused_statement_leaves_a_connection_that_a_hang_up_breaks(connection, dsn):
    make = (b"CREATE TABLE t (n int)", {})
    with pytest.raises(psycopg.errors.DivisionByZero):
        await connection.exchange([make, (b"SELECT 1 / %(n)s", {"n": 0}), (b"SELECT 3", {})])
    with pytest.raises(psycopg.errors.UndefinedTable):
        await connection.exchange([(b"SELECT 3", {}), (b"SELECT FROM t", {})])
    sent = [make, (b"SELECT 4 / %(n)s", {"n": 2}), (b"SELECT 3", {})]
    assert [[], [(2,)], [(3,)]] == await connection.exchange(sent)
    hang_up = (b"SELECT pg_terminate_backend(pg_backend_pid())", {})
    with pytest.raises(psycopg.OperationalError):
        await connection.exchange([hang_up, (b"SELECT 1", {})])
    assert connection.broken


async def test_a_statement_is_prepared_once_and_the_oldest_gives_way(connection, monkeypatch):
    monkeypatch.setattr(wire, "MAX_PREPARED", 5)
    for number in range(20):
        for _ in range(2):
            text = b"SELECT %d, %%(n)s::int" % number
            sent = [(text, {"n": 1}), (b"SELECT 0", {})]
            assert [[(number, 1)], [(0,)]] == await connection.exchange(sent)
    assert 3 <= await prepared(connection) <= 7


@pytest.mark.parametrize("seconds", [0.0, 0.05])
def test_a_sync_caller_gets_its_rows_soon_or_late(dsn, seconds):
    async def ask() -> list[wire.Rows]:
        async with await Connection.connect(dsn, autocommit=True) as connection:
            asking = (b"SELECT 1 FROM pg_sleep(%(s)s)", {"s": seconds})
            return await connection.exchange([asking, asking])

    assert [[(1,)], [(1,)]] == run_sync(ask())


async def test_a_cancelled_message_leaves_a_connection_that_works(connection):
    call = asyncio.create_task(connection.exchange([(b"SELECT pg_sleep(60)", {})]))
    await asyncio.sleep(0.1)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    assert call.cancelled()
    assert [[(1,)]] == await connection.exchange([(b"SELECT 1", {})])
    assert 2 == await prepared(connection)
