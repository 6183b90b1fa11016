"""Where words of an erased user could remain after their rows: statistics, indexes and files."""

from __future__ import annotations

import sys
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from whole_user import WholeClock, populate, said, write_the_rest

from shared_core import Scope, open_memory
from tests.integration.large_tenants import build, fill, store_at, threshold

if sys.platform == "win32":
    pytest.skip("the embedded server needs POSIX", allow_module_level=True)


from shared_core.storage.postgres.connection.embedded import EmbeddedPostgres

__all__ = ["threshold"]

ANA, BOB = Scope("app", "ana/ü%"), Scope("app", "bob")
TENANT = "/app/ana%2Fü%25/"
WORDS = ("Lisbon", "cello", "Acme", "fado", "jazz", "上海", "Mia", "Leeds", "buy milk", "Be brief")
KEPT = {"tenant_id", "kind", "role", "status", "job_type", "fact_type", "change", "model"}
"""Columns of text with statistics: the tenant, which receipts name, and fixed words."""
SAMPLED = """
    SELECT s.tablename, s.attname, t.oid::regtype::text,
           concat(s.most_common_vals, s.histogram_bounds, s.most_common_elems)
    FROM pg_stats s
    JOIN pg_attribute a ON a.attrelid = format('%I.%I', s.schemaname, s.tablename)::regclass
        AND a.attname = s.attname
    JOIN pg_type t ON t.oid = a.atttypid
    WHERE s.schemaname = 'hippocampus'"""
HARMLESS = {
    "boolean", "smallint", "integer", "bigint", "real", "double precision", "uuid",
    "timestamp with time zone",
}  # fmt: skip


async def fill_with_ana_and_bob(uri: str, dsn: str, *, erase: bool) -> None:
    clock = WholeClock()
    async with open_memory(uri, clock=clock, worker=False) as memory:
        await populate(memory, ANA, clock)
        write_the_rest(dsn, TENANT)
        await memory.append_events(BOB, "t1", [said(1, "My name is Bob. I live in Rome.")])
        await memory.consolidate(BOB, "t1")
        if erase:
            await memory.erase(ANA)


async def test_the_planner_samples_no_words(dsn: str) -> None:
    await fill_with_ana_and_bob(dsn, dsn, erase=False)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("ANALYZE")
        sampled = connection.execute(SAMPLED).fetchall()
        everything = connection.execute("SELECT s::text FROM pg_statistic s").fetchall()
        extended = connection.execute("SELECT FROM pg_statistic_ext").fetchall()
    assert {("memories", "tenant_id"), ("facts", "valid_from")} < {row[:2] for row in sampled}
    assert [] == [row for row in sampled if row[2] not in HARMLESS and row[1] not in KEPT]
    # The digest of what a run wrote is a uuid, and would confirm a guess of the words.
    assert [] == extended == [row for row in sampled if row[1] == "words_key"]
    assert not [word for word in WORDS if word in str(everything)]


def test_the_index_of_a_large_tenant_has_no_sample_of_vectors(dsn: str) -> None:
    with store_at(dsn) as store:
        fill(store, count=600)
    build(dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("ANALYZE")
        sampled = {row[0] for row in connection.execute(SAMPLED).fetchall()}
    assert "embeddings" in sampled
    assert not [name for name in sampled if name.startswith("embeddings_near_")]


def files_with_words(empty_home: Path) -> dict[str, list[str]]:
    """Return the words in each file of a data directory and its log, the write-ahead log aside."""
    found = {}
    for path in empty_home.rglob("*"):
        if path.is_file() and "pg_wal" not in path.parts:
            content = path.read_bytes()
            if words := [word for word in WORDS if word.encode() in content]:
                found[str(path.relative_to(empty_home))] = words
    return found


async def test_after_a_full_vacuum_no_file_holds_a_word_of_an_erased_user(empty_home: Path) -> None:
    server = EmbeddedPostgres(empty_home)
    dsn = server.acquire()
    try:
        await fill_with_ana_and_bob(f"embedded://{empty_home}", dsn, erase=True)
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("CHECKPOINT")
            assert {*WORDS} == {
                one for words in files_with_words(empty_home).values() for one in words
            }
            for command in ("VACUUM FULL", "ANALYZE", "CHECKPOINT"):
                connection.execute(sql.SQL(command))  # type: ignore[arg-type] # one of three
        assert {} == files_with_words(empty_home)
    finally:
        server.release()
