"""Which index answers, and how many rows are touched, on a store that other tenants fill."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import psycopg
import pytest
from pgvector import HalfVector
from policy_plans import (
    BIND,
    EXACT,
    NEAREST,
    Node,
    add_memories,
    add_vectors,
    connections,
    explained,
    kinds,
    of_table,
    touched,
)
from postgres_databases import PostgresDatabases

from shared_core.storage.postgres.connection.statements import statement

TENANTS = 60
PER_TENANT = 100
DIMENSIONS = 64
VALUES = {
    "tenant": "/app/u7/", "path": "/memories/", "path_end": "/memories0", "tenants": ["/app/u7/"],
    "namespaces": ["/memories/"], "keys": ["5"], "now": "2100-01-01", "limit": 10, "offset": 0,
    "kinds": None, "model": "m", "embedding": HalfVector(np.ones(DIMENSIONS)),
    "term_queries": ["word3"], "any_term": "word3", "candidates": 50, "besides": [],
    "with_expired": False, "most": 50, "memory_ids": [], "patterns": [], "max_depth": 9,
}  # fmt: skip
LITERALS = {"search_items": EXACT, "search_rest": EXACT, "search_nearest": NEAREST}
SEARCHES = ["search_items", "search_nearest", "search_rest", "recall", "list_items"]


@pytest.fixture(scope="module")
def filled(postgres: PostgresDatabases) -> Iterator[psycopg.Connection[Any]]:
    """6,000 memories of 60 tenants, analysed."""
    for connection in connections(postgres):
        rows = f"generate_series(1, {TENANTS}) t, generate_series(1, {PER_TENANT}) n"
        terms = "to_tsvector('simple', 'word' || n % 10)"
        add_memories(connection, rows, terms=terms, term_count="1")
        add_vectors(connection, DIMENSIONS)
        connection.execute(
            "INSERT INTO memory_sources SELECT tenant_id, memory_id, 'thread', key FROM memories"
        )
        connection.execute("ANALYZE")
        yield connection


def plan(connection: psycopg.Connection[Any], name: str, **values: object) -> list[Node]:
    """The plan of a statement as the application runs it: its role, inside the scope."""
    with connection.transaction(force_rollback=True):
        connection.execute(BIND, ["/app/u7/"])
        query = statement(name, literals=LITERALS.get(name, ()))
        return explained(connection, query, VALUES | values)


@pytest.mark.parametrize("name", [*SEARCHES, "get_items", "list_namespaces"])
def test_a_read_of_one_tenant_never_scans_a_table(
    filled: psycopg.Connection[Any], name: str
) -> None:
    found = plan(filled, name)
    scans = [
        node
        for table in ("memories", "embeddings", "memory_sources")
        for node in of_table(found, table)
    ]
    assert scans and "Seq Scan" not in kinds(scans)


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_touches_only_the_rows_of_its_tenant(
    filled: psycopg.Connection[Any], name: str
) -> None:
    found = plan(filled, name)
    # recall reads the rows it returns once more for their columns; vectors it counts in the index,
    # scans, and looks up again for the turns before its candidates
    assert touched(of_table(found, "memories")) <= 2 * PER_TENANT
    most = (3 if name == "recall" else 1) * PER_TENANT
    assert touched(of_table(found, "embeddings")) <= most


def test_recall_of_few_memories_leaves_the_other_vectors_of_the_tenant(
    filled: psycopg.Connection[Any],
) -> None:
    few = 5
    change = "UPDATE memories SET namespace = %s WHERE tenant_id = '/app/u7/' AND key::int <= %s"
    filled.execute(change, ["/few/", few])
    scanned = [
        node["Actual Rows"] * node["Actual Loops"]
        for node in of_table(plan(filled, "recall", path="/few/", path_end="/few0"), "embeddings")
    ]
    filled.execute(change, ["/memories/", few])
    assert few <= max(scanned) <= 3 * few
    assert sum(scanned) <= 5 * few


def test_reading_one_item_touches_one_row(filled: psycopg.Connection[Any]) -> None:
    [scan] = of_table(plan(filled, "get_items"), "memories")
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
        "worker_id": "w", "now": "2100-01-01", "lease_until": "2100-01-02",
        "job_types": ["full_consolidation", "callback"], "names": ["reflector"],
        "applications": ["/app/"], "after_tenant": "/app/u7/",
    }  # fmt: skip
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
        read = of_table(explained(filled, statement("claim_job"), values), "consolidation_jobs")
        [taken] = filled.execute(
            "SELECT tenant_id FROM consolidation_jobs WHERE status = 'running'"
        ).fetchall()
    scans = [node for node in read if "Scan" in node["Node Type"]]
    assert "Seq Scan" not in kinds(scans)
    assert touched(scans) <= 4 * TENANTS
    assert ("/app/u3/",) == taken
