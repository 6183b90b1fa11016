"""The schema: built once by many, upgraded once, and honest about what it cannot do."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from seekdb_databases import SeekdbDatabases

from shared_core import (
    Event,
    InvalidInput,
    MemoryEngine,
    NewMemory,
    SchemaOutOfDate,
    Scope,
    StorageUnavailable,
    open_memory,
)
from shared_core.ports.tables import SCHEMA_VERSION
from shared_core.settings import load_settings
from shared_core.storage._migrations import Migration
from shared_core.storage.oceanbase.connection.database import OceanBaseDatabase
from shared_core.storage.oceanbase.connection.migrate import migrations as oceanbase_migrations
from shared_core.storage.oceanbase.connection.transactions import Transaction
from shared_core.storage.postgres.connection.migrations import _migrate, migrations
from shared_core.storage.postgres.connection.statements import named_pieces, statement
from tests.contract.test_citus_rules import LITERALS

NOW = datetime.now(UTC)
NOTES = """
    CREATE TABLE notes (tenant_id text COLLATE "C" PRIMARY KEY, note text NOT NULL);
    INSERT INTO notes SELECT DISTINCT tenant_id, 'was here' FROM memories;
    SELECT protect('notes');
"""
"""A migration that a next release could bring: it makes a table, and fills it from another one."""

MIGRATE = "shared_core.storage.oceanbase.connection.migrate"
MIGRATIONS = "shared_core.storage.postgres.connection.migrations.migrations"


@pytest.fixture
def next_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the library one migration more than it ships."""
    newer = (*migrations(), Migration(2, "notes", NOTES))
    monkeypatch.setattr(MIGRATIONS, lambda: newer)


def applied(dsn: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn) as connection:
        query = "SELECT version, name FROM hippocampus.schema_migrations ORDER BY version"
        return connection.execute(query).fetchall()


def test_the_number_of_the_schema_is_that_of_the_newest_migration() -> None:
    for known in (migrations(), oceanbase_migrations()):
        assert list(range(1, SCHEMA_VERSION + 1)) == [one.version for one in known]


async def test_a_database_of_the_release_before_is_upgraded_once(
    dsn: str, request: pytest.FixtureRequest
) -> None:
    ann = Scope("app", "ann")
    async with open_memory(dsn, worker=False) as memory:
        await memory.remember(ann, "Ann sails.")
    assert [(1, "schema")] == applied(dsn)
    request.getfixturevalue("next_release")
    memories = [open_memory(dsn, worker=False) for _ in range(4)]
    await asyncio.gather(*(memory.open() for memory in memories))
    assert [(1, "schema"), (2, "notes")] == applied(dsn)
    assert ["Ann sails."] == [hit.memory.text for hit in await memories[0].recall(ann, "sails")]
    await asyncio.gather(*(memory.close() for memory in memories))
    with psycopg.connect(dsn) as superuser:
        found = superuser.execute("SELECT * FROM hippocampus.notes").fetchall()
        superuser.execute("SET ROLE hippocampus_app")
        hidden = superuser.execute("SELECT * FROM hippocampus.notes").fetchall()
    assert ([("/app/ann/", "was here")], []) == (found, hidden)


async def use(memory: MemoryEngine, user: Scope) -> None:
    """Call the verbs that a server is asked for most, and erase the user."""
    turn = Event(
        event_id="e1", author="user", role="user", text="I live in Leeds.", occurred_at=NOW
    )
    await memory.append_events(user, "thread", [turn])
    await memory.consolidate(user, "thread")
    assert ["Leeds"] == [fact.value for fact in await memory.facts(user)]
    [key] = await memory.remember(user, [NewMemory(text="Tea is green.", key="tea")])
    assert "Tea is green." in {hit.memory.text for hit in await memory.recall(user, "tea")}
    await memory.process_memory("I like tea.", user.user, app=user.app)
    assert await memory.context_window(user, "thread", query="tea", max_tokens=500)
    await memory.jobs.list(user)
    await memory.forget(user, key)
    assert (await memory.erase(user)).counts["memories"]
    assert [] == await memory.list_memories(user)


def more_columns() -> str:
    """Return a migration that gives every table a column.

    One that widens retention_policies must replace retention_rule(), which returns its rows.
    """
    tables = set(re.findall(r"CREATE TABLE (\w+)", migrations()[0].sql)) - {"retention_policies"}
    return ";".join(f"ALTER TABLE {name} ADD COLUMN note text DEFAULT ''" for name in tables)


PARAMETER = re.compile(r"%\(\w+\)[sb]")


