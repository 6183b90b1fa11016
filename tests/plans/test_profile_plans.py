"""Profiles are read by their keys, however many versions and other tenants there are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from shared_core.storage.postgres.connection.statements import statement
from tests.plans.test_query_plans import BIND, nodes

TENANTS, VERSIONS, MEMORIES = 40, 60, 60
"""As many versions as memories, so that one series fills all tables."""
ONE = "00000000-0000-7000-8000-000000000007"
NAMESPACE = "/profile/user/bot/"
VALUES = {
    "tenant": "/app/u7/", "memory_id": ONE, "run_id": ONE, "version": None, "known": None,
    "subject_kind": "user", "subject_id": "bot", "app": "app", "limit": 10, "namespace": NAMESPACE,
    "paragraph_key": "profile", "shown": [], "now": datetime.now(UTC), "thread_id": "t",
    "event_ids": ["e1"], "author": None, "expected": VERSIONS, "revision": 0, "rewritten": [],
    "roles": None, "keep": VERSIONS, "said": 50, "characters": 1000,
}  # fmt: skip


@pytest.fixture(scope="module")
def filled(server: str, template: str) -> Iterator[psycopg.Connection[Any]]:
    """40 users with a profile of 60 versions, each of 60 memories, and a log of every run."""
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE profile_plans TEMPLATE {template}")
    dsn = make_conninfo(server, dbname="profile_plans")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET search_path TO hippocampus, public")
        ids = "('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid"
        many = f"generate_series(1, {TENANTS}) t, generate_series(1, {MEMORIES}) n"
        of = "SELECT '/app/u' || t || '/'"
        connection.execute(
            "INSERT INTO memories (tenant_id, memory_id, namespace, key, kind, text, value, terms,"
            f" term_count, occurred_at, created_at, updated_at) {of}, {ids}, '{NAMESPACE}',"
            f" n::text, 'item', 'text', '{{}}', '', 0, now(), now(), now() FROM {many}"
        )
        connection.execute(f"INSERT INTO memory_sources {of}, {ids}, 't', 'e' || n FROM {many}")
        connection.execute(
            "INSERT INTO profiles (tenant_id, subject_kind, subject_id, version, content_hash,"
            f" run_id, created_at, memory_id, entries) {of}, 'user', 'bot', n, '', {ids}, now(),"
            f" '{ONE}', (SELECT jsonb_agg(jsonb_build_object('id', '00000000-0000-7000-8000-'"
            " || lpad(x::text, 12, '0'), 'role', 'event')) FROM generate_series(1, 60) x)"
            f" FROM {many}"
        )
        connection.execute(
            "INSERT INTO runs (tenant_id, run_id, kind, extractor, started_at, finished_at)"
            f" {of}, {ids}, 'profile', 'x', now(), now() FROM {many}"
        )
        connection.execute(
            "INSERT INTO pipeline_log (tenant_id, run_id, step, stage, started_at, duration_s,"
            f" memory_id) {of}, {ids}, 1, 's', now() + n * interval '1 s', 1, '{ONE}' FROM {many}"
        )
        connection.execute(f"INSERT INTO tombstones {of}, 't', 'x' || n, now() FROM {many}")
        connection.execute("ANALYZE")
        yield connection
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute("DROP DATABASE profile_plans WITH (FORCE)")


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("profile_by_id", 200),
        ("profile_of_subject", 200),
        ("profiles_to_show", 200),
        ("profile_versions", VERSIONS),
        ("profile_of_run", VERSIONS + 1),
        ("require_profile_version", VERSIONS),
        ("require_profile_rows", 10),
        ("forgotten_turns", 10),
        ("pipeline_history", 150),
        ("show_profile", 200),
        ("drop_profile", 5 * MEMORIES),
        ("prune_profile", 5 * VERSIONS),
    ],
)
def test_a_statement_reads_rows_of_its_profile_by_an_index(
    filled: psycopg.Connection[Any], name: str, most: int
) -> None:
    with filled.transaction(force_rollback=True):
        filled.execute(BIND, ["/app/u7/"])
        query = b"EXPLAIN (ANALYZE, FORMAT JSON) " + statement(name)
        row = filled.execute(query, VALUES).fetchone()
    assert row is not None
    told = json.loads(row[0]) if isinstance(row[0], str) else row[0]
    read = [node for node in nodes(told[0]["Plan"]) if node.get("Relation Name")]
    assert "Seq Scan" not in {node["Node Type"] for node in read}
    touched = sum(
        node["Actual Rows"] * node["Actual Loops"] + node.get("Rows Removed by Filter", 0)
        for node in read
    )
    assert touched <= most
