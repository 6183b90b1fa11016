"""Finds out whether a pooler stands before a server, and what it does to sessions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import psycopg

from shared_core.storage.postgres.connection.pipeline import LOST_STATEMENT, Connection

_WAIT_S = 5.0
"""Seconds in which a pooler that has a free session gives it to the second connection."""
_PID = b"SELECT pg_backend_pid()"
_SHARED = b"SELECT 'prepared by two connections'"
_REPEATED = b"SELECT 'prepared by one connection and sent again'"


@dataclass(frozen=True, slots=True)
class Pooling:
    """What two connections at once show.

    Attributes:
        shares_sessions: transactions of one connection reach several sessions of the server, as
            with a transaction pooler. LISTEN, session locks and session settings then fail.
        keeps_statements: a prepared statement stays with the connection that prepared it.
    """

    shares_sessions: bool
    keeps_statements: bool


async def probe_pooling(connect: Callable[[], Awaitable[Connection]]) -> Pooling:
    """Open two connections, compare their sessions, and close them.

    Raises what connect raises, and NoAnswer if a pooler gives the first of them no session within
    the silence_s of its statements.
    """
    async with await connect() as one, await connect() as other:
        pids = [(one, await _session(one))]
        async with _asked(other) as answer:
            await asyncio.wait([answer], timeout=_WAIT_S)
            pids.append((one, await _session(one)))
            if not answer.done():  # one was served before other, so it had kept its session
                is_own = len(set(pids)) == 1
                return Pooling(shares_sessions=not is_own, keeps_statements=is_own)
            pids.append((other, answer.result()))
        # Not in turn: a pooler that takes its sessions in turn would give each its own.
        pids += [(connection, await _session(connection)) for connection in (one, other, other)]
        if len(set(pids)) == len({pid for _, pid in pids}) == 2:
            return Pooling(shares_sessions=False, keeps_statements=True)
        return Pooling(shares_sessions=True, keeps_statements=await _keeps_statements(one, other))


@asynccontextmanager
async def _asked(connection: Connection) -> AsyncIterator[asyncio.Task[int]]:
    answer = asyncio.create_task(_session(connection))
    try:
        yield answer
    finally:
        answer.cancel()
        await asyncio.gather(answer, return_exceptions=True)


async def _session(connection: Connection) -> int:
    [[(pid,)]] = await connection.exchange([(_PID, {})], prepare=False)
    return int(pid)


async def _keeps_statements(one: Connection, other: Connection) -> bool:
    # A shared session refuses the second of the first two. Where sessions are taken in turn, the
    # last one misses what was prepared just before.
    order = ((one, _SHARED), (other, _SHARED), (one, _REPEATED), (one, _REPEATED))
    try:
        for connection, text in order:
            await connection.exchange([(text, {})])
    except psycopg.Error as error:
        if error.sqlstate not in LOST_STATEMENT:
            raise
        return False
    return True
