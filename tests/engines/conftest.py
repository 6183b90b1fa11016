"""Provides the storage port on each engine in turn, and the same calls on both at once."""

from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from both_engines import Both
from operation_rows import BEN, MEMORY, NOW, memory, write
from turns import Clock

from shared_core import run_sync
from shared_core.ports.operations import Insert
from shared_core.settings import Settings
from shared_core.storage import open_storage


@pytest.fixture(scope="session")
def two_storages(postgres, seekdb):
    """A storage on each engine, in which each test is an application: take `both`."""
    lent = postgres.lend(), seekdb.lend()
    both = Both(*map(next, lent))
    run_sync(both.open())
    yield both
    run_sync(both.close())
    for one in lent:
        one.close()  # the servers go with the run, and their databases with them


@pytest.fixture(params=["postgres and seekdb"])
def both(two_storages):
    """A storage on each engine, and a user of an application that no other test knows."""
    two_storages.begin()
    return two_storages


@pytest.fixture(scope="session", params=["postgres", "seekdb"])
def lasting_storage(request):
    """A storage of each engine in turn, its clock, and the call that deletes its rows."""
    databases, clock = request.getfixturevalue(request.param), Clock()
    lent = databases.lend()
    uri = next(lent)
    storage = open_storage(Settings(uri=uri, home=Path()), clock)
    run_sync(storage.open())
    yield storage, clock, partial(databases.empty, uri)
    run_sync(storage.close())
    next(lent, None)


@pytest.fixture
def storage(lasting_storage):
    """An open storage without rows, of each engine in turn. For models: new_storage."""
    storage, clock, empty = lasting_storage
    clock.now = clock.start
    yield storage
    empty()


@pytest.fixture
def storage_clock(lasting_storage):
    """The clock of the fixture storage."""
    return lasting_storage[1]


@pytest.fixture(params=["postgres", "seekdb"])
async def new_storage(request):
    """An open storage on a database of its own, of each engine in turn."""
    lent = request.getfixturevalue(request.param).lend()
    storage = open_storage(Settings(uri=next(lent), home=Path()), Clock())
    await storage.open()
    yield storage
    await storage.close()
    next(lent, None)


@pytest.fixture
async def five(storage):
    """Five memories, of which the third has a thread and ended one second after NOW."""
    ends = {3: {"thread_id": "t", "superseded_at": NOW + timedelta(seconds=1)}}
    rows = [memory(place, **ends.get(place, {})) for place in range(1, 6)]
    await write(storage, Insert("memories", MEMORY, rows))
    await write(storage, Insert("memories", MEMORY, rows), tenant=BEN)
    return storage
