"""A user who lacks a right is told the GRANT; reading goes on where nothing can be written."""

import os
import re
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest
from embedded_users import copy_cluster
from langgraph.store.base import GetOp, ListNamespacesOp, PutOp, SearchOp
from postgres_admin import column, execute, name_of
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from warm_python import warm_python

from adk_memory import OpenMemoryService
from langgraph_store import BatchError, PgHippocampusStore, memories_namespace
from shared_core import Scope, StorageReadOnly, open_memory
from shared_core.cli.doctor import examine
from shared_core.errors import EmbeddingMismatch, InvalidInput, PermissionDenied, StorageUnavailable
from shared_core.settings import load_settings
from shared_core.storage._migrations import Migration
from shared_core.storage.postgres.connection.database import Answers, PostgresDatabase, tables_of
from shared_core.storage.postgres.connection.embedded import EmbeddedPostgres
from shared_core.storage.postgres.connection.embedded_server import CLUSTER
from shared_core.storage.postgres.connection.migrations import APP_ROLE, migrations
from shared_core.storage.postgres.connection.statements import Step

ANN = Scope("app", "ann")


@pytest.fixture
def as_guest(dsn, guest):
    """The DSN of a migrated database, as a user without any right there."""
    yield make_conninfo(dsn, user=guest)
    execute(dsn, f"DROP OWNED BY {guest}")


def printed_grant(message: str) -> str:
    """Return the GRANT that a message tells the administrator to run."""
    found = re.search(r"run (GRANT .*)", message)
    assert found, message
    return found[1]


async def test_the_error_prints_the_grant_that_ends_it(dsn, as_guest):
    with pytest.raises(PermissionDenied, match="permission denied for schema") as failure:
        await open_memory(as_guest).recall(ANN, "tea")
    assert isinstance(failure.value, StorageUnavailable)
    grant = printed_grant(str(failure.value))
    assert grant.startswith(f"GRANT {APP_ROLE} TO ")
    execute(dsn, grant)
    async with open_memory(as_guest) as memory:
        await memory.remember(ANN, "Ann drinks tea.")
        assert 1 == len(await memory.recall(ANN, "tea"))


async def test_a_right_that_is_revoked_later_is_named_too(dsn, as_guest, guest):
    execute(dsn, f"GRANT USAGE ON SCHEMA hippocampus TO {guest}",
            f"GRANT SELECT ON ALL TABLES IN SCHEMA hippocampus TO {guest}")  # fmt: skip
    async with open_memory(dsn) as memory:
        await memory.remember(ANN, "Ann likes tea.")
    async with open_memory(as_guest) as memory:
        assert 1 == len(await memory.recall(ANN, "tea"))  # reading is allowed
        with pytest.raises(PermissionDenied, match="permission denied for table") as failure:
            await memory.remember(ANN, "Ann drinks tea.")
        execute(dsn, *printed_grant(str(failure.value)).split("; "))
        await memory.remember(ANN, "Ann drinks green tea.")
        assert 2 == len(await memory.list_memories(ANN))


async def test_a_row_of_another_scope_needs_no_grant(database):
    wrong = b"INSERT INTO extraction_counts VALUES ('/app/bob/', 1)"
    with pytest.raises(InvalidInput, match="another scope"):
        await database.run("/app/ann/", Step("wrong", wrong, {}))


async def test_a_search_that_fails_open_returns_nothing(as_guest):
    service = OpenMemoryService(as_guest)
    answer = await service.search_memory(app_name="app", user_id="ann", query="tea")
    assert [] == answer.memories and 1 == service.failed_searches
    await service.close()
    strict = OpenMemoryService(as_guest, fail_open=False)
    with pytest.raises(StorageUnavailable, match="GRANT"):
        await strict.search_memory(app_name="app", user_id="ann", query="tea")
    await strict.close()


