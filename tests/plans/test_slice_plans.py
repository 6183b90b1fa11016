"""A time slice is one range of one index, however much its user and the others remember."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from shared_core import Scope
from shared_core.core.namespaces import path_end
from shared_core.policies.derivation import derivation
from shared_core.storage.postgres.connection.statements import statement
from tests.plans.policy_plans import reads_of, touched
from tests.plans.test_query_plans import BIND, nodes

MEMORIES = 20_000
PER_DAY = 40
BEGIN = datetime(2025, 1, 1, tzinfo=UTC)
PAGE = 20
SLICE = statement("list_memories", literals=(("direction", "DESC"),))
COUNTS = statement("count_memories")
THREAD = statement("list_memories", literals=(("direction", "DESC"),), of_thread=True)
IN_THREAD = 30
TENANTS = 51


@pytest.fixture(scope="module")
def filled(server: str, template: str) -> Iterator[psycopg.Connection[Any]]:
    """One user of 20,000 memories, 40 a day, among 50 of 200."""
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE slice_plans TEMPLATE {template}")
    with psycopg.connect(
        make_conninfo(server, dbname="slice_plans"), autocommit=True
    ) as connection:
        connection.execute("SET search_path TO hippocampus, public")
        connection.execute(
            "INSERT INTO memories (tenant_id, memory_id, namespace, key, kind, text, value, terms,"
            " term_count, occurred_at, created_at, updated_at)"
            " SELECT '/app/u' || t || '/', gen_random_uuid(), '/memories/', n::text, 'episodic',"
            " 'text ' || n, '{}', '', 0, %(begin)s + n * interval '36 minutes', now(), now()"
            " FROM generate_series(0, 50) t"
            " CROSS JOIN generate_series(1, CASE WHEN t = 7 THEN %(all)s ELSE 200 END) n",
            {"begin": BEGIN, "all": MEMORIES},
        )
        connection.execute(
            "INSERT INTO memory_sources (tenant_id, memory_id, thread_id, event_id)"
            " SELECT tenant_id, memory_id, CASE WHEN key::int <= %s THEN 'first' ELSE 'other' END,"
            " key FROM memories",
            [IN_THREAD],
        )
        connection.execute("ANALYZE")
        yield connection
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute("DROP DATABASE slice_plans WITH (FORCE)")


def scan(
    connection: psycopg.Connection[Any], text: bytes, begin: object, end: object, mode: str
) -> tuple[str, float]:
    """Return which index a statement reads memories by, and how many rows of it."""
    values = {
        "tenant": "/app/u7/", "path": "/memories/", "path_end": "/memories0", "kinds": None,
        "now": datetime.now(UTC), "begin": begin, "end": end, "limit": PAGE, "offset": 0,
        "bounds": [begin], "thread_id": "first",
    }  # fmt: skip
    with connection.transaction(force_rollback=True):
        connection.execute(BIND, ["/app/u7/"])
        connection.execute(f"SET LOCAL plan_cache_mode = {mode}")
        if text == SLICE:
            connection.execute(statement("walk_index"))
        explained = b"EXPLAIN (ANALYZE, FORMAT JSON) " + text
        row = connection.execute(explained, values, prepare=True).fetchone()
    assert row is not None
    told = json.loads(row[0]) if isinstance(row[0], str) else row[0]
    [read] = [
        node for node in nodes(told[0]["Plan"])
        if node.get("Index Name", "").startswith("memories_") and node["Actual Loops"]
    ]  # fmt: skip
    touched = read["Actual Rows"] * read["Actual Loops"] + read.get("Rows Removed by Filter", 0)
    return read["Index Name"], touched


@pytest.mark.parametrize("has_statistics", [True, False])
@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize(
    ("text", "begin", "end", "most"),
    [
        (SLICE, "-infinity", "infinity", PAGE),
        (SLICE, BEGIN + timedelta(days=100), BEGIN + timedelta(days=101), PAGE),
        (SLICE, BEGIN + timedelta(days=9000), "infinity", 0),
        (COUNTS, BEGIN + timedelta(days=100), BEGIN + timedelta(days=103), 3 * PER_DAY + 1),
    ],
)
def test_a_slice_reads_its_page_and_no_more(
    filled: psycopg.Connection[Any],
    text: bytes,
    begin: object,
    end: object,
    most: int,
    mode: str,
    has_statistics: bool,
) -> None:
    if has_statistics:
        filled.execute("ANALYZE memories")
    else:
        filled.execute("DELETE FROM pg_statistic WHERE starelid = 'memories'::regclass")
    index, touched = scan(filled, text, begin, end, mode)
    assert "memories_in_time" == index
    assert touched <= most


@pytest.mark.parametrize("has_statistics", [True, False])
@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("text", [THREAD, statement("count_memories", of_thread=True)])
def test_a_thread_is_read_by_its_turns(
    filled: psycopg.Connection[Any], text: bytes, mode: str, has_statistics: bool
) -> None:
    for table in ("memories", "memory_sources"):
        if has_statistics:
            filled.execute(f"ANALYZE {table}")
        else:
            filled.execute(f"DELETE FROM pg_statistic WHERE starelid = '{table}'::regclass")
    index, touched = scan(filled, text, "-infinity", "infinity", mode)
    assert "memories_pkey" == index
    assert touched == IN_THREAD


@pytest.mark.parametrize("has_statistics", [True, False])
def test_one_memory_is_read_with_its_relatives_alone(
    filled: psycopg.Connection[Any], has_statistics: bool
) -> None:
    if has_statistics:
        filled.execute("ANALYZE")
    else:
        filled.execute("DELETE FROM pg_statistic")
    found = filled.execute("SELECT memory_id FROM memories WHERE tenant_id = '/app/u7/' LIMIT 1")
    row = found.fetchone()
    assert row is not None
    scope = Scope("app", "u7")
    plans = reads_of(filled, "/app/u7/", derivation(scope, row[0], datetime.now(UTC)))
    read = [one for one in plans if one["Relation Name"] in ("memories", "memory_sources")]
    assert read and "Seq Scan" not in {node["Node Type"] for node in read}
    assert touched(read) <= 20


@pytest.mark.parametrize("has_statistics", [True, False])
@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize(("scope", "limit"), [("/", 20), ("/app/", 1000)])
def test_tenants_are_found_by_one_row_of_each(
    filled: psycopg.Connection[Any], scope: str, limit: int, mode: str, has_statistics: bool
) -> None:
    if has_statistics:
        filled.execute("ANALYZE memories")
    else:
        filled.execute("DELETE FROM pg_statistic WHERE starelid = 'memories'::regclass")
    values = {"after": scope, "tenant_end": path_end(scope), "limit": limit}
    with filled.transaction(force_rollback=True):
        filled.execute(BIND, [scope])
        filled.execute(statement("by_index"))
        filled.execute(f"SET LOCAL plan_cache_mode = {mode}")
        found = filled.execute(statement("tenants"), values, prepare=True).fetchall()
        explained = b"EXPLAIN (ANALYZE, FORMAT JSON) " + statement("tenants")
        [[told]] = filled.execute(explained, values, prepare=True).fetchall()
    told = json.loads(told) if isinstance(told, str) else told
    reads = [node for node in nodes(told[0]["Plan"]) if node.get("Relation Name") == "memories"]
    touched = sum(
        one["Actual Loops"] * (one["Actual Rows"] + one.get("Rows Removed by Filter", 0))
        for one in reads
    )
    assert len(found) == min(limit, TENANTS) == round(touched)
    assert found == sorted(found)
