"""A process that ends without closing its memory on SeekDB: in silence, and nothing is lost."""

from __future__ import annotations

import pytest

from shared_core import open_memory
from tests.integration.test_exit import REFLECTING, SUBMITTED, run

READ_AND_LEFT = """
import asyncio, sys
from shared_core import Scope, open_memory

memory = open_memory(sys.argv[1])

async def main():
    await memory.remember(Scope("app", "ann"), "I sail on Sundays.")
    assert await memory.recall(Scope("app", "ann"), "When do I sail?")

asyncio.run(main())
"""


async def rows(dsn: str, query: str) -> list[tuple[object, ...]]:
    async with open_memory(dsn, worker=False) as memory:
        database = memory._storage._database  # type: ignore[attr-defined]
        return [tuple(row) for row in await database.read(lambda tx: tx.rows(query))]


@pytest.mark.timeout(240)
async def test_reads_are_counted_to_the_end(seekdb_dsn: str) -> None:
    assert "" == run(READ_AND_LEFT, seekdb_dsn, 180)
    found = await rows(seekdb_dsn, "SELECT access_count FROM memory_access")
    assert [(1,)] == found


@pytest.mark.timeout(240)
async def test_the_job_in_work_goes_back_to_the_queue(seekdb_dsn: str) -> None:
    assert "" == run(REFLECTING + SUBMITTED, seekdb_dsn, 180)
    found = await rows(seekdb_dsn, "SELECT status, lease_until FROM consolidation_jobs")
    assert [("pending", None)] == found
