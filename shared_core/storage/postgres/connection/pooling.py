"""Finds out whether a pooler stands before a server, and what it does to sessions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import psycopg

from shared_core.storage.postgres.connection.pipeline import LOST_STATEMENT, Connection

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
    """Open two connections, compare their sessions, and close them. Raises what connect raises."""
    async with await connect() as one, await connect() as other:
        # A pooler that takes its sessions in turn gives each its own if they alternate.
        order = (one, other, other, one, one, other)
        pids = [(connection, await _session(connection)) for connection in order]
        if len(set(pids)) == len({pid for _, pid in pids}) == 2:
            return Pooling(shares_sessions=False, keeps_statements=True)
        return Pooling(shares_sessions=True, keeps_statements=await _keeps_statements(one, other))


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