def prepared(connection: psycopg.Connection[tuple[Any, ...]]) -> dict[str, str]:
    """Return the types of the columns that each statement returns, or the name of its error."""
    found: dict[str, str] = {}
    for name in named_pieces()[0]:
        text = statement(name, literals=LITERALS).decode().replace("%%", "%")
        numbers = count(1)
        text = PARAMETER.sub(lambda _, numbers=numbers: f"${next(numbers)}", text)  # type: ignore
        try:
            with connection.transaction():
                connection.execute(f'PREPARE "{name}" AS {text}'.encode())
        except psycopg.Error as error:
            found[name] = type(error).__name__
    types = "SELECT name, coalesce(result_types::text, '') FROM pg_prepared_statements"
    found |= dict(connection.execute(types).fetchall())
    connection.execute("DEALLOCATE ALL")
    return found


def test_new_columns_change_no_statement_of_the_release_before(dsn: str) -> None:
    with psycopg.connect(dsn, options="-c search_path=hippocampus,public") as connection:
        before = prepared(connection)
        connection.execute(more_columns().encode())
        assert before == prepared(connection)
    errors = [one for one in before.values() if one[:1].isupper()]
    assert 100 < len(before) - len(errors), errors


async def test_a_process_of_the_release_before_works_on_after_an_upgrade(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its prepared statements outlive new columns. A process that starts anew is refused."""
    ann = Scope("app", "ann")
    newer = (*migrations(), Migration(2, "more_columns", more_columns()))
    async with open_memory(dsn, worker=False) as old:
        await use(old, ann)
        with monkeypatch.context() as patched:
            patched.setattr(MIGRATIONS, lambda: newer)
            async with open_memory(dsn, worker=False) as new:
                await new.remember(ann, "Ann keeps bees.")
        assert "Ann keeps bees." in {hit.memory.text for hit in await old.recall(ann, "bees")}
        await use(old, Scope("app", "bob"))
        with pytest.raises(SchemaOutOfDate, match=r"version 2.*pip install -U"):
            await open_memory(dsn, worker=False).open()


async def test_a_migration_that_fails_leaves_the_release_before(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = (*migrations(), Migration(2, "broken", f"{NOTES}; SELECT 1 / 0"))
    with monkeypatch.context() as patched:
        patched.setattr(MIGRATIONS, lambda: broken)
        with pytest.raises(psycopg.errors.DivisionByZero):
            await open_memory(dsn, worker=False).open()
    async with open_memory(dsn, worker=False) as memory:
        assert 1 == (await memory.report()).schema_version
    with psycopg.connect(dsn) as superuser:
        assert (None,) == superuser.execute("SELECT to_regclass('hippocampus.notes')").fetchone()


async def test_opening_twice_migrates_once(dsn: str) -> None:
    for _ in range(2):
        async with open_memory(dsn):
            pass
    with psycopg.connect(dsn) as connection:
        rows = connection.execute("SELECT version FROM hippocampus.schema_migrations").fetchall()
    assert sorted(row[0] for row in rows) == [step.version for step in migrations()]


@pytest.mark.timeout(300)
async def test_processes_that_start_together_migrate_once(empty_dsn: str) -> None:
    code = (
        "import asyncio, sys\n"
        "from shared_core import Scope, open_memory\n"
        "async def main():\n"
        "    async with open_memory(sys.argv[1]) as memory:\n"
        "        await memory.remember(Scope('app', sys.argv[2]), 'I was here')\n"
        "asyncio.run(main())\n"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code, empty_dsn, str(number)], stderr=subprocess.PIPE
        )
        for number in range(4)
    ]
    errors = [process.communicate(timeout=280)[1].decode() for process in running]
    assert [""] * 4 == errors
    with psycopg.connect(empty_dsn) as connection:
        [count] = connection.execute("SELECT count(*) FROM hippocampus.memories").fetchone() or [0]
    assert count == 4


async def test_two_schemas_of_one_database_are_two_memories(empty_dsn: str) -> None:
    ann = Scope("app", "ann")
    async with (
        open_memory(empty_dsn, schema="one") as one,
        open_memory(empty_dsn, schema="two") as two,
    ):
        await one.remember(ann, "Ann sails.")
        assert ["Ann sails."] == [hit.memory.text for hit in await one.recall(ann, "sails")]
        assert [] == await two.recall(ann, "sails")


async def test_a_schema_of_a_newer_library_is_refused(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO hippocampus.schema_migrations VALUES (999, 'from_the_future', 'x')"
        )
    with pytest.raises(SchemaOutOfDate, match=r"version 999.*pip install -U"):
        await open_memory(dsn).open()


async def test_an_edited_migration_is_refused(
    dsn: str, next_release: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_memory(dsn, worker=False):
        pass
    edited = (*migrations(), Migration(2, "notes", f"{NOTES} -- edited"))
    monkeypatch.setattr(MIGRATIONS, lambda: edited)
    with pytest.raises(SchemaOutOfDate, match="a development version"):
        await open_memory(dsn).open()


WAY_OUT = "(?s)development version.*hippocampus export.*hippocampus import"


@pytest.mark.parametrize("newest", [1, 33, 34])
async def test_a_schema_of_a_development_version_is_refused_with_the_way_out(
    dsn: str, newest: int
) -> None:
    """Their first migration was another one, and there were up to 34."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("TRUNCATE hippocampus.schema_migrations")
        connection.execute(
            "INSERT INTO hippocampus.schema_migrations"
            " SELECT n, 'threads_and_events', md5(n::text) FROM generate_series(1, %s) n",
            [newest],
        )
    with pytest.raises(SchemaOutOfDate, match=WAY_OUT):
        await open_memory(dsn).open()


async def test_a_database_of_a_development_version_is_refused_on_seekdb(seekdb_dsn: str) -> None:
    """Such a database kept no checksums, and began at 1 or at 32."""
    database = OceanBaseDatabase(load_settings(seekdb_dsn))
    await database.open()
    columns = ("version", "name", "checksum", "applied_at")

    def recorded(*rows: tuple[int, str, str]) -> Callable[[Transaction], None]:
        def work(tx: Transaction) -> None:
            tx.run("DELETE FROM schema_migrations")
            tx.insert("schema_migrations", columns, [(*row, datetime.now(UTC)) for row in rows])

        return work

    [first] = oceanbase_migrations()
    released = (1, first.name, first.checksum)
    try:
        for older in ([(1, "memory", "")], [(32, "memory", ""), (33, "inputs_sent_again", "")]):
            await database.write(recorded(*older))
            with pytest.raises(SchemaOutOfDate, match=WAY_OUT):
                await open_memory(seekdb_dsn).open()
        await database.write(recorded(released, (2, "of_a_newer_release", "x")))
        with pytest.raises(SchemaOutOfDate, match=r"version 2.*pip install -U"):
            await open_memory(seekdb_dsn).open()
    finally:
        await database.write(recorded(released))
        await database.close()


async def test_a_schema_is_looked_at_again_under_the_lock(dsn: str) -> None:
    """Another process may have been first, and it may have been a development version."""
    with psycopg.connect(dsn) as connection:
        connection.execute("UPDATE hippocampus.schema_migrations SET checksum = 'other'")
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as late:
        with pytest.raises(SchemaOutOfDate, match=WAY_OUT):
            await _migrate(late, "hippocampus")


async def test_a_stopped_migration_goes_on_where_it_stopped_on_seekdb(
    seekdb: SeekdbDatabases, seekdb_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = OceanBaseDatabase(load_settings(seekdb_dsn))
    steps = [
        "ALTER TABLE threads ADD COLUMN stopped_one INT",
        "ALTER TABLE threads ADD INDEX stopped_index (stopped_one)",
        "ALTER TABLE threads ADD COLUMN stopped_two INT",
    ]
    newer = (*oceanbase_migrations(), Migration(2, "notes", ";\n".join(steps)))
    monkeypatch.setattr(f"{MIGRATE}.migrations", lambda: newer)
    with seekdb.connection(seekdb_dsn) as cursor:
        for step in steps[:2]:  # there it was stopped
            cursor.execute(step)
        try:
            await database.open()
            await database.close()
            cursor.execute("SELECT stopped_one, stopped_two FROM threads")
            cursor.execute("SELECT version FROM schema_migrations ORDER BY version")
            assert ((1,), (2,)) == cursor.fetchall()
        finally:
            cursor.execute("DELETE FROM schema_migrations WHERE version = 2")
            cursor.execute("ALTER TABLE threads DROP INDEX stopped_index")
            for column in ("stopped_one", "stopped_two"):
                cursor.execute(f"ALTER TABLE threads DROP COLUMN {column}")


@pytest.mark.parametrize(
    ("rights", "expected"),
    [
        ("", "may not create the extension vector"),
        ("CREATE EXTENSION vector", "may not set up schema"),
    ],
)
async def test_missing_rights_are_named(empty_dsn: str, rights: str, expected: str) -> None:
    guest = f"guest_{psycopg.conninfo.conninfo_to_dict(empty_dsn)['dbname']}"
    with psycopg.connect(empty_dsn, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {guest} LOGIN; {rights}")
    try:
        with pytest.raises(StorageUnavailable, match=expected):
            await open_memory(make_conninfo(empty_dsn, user=guest)).open()
    finally:
        with psycopg.connect(empty_dsn, autocommit=True) as admin:
            admin.execute(f"DROP OWNED BY {guest}; DROP ROLE {guest}")


async def test_an_ordinary_owner_works_under_row_security(empty_dsn: str) -> None:
    database = psycopg.conninfo.conninfo_to_dict(empty_dsn)["dbname"]
    owner = f"owner_{database}"
    with psycopg.connect(empty_dsn, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {owner} LOGIN; CREATE EXTENSION vector")
        admin.execute(f"GRANT CREATE ON DATABASE {database} TO {owner}")
    try:
        async with open_memory(make_conninfo(empty_dsn, user=owner)) as memory:
            assert (await memory.report()).role == "none"
            await memory.remember(Scope("app", "ann"), "Ann sails.")
            assert [] == await memory.recall(Scope("app", "bob"), "sails")
            assert 1 == len(await memory.recall(Scope("app", "ann"), "sails"))
        with psycopg.connect(make_conninfo(empty_dsn, user=owner)) as connection:
            rows = connection.execute("SELECT * FROM hippocampus.memories").fetchall()
        assert rows == []
    finally:
        with psycopg.connect(empty_dsn, autocommit=True) as admin:
            admin.execute(f"DROP OWNED BY {owner} CASCADE; DROP ROLE {owner}")


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("postgresql://ghost:secret@127.0.0.1:1/nowhere", "cannot be used"),
        ("postgresql://[broken", "cannot be used|has an unknown form"),
        ("mysql://localhost/db", "has an unknown form"),
    ],
)
async def test_a_wrong_dsn_is_named_without_its_password(uri: str, expected: str) -> None:
    with pytest.raises((StorageUnavailable, InvalidInput), match=expected) as failure:
        await open_memory(uri).open()
    assert "secret" not in str(failure.value)


async def test_a_server_without_pgvector_is_named(empty_dsn: str) -> None:
    database = psycopg.conninfo.conninfo_to_dict(empty_dsn)["dbname"]
    with psycopg.connect(empty_dsn, autocommit=True) as admin:
        admin.execute(f"ALTER DATABASE {database} SET extension_control_path = '/nowhere'")
    with pytest.raises(StorageUnavailable, match=r"has no pgvector: install it.*uri='embedded'"):
        await open_memory(empty_dsn).open()


async def test_a_failed_opening_leaves_nothing_behind_and_can_be_repeated(empty_dsn: str) -> None:
    database = psycopg.conninfo.conninfo_to_dict(empty_dsn)["dbname"]
    memory = open_memory(empty_dsn)
    with psycopg.connect(empty_dsn, autocommit=True) as admin:
        admin.execute(f"ALTER DATABASE {database} SET extension_control_path = '/nowhere'")
        with pytest.raises(StorageUnavailable):
            await memory.open()
        assert admin.execute("SELECT to_regnamespace('hippocampus')").fetchone() == (None,)
        admin.execute(f"ALTER DATABASE {database} RESET extension_control_path")
    async with memory:
        assert (await memory.report()).schema_version == len(migrations())


def test_every_table_follows_the_rules_of_distribution() -> None:
    """Each key begins with the tenant, so the same schema distributes by it unchanged."""
    script = "".join(migration.sql for migration in migrations())
    tables = re.findall(r"CREATE TABLE (\w+) \((.*?)\n\)", script, re.DOTALL)
    assert len(tables) >= 15
    for name, body in tables:
        if name == "embedding_models":
            continue
        keys = re.findall(r"(?:PRIMARY KEY|UNIQUE|FOREIGN KEY) \(([^)]*)\)", body)
        assert keys, name
        assert all(key.startswith("tenant_id") for key in keys), (name, keys)
        assert f"protect('{name}'" in script, name
    for columns in re.findall(
        r"CREATE UNIQUE INDEX (?!embedding_models)\w+ ON \w+ \(([^)]*)", script
    ):
        assert columns.startswith("tenant_id")


async def test_migrations_run_in_a_database_that_others_use(dsn: str) -> None:
    """Own schema: ADK's and LangGraph's tables of the same names are not touched."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE public.events (id int); CREATE TABLE public.store (id int)"
        )
    async with open_memory(dsn) as memory:
        await asyncio.gather(*(memory.remember(Scope("a", str(n)), "hello") for n in range(5)))
    with psycopg.connect(dsn) as connection:
        assert connection.execute("SELECT count(*) FROM public.events").fetchone() == (0,)
