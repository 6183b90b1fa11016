"""Which index answers a search of a large tenant, and how few rows it touches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import psycopg
import pytest
from pgvector import HalfVector
from pgvector.psycopg import register_vector
from psycopg.conninfo import make_conninfo

from shared_core import open_memory, run_sync
from shared_core.storage.postgres.connection.statements import statement
from shared_core.storage.postgres.indexes import search_text, sorted_out
from tests.plans.test_query_plans import BIND, nodes

DIMENSIONS = 64
LARGE = 4_000
SMALL = 100
VALUES = {
    "with_expired": False,
    "path": "/", "path_end": "0", "now": "2100-01-01", "limit": 10, "offset": 0, "candidates": 40,
    "few": 500, "model": "m", "embedding": HalfVector(np.ones(DIMENSIONS)),
}  # fmt: skip


@pytest.fixture(scope="module")
def filled(server: str, template: str) -> Iterator[psycopg.Connection[Any]]:
    """A tenant with an index among forty without, one memory in four below /deep/."""
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE tenant_plans TEMPLATE {template}")
    dsn = make_conninfo(server, dbname="tenant_plans")
    with psycopg.connect(dsn, autocommit=True) as connection:
        register_vector(connection)
        connection.execute("SET search_path TO hippocampus, public")
        connection.execute(
            "INSERT INTO embedding_models VALUES ('m', %s, true, now())", [DIMENSIONS]
        )
        connection.execute(
            "INSERT INTO memories (tenant_id, memory_id, namespace, key, kind, text, value, terms,"
            " term_count, occurred_at, created_at, updated_at)"
            " SELECT '/app/u' || t || '/', ('00000000-' || substr(gen_random_uuid()::text, 10))"
            "::uuid, CASE n %% 4 WHEN 0 THEN '/deep/' ELSE '/notes/' END, n::text, 'item', 'x',"
            " '{}', '', 0, now(), now(), now()"
            " FROM generate_series(1, 40) t, generate_series(1, CASE t WHEN 7 THEN %s ELSE %s END)"
            " n",
            [LARGE, SMALL],
        )
        noise = np.random.default_rng(1)
        rows = connection.execute("SELECT tenant_id, memory_id FROM memories").fetchall()
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO embeddings VALUES (%s, 'm', %s, 'text', %s)",
                [(*row, HalfVector(noise.normal(size=DIMENSIONS))) for row in rows],
            )
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HIPPOCAMPUS_ANN_THRESHOLD", "1000")
            run_sync(_build(dsn))
        yield connection
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute("DROP DATABASE tenant_plans WITH (FORCE)")


async def _build(dsn: str) -> None:
    async with open_memory(dsn, worker=False) as memory:
        await memory.indexes.refresh()


def plan(
    connection: psycopg.Connection[Any], query: bytes, tenant: str, **values: Any
) -> list[dict[str, Any]]:
    """The plan of a search as the application runs it: its role, its settings, in the scope."""
    with connection.transaction(force_rollback=True):
        connection.execute(BIND, [tenant])
        connection.execute("SELECT set_config('plan_cache_mode', 'force_generic_plan', true)")
        if b"halfvec(" in query:
            tuning = {"ef_search": "100", "max_scan": "20000"}
            connection.execute(statement("tune_index_search"), tuning)
        explained = connection.execute(
            b"EXPLAIN (ANALYZE, FORMAT JSON) " + query, VALUES | {"tenant": tenant} | values
        ).fetchone()
    assert explained is not None
    return list(nodes(explained[0][0]["Plan"]))


def index_of(connection: psycopg.Connection[Any]) -> Any:
    [[index], _] = sorted_out(connection.execute(statement("tenant_indexes")).fetchall())
    return index


def touched(found: list[dict[str, Any]], table: str) -> float:
    return sum(
        node["Actual Rows"] * node["Actual Loops"] + node.get("Rows Removed by Filter", 0)
        for node in found
        if node.get("Relation Name") == table
    )


@pytest.mark.parametrize("analysed", [True, False])
def test_a_large_tenant_is_searched_by_its_index(
    filled: psycopg.Connection[Any], analysed: bool
) -> None:
    index = index_of(filled)
    if not analysed:
        filled.execute("DELETE FROM pg_statistic WHERE starelid = ANY("
                       "ARRAY['embeddings', 'memories']::regclass[])")  # fmt: skip
    found = plan(filled, search_text(index), index.tenant)
    filled.execute("ANALYZE embeddings, memories")
    assert index.name in {node.get("Index Name") for node in found}
    assert "Seq Scan" not in {node["Node Type"] for node in found}
    assert touched(found, "embeddings") <= 2 * 40
    assert touched(found, "memories") <= 2 * 40


def test_below_a_path_the_scan_goes_on_until_the_page_is_full(
    filled: psycopg.Connection[Any],
) -> None:
    index = index_of(filled)
    found = plan(filled, search_text(index), index.tenant, path="/deep/", path_end="/deep0")
    assert index.name in {node.get("Index Name") for node in found}
    assert 10 == found[0]["Actual Rows"]
    assert touched(found, "embeddings") <= 10 * 40


def test_a_path_with_few_memories_is_left_to_the_exact_search(
    filled: psycopg.Connection[Any],
) -> None:
    index = index_of(filled)
    found = plan(
        filled, search_text(index), index.tenant, path="/deep/", path_end="/deep0", few=2_000
    )
    assert 0 == found[0]["Actual Rows"]
    [counted] = [node for node in found if node["Node Type"] == "Index Only Scan"]
    assert LARGE / 4 == counted["Actual Rows"] and 0 == touched(found, "embeddings")


@pytest.mark.parametrize("tenant", ["/app/u3/", "/app/u7/"])
def test_the_exact_search_never_takes_the_index(
    filled: psycopg.Connection[Any], tenant: str
) -> None:
    exact = (("similarity", "1 - min(v.embedding <=> %(embedding)s::halfvec)"),)
    found = plan(filled, statement("search_items", literals=exact), tenant)
    assert not {node.get("Index Name") for node in found} & {index_of(filled).name}
    nearest = (
        ("similarity", "1 - n.distance"), ("distance", "m.embedding <=> %(embedding)s::halfvec"),
    )  # fmt: skip
    found = plan(filled, statement("search_nearest", literals=nearest), tenant, most=140)
    assert not {node.get("Index Name") for node in found} & {index_of(filled).name}


def test_another_tenant_sees_nothing_through_the_index(filled: psycopg.Connection[Any]) -> None:
    index = index_of(filled)
    with filled.transaction(force_rollback=True):
        filled.execute(BIND, ["/app/u3/"])
        values = VALUES | {"tenant": "/app/u3/"}
        assert [] == filled.execute(search_text(index), values).fetchall()
