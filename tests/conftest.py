"""Gives each test a user of its own in the memory of its worker, or a database of its own: a copy
of a migrated template on one embedded PostgreSQL, which all workers of the run share."""

import fcntl
import gc
import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from citus_databases import CITUS_DSN, CitusDatabases
from hypothesis import settings
from long_forms import LONG
from measured_run import MeasuredRun
from memory_disk import temporary_files_in_memory
from postgres_databases import PostgresDatabases, new_database
from psycopg.conninfo import make_conninfo
from run_order import ModuleAndEngineScheduling, is_quick, needs_database, on_seekdb, place
from seekdb_databases import SeekdbDatabases
from turns import Clock

from shared_core import Scope, open_memory, run_sync
from shared_core.models.embedders import E5Embedder
from shared_core.storage.oceanbase.connection.embedded import has_network
from shared_core.storage.postgres.connection.embedded import EmbeddedPostgres, describe

# No deadlines: machines are noisy, and the first example of a run loads what the others reuse.
settings.register_profile("untimed", deadline=None, max_examples=100 if LONG else 30)
settings.load_profile("untimed")

# What is imported and collected lives until the end: a tenth of the time went into searching it.
gc.disable()  # until pytest_collection_finish

os.environ["HIPPOCAMPUS_LANG"] = "en"  # whatever the locale of the machine is

UPSTREAM = Path(__file__).parent / "upstream"
TEMPLATE = "hippocampus_template"
UNSAFE_AND_FAST = ("fsync = off", "full_page_writes = off")
"""Settings of the shared server. Tests of durability start servers of their own."""
ENGINES = ("postgres", "seekdb", "both")
ENGINE = os.environ.get("HIPPOCAMPUS_TEST_ENGINE", "postgres")
"""The engine of tests that are about none: `postgres`, `seekdb`, or `both`, one after the other."""

IS_FRESH = "PYTEST_CLONE_IS_FRESH"
"""The variable by which workers know that no test was compiled when the run began."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--measure", action="store_true", help="write the time of each module")


@pytest.hookimpl(tryfirst=True)  # before pytest and its workers choose a folder
def pytest_configure(config: pytest.Config) -> None:
    if ENGINE not in ENGINES:
        allowed = ", ".join(ENGINES)
        raise pytest.UsageError(f"HIPPOCAMPUS_TEST_ENGINE must be one of {allowed}, got {ENGINE!r}")
    if config.option.measure:
        config.pluginmanager.register(MeasuredRun(Path(__file__).parent))
    _embed_each_text_once()
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    _keep_bytecode()
    in_memory = temporary_files_in_memory()
    folder = in_memory.__enter__()
    config.add_cleanup(lambda: in_memory.__exit__(None, None, None))
    if folder and config.option.basetemp is None:
        config.option.basetemp = str(folder / "t")


def _embed_each_text_once() -> None:
    """Let a process keep the vectors of e5: its tests embed most texts again and again."""
    encode, known = E5Embedder._encode, dict[tuple[bool, str], Any]()

    def encode_new(self: E5Embedder, network: Any, texts: list[str], query: bool) -> Any:
        new = [text for text in dict.fromkeys(texts) if (query, text) not in known]
        vectors = encode(self, network, new, query) if new else ()
        known.update(zip([(query, text) for text in new], vectors, strict=True))
        return np.stack([known[query, text] for text in texts])

    E5Embedder._encode = encode_new  # type: ignore[method-assign]


def _keep_bytecode() -> None:
    """Let the processes of the run share compiled modules, also where the environment forbids it.

    Else each of some hundred processes compiles this project, and each worker its tests, anew.
    """
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if not any(Path(__file__).parent.glob("unit/__pycache__/test_*")):
        os.environ[IS_FRESH] = "yes"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Let one worker of a fresh clone collect first: it compiles what all others then find."""
    if IS_FRESH not in os.environ:
        return (yield)
    with Path(__file__).open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(lock, fcntl.LOCK_SH)
        return (yield)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marked = metafunc.definition.get_closest_marker("both_engines")
    if marked and "on_engine" in metafunc.fixturenames and ENGINE == "both":
        metafunc.parametrize("on_engine", ["postgres", "seekdb"], indirect=True)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    asked = config.option.markexpr
    if asked == "quick" and not is_quick(collection_path):
        return True
    # Where the folder is named, its tests are collected, and deselected with a word about it.
    is_named = any(UPSTREAM.name in argument for argument in config.args)
    left_out = asked == "not upstream" and collection_path == UPSTREAM and not is_named
    return True if left_out else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        is_tail = item.get_closest_marker("tail") is not None
        if is_quick(item.path) and not needs_database(item) and not is_tail:
            item.add_marker("quick")
    items.sort(key=place)
    if has_network():
        return
    skipped = pytest.mark.skip(reason="SeekDB crashes where no network but the loopback is up")
    for item in items:
        if on_seekdb(item.nodeid):
            item.add_marker(skipped)


def pytest_collection_finish() -> None:
    """Leave what was imported and collected out of every garbage collection of the run."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return two workers more than there are cores: each waits for servers part of its time.

    With one more, two cores had nothing to do for a fifth of the run. Quick tests wait for nothing.
    """
    return (os.cpu_count() or 1) + 2 * (config.option.markexpr != "quick")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ModuleAndEngineScheduling:
    gc.enable()  # the process that hands out the tests collects none
    return ModuleAndEngineScheduling(config, log)


