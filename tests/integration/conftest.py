"""Provides the storage port on both engines, so that one test compares their behaviour."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from embedded_users import User, empty_folder, lent, prepared_folder, users
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
def guest(server: str) -> Iterator[str]:
    """The name of a user of the server who may log in and nothing else."""
    name = f"guest_{uuid.uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {name} LOGIN")
        yield name
        admin.execute(f"DROP ROLE {name}")


@pytest.fixture(scope="module")
def prepared() -> Iterator[Path]:
    """The folder of an embedded PostgreSQL that holds one note, without a server."""
    with prepared_folder() as folder:
        yield folder


@pytest.fixture
def empty_home() -> Iterator[Path]:
    """An empty folder that the embedded server of any OS user can reach."""
    with empty_folder() as folder:
        yield folder


@pytest.fixture
def home(prepared: Path, empty_home: Path) -> Iterator[Path]:
    """A folder with the database of prepared in it."""
    with lent(prepared, empty_home) as folder:
        yield folder


@pytest.fixture
def user_of() -> Iterator[Callable[..., User]]:
    """Starts a process that uses the embedded server of a folder, as an OS user."""
    with users() as started:

        def start(home: Path, uid: int = 0) -> User:
            started.append(User(home, uid))
            return started[-1]

        yield start
