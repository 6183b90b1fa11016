"""Which index answers, and how many rows are touched, on a store that other tenants fill."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import numpy as np
import psycopg
import pytest
from langgraph.store.base import PutOp
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

from langgraph_store import PgHippocampusStore
from langgraph_store.conformance.samples import HERE, INDEX
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


USERS, PER_USER, OVER = 500, 40, 5
TURN: dict[str, object] = {
    "tenant": "/app/u7/", "thread_id": "new", "event_id": "e", "author": "user", "role": "user",
    "text": "tea", "metadata": "{}", "occurred_at": "2026-03-01", "importance": 5.0,
    "expires_at": None, "context": 5, "once": True, "now": "2026-03-01", "max_events": 100,
    "timeout": timedelta(minutes=30), "max_duration": timedelta(hours=24),
}  # fmt: skip


@pytest.fixture(scope="module")
def sessions(postgres: PostgresDatabases) -> Iterator[psycopg.Connection[Any]]:
    """20,000 sessions of 500 users, one of each active, and five of those over."""
    for connection in connections(postgres):
        connection.execute(
            "INSERT INTO conversations (tenant_id, thread_id, status, event_count, created_at,"
            " last_active_at, ends_at)"
            " SELECT '/app/u' || u || '/', 't' || n,"
            " CASE WHEN n = 1 THEN 'active' ELSE 'ended' END,"
            f" 9, '2026-01-01', '2026-01-01', CASE WHEN u <= {OVER} THEN '2026-01-02'"
            " ELSE '2026-04-01' END::timestamptz"
            f" FROM generate_series(1, {USERS}) u, generate_series(1, {PER_USER}) n"
        )
        connection.execute("ANALYZE")
        yield connection


def scans(connection: psycopg.Connection[Any], name: str, values: dict[str, object]) -> list[Node]:
    """Return the nodes of the plan of a statement that read conversations."""
    with connection.transaction(force_rollback=True):
        read = of_table(explained(connection, statement(name), values), "conversations")
    return [node for node in read if "Scan" in node["Node Type"]]


def test_a_look_reads_the_sessions_that_are_over(sessions: psycopg.Connection[Any]) -> None:
    [found] = scans(sessions, "conversations_over", {"now": "2026-03-01", "limit": 100})
    assert ("conversations_ending", OVER) == (found["Index Name"], found["Actual Rows"])


def test_an_input_reads_its_session(sessions: psycopg.Connection[Any]) -> None:
    found = scans(sessions, "hear_turn", TURN)
    assert found
    assert {"conversations_one_active"} == {node.get("Index Name") for node in found}
    assert all(node["Actual Rows"] <= 1 for node in found)


PEOPLE, TASTES = 12, 3_000
ANN = "/app/ann/"
OF_ANN = {"tenant": ANN, "people": 200, "now": "2100-01-01"}
FILL_PEOPLE = f"""
    INSERT INTO threads (tenant_id, thread_id, created_at, updated_at)
    SELECT '{ANN}', 't', now(), now();
    INSERT INTO events (tenant_id, thread_id, seq, event_id, author, role, text, occurred_at,
                        recorded_at, memory_seq)
    SELECT tenant_id, 't', key::int, 'e' || key, 'u', 'user', 'x', now(), now(), key::int
    FROM memories;
    INSERT INTO memory_sources (tenant_id, memory_id, thread_id, event_id)
    SELECT tenant_id, memory_id, 't', 'e' || key FROM memories;
    INSERT INTO facts (tenant_id, memory_id, fact_type, slot, key, value, functional, confidence,
                       extractor, pattern, valid_from, recorded_at)
    SELECT tenant_id, memory_id, 'profile', s.slot, s.slot || ':p' || key,
           to_jsonb('p' || key), false, 1, 'x', 'p', now(), now()
    FROM memories CROSS JOIN LATERAL (
        SELECT CASE WHEN key::int <= {PEOPLE} THEN 'relation.son' ELSE 'trait' END AS slot) s;
    ANALYZE;"""


def test_people_are_looked_up_among_the_relations_alone(postgres: PostgresDatabases) -> None:
    for connection in connections(postgres):
        rows = f"generate_series(1, {PEOPLE + TASTES}) n"
        add_memories(connection, rows, tenant_id=f"'{ANN}'", kind="'semantic'")
        connection.execute(FILL_PEOPLE)
        with connection.transaction(force_rollback=True):
            connection.execute(BIND, [ANN])
            query = statement("known_people")
            assert PEOPLE == len(connection.execute(query, OF_ANN).fetchall())
            read = [one for one in explained(connection, query, OF_ANN) if "Relation Name" in one]
    scanned = [one for one in read if one["Node Type"] == "Seq Scan"]
    assert scanned == of_table(scanned, "entity_aliases")
    assert PEOPLE <= touched(read) <= 6 * PEOPLE


BATCHES, SIZE = 6, 500
ROWS_READ = """
    SELECT sum(t.seq_tup_read) + (SELECT sum(i.idx_tup_read) FROM pg_stat_user_indexes i
                                  WHERE i.schemaname = 'hippocampus' AND i.relname = 'memories')
    FROM pg_stat_user_tables t WHERE t.schemaname = 'hippocampus' AND t.relname = 'memories'"""


async def test_bulk_after_single_calls_reads_few_rows_per_item(dsn: str) -> None:
    """Each item is looked up by its key, not among all of its tenant: 90 rows, and not 980."""
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute("ALTER TABLE hippocampus.memories SET (autovacuum_enabled = false)")
    async with PgHippocampusStore(dsn, index=INDEX, pool_size=1) as store:
        await store.aput(HERE, "first", {"text": "one item, while there are no others"})
        await store.aget(HERE, "first")
        for batch in range(BATCHES):
            await store.abatch(
                [PutOp(HERE, f"{batch}-{n}", {"text": f"item {n}"}) for n in range(SIZE)]
            )
        for n in range(20):
            await store.aput(HERE, f"0-{n}", {"text": "rewritten"})
            assert await store.aget(HERE, f"0-{n}") is not None
    with psycopg.connect(dsn) as connection:
        [read] = connection.execute(ROWS_READ).fetchone() or [0]
    assert read < 300 * BATCHES * SIZE
