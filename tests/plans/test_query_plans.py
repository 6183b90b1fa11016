"""Which index answers, and how many rows are touched, on a store that other tenants fill."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import psycopg
import pytest
from pgvector import HalfVector
from pgvector.psycopg import register_vector
from psycopg.conninfo import make_conninfo

from shared_core.storage.postgres.connection.statements import statement

TENANTS = 60
PER_TENANT = 100
DIMENSIONS = 64
BIND = """
    SELECT set_config('role', 'hippocampus_app', true), set_config('hippocampus.scope', %s, true),
           set_config('search_path', 'hippocampus, public', true)"""


@pytest.fixture(scope="module")
def filled(server: str, template: str) -> Iterator[psycopg.Connection[Any]]:
    """6,000 memories of 60 tenants, analysed."""
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE plans TEMPLATE {template}")
    with psycopg.connect(make_conninfo(server, dbname="plans"), autocommit=True) as connection:
        register_vector(connection)
        connection.execute("SET search_path TO hippocampus, public")
        connection.execute(
            "INSERT INTO embedding_models VALUES ('m', %s, true, now())", [DIMENSIONS]
        )
        connection.execute(
            "INSERT INTO memories (tenant_id, memory_id, namespace, key, kind, text, value, terms,"
            " term_count, occurred_at, created_at, updated_at)"
            " SELECT '/app/u' || t || '/', gen_random_uuid(), '/memories/',"
            " n::text, 'item', 'text ' || n, '{}', to_tsvector('simple', 'word' || n %% 10), 1,"
            " now(), now(), now() FROM generate_series(1, %s) t, generate_series(1, %s) n",
            [TENANTS, PER_TENANT],
        )
        noise = np.random.default_rng(1)
        rows = connection.execute("SELECT tenant_id, memory_id FROM memories").fetchall()
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO embeddings VALUES (%s, 'm', %s, 'text', %s)",
                [(*row, HalfVector(noise.normal(size=DIMENSIONS))) for row in rows],
            )
        connection.execute(
            "INSERT INTO memory_sources SELECT tenant_id, memory_id, 'thread', key FROM memories"
        )
        connection.execute("ANALYZE")
        yield connection
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute("DROP DATABASE plans WITH (FORCE)")


VALUES = {
    "tenant": "/app/u7/",
    "path": "/memories/",
    "path_end": "/memories0",
    "tenants": ["/app/u7/"],
    "namespaces": ["/memories/"],
    "keys": ["5"],
    "now": "2100-01-01",
    "limit": 10,
    "offset": 0,
    "kinds": None,
    "model": "m",
    "embedding": HalfVector(np.ones(DIMENSIONS)),
    "term_queries": ["word3"],
    "any_term": "word3",
    "candidates": 50,
    "besides": [],
    "with_expired": False,
    "most": 50,
}
EXACT = (("similarity", "1 - min(v.embedding <=> %(embedding)s::halfvec)"),)
NEAREST = (
    ("similarity", "1 - n.distance"), ("distance", "m.embedding <=> %(embedding)s::halfvec"),
)  # fmt: skip
LITERALS = {"search_items": EXACT, "search_rest": EXACT, "search_nearest": NEAREST}


def plan(connection: psycopg.Connection[Any], name: str) -> dict[str, Any]:
    """The plan of a statement as the application runs it: its role, inside the scope."""
    with connection.transaction(force_rollback=True):
        connection.execute(BIND, ["/app/u7/"])
        query = b"EXPLAIN (ANALYZE, FORMAT JSON) "
        query += statement(name, literals=LITERALS.get(name, ()))
        row = connection.execute(query, VALUES).fetchone()
    assert row is not None
    found: dict[str, Any] = json.loads(row[0]) if isinstance(row[0], str) else row[0]
    return found[0]["Plan"]  # type: ignore[index]


def nodes(tree: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield tree
    for child in tree.get("Plans", []):
        yield from nodes(child)


@pytest.mark.parametrize(
    "name",
    [
        "get_items",
        "list_items",
        "search_items",
        "search_nearest",
        "search_rest",
        "recall",
        "list_namespaces",
    ],
)
def test_a_read_of_one_tenant_never_scans_a_table(
    filled: psycopg.Connection[Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(VALUES, "memory_ids", [])
    monkeypatch.setitem(VALUES, "patterns", [])
    monkeypatch.setitem(VALUES, "max_depth", 9)
    tables = {"memories", "embeddings", "memory_sources"}
    scans = [
        node["Node Type"]
        for node in nodes(plan(filled, name))
        if node.get("Relation Name") in tables
    ]
    assert scans
    assert "Seq Scan" not in scans


@pytest.mark.parametrize(
    "name", ["search_items", "search_nearest", "search_rest", "recall", "list_items"]
)
def test_a_search_touches_only_the_rows_of_its_tenant(
    filled: psycopg.Connection[Any], name: str
) -> None:
    touched = {
        table: sum(
            node["Actual Rows"] * node["Actual Loops"] + node.get("Rows Removed by Filter", 0)
            for node in nodes(plan(filled, name))
            if node.get("Relation Name") == table
        )
        for table in ("memories", "embeddings")
    }
    # recall reads the rows it returns once more for their columns; vectors it counts in the index,
    # scans, and looks up again for the turns before its candidates
    assert touched["memories"] <= 2 * PER_TENANT
    assert touched["embeddings"] <= (3 if name == "recall" else 1) * PER_TENANT


def test_recall_of_few_memories_leaves_the_other_vectors_of_the_tenant(
    filled: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    few = 5
    monkeypatch.setitem(VALUES, "path", "/few/")
    monkeypatch.setitem(VALUES, "path_end", "/few0")
    change = "UPDATE memories SET namespace = %s WHERE tenant_id = '/app/u7/' AND key::int <= %s"
    filled.execute(change, ["/few/", few])
    scanned = [
        node["Actual Rows"] * node["Actual Loops"]
        for node in nodes(plan(filled, "recall"))
        if node.get("Relation Name") == "embeddings"
    ]
    filled.execute(change, ["/memories/", few])
    assert few <= max(scanned) <= 3 * few
    assert sum(scanned) <= 5 * few


def test_reading_one_item_touches_one_row(filled: psycopg.Connection[Any]) -> None:
    [scan] = [n for n in nodes(plan(filled, "get_items")) if n.get("Relation Name") == "memories"]
    assert scan["Actual Rows"] * scan["Actual Loops"] == 1


def test_the_nearest_are_exact_even_beside_an_approximate_index(
    filled: psycopg.Connection[Any],
) -> None:
    """An ANN index of the whole table must not tempt the planner away from a small tenant."""
    filled.execute(
        "CREATE INDEX tempting ON embeddings"
        f" USING hnsw ((embedding::halfvec({DIMENSIONS})) halfvec_cosine_ops)"
    )
    filled.execute("ANALYZE embeddings")
    with filled.transaction(force_rollback=True):
        filled.execute(BIND, ["/app/u7/"])
        found = [
            row[1] for row in filled.execute(statement("search_items", literals=EXACT), VALUES)
        ]
    exact = filled.execute(
        "SELECT m.key FROM memories m JOIN embeddings e USING (tenant_id, memory_id)"
        " WHERE tenant_id = '/app/u7/' ORDER BY (e.embedding <=> %s) + 0 LIMIT 10",
        [VALUES["embedding"]],
    ).fetchall()
    filled.execute("DROP INDEX tempting")
    assert [row[0] for row in exact] == found


def test_a_claim_touches_few_of_many_jobs(filled: psycopg.Connection[Any]) -> None:
    """One tenant has thousands that are due, sixty have one that is not."""
    values = {
        "worker_id": "w",
        "now": "2100-01-01",
        "lease_until": "2100-01-02",
        "job_types": ["full_consolidation", "callback"],
        "names": ["reflector"],
        "applications": ["/app/"],
        "after_tenant": "/app/u7/",
    }
    with filled.transaction(force_rollback=True):
        filled.execute(
            "INSERT INTO threads (tenant_id, thread_id, created_at, updated_at)"
            " SELECT '/app/u' || t || '/', n::text, now(), now()"
            " FROM generate_series(1, 60) t, generate_series(1, 5000) n WHERE n = 1 OR t = 3;"
            " INSERT INTO consolidation_jobs (tenant_id, job_id, thread_id, job_type, run_after,"
            " created_at) SELECT tenant_id, gen_random_uuid(), thread_id, 'full_consolidation',"
            " CASE tenant_id WHEN '/app/u3/' THEN now() ELSE '2200-01-01' END, now() FROM threads;"
            " ANALYZE consolidation_jobs"
        )
        filled.execute(BIND, ["/"])
        filled.execute(statement("take_in_order"))
        query = b"EXPLAIN (ANALYZE, FORMAT JSON) " + statement("claim_job")
        row = filled.execute(query, values).fetchone()
        [taken] = filled.execute(
            "SELECT tenant_id FROM consolidation_jobs WHERE status = 'running'"
        ).fetchall()
    assert row is not None
    scans = [
        node
        for node in nodes(row[0][0]["Plan"])
        if "consolidation_jobs" == node.get("Relation Name") and "Scan" in node["Node Type"]
    ]
    assert "Seq Scan" not in {node["Node Type"] for node in scans}
    touched = sum(
        (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
        for node in scans
    )
    assert touched <= 4 * TENANTS
    assert ("/app/u3/",) == taken