def test_a_command_prints_one_line_and_no_traceback(as_guest):
    line = [*warm_python(), "-m", "shared_core.cli.main", "recall", "app", "ann", "tea"]
    ran = subprocess.run([*line, "--uri", as_guest], capture_output=True, text=True)
    assert 1 == ran.returncode and 1 == len(ran.stderr.splitlines()), ran.stderr
    assert ran.stderr.startswith("Error: database user") and "run GRANT" in ran.stderr


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("GRANT CREATE ON DATABASE {database} TO {guest}", "may not create the extension vector"),
        ("CREATE EXTENSION vector", "may not set up schema"),
        ("CREATE EXTENSION vector; GRANT CREATE ON DATABASE {database} TO {guest}", None),
    ],
)
def test_the_doctor_tries_what_migrate_needs(empty_dsn, guest, given, expected):
    execute(empty_dsn, given.format(database=name_of(empty_dsn), guest=guest))
    as_guest = make_conninfo(empty_dsn, user=guest)
    line = [*warm_python(), "-m", "shared_core.cli.main", "migrate", "--uri", as_guest]
    try:
        [rights] = [one for one in examine(as_guest) if one.check == "rights"]
        left = column(empty_dsn, "SELECT to_regclass('hippocampus.memories')")
        assert [None] == left  # by the doctor
        migrated = subprocess.run(line, capture_output=True, text=True)
        assert (expected is None) == (migrated.returncode == 0), migrated.stderr
        if expected is None:
            assert "ok" == rights.status
        else:
            assert "problem" == rights.status and expected in rights.found
            assert guest in rights.advice and expected in migrated.stderr
    finally:
        execute(empty_dsn, f"DROP OWNED BY {guest} CASCADE")


def test_the_doctor_finds_that_only_the_owner_may_upgrade(dsn, as_guest, guest, monkeypatch):
    execute(dsn, f"GRANT {APP_ROLE} TO {guest}")
    newer = (*migrations(), *migrations())
    monkeypatch.setattr("shared_core.cli.doctor.migrations", lambda: newer)
    [rights] = [one for one in examine(as_guest) if one.check == "rights"]
    assert "problem" == rights.status and "migrate as their owner" in rights.found


@pytest.mark.parametrize("create", [False, True])
async def test_a_run_time_user_is_told_who_migrates(dsn, as_guest, guest, monkeypatch, create):
    execute(dsn, f"GRANT {APP_ROLE} TO {guest}")
    if create:
        execute(dsn, f"GRANT CREATE ON DATABASE {name_of(dsn)} TO {guest}")
    newer = (*migrations(), Migration(2, "more", "ALTER TABLE threads ADD COLUMN note text"))
    module = "shared_core.storage.postgres.connection.migrations"
    monkeypatch.setattr(f"{module}.migrations", lambda: newer)
    with pytest.raises(PermissionDenied, match=r"run 'hippocampus migrate .*owner of the schema"):
        await open_memory(as_guest, worker=False).open()


@pytest.fixture
async def database(dsn):
    database = PostgresDatabase(load_settings(dsn))
    await database.open()
    yield database
    await database.close()


async def test_a_value_that_is_too_large_and_a_key_that_is_too_long_are_told_apart(database):
    words = b"SELECT string_agg('w' || n, ' ')::tsvector IS NULL FROM generate_series(1, 300000) n"
    with pytest.raises(InvalidInput, match="larger than PostgreSQL takes.*tsvector"):
        await database.run("/", Step("words", words, {}))
    thread = b"INSERT INTO threads (tenant_id, thread_id, created_at, updated_at) SELECT '/a/b/',"
    for length in (200, 2000):  # more than a page of a B-tree takes, and more than any tuple
        long = f" string_agg(md5(n::text), ''), now(), now() FROM generate_series(1, {length}) n"
        with pytest.raises(InvalidInput, match="too long for an index"):
            await database.run("/a/b/", Step("thread", thread + long.encode(), {}))


