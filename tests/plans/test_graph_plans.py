"""How many edges a read of the graph looks at, on hubs and beside other tenants."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from policy_plans import (
    BIND,
    Node,
    add_memories,
    connections,
    explained,
    kinds,
    of_table,
    reads_of,
    touched,
)
from postgres_databases import PostgresDatabases

from shared_core.policies.edges import edges_of
from shared_core.policies.facts import FactQuery
from shared_core.policies.spells import known_spells
from shared_core.storage.postgres.connection.operations import compiled
from shared_core.storage.postgres.connection.statements import statement

NOW = datetime(2100, 1, 1, tzinfo=UTC)
HUB = 10_000
ANN = "/app/ann/"
VALUES = {
    "tenant": ANN, "key": "hub", "depth": 3, "limit": 50, "valid": None, "known": None,
    "now": "2100-01-01", "begin": "-infinity", "end": "infinity", "relation": "knows",
    "value": "p7", "path": "/memories/", "path_end": "/memories0", "kinds": None,
    "thread_id": None, "offset": 0,
}  # fmt: skip
EDGES = """
    INSERT INTO edges (tenant_id, edge_id, subject, relation, object, subject_key, object_key,
                       valid_from, recorded_at, valid_until, superseded_at)
    SELECT %s, gen_random_uuid(), %s, 'knows', 'p' || n, %s, 'p' || n,
           timestamptz '2026-01-01' + n * interval '1 second', now(), %s, %s
    FROM generate_series(1, %s) n"""


@pytest.fixture(scope="module")
def hubs(postgres: PostgresDatabases) -> Iterator[psycopg.Connection[Any]]:
    """Two hubs that know the same 10,000 people, one that knew them, and 50 other tenants."""
    for connection in connections(postgres):
        for name, end in (("hub", None), ("other hub", None), ("past", "2026-06-01")):
            connection.execute(EDGES, [ANN, name, name, end, end, HUB])
        for number in range(50):
            connection.execute(EDGES, [f"/app/u{number}/", "hub", "hub", None, None, 200])
        connection.execute("ANALYZE")
        yield connection


def scans(
    connection: psycopg.Connection[Any],
    query: bytes,
    table: str,
    values: Any = VALUES,
    *,
    in_order: bool = True,
) -> list[Node]:
    """Return the nodes of the plan of a statement that read a table, or an index as a bitmap."""
    with connection.transaction(force_rollback=True):
        connection.execute(BIND, [ANN])
        if in_order:
            connection.execute(statement("read_in_order"))
        found = explained(connection, query, values)
    bitmaps = [node for node in found if node["Node Type"] == "Bitmap Index Scan"]
    return of_table(found, table) + bitmaps


def test_a_walk_from_a_hub_costs_what_is_returned_of_it(hubs: psycopg.Connection[Any]) -> None:
    read = scans(hubs, statement("walk"), "edges")
    assert "Seq Scan" not in kinds(read)
    assert 0 < touched(read) <= 2_000


@pytest.mark.parametrize(
    ("policy", "most"),
    [
        (edges_of("hub", 50, NOW, None), 200),
        (known_spells("hub", "knows", "", alone=False, now=NOW), HUB * 1.5),
    ],
    ids=["the last edges", "the spells by relation"],
)
def test_the_edges_of_a_hub_are_looked_up_by_an_index(
    hubs: psycopg.Connection[Any], policy: Any, most: float
) -> None:
    edges = of_table(reads_of(hubs, ANN, policy), "edges")
    assert edges and "Seq Scan" not in kinds(edges)
    assert 0 < touched(edges) <= most


def test_a_slot_is_looked_up_by_its_index(hubs: psycopg.Connection[Any]) -> None:
    add_memories(hubs, "generate_series(1, 2000) n", tenant_id=f"'{ANN}'", kind="'semantic'")
    hubs.execute(
        """INSERT INTO facts (tenant_id, memory_id, fact_type, slot, key, value, functional,
               confidence, extractor, pattern, valid_from, recorded_at)
           SELECT tenant_id, memory_id, 'custom', CASE WHEN key <= '1' THEN 'employer' ELSE 'like'
               END, key, '1', false, 1, 'x', 'p', now(), now() FROM memories"""
    )
    hubs.execute("ANALYZE memories, facts")
    for asked in FactQuery(now=NOW, slot="employer").selects():
        query, values = compiled(asked, ANN)
        assert 0 < touched(scans(hubs, query.replace(b")b", b")s"), "facts", values)) < 10


def test_ends_that_came_as_they_were_known_are_not_looked_at(hubs: psycopg.Connection[Any]) -> None:
    """Only ends that were known before are compared with now, and they have an index."""
    add_memories(
        hubs, "generate_series(1, 5000) n", tenant_id=f"'{ANN}'", kind="'semantic'",
        key="'ended ' || n", superseded_at="now()",
    )  # fmt: skip
    hubs.execute(
        """INSERT INTO facts (tenant_id, memory_id, fact_type, slot, key, value, functional,
               confidence, extractor, pattern, valid_from, recorded_at, valid_until, superseded_at)
           SELECT tenant_id, memory_id, 'custom', 'like', key, '1', false, 1, 'x', 'p',
               now() - interval '2 days', now(), now() - interval '1 day',
               CASE WHEN key = 'ended 7' THEN now() - interval '2 days' ELSE now() END
           FROM memories WHERE key LIKE 'ended %'"""
    )
    hubs.execute("ANALYZE memories, facts")
    listed = statement("list_memories", literals=(("direction", "DESC"),))
    read = scans(hubs, listed, "facts", in_order=False)
    assert "Seq Scan" not in kinds(read)
    assert touched(read) <= 2
