"""Provides the storage port on both engines, and users of the memory of a worker."""

import os
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from embedded_users import User, copy_cluster, empty_folder, lent
from person import Person
from postgres_admin import new_user
from turns import Clock

from shared_core import open_memory, run_sync


@pytest.fixture
def guest(server):
    """The name of a user of the server who may log in and nothing else."""
    with new_user(server) as name:
        yield name


@pytest.fixture(scope="module")
def prepared():
    """The folder of an embedded PostgreSQL that holds one note, without a server."""
    with empty_folder() as folder:
        copy_cluster(folder)
        yield folder


@pytest.fixture
def empty_home():
    """An empty folder that the embedded server of any OS user can reach."""
    with empty_folder() as folder:
        yield folder


@pytest.fixture
def home(prepared, empty_home):
    """A folder with the database of prepared in it."""
    with lent(prepared, empty_home) as folder:
        yield folder


@pytest.fixture
def user_of():
    """Starts a process that uses the embedded server of a folder, as an OS user.

    At the end it is closed, and must have written nothing to stderr.
    """
    started: list[User] = []

    def start(home: Path, uid: int = 0) -> User:
        started.append(User(home, uid))
        return started[-1]

    yield start
    assert [user.close() for user in started] == [""] * len(started)


@pytest.fixture
def ann(shared_memory, shared_dsn, scope):
    """A user whom no other test knows, in the memory of this worker."""
    return Person(shared_memory, scope, shared_dsn)


@pytest.fixture(scope="session")
def still_dsn(request):
    """The DSN of a database of this worker whose memories run no jobs: take `scope` too."""
    on_seekdb = os.environ.get("HIPPOCAMPUS_TEST_ENGINE") == "seekdb"
    yield from request.getfixturevalue("seekdb" if on_seekdb else "postgres").lend()


@pytest.fixture(scope="session")
def still_memory(still_dsn):
    """A memory that reads the clock beside it and runs no jobs: take `ann_by_clock`."""
    clock = Clock()
    memory = open_memory(still_dsn, clock=clock, worker=False)
    yield memory, clock
    run_sync(memory.close())


@pytest.fixture
def ann_by_clock(still_memory, still_dsn, scope):
    """A user whom no other test knows, in a memory whose clock the test moves."""
    memory, clock = still_memory
    clock.day = 0
    return Person(memory, scope, still_dsn, clock)


@pytest.fixture
async def ann_with(still_dsn, scope):
    """Opens memories with options: `ann_with(llm=model)`, with `clock=` that of the person."""
    async with AsyncExitStack() as stack:

        def opened(clock: Clock | None = None, **options: object) -> Person:
            memory = open_memory(still_dsn, worker=False, clock=clock, **options)  # type: ignore[arg-type]
            stack.push_async_callback(memory.close)
            return Person(memory, scope, still_dsn, clock or Clock())

        yield opened
