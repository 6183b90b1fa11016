"""The schema: built once by many, equal to its script, and honest about what it cannot do."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from shared_core import InvalidInput, SchemaOutOfDate, Scope, StorageUnavailable, open_memory
from shared_core.core.domain import JsonValue
from shared_core.ports.jobs import Job
from shared_core.storage.postgres.connection.sql_files import migrations, schema_sql

CATALOGUE = {
    "columns": """
        SELECT table_name, column_name, data_type, udt_name, is_nullable, column_default,
               collation_name
        FROM information_schema.columns WHERE table_schema = %(schema)s ORDER BY 1, 2""",
    "constraints": """
        SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
        WHERE connamespace = %(schema)s::regnamespace ORDER BY 1, 2""",
    "indexes": """
        SELECT indexname, regexp_replace(indexdef, %(schema)s || '[.]', '')
        FROM pg_indexes WHERE schemaname = %(schema)s ORDER BY 1""",
    "policies": """
        SELECT tablename, policyname, permissive, roles::text, cmd, qual, with_check
        FROM pg_policies WHERE schemaname = %(schema)s ORDER BY 1, 2""",
    "tables": """
        SELECT relname, relkind::text, relrowsecurity, relforcerowsecurity, reloptions::text
        FROM pg_class WHERE relnamespace = %(schema)s::regnamespace AND relkind IN ('r', 'v')
        ORDER BY 1""",
    "storage": """
        SELECT attrelid::regclass::text, attname, attstorage::text FROM pg_attribute
        JOIN pg_class c ON c.oid = attrelid
        WHERE c.relnamespace = %(schema)s::regnamespace AND attnum > 0 AND c.relkind = 'r'
          AND NOT attisdropped
        ORDER BY 1, 2""",
    "functions": """
        SELECT proname, prosrc, provolatile::text FROM pg_proc
        WHERE pronamespace = %(schema)s::regnamespace ORDER BY 1""",
}


def catalogue(dsn: str, schema: str) -> dict[str, list[str]]:
    """Everything the schema is made of, its own name and the record of migrations left out."""
    with psycopg.connect(dsn) as connection:
        connection.execute(sql.SQL("SET search_path TO {}, public").format(sql.Identifier(schema)))
        found = {
            part: [str(row) for row in connection.execute(query, {"schema": schema})]
            for part, query in CATALOGUE.items()
        }
    return {
        part: [row for row in rows if "schema_migrations" not in row]
        for part, rows in found.items()
    }


async def test_the_script_builds_what_all_migrations_build(dsn: str, empty_dsn: str) -> None:
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION vector; CREATE SCHEMA hippocampus")
        connection.execute("SET search_path TO hippocampus, public")
        connection.execute(schema_sql().encode())
    assert catalogue(dsn, "hippocampus") == catalogue(empty_dsn, "hippocampus")


async def test_opening_twice_migrates_once(dsn: str) -> None:
    for _ in range(2):
        async with open_memory(dsn):
            pass
    with psycopg.connect(dsn) as connection:
        rows = connection.execute("SELECT version FROM hippocampus.schema_migrations").fetchall()
    assert sorted(row[0] for row in rows) == [step.version for step in migrations()]


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
    errors = [process.communicate(timeout=60)[1].decode() for process in running]
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


async def test_an_edited_migration_is_refused(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "UPDATE hippocampus.schema_migrations SET checksum = 'edited' WHERE version = 2"
        )
    with pytest.raises(SchemaOutOfDate, match="migration 2"):
        await open_memory(dsn).open()


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
    script = schema_sql()
    tables = re.findall(r"CREATE TABLE (\w+) \((.*?)\n\)", script, re.DOTALL)
    assert len(tables) >= 15
    for name, body in tables:
        if name == "embedding_models":
            continue
        keys = re.findall(r"(?:PRIMARY KEY|UNIQUE|FOREIGN KEY) \(([^)]*)\)", body)
        assert keys, name
        assert all(key.startswith("tenant_id") for key in keys), (name, keys)
        assert f"protect('{name}')" in script, name
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


def migrated_to(connection: psycopg.Connection[Any], version: int) -> None:
    """Build the schema of an older library."""
    connection.execute("CREATE EXTENSION vector; CREATE SCHEMA hippocampus")
    connection.execute("SET search_path TO hippocampus, public")
    connection.execute(
        "CREATE TABLE schema_migrations (version integer PRIMARY KEY, name text NOT NULL,"
        " checksum text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())"
    )
    for step in migrations()[:version]:
        with connection.transaction():
            connection.execute(step.sql.encode())
        connection.execute(
            "INSERT INTO schema_migrations VALUES (%s, %s, %s)",
            [step.version, step.name, step.checksum],
        )


async def test_jobs_of_an_older_library_go_on(empty_dsn: str) -> None:
    """A caller's own code had another name, and two jobs of one thread could run at once."""
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        migrated_to(connection, 7)
        connection.execute(
            "INSERT INTO threads (tenant_id, thread_id, created_at, updated_at)"
            " VALUES ('/app/ann/', 't', now(), now());"
            " INSERT INTO consolidation_jobs (tenant_id, job_id, thread_id, job_type, status,"
            " run_after, lease_until, created_at, started_at, payload) SELECT '/app/ann/',"
            " gen_random_uuid(), 't', kind, status, now(), now(), now(), now(), payload"
            " FROM (VALUES ('deep_reflection', 'pending', '{\"n\": 1}'::jsonb),"
            " ('full_consolidation', 'running', NULL), ('full_consolidation', 'running', NULL))"
            " AS v(kind, status, payload)"
        )
    seen: list[object] = []

    async def perform(job: Job) -> dict[str, JsonValue]:
        seen.append(job.payload)
        return {}

    async with open_memory(empty_dsn, worker=False) as memory:
        memory.jobs.learn(perform)
        assert 2 == (await memory.jobs.serve(once=True)).done
    assert [{"n": 1}] == seen


