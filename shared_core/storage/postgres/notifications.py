"""Hears of new jobs by LISTEN, on a connection of its own. A hint: the table alone is the truth."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime
from uuid import uuid4

import psycopg

from shared_core.core.namespaces import ROOT
from shared_core.errors import StorageUnavailable
from shared_core.storage.postgres.connection.database import PostgresDatabase
from shared_core.storage.postgres.connection.pipeline import Connection
from shared_core.storage.postgres.connection.sql_files import statement

LISTEN = "LISTEN hippocampus"
PROOF_S = 5.0
"""How long the hint that is sent to oneself may take."""


async def job_hints(database: PostgresDatabase) -> AsyncIterator[datetime | None]:
    """Yield when new jobs of the schema are due; None first, when hints are known to arrive.

    A transaction pooler takes LISTEN and delivers nothing, so a hint to oneself is sent first.
    Raises StorageUnavailable when that does not come, or the connection is lost.
    """
    connection = await database.connect()
    try:
        await _prove(database, connection)
        yield None
        async for hint in connection.notifies():
            schema, _, due = hint.payload.partition(" ")
            if schema == database.schema:
                with suppress(ValueError, OverflowError):
                    yield datetime.fromtimestamp(float(due), UTC)
    except psycopg.Error as error:
        raise StorageUnavailable(f"the connection that listens was lost: {error}") from error
    finally:
        await connection.close()


async def _prove(database: PostgresDatabase, connection: Connection) -> None:
    proof = f"proof {uuid4().hex}"
    try:
        async with asyncio.timeout(PROOF_S):
            await connection.execute(LISTEN)
            await database.run(ROOT, (statement("hint_worker"), {"worker": proof}))
            async for hint in connection.notifies():
                if hint.payload == proof:
                    return
    except TimeoutError:
        pass
    raise StorageUnavailable(
        "LISTEN delivers nothing: a pooler in front of the server may not support it"
    )
