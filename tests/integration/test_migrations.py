"""The schema: built once by many, upgraded once, and honest about what it cannot do."""

import asyncio
import re
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from typing import Any

import psycopg
import pytest
from every_case import every_case
from postgres_admin import column, execute, name_of, new_user, rows
from psycopg.conninfo import make_conninfo
from turns import said
from warm_python import warm_python

from shared_core import MemoryEngine, NewMemory, Scope, open_memory
from shared_core.errors import InvalidInput, SchemaOutOfDate, StorageUnavailable
from shared_core.ports.tables import SCHEMA_VERSION
from shared_core.settings import load_settings
from shared_core.storage._migrations import Migration
from shared_core.storage.oceanbase.connection.database import OceanBaseDatabase
from shared_core.storage.oceanbase.connection.migrate import migrations as oceanbase_migrations
from shared_core.storage.oceanbase.connection.transactions import Transaction
from shared_core.storage.postgres.connection.migrations import _migrate, migrations
from shared_core.storage.postgres.connection.statements import named_pieces, statement
from tests.contract.test_citus_rules import LITERALS

ANN = Scope("app", "ann")
NOTES = """
    CREATE TABLE notes (tenant_id text COLLATE "C" PRIMARY KEY, note text NOT NULL);
    INSERT INTO notes SELECT DISTINCT tenant_id, 'was here' FROM memories;
    SELECT protect('notes');
"""
"""A migration that a next release could bring: it makes a table, and fills it from another one."""

MIGRATE = "shared_core.storage.oceanbase.connection.migrate"
MIGRATIONS = "shared_core.storage.postgres.connection.migrations.migrations"


@pytest.fixture
def next_release(monkeypatch):
    """Give the library one migration more than it ships."""
    newer = (*migrations(), Migration(2, "notes", NOTES))
    monkeypatch.setattr(MIGRATIONS, lambda: newer)


def applied(dsn: str) -> list[tuple[Any, ...]]:
    return rows(dsn, "SELECT version, name FROM hippocampus.schema_migrations ORDER BY version")


def test_the_number_of_the_schema_is_that_of_the_newest_migration():
    for known in (migrations(), oceanbase_migrations()):
        assert list(range(1, SCHEMA_VERSION + 1)) == [one.version for one in known]


async def test_a_database_of_the_release_before_is_upgraded_once(dsn, request):
    async with open_memory(dsn, worker=False) as memory:
        await memory.remember(ANN, "Ann sails.")
    assert [(1, "schema")] == applied(dsn)
    request.getfixturevalue("next_release")
    memories = [open_memory(dsn, worker=False) for _ in range(4)]
    await asyncio.gather(*(memory.open() for memory in memories))
    assert [(1, "schema"), (2, "notes")] == applied(dsn)
    assert ["Ann sails."] == [hit.memory.text for hit in await memories[0].recall(ANN, "sails")]
    await asyncio.gather(*(memory.close() for memory in memories))
    notes = "SELECT * FROM hippocampus.notes"
    assert [("/app/ann/", "was here")] == rows(dsn, notes)
    assert [] == rows(make_conninfo(dsn, options="-c role=hippocampus_app"), notes)


async def use(memory: MemoryEngine, user: Scope) -> None:
    """Call the verbs that a server is asked for most, and erase the user."""
    await memory.append_events(user, "thread", [said(1, "I live in Leeds.")])
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


def test_new_columns_change_no_statement_of_the_release_before(dsn):
    with psycopg.connect(dsn, options="-c search_path=hippocampus,public") as connection:
        before = prepared(connection)
        connection.execute(more_columns().encode())
        assert before == prepared(connection)
    errors = [one for one in before.values() if one[:1].isupper()]
    assert 100 < len(before) - len(errors), errors


async def test_a_process_of_the_release_before_works_on_after_an_upgrade(dsn, monkeypatch):
    """Its prepared statements outlive new columns. A process that starts anew is refused."""
    newer = (*migrations(), Migration(2, "more_columns", more_columns()))
    async with open_memory(dsn, worker=False) as old:
        await use(old, ANN)
        with monkeypatch.context() as patched:
            patched.setattr(MIGRATIONS, lambda: newer)
            async with open_memory(dsn, worker=False) as new:
                await new.remember(ANN, "Ann keeps bees.")
        assert "Ann keeps bees." in {hit.memory.text for hit in await old.recall(ANN, "bees")}
        await use(old, Scope("app", "bob"))
        with pytest.raises(SchemaOutOfDate, match=r"version 2.*pip install -U"):
            await open_memory(dsn, worker=False).open()


async def test_a_migration_that_fails_leaves_the_release_before(dsn, monkeypatch):
    broken = (*migrations(), Migration(2, "broken", f"{NOTES}; SELECT 1 / 0"))
    with monkeypatch.context() as patched:
        patched.setattr(MIGRATIONS, lambda: broken)
        with pytest.raises(psycopg.errors.DivisionByZero):
            await open_memory(dsn, worker=False).open()
    async with open_memory(dsn, worker=False) as memory:
        assert 1 == (await memory.report()).schema_version
    assert [None] == column(dsn, "SELECT to_regclass('hippocampus.notes')")


WRITER = """
import asyncio, sys
from shared_core import Scope, open_memory
async def main():
    async with open_memory(sys.argv[1]) as memory:
        await memory.remember(Scope('app', sys.argv[2]), 'I was here')
asyncio.run(main())
"""


