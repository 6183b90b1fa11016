"""Provides the storage port on both engines, so that one test compares their behaviour."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
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
    lent = request.getfixturevalue("seekdb").lend() if request.param == "seekdb" else None
    uri = next(lent) if lent else request.getfixturevalue("postgres_dsn")
    storage = open_storage(Settings(uri=uri, home=Path()), storage_clock)
    await storage.open()
    yield storage
    await storage.close()
    if lent:
        next(lent, None)


@pytest.fixture
def postgres_dsn(request: pytest.FixtureRequest) -> Iterator[str]:
    """The DSN of a PostgreSQL database with the schema and no rows."""
    yield from _postgres(request)


@pytest.fixture
def dsn_of_source(request: pytest.FixtureRequest) -> Iterator[str]:
    """The DSN of a second such database."""
    yield from _postgres(request)


def _postgres(request: pytest.FixtureRequest) -> Iterator[str]:
    server, template = map(request.getfixturevalue, ("server", "template"))
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        yield make_conninfo(server, dbname=name)
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
