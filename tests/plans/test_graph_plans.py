"""How many edges a read of the graph looks at, on hubs and beside other tenants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from policy_plans import reads_of
from psycopg.conninfo import make_conninfo

from shared_core.policies.edges import edges_of
from shared_core.policies.facts import FactQuery
from shared_core.policies.spells import known_spells
from shared_core.storage.postgres.connection.operations import compiled
from shared_core.storage.postgres.connection.statements import statement

NOW = datetime(2100, 1, 1, tzinfo=UTC)
HUB = 10_000
BIND = """
    SELECT set_config('role', 'hippocampus_app', true),
           set_config('hippocampus.scope', '/app/ann/', true),
           set_config('search_path', 'hippocampus, public', true)"""
VALUES = {
    "tenant": "/app/ann/",
    "key": "hub",
    "depth": 3,
    "limit": 50,
    "valid": None,
    "known": None,
    "now": "2100-01-01",
    "begin": "-infinity",
    "end": "infinity",
    "relation": "knows",
    "value": "p7",
    "path": "/memories/",
    "path_end": "/memories0",
    "kinds": None,
    "thread_id": None,
    "offset": 0,
}
EDGES = """
    INSERT INTO edges (tenant_id, edge_id, subject, relation, object, subject_key, object_key,
                       valid_from, recorded_at, valid_until, superseded_at)
    SELECT %s, gen_random_uuid(), %s, 'knows', 'p' || n, %s, 'p' || n,
           timestamptz '2026-01-01' + n * interval '1 second', now(), %s, %s
    FROM generate_series(1, %s) n"""


@pytest.fixture(scope="module")
def hubs(server: str, template: str) -> Iterator[psycopg.Connection[Any]]:
    """Two hubs that know the same 10,000 people, one that knew them, and 50 other tenants."""
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE hubs TEMPLATE {template}")
    with psycopg.connect(make_conninfo(server, dbname="hubs"), autocommit=True) as connection:
        connection.execute("SET search_path TO hippocampus, public")
        for name, end in (("hub", None), ("other hub", None), ("past", "2026-06-01")):
            connection.execute(EDGES, ["/app/ann/", name, name, end, end, HUB])
        for number in range(50):
            connection.execute(EDGES, [f"/app/u{number}/", "hub", "hub", None, None, 200])
        connection.execute("ANALYZE")
        yield connection
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute("DROP DATABASE hubs WITH (FORCE)")


def scans(
    connection: psycopg.Connection[Any],
    query: bytes,
    table: str,
    values: Mapping[str, Any] = VALUES,
    *,
    in_order: bool = True,
) -> list[tuple[str, float]]:
    """How a statement reads a table, and how many rows of it, those it leaves out included."""
    with connection.transaction(force_rollback=True):
        connection.execute(BIND)
        if in_order:
            connection.execute(statement("read_in_order"))
        found = connection.execute(b"EXPLAIN (ANALYZE, FORMAT JSON) " + query, values).fetchone()
    assert found is not None
    waiting, read = [found[0][0]["Plan"]], []
    while waiting:
        node = waiting.pop()
        waiting += node.get("Plans", [])
        if node.get("Relation Name") == table or node["Node Type"] == "Bitmap Index Scan":
            rows = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
            read.append((node["Node Type"], rows * node["Actual Loops"]))
    return read


def test_a_walk_from_a_hub_costs_what_is_returned_of_it(hubs: psycopg.Connection[Any]) -> None:
    read = scans(hubs, statement("walk"), "edges")
    assert "Seq Scan" not in {kind for kind, _ in read}
    assert 0 < sum(rows for _, rows in read) <= 2_000


def test_the_last_edges_of_a_hub_cost_what_is_returned_of_them(
    hubs: psycopg.Connection[Any],
) -> None:
    read = reads_of(hubs, "/app/ann/", edges_of("hub", 50, NOW, None))
    edges = [one for one in read if one["Relation Name"] == "edges"]
    assert edges
    assert "Seq Scan" not in {one["Node Type"] for one in edges}
    assert 0 < sum(one["Actual Rows"] for one in edges) <= 200


def test_the_spells_of_a_hub_are_looked_up_by_relation(hubs: psycopg.Connection[Any]) -> None:
    read = reads_of(hubs, "/app/ann/", known_spells("hub", "knows", "", alone=False, now=NOW))
    edges = [one for one in read if one["Relation Name"] == "edges"]
    assert edges
    assert "Seq Scan" not in {one["Node Type"] for one in edges}
    rows = sum(one["Actual Rows"] + one.get("Rows Removed by Filter", 0) for one in edges)
    assert 0 < rows <= HUB * 1.5


def test_a_slot_is_looked_up_by_its_index(hubs: psycopg.Connection[Any]) -> None:
    hubs.execute(
        """INSERT INTO memories (tenant_id, memory_id, namespace, key, kind, text, value, terms,
               term_count, occurred_at, created_at, updated_at)
           SELECT '/app/ann/', gen_random_uuid(), '/memories/', n::text, 'semantic', '', '{}', '',
               0, now(), now(), now() FROM generate_series(1, 2000) n"""
    )
    hubs.execute(
        """INSERT INTO facts (tenant_id, memory_id, fact_type, slot, key, value, functional,
               confidence, extractor, pattern, valid_from, recorded_at)
           SELECT tenant_id, memory_id, 'custom', CASE WHEN key <= '1' THEN 'employer' ELSE 'like'
               END, key, '1', false, 1, 'x', 'p', now(), now() FROM memories"""
    )
    hubs.execute("ANALYZE memories, facts")
    for asked in FactQuery(now=NOW, slot="employer").selects():
        query, values = compiled(asked, "/app/ann/")
        read = scans(hubs, query.replace(b")b", b")s"), "facts", values)
        assert 0 < sum(rows for _, rows in read) < 10


def test_ends_that_came_as_they_were_known_are_not_looked_at(hubs: psycopg.Connection[Any]) -> None:
    """Only ends that were known before are compared with now, and they have an index."""
    hubs.execute(
        """INSERT INTO memories (tenant_id, memory_id, namespace, key, kind, text, value, terms,
               term_count, occurred_at, created_at, updated_at, superseded_at)
           SELECT '/app/ann/', gen_random_uuid(), '/memories/', 'ended ' || n, 'semantic', '', '{}',
               '', 0, now(), now(), now(), now() FROM generate_series(1, 5000) n"""
    )
    hubs.execute(
        """INSERT INTO facts (tenant_id, memory_id, fact_type, slot, key, value, functional,
               confidence, extractor, pattern, valid_from, recorded_at, valid_until, superseded_at)
           SELECT tenant_id, memory_id, 'custom', 'like', key, '1', false, 1, 'x', 'p',
               now() - interval '2 days', now(), now() - interval '1 day',
               CASE WHEN key = 'ended 7' THEN now() - interval '2 days' ELSE now() END
           FROM memories WHERE key LIKE 'ended %'"""
    )
    hubs.execute("ANALYZE memories, facts")
    read = scans(
        hubs, statement("list_memories", literals=(("direction", "DESC"),)), "facts", in_order=False
    )
    assert "Seq Scan" not in {kind for kind, _ in read}
    assert sum(rows for _, rows in read) <= 2