class OfANode(psycopg.errors.IntegrityError):
    """What a node of a Citus cluster sends on of a violation: texts that name shards."""

    class diag:  # as psycopg names it
        table_name = constraint_name = None
        message_primary = (
            'insert or update on table "embeddings_102167" violates foreign key constraint'
            ' "embeddings_model_fkey_102167"'
        )
        message_detail = 'Key is not present in table "embedding_models_102008".'


async def test_the_tables_of_a_violated_key_are_known_without_its_name(database):
    assert tables_of(OfANode()) == {"embeddings", "embedding_models"}
    vector = (
        b"INSERT INTO embeddings (tenant_id, model, memory_id, field, embedding)"
        b" SELECT '/a/b/', model, '00000000-0000-0000-0000-000000000001', '', '[1]'"
    )
    with pytest.raises(EmbeddingMismatch, match="took over"):
        await database.run("/a/b/", Step("vector", vector + b" FROM (VALUES ('x')) v(model)", {}))
    model = b"INSERT INTO embedding_models (model, dimensions, created_at) VALUES ('x', 1, now())"
    await database.run("/", Step("model", model, {}))
    with pytest.raises(psycopg.errors.ForeignKeyViolation) as failed:  # there is no such memory
        await database.run("/a/b/", Step("vector", vector + b" FROM embedding_models", {}))
    assert tables_of(failed.value) == {"embeddings", "memories"}


async def test_opening_a_memory_writes_nothing_that_all_share(dsn, monkeypatch):
    async with open_memory(dsn, worker=False) as memory:
        await memory.remember(ANN, "Ann sails.")
    sent: list[str] = []
    run = PostgresDatabase.run

    async def noted(self: PostgresDatabase, scope: str, *steps: Step, **more: Any) -> Answers:
        sent.extend(one.name for one in steps)
        return await run(self, scope, *steps, **more)

    monkeypatch.setattr(PostgresDatabase, "run", noted)
    async with open_memory(dsn, worker=False, track_access=False) as memory:
        assert await memory.recall(ANN, "sails")
    assert "active_model" in sent
    assert not {name for name in sent if name.startswith(("add_", "drop_", "put_"))}


FULL = """
    CREATE FUNCTION hippocampus.disk_full() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full';
    END $$;
    CREATE TRIGGER disk_full BEFORE INSERT ON hippocampus.{}
        EXECUTE FUNCTION hippocampus.disk_full();
"""
"""Makes a table behave as one whose disk is full."""


async def test_a_full_disk_is_named_and_nothing_is_half_stored(dsn):
    async with open_memory(dsn, worker=False) as memory:
        await memory.remember(ANN, "Ann sails.")
        with psycopg.connect(dsn, autocommit=True) as admin:
            admin.execute(FULL.format("embeddings").encode())
            with pytest.raises(StorageUnavailable, match="disk of the server.*is full"):
                await memory.remember(ANN, "Ann keeps bees.")
            assert (1,) == admin.execute("SELECT count(*) FROM hippocampus.memories").fetchone()
            assert 1 == len(await memory.recall(ANN, "sails"))
            admin.execute("DROP TRIGGER disk_full ON hippocampus.embeddings")
        await memory.remember(ANN, "Ann keeps bees.")
        assert 2 == len(await memory.list_memories(ANN))


HERE = ("read", "alice")
LIVING: Any = {"omit_expired": True}
SHARED = memories_namespace("app", "alice")


def until_replayed(primary: str, replica: str) -> None:
    """Return when a standby shows all that its primary has committed."""
    with psycopg.connect(primary) as here, psycopg.connect(replica, autocommit=True) as there:
        position = here.execute("SELECT pg_current_wal_insert_lsn()").fetchone()
        reached = b"SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn"
        while there.execute(reached, position).fetchone() != (True,):
            time.sleep(0.05)