@pytest.mark.tail
def test_processes_that_start_together_migrate_once(empty_dsn):
    command = [*warm_python(), "-c", WRITER, empty_dsn]
    running = [subprocess.Popen([*command, str(n)], stderr=subprocess.PIPE) for n in range(4)]
    assert [b""] * 4 == [process.communicate()[1] for process in running]
    assert [4] == column(empty_dsn, "SELECT count(*) FROM hippocampus.memories")


async def test_two_schemas_of_one_database_are_two_memories(empty_dsn):
    async with (
        open_memory(empty_dsn, schema="one") as one,
        open_memory(empty_dsn, schema="two") as two,
    ):
        await one.remember(ANN, "Ann sails.")
        assert ["Ann sails."] == [hit.memory.text for hit in await one.recall(ANN, "sails")]
        assert [] == await two.recall(ANN, "sails")


async def test_a_schema_of_a_newer_library_is_refused(dsn):
    execute(dsn, "INSERT INTO hippocampus.schema_migrations VALUES (999, 'from_the_future', 'x')")
    with pytest.raises(SchemaOutOfDate, match=r"version 999.*pip install -U"):
        await open_memory(dsn).open()


async def test_an_edited_migration_is_refused(dsn, next_release, monkeypatch):
    async with open_memory(dsn, worker=False):
        pass
    edited = (*migrations(), Migration(2, "notes", f"{NOTES} -- edited"))
    monkeypatch.setattr(MIGRATIONS, lambda: edited)
    with pytest.raises(SchemaOutOfDate, match="a development version"):
        await open_memory(dsn).open()


WAY_OUT = "(?s)development version.*hippocampus export.*hippocampus import"


@pytest.mark.parametrize("newest", [1, 33, 34])
async def test_a_schema_of_a_development_version_is_refused_with_the_way_out(dsn, newest):
    """Their first migration was another one, and there were up to 34."""
    execute(
        dsn, "TRUNCATE hippocampus.schema_migrations", "INSERT INTO hippocampus.schema_migrations"
        f" SELECT n, 'threads_and_events', md5(n::text) FROM generate_series(1, {newest}) n",
    )  # fmt: skip
    with pytest.raises(SchemaOutOfDate, match=WAY_OUT):
        await open_memory(dsn).open()


async def test_a_database_of_a_development_version_is_refused_on_seekdb(seekdb_dsn):
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


async def test_a_schema_is_looked_at_again_under_the_lock(dsn):
    """Another process may have been first, and it may have been a development version."""
    execute(dsn, "UPDATE hippocampus.schema_migrations SET checksum = 'other'")
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as late:
        with pytest.raises(SchemaOutOfDate, match=WAY_OUT):
            await _migrate(late, "hippocampus")


async def test_a_stopped_migration_goes_on_from_there_on_seekdb(seekdb, seekdb_dsn, monkeypatch):
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
async def test_missing_rights_are_named(empty_dsn, rights, expected):
    with new_user(empty_dsn) as guest:
        execute(empty_dsn, rights)
        with pytest.raises(StorageUnavailable, match=expected):
            await open_memory(make_conninfo(empty_dsn, user=guest)).open()


async def test_an_ordinary_owner_works_under_row_security(empty_dsn):
    with new_user(empty_dsn) as owner:
        grant = f"GRANT CREATE ON DATABASE {name_of(empty_dsn)} TO {owner}"
        execute(empty_dsn, "CREATE EXTENSION vector", grant)
        as_owner = make_conninfo(empty_dsn, user=owner)
        async with open_memory(as_owner) as memory:
            assert (await memory.report()).role == "none"
            await memory.remember(ANN, "Ann sails.")
            assert [] == await memory.recall(Scope("app", "bob"), "sails")
            assert 1 == len(await memory.recall(ANN, "sails"))
        assert [] == rows(as_owner, "SELECT * FROM hippocampus.memories")


@every_case(
    ("postgresql://ghost:secret@127.0.0.1:1/nowhere", "cannot be used"),
    ("postgresql://[broken", "cannot be used|has an unknown form"),
    ("mysql://localhost/db", "has an unknown form"),
)
async def test_a_wrong_dsn_is_named_without_its_password(uri, expected):
    with pytest.raises((StorageUnavailable, InvalidInput), match=expected) as failure:
        await open_memory(uri).open()
    assert "secret" not in str(failure.value)


async def test_a_server_without_pgvector_is_named_and_opening_can_be_repeated(empty_dsn):
    """It leaves nothing behind."""
    alter = f"ALTER DATABASE {name_of(empty_dsn)}"
    execute(empty_dsn, f"{alter} SET extension_control_path = '/nowhere'")
    memory = open_memory(empty_dsn)
    with pytest.raises(StorageUnavailable, match=r"has no pgvector: install it.*uri='embedded'"):
        await memory.open()
    assert [None] == column(empty_dsn, "SELECT to_regnamespace('hippocampus')")
    execute(empty_dsn, f"{alter} RESET extension_control_path")
    async with memory:
        assert (await memory.report()).schema_version == len(migrations())


async def test_migrations_run_in_a_database_that_others_use(dsn):
    """Own schema: ADK's and LangGraph's tables of the same names are not touched."""
    execute(dsn, "CREATE TABLE public.events (id int); CREATE TABLE public.store (id int)")
    async with open_memory(dsn) as memory:
        await asyncio.gather(*(memory.remember(Scope("a", str(n)), "hello") for n in range(5)))
    assert [0] == column(dsn, "SELECT count(*) FROM public.events")
