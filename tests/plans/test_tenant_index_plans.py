"""Which index answers a search of a large tenant, and how few rows it touches."""

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
    give_statistics,
    kinds,
    of_table,
    touched,
)
from postgres_databases import PostgresDatabases
from psycopg.conninfo import make_conninfo

from shared_core import open_memory, run_sync
from shared_core.storage.postgres.connection.statements import statement
from shared_core.storage.postgres.indexes import search_text, sorted_out

DIMENSIONS = 64
LARGE = 4_000
SMALL = 100
VALUES = {
    "with_expired": False,
    "path": "/", "path_end": "0", "now": "2100-01-01", "limit": 10, "offset": 0, "candidates": 40,
    "few": 500, "model": "m", "embedding": HalfVector(np.ones(DIMENSIONS)),
}  # fmt: skip


@pytest.fixture(scope="module")
def filled(postgres: PostgresDatabases) -> Iterator[psycopg.Connection[Any]]:
    """A tenant with an index among forty without, one memory in four below /deep/."""
    for connection in connections(postgres):
        add_memories(
            connection, "generate_series(1, 40) t,"
            f" generate_series(1, CASE t WHEN 7 THEN {LARGE} ELSE {SMALL} END) n",
            memory_id="('00000000-' || substr(gen_random_uuid()::text, 10))::uuid",
            namespace="CASE n % 4 WHEN 0 THEN '/deep/' ELSE '/notes/' END",
        )  # fmt: skip
        add_vectors(connection, DIMENSIONS)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HIPPOCAMPUS_ANN_THRESHOLD", "1000")
            run_sync(_build(make_conninfo(connection.info.dsn)))
        yield connection


async def _build(dsn: str) -> None:
    async with open_memory(dsn, worker=False) as memory:
        await memory.indexes.refresh()


def plan(
    connection: psycopg.Connection[Any], query: bytes, tenant: str, **values: Any
) -> list[Node]:
    """The plan of a search as the application runs it: its role, its settings, in the scope."""
    with connection.transaction(force_rollback=True):
        connection.execute(BIND, [tenant])
        connection.execute("SELECT set_config('plan_cache_mode', 'force_generic_plan', true)")
        if b"halfvec(" in query:
            tuning = {"ef_search": "100", "max_scan": "20000"}
            connection.execute(statement("tune_index_search"), tuning)
        return explained(connection, query, VALUES | {"tenant": tenant} | values)


def index_of(connection: psycopg.Connection[Any]) -> Any:
    [[index], _] = sorted_out(connection.execute(statement("tenant_indexes")).fetchall())
    return index


@pytest.mark.parametrize("analysed", [True, False])
def test_a_large_tenant_is_searched_by_its_index(
    filled: psycopg.Connection[Any], analysed: bool
) -> None:
    index = index_of(filled)
    give_statistics(filled, "embeddings", "memories", has=analysed)
    found = plan(filled, search_text(index), index.tenant)
    filled.execute("ANALYZE embeddings, memories")
    assert index.name in {node.get("Index Name") for node in found}
    assert "Seq Scan" not in kinds(found)
    assert touched(of_table(found, "embeddings")) <= 2 * 40
    assert touched(of_table(found, "memories")) <= 2 * 40


def test_below_a_path_the_scan_goes_on_until_the_page_is_full(
    filled: psycopg.Connection[Any],
) -> None:
    index = index_of(filled)
    found = plan(filled, search_text(index), index.tenant, path="/deep/", path_end="/deep0")
    assert index.name in {node.get("Index Name") for node in found}
    assert 10 == found[0]["Actual Rows"]
    assert touched(of_table(found, "embeddings")) <= 10 * 40


def test_a_path_with_few_memories_is_left_to_the_exact_search(
    filled: psycopg.Connection[Any],
) -> None:
    index = index_of(filled)
    found = plan(
        filled, search_text(index), index.tenant, path="/deep/", path_end="/deep0", few=2_000
    )
    assert 0 == found[0]["Actual Rows"]
    [counted] = [node for node in found if node["Node Type"] == "Index Only Scan"]
    assert LARGE / 4 == counted["Actual Rows"] and 0 == touched(of_table(found, "embeddings"))


@pytest.mark.parametrize("tenant", ["/app/u3/", "/app/u7/"])
def test_the_exact_search_never_takes_the_index(
    filled: psycopg.Connection[Any], tenant: str
) -> None:
    found = plan(filled, statement("search_items", literals=EXACT), tenant)
    found += plan(filled, statement("search_nearest", literals=NEAREST), tenant, most=140)
    assert not {node.get("Index Name") for node in found} & {index_of(filled).name}


def test_another_tenant_sees_nothing_through_the_index(filled: psycopg.Connection[Any]) -> None:
    index = index_of(filled)
    with filled.transaction(force_rollback=True):
        filled.execute(BIND, ["/app/u3/"])
        values = VALUES | {"tenant": "/app/u3/"}
        assert [] == filled.execute(search_text(index), values).fetchall()
