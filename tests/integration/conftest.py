"""Provides the storage port on both engines, so that one test compares their behaviour."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from postgres_databases import PostgresDatabases
from standing_clock import StandingClock

from shared_core.ports.storage import Storage
from shared_core.settings import Settings
from shared_core.storage import open_storage


@pytest.fixture
def storage_clock() -> StandingClock:
    """The clock of the fixture storage."""
    return StandingClock()


@pytest.fixture(params=["postgres", "seekdb"])
async def storage(
    request: pytest.FixtureRequest, storage_clock: StandingClock
) -> AsyncIterator[Storage]:
    """An open storage on an empty database, of each engine in turn."""
    lent = request.getfixturevalue(request.param).lend()
    storage = open_storage(Settings(uri=next(lent), home=Path()), storage_clock)
    await storage.open()
    yield storage
    await storage.close()
    next(lent, None)


@pytest.fixture
def dsn_of_source(postgres: PostgresDatabases) -> Iterator[str]:
    """The DSN of another PostgreSQL database with the schema and no rows."""
    yield from postgres.lend()