def fill(store: PgHippocampusStore) -> None:
    store.put(HERE, "plain", {"text": "green tea"})
    store.put(HERE, "ttl", {"text": "black tea"}, ttl=60)
    store.put(SHARED, "shared", {"content": "Alice drinks tea."})
    store.put(HERE, "expired", {"text": "red tea"}, ttl=0.0005)
    time.sleep(0.1)  # its 30 ms are over: a sweep has something to write


def check(store: PgHippocampusStore) -> None:
    """Everything that reads works, everything that writes says why it does not."""
    assert {item.key for item in store.search(HERE)} == {"plain", "ttl"}
    assert [item.key for item in store.search(HERE, query="green tea")] == ["plain", "ttl"]
    assert [item.key for item in store.search(SHARED, query="What does Alice drink?")] == ["shared"]
    assert store.get(HERE, "ttl") is not None and store.get(HERE, "nothing") is None
    assert store.list_namespaces(prefix=("read",)) == [HERE]
    reads: list[Any] = [GetOp(HERE, "ttl"), SearchOp(HERE), ListNamespacesOp()]
    with pytest.raises(BatchError) as failed:
        store.batch([*reads, PutOp(HERE, "new", {})])
    assert [3] == list(failed.value.errors) and all(failed.value.results[:3])
    for write in (lambda: store.put(HERE, "new", {}), lambda: store.delete(HERE, "plain"),
                  store.sweep_ttl):  # fmt: skip
        with pytest.raises(StorageReadOnly, match="read.only"):
            write()


@pytest.mark.parametrize("by", ["session", "database"])
def test_reads_work_where_a_session_may_only_read(dsn, by):
    with PgHippocampusStore(dsn) as writer:
        fill(writer)
        read_only = make_conninfo(dsn, options="-c default_transaction_read_only=on")
        if by == "database":
            with psycopg.connect(dsn, autocommit=True) as admin:
                name = conninfo_to_dict(dsn)["dbname"]
                admin.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
            read_only = dsn
        with PgHippocampusStore(read_only, ttl=LIVING) as reader:
            check(reader)
            assert None is reader.get(HERE, "new")


def test_a_read_only_memory_without_vectors_finds_nothing(dsn):
    read_only = make_conninfo(dsn, options="-c default_transaction_read_only=on")
    with PgHippocampusStore(read_only, ttl=LIVING) as reader:
        assert reader.search(HERE, query="tea") == reader.search(SHARED, query="tea") == []


@pytest.fixture
def standby():
    """The DSNs of a primary and of a standby that streams from it, on this machine."""
    with tempfile.TemporaryDirectory(prefix="hippocampus-standby-") as folder:
        Path(folder).chmod(0o711)  # the servers of root run as another user
        homes = [Path(folder) / name for name in ("primary", "standby")]
        homes[0].mkdir(mode=0o711)
        copy_cluster(homes[0])
        cluster = homes[1] / CLUSTER
        homes[1].mkdir(mode=0o711)
        copy_cluster(homes[1])
        primary = EmbeddedPostgres(homes[0])
        dsn = primary.acquire()
        source = make_conninfo(**{**conninfo_to_dict(dsn), "dbname": None})
        with (cluster / "postgresql.auto.conf").open("a") as settings:
            settings.write(f"primary_conninfo = '{source}'\n")
        (cluster / "standby.signal").touch()
        owner = cluster.stat()
        os.chown(cluster / "standby.signal", owner.st_uid, owner.st_gid)
        replica = EmbeddedPostgres(homes[1])
        try:
            yield dsn, replica.acquire()
        finally:
            replica.release()
            primary.release()


def test_reads_work_on_a_hot_standby_and_show_what_it_was_sent(standby):
    primary, replica = standby
    with PgHippocampusStore(primary) as writer, PgHippocampusStore(replica, ttl=LIVING) as reader:
        with psycopg.connect(replica) as asked:
            assert (True,) == asked.execute("SELECT pg_is_in_recovery()").fetchone()
        fill(writer)
        until_replayed(primary, replica)
        check(reader)