OLDER = """
    INSERT INTO threads (tenant_id, thread_id, created_at, updated_at)
    VALUES ('/app/ann/', 't', now(), now());
    INSERT INTO events (tenant_id, thread_id, seq, event_id, author, role, text, occurred_at,
                        recorded_at, memory_seq)
    SELECT '/app/ann/', 't', n, 'e' || n, 'user', 'user', 'Turn ' || n, now(), now(), n
    FROM generate_series(1, 4) n;
    INSERT INTO memories (tenant_id, memory_id, namespace, key, kind, text, value, terms,
                          term_count, occurred_at, created_at, updated_at)
    SELECT '/app/ann/', ('00000000-0000-7000-8000-00000000000' || n)::uuid, '/memories/',
           '00000000-0000-7000-8000-00000000000' || n,
           CASE WHEN n < 5 THEN 'episodic' ELSE 'semantic' END, 'Text ' || n, '{}', '', 0, now(),
           now(), now()
    FROM generate_series(1, 7) n;
    INSERT INTO facts (tenant_id, memory_id, fact_type, slot, key, value, functional, confidence,
                       extractor, pattern, valid_from, recorded_at)
    SELECT tenant_id, memory_id, 'custom', 'slot', key, '1', false, 1, 'x', 'p', now(), now()
    FROM memories WHERE text IN ('Text 5', 'Text 6');
    INSERT INTO memory_sources (tenant_id, memory_id, thread_id, event_id, needed)
    SELECT '/app/ann/', ('00000000-0000-7000-8000-00000000000' || n)::uuid, 't', event, needed
    FROM (VALUES (1, 'e1', false), (2, 'e2', false), (3, 'e3', false), (4, 'e4', false),
                 (5, 'e1', false), (5, 'e2', false),
                 (6, 'e1', true), (6, 'e2', true), (6, 'e4', false),
                 (7, 'e2', true), (7, 'e3', true)) AS s(n, event, needed);
    INSERT INTO edges (tenant_id, edge_id, memory_id, subject, relation, object, object_key,
                       valid_from, recorded_at)
    SELECT tenant_id, memory_id, memory_id, 'Ann', 'knows', text, text, now(), now()
    FROM memories WHERE text IN ('Text 3', 'Text 5');
"""
"""Of a library before schema 17: a fact of either turn, one of two together or of another, and a
statement of two; an edge of a turn, and one of a fact."""


async def test_sources_of_an_older_library_become_bases(empty_dsn: str) -> None:
    ann = Scope("app", "ann")
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        migrated_to(connection, 16)
        connection.execute(OLDER)
        async with open_memory(empty_dsn, worker=False) as memory:
            left: list[tuple[set[str], set[str]]] = []
            for turn in ("e1", "e3", "e2", "e4"):
                await memory.forget_turns(ann, "t", [turn])
                kept = await memory.list_memories(ann, kinds=["semantic"])
                edges = connection.execute("SELECT object FROM hippocampus.edges").fetchall()
                left.append(({one.text for one in kept}, {text for (text,) in edges}))
    assert [
        ({"Text 5", "Text 6", "Text 7"}, {"Text 3", "Text 5"}),
        ({"Text 5", "Text 6"}, {"Text 5"}),
        ({"Text 6"}, set()),
        (set(), set()),
    ] == left


async def test_turns_of_an_older_library_tell_who_said_them(empty_dsn: str) -> None:
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        migrated_to(connection, 16)
        connection.execute(OLDER)
        connection.execute("UPDATE events SET role = 'agent' WHERE event_id = 'e2'")
        async with open_memory(empty_dsn, worker=False):
            pass
        rows = connection.execute("SELECT text, role FROM memories ORDER BY text").fetchall()
    told = ["user", "agent", "user", "user", None, None, None]
    assert [(f"Text {number}", role) for number, role in enumerate(told, 1)] == rows
