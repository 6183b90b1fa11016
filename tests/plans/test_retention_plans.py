"""Forgetting reads and writes what is forgotten and nothing else, whatever there is beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from shared_core.storage.postgres.connection.statements import statement

TENANTS, PER_TENANT, DUE = 100, 100, 100
BIND = """
    SELECT set_config('role', 'hippocampus_app', true), set_config('hippocampus.scope', %s, true),
           set_config('search_path', 'hippocampus, public', true),
           set_config('plan_cache_mode', 'force_generic_plan', true)"""
VALUES: dict[str, object] = {"tenant": "/", "tenant_end": "0", "now": "2026-03-01", "limit": 1000}
WORK = """
    SELECT relname, n_tup_ins, n_tup_upd, n_tup_del, seq_tup_read,
           (SELECT coalesce(sum(pg_stat_get_xact_tuples_returned(indexrelid)), 0) FROM pg_index
            WHERE indrelid = relid)
    FROM pg_stat_xact_user_tables WHERE schemaname = 'hippocampus'"""


@pytest.fixture(scope="module")
def filled(server: str, template: str) -> Iterator[psycopg.Connection[Any]]:
    """10,000 turns with sources, events, vectors and counters; one in a hundred is due."""
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE retention_plans TEMPLATE {template}")
    dsn = make_conninfo(server, dbname="retention_plans")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET search_path TO hippocampus, public")
        for query in (
            "INSERT INTO embedding_models VALUES ('m', 3, true, now())",
            "INSERT INTO memories (tenant_id, memory_id, namespace, key, kind, text, value, terms,"
            " term_count, thread_id, occurred_at, created_at, updated_at)"
            " SELECT '/app/u' || t || '/', gen_random_uuid(), '/memories/', n::text, 'episodic',"
            " 'text ' || n, '{}', 'word', 1, 't', '2025-01-01', '2025-01-01', '2025-01-01'"
            f" FROM generate_series(1, {TENANTS}) t, generate_series(1, {PER_TENANT}) n",
            "INSERT INTO embeddings"
            " SELECT tenant_id, 'm', memory_id, 'text', '[1,2,3]' FROM memories",
            "INSERT INTO memory_sources SELECT tenant_id, memory_id, 't', key FROM memories",
            "INSERT INTO threads (tenant_id, thread_id, created_at, updated_at)"
            " SELECT DISTINCT tenant_id, 't', now(), now() FROM memories",
            "INSERT INTO events (tenant_id, thread_id, seq, event_id, author, role, text,"
            " occurred_at, recorded_at, memory_seq) SELECT tenant_id, 't', key::int, key, 'user',"
            " 'user', text, occurred_at, occurred_at, key::int FROM memories",
            "INSERT INTO memory_access (tenant_id, memory_id, forget_at)"
            " SELECT tenant_id, memory_id, CASE WHEN key = '7' THEN timestamptz '2026-01-01'"
            " ELSE '2027-01-01' END FROM memories",
            "INSERT INTO retention_policies"
            " VALUES ('/', 'episodic', true, 0.1, 0.1, 7, 1, 0, 1, 0, true, now())",
            "VACUUM ANALYZE",
        ):
            connection.execute(query.encode())
        yield connection
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute("DROP DATABASE retention_plans WITH (FORCE)")


def work(connection: psycopg.Connection[Any]) -> dict[str, tuple[int, ...]]:
    """What this transaction inserted, updated, deleted, and read by scans and by indexes."""
    return {row[0]: row[1:] for row in connection.execute(WORK.encode()).fetchall()}


@pytest.mark.parametrize(
    ("stage", "written"),
    [
        (0, {"memories": (0, DUE, 0), "memory_access": (0, DUE, 0)}),
        (
            1,
            {
                "memories": (0, DUE, 0),
                "memory_access": (0, DUE, 0),
                "memory_archive": (DUE, 0, 0),
                "embeddings": (0, 0, DUE),
            },
        ),
        (
            2,
            {
                "memories": (0, 0, DUE),
                "memory_access": (0, 0, DUE),
                "embeddings": (0, 0, DUE),
                "memory_sources": (0, 0, DUE),
                "tombstones": (DUE, 0, 0),
                "events": (0, 0, DUE),
            },
        ),
    ],
)
def test_a_run_writes_what_it_forgets_and_reads_little_more(
    filled: psycopg.Connection[Any], stage: int, written: dict[str, tuple[int, ...]]
) -> None:
    with filled.transaction(force_rollback=True):
        filled.execute(
            "UPDATE memory_access SET stage = %s, staged_at = '2025-06-01'"
            " WHERE forget_at < '2026-02-01'",
            [stage],
        )
        before = work(filled)
        filled.execute(BIND, ["/"])
        [(_, _, count)] = filled.execute(statement("forget_faded"), VALUES).fetchall()
        after = work(filled)
    assert DUE == count
    done = {
        table: tuple(now - then for now, then in zip(row, before[table], strict=True))
        for table, row in after.items()
    }
    assert written == {table: row[:3] for table, row in done.items() if any(row[:3])}
    scanned = {table: row[3] for table, row in done.items() if row[3]}
    policies = scanned.pop("retention_policies", 0)
    assert ({}, True) == (scanned, policies <= 10 * DUE)
    looked_up = {table: row[4] for table, row in done.items() if row[4] > 8 * DUE}
    assert {} == {table: n for table, n in looked_up.items() if table != "retention_policies"}


@pytest.mark.parametrize("name", ["what_is_due", "count_due"])
def test_a_dry_run_reads_what_is_due(filled: psycopg.Connection[Any], name: str) -> None:
    with filled.transaction(force_rollback=True):
        before = work(filled)
        filled.execute(BIND, ["/"])
        rows = filled.execute(statement(name), VALUES).fetchall()
        after = work(filled)
    assert rows
    for table in ("memories", "memory_access"):
        read = [now - then for now, then in zip(after[table], before[table], strict=True)]
        assert [0, 0, 0, 0] == read[:4]
        assert read[4] <= 4 * DUE


def test_counting_reads_looks_each_memory_up(filled: psycopg.Connection[Any]) -> None:
    rows = filled.execute("SELECT memory_id FROM memories WHERE tenant_id = '/app/u7/' LIMIT 10")
    ids = [row[0] for row in rows.fetchall()]
    values = {"tenants": ["/app/u7/"] * 10, "memory_ids": ids, "counts": [1] * 10,
              "moments": ["2026-01-01"] * 10}  # fmt: skip
    with filled.transaction(force_rollback=True):
        before = work(filled)
        filled.execute(BIND, ["/app/u7/"])
        filled.execute(statement("add_accesses").replace(b")b", b")s"), values)
        after = work(filled)
    change = {
        table: [now - then for now, then in zip(row, before[table], strict=True)]
        for table, row in after.items()
    }
    assert {"memory_access": [0, 10, 0]} == {
        t: row[:3] for t, row in change.items() if any(row[:3])
    }
    assert 0 == change["memories"][3] == change["memory_access"][3]
    assert change["memories"][4] <= 40


def test_statistics_scan_memories_and_counters_once(filled: psycopg.Connection[Any]) -> None:
    values = {**VALUES, "days": [1.0, 7.0, 400.0]}
    with filled.transaction(force_rollback=True):
        before = work(filled)
        filled.execute(BIND, ["/"])
        filled.execute(statement("take_time"))
        rows = filled.execute(statement("retention_stats"), values).fetchall()
        after = work(filled)
    everything = TENANTS * PER_TENANT
    assert everything == sum(row[6] for row in rows)
    assert {(0, DUE), (2, everything - DUE)} == {(row[4], row[6]) for row in rows}
    for table in ("memories", "memory_access"):
        read = [now - then for now, then in zip(after[table], before[table], strict=True)]
        assert [0, 0, 0, everything, 0] == read  # none is looked up by itself


def test_statistics_of_one_user_read_that_user_alone(filled: psycopg.Connection[Any]) -> None:
    one = {"tenant": "/app/u7/", "tenant_end": "/app/u70", "days": [1.0]}
    with filled.transaction(force_rollback=True):
        before = work(filled)
        filled.execute(BIND, ["/app/u7/"])
        filled.execute(statement("take_time"))
        rows = filled.execute(statement("retention_stats"), {**VALUES, **one}).fetchall()
        after = work(filled)
    assert PER_TENANT == sum(row[6] for row in rows)
    for table in ("memories", "memory_access"):
        read = [now - then for now, then in zip(after[table], before[table], strict=True)]
        assert [0, 0, 0, 0] == read[:4] and read[4] <= 2 * PER_TENANT


def test_a_batch_reads_no_further_than_its_limit(filled: psycopg.Connection[Any]) -> None:
    with filled.transaction(force_rollback=True):
        before = work(filled)
        filled.execute(BIND, ["/"])
        rows = filled.execute(statement("forget_faded"), {**VALUES, "limit": 10}).fetchall()
        after = work(filled)
    assert 10 == sum(row[2] for row in rows)
    for table in ("memories", "memory_access"):
        read = [now - then for now, then in zip(after[table], before[table], strict=True)]
        assert 0 == read[3] and read[4] <= 8 * 10
