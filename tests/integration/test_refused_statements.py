"""What the server refuses is told as what it is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest

from shared_core import EmbeddingMismatch, InvalidInput, Scope, StorageUnavailable, open_memory
from shared_core.settings import load_settings
from shared_core.storage.postgres.connection.database import Answers, PostgresDatabase, tables_of
from shared_core.storage.postgres.connection.statements import Step


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[PostgresDatabase]:
    database = PostgresDatabase(load_settings(dsn))
    await database.open()
    yield database
    await database.close()


async def test_a_value_that_is_too_large_is_no_key_that_is_too_long(
    database: PostgresDatabase,
) -> None:
    words = b"SELECT string_agg('w' || n, ' ')::tsvector IS NULL FROM generate_series(1, 300000) n"
    with pytest.raises(InvalidInput, match="larger than PostgreSQL takes.*tsvector"):
        await database.run("/", Step("words", words, {}))


async def test_a_key_that_is_too_long_for_an_index_is_told(database: PostgresDatabase) -> None:
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


async def test_the_tables_of_a_violated_key_are_known_without_its_name(
    database: PostgresDatabase,
) -> None:
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


async def test_opening_a_memory_writes_nothing_that_all_share(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = Scope("app", "ann")
    async with open_memory(dsn, worker=False) as memory:
        await memory.remember(ann, "Ann sails.")
    sent: list[str] = []
    run = PostgresDatabase.run

    async def noted(self: PostgresDatabase, scope: str, *steps: Step, **more: Any) -> Answers:
        sent.extend(one.name for one in steps)
        return await run(self, scope, *steps, **more)

    monkeypatch.setattr(PostgresDatabase, "run", noted)
    async with open_memory(dsn, worker=False, track_access=False) as memory:
        assert await memory.recall(ann, "sails")
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


async def test_a_full_disk_is_named_and_nothing_is_half_stored(dsn: str) -> None:
    ann = Scope("app", "ann")
    async with open_memory(dsn, worker=False) as memory:
        await memory.remember(ann, "Ann sails.")
        with psycopg.connect(dsn, autocommit=True) as admin:
            admin.execute(FULL.format("embeddings").encode())
            with pytest.raises(StorageUnavailable, match="disk of the server.*is full"):
                await memory.remember(ann, "Ann keeps bees.")
            assert (1,) == admin.execute("SELECT count(*) FROM hippocampus.memories").fetchone()
            assert 1 == len(await memory.recall(ann, "sails"))
            admin.execute("DROP TRIGGER disk_full ON hippocampus.embeddings")
        await memory.remember(ann, "Ann keeps bees.")
        assert 2 == len(await memory.list_memories(ann))
