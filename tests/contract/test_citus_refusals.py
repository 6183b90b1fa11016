"""No statement does what a real Citus cluster refused. Those over several users are listed."""

from __future__ import annotations

import re

import psycopg
import pytest

from shared_core.ports.operations import (
    Aggregate,
    Delete,
    Insert,
    Join,
    Select,
    Update,
    UpdateEach,
    equal,
    one_of,
    one_of_rows,
)
from shared_core.storage.postgres.connection.citus import ABOVE_SCOPE, WITHIN_SCOPE, place_of
from shared_core.storage.postgres.connection.operations import compiled
from shared_core.storage.postgres.connection.statements import named_pieces, statement
from tests.contract.citus_refusals import Catalog, broken
from tests.contract.test_citus_rules import ACROSS_TENANTS, LITERALS

OVER_SEVERAL_NODES = {
    "drop_old_vectors": "vectors of a model that nobody reads any more",
    "embedded_otherwise": "texts that a new model has to embed",
    "erasures": "receipts of an application, or of all",
    "expired_tenants": "whose memories are expired",
    "tenants_of_cluster": "who has memories",
}
"""Statements that read rows of several users, and of which. tests/live/test_citus.py runs each."""
ON_ONE_NODE = {
    "large_tenants": "a cluster has no approximate indexes",
    "tenants": "a cluster gets tenants_of_cluster",
}
"""Statements that a cluster never gets, and why."""

FACT = (equal("memory_id", "00000000-0000-0000-0000-000000000001"),)
PAIRS = (one_of_rows(("thread_id", "event_id"), []),)
OPERATIONS = {
    "select": Select("facts", ("memory_id", "slot"), FACT, order=("memory_id",), limit=3),
    "select in": Select("facts", ("slot",), (one_of("key", ["a"]),), is_distinct=True),
    "select pairs": Select("events", ("seq",), PAIRS, lock="update"),
    "count": Select("facts", ("slot", Aggregate("count")), FACT),
    "join": Select(
        "facts", ("memory_id", "m.text"), FACT,
        (Join("memories", "m", (("memory_id", "memory_id"),)),
         Join("memory_access", "a", (("memory_id", "memory_id"),), is_left=True)),
    ),
    "lock": Select("threads", ("last_seq",), (one_of("thread_id", ["t"]),), lock="update"),
    "skip": Select("threads", ("last_seq",), (one_of("thread_id", ["t"]),), lock="skip"),
    "above": Select("retention_policies", ("kind",), above=True),
    "insert": Insert("tombstones", ("thread_id", "event_id", "deleted_at"), []),
    "keep": Insert("tombstones", ("thread_id", "event_id", "deleted_at"), [], "keep"),
    "put": Insert("runs", ("number", "run_id"), [], "update", ("number",)),
    "update": Update("facts", {"confidence": 1.0}, FACT, ("slot",)),
    "update each": UpdateEach("facts", ("memory_id",), ("confidence",), []),
    "delete": Delete("facts", FACT, ("slot",)),
    "update pairs": Update("events", {"importance": 1.0}, PAIRS),
    "delete pairs": Delete("memory_sources", PAIRS, ("memory_id",)),
}  # fmt: skip
"""Shapes of operations."""


@pytest.fixture
def catalog(dsn: str) -> Catalog:
    with psycopg.connect(dsn) as connection:
        tables = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'hippocampus'"
        ).fetchall()
        functions = connection.execute(
            "SELECT proname, prosrc FROM pg_proc WHERE pronamespace = 'hippocampus'::regnamespace"
        ).fetchall()
        unsteady = connection.execute("SELECT proname FROM pg_proc WHERE provolatile <> 'i'")
        names = {name for (name,) in tables}
        found = re.compile(rf"(?:FROM|JOIN|INTO|UPDATE)\s+(?:{'|'.join(names)})\b", re.IGNORECASE)
        return Catalog(
            spread={name for name in names if place_of(name) == "distributed"},
            reading={name for name, body in functions if found.search(body)},
            unsteady={name for (name,) in unsteady} - {"timezone"},
        )


def test_no_policy_of_a_spread_table_has_a_sub_select() -> None:
    assert "SELECT" not in " ".join((WITHIN_SCOPE, *ABOVE_SCOPE.values()))


def test_statements_keep_the_rules_that_broke_on_a_cluster(catalog: Catalog) -> None:
    texts = {
        name: statement(name, literals=LITERALS)
        for name in named_pieces()[0]
        if name not in ACROSS_TENANTS
    }
    refused = broken(catalog, texts)
    known = {*OVER_SEVERAL_NODES, *ON_ONE_NODE}
    new = {name: sorted(why) for name, why in refused.items() if name not in known}
    assert new == {}
    assert sorted(known - set(refused)) == [], "no longer refused, or gone: take them off the lists"


def test_operations_keep_the_rules_that_broke_on_a_cluster(catalog: Catalog) -> None:
    texts = {name: compiled(one, "/app/ana/")[0] for name, one in OPERATIONS.items()}
    assert broken(catalog, texts) == {}


@pytest.mark.parametrize(
    ("why", "sql"),
    [
        ("an array of tenants", b"SELECT 1 FROM facts WHERE tenant_id = ANY(%(tenants)b::text[])"),
        ("a function that reads a table", b"SELECT retention_rule(%(tenant)s, 'item')"),
        (
            "a moment moved outside of UTC in a change",
            b"INSERT INTO facts AS f (tenant_id) VALUES (%(tenant)s) ON CONFLICT (tenant_id)"
            b" DO UPDATE SET valid_until = f.valid_until + interval '1 second'",
        ),
        (
            "a function of columns that is not IMMUTABLE in a change",
            b"UPDATE facts SET value = jsonb_build_object('k', slot) WHERE tenant_id = %(tenant)s",
        ),
        (
            "a row compared with a sub-select in a change",
            b"DELETE FROM facts WHERE tenant_id = %(tenant)s AND (slot, key) IN"
            b" (SELECT a, b FROM unnest(%(slots)b::text[], %(keys)b::text[]) AS g(a, b))",
        ),
        (
            "INSERT ... SELECT without RETURNING",
            b"INSERT INTO facts (tenant_id) SELECT %(tenant)s FROM unnest(%(keys)b::text[])",
        ),
        (
            "an INSERT within a statement",
            b"WITH a AS (INSERT INTO facts (tenant_id) VALUES (%(tenant)s) RETURNING 1) SELECT 1",
        ),
        (
            "WITH before INSERT",
            b"WITH a AS (SELECT slot FROM facts WHERE tenant_id = %(tenant)s) INSERT INTO facts"
            b" (tenant_id, slot) SELECT %(tenant)s, slot FROM a RETURNING 1",
        ),
        (
            "a sub-select in VALUES",
            b"INSERT INTO runs (tenant_id, number) VALUES (%(tenant)s, (SELECT 1))",
        ),
        (
            "a level that does not name its one tenant by the parameter",
            b"SELECT 1 FROM facts f WHERE f.tenant_id = %(tenant)s AND EXISTS (SELECT FROM memories"
            b" m WHERE m.tenant_id = f.tenant_id)",
        ),
    ],
)
def test_each_rule_is_noticed(catalog: Catalog, why: str, sql: bytes) -> None:
    assert why in broken(catalog, {"it": sql})["it"]