@pytest.fixture(scope="session")
def server(testrun_uid):
    """The DSN of the server that all workers share; the last worker removes it."""
    home = Path(tempfile.gettempdir()) / f"hippocampus-tests-{testrun_uid[:12]}"
    embedded = EmbeddedPostgres(home)
    dsn = embedded.acquire()
    with psycopg.connect(dsn, autocommit=True) as admin:
        for setting in UNSAFE_AND_FAST:
            admin.execute(f"ALTER SYSTEM SET {setting}")
        admin.execute("SELECT pg_reload_conf()")
    yield dsn
    embedded.release()
    if not describe(home).running:
        shutil.rmtree(home)


@pytest.fixture(scope="session")
def template(server):
    """The name of a database with the migrated schema and no rows."""
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute("SELECT pg_advisory_lock(7)")
        found = admin.execute("SELECT FROM pg_database WHERE datname = %s", [TEMPLATE]).fetchone()
        if found is None:
            admin.execute("CREATE DATABASE hippocampus_build")
            run_sync(_migrate(make_conninfo(server, dbname="hippocampus_build")))
            admin.execute(f"ALTER DATABASE hippocampus_build RENAME TO {TEMPLATE}")
            with psycopg.connect(server, dbname=TEMPLATE):
                pass  # writes the file of the catalogue that each backend of a copy then reads
        admin.execute("SELECT pg_advisory_unlock(7)")
    return TEMPLATE


@pytest.fixture(scope="session")
def postgres(server, template):
    """Empty databases on the PostgreSQL that all workers share."""
    databases = PostgresDatabases(server, template)
    yield databases
    databases.close()


@pytest.fixture(scope="session")
def seekdb(testrun_uid, worker_id):
    """Empty databases on the SeekDB that all workers share; the last worker removes it."""
    home = Path(tempfile.gettempdir()) / f"hippocampus-seekdb-{testrun_uid[:12]}"
    databases = SeekdbDatabases(home, worker_id)
    yield databases
    databases.close()


@pytest.fixture(scope="session")
def citus():
    """The schema on the cluster that HIPPOCAMPUS_TEST_CITUS_DSN names."""
    return CitusDatabases(CITUS_DSN)


@pytest.fixture
def on_engine(request):
    """The engine of a test that is not about one."""
    return str(getattr(request, "param", "postgres" if ENGINE == "both" else ENGINE))


@pytest.fixture
def dsn(request, on_engine):
    """The DSN of a database with the schema and no rows."""
    yield from _empty(request, on_engine)


@pytest.fixture
def other_dsn(request, on_engine):
    """The DSN of a second such database on the same server."""
    yield from _empty(request, on_engine)


@pytest.fixture
def seekdb_dsn(request):
    """The DSN of a SeekDB database, whichever engine the test runs on."""
    yield from _empty(request, "seekdb")


@pytest.fixture
def postgres_dsn(request):
    """The DSN of a PostgreSQL database, whichever engine the test runs on."""
    yield from _empty(request, "postgres")


@pytest.fixture
def empty_dsn(server):
    """The DSN of a new database without a schema, dropped afterwards."""
    yield from new_database(server)


@pytest.fixture
async def memory(dsn):
    """An open memory on a fresh database, with the bundled embedder."""
    async with open_memory(dsn) as engine:
        yield engine


@pytest.fixture
def clock():
    """A clock that the test moves."""
    return Clock()


@pytest.fixture
async def clocked(dsn, clock):
    """An open memory on a fresh database that reads the clock of the test and runs no worker."""
    async with open_memory(dsn, clock=clock, worker=False) as engine:
        yield engine


@pytest.fixture(scope="session")
def shared_dsn(request):
    """The DSN of the database of this worker, in which each test is a tenant: take `scope` too."""
    yield from _empty(request, "postgres" if ENGINE == "both" else ENGINE)


@pytest.fixture(scope="session")
def shared_memory(shared_dsn):
    """The open memory of this worker, in which each test is a tenant: take `scope` too."""
    memory = open_memory(shared_dsn)
    yield memory
    run_sync(memory.close())


@pytest.fixture
def scope():
    """A user of an application that no other test knows; other users of it are the test's too."""
    return Scope(f"support.bot {uuid.uuid4().hex[:12]}", "alice@example.com")


@pytest.fixture(autouse=True, scope="session")
def passable_folders(tmp_path_factory):
    """Let the servers of root, which run as another user, reach the folders of tests."""
    base, temporary = tmp_path_factory.getbasetemp(), Path(tempfile.gettempdir()).resolve()
    for folder in (base, *base.parents):
        if temporary in folder.parents:  # a folder that --basetemp names elsewhere is not ours
            folder.chmod(0o711)


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    """Keep every test away from the memory of the user who runs it."""
    tmp_path.chmod(0o711)
    monkeypatch.setenv("HIPPOCAMPUS_HOME", str(tmp_path / "home"))
    for name in ("HIPPOCAMPUS_URI", "HIPPOCAMPUS_SCHEMA"):
        monkeypatch.delenv(name, raising=False)


async def _migrate(dsn: str) -> None:
    async with open_memory(dsn):
        pass


def _empty(request: pytest.FixtureRequest, engine: str) -> Iterator[str]:
    yield from request.getfixturevalue(engine).lend()
