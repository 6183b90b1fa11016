"""A time slice is one range of one index, however much its user and the others remember."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from policy_plans import (
    BIND,
    add_memories,
    connections,
    explained,
    give_statistics,
    kinds,
    of_table,
    reads_of,
    touched,
)
from postgres_databases import PostgresDatabases

from shared_core import Scope
from shared_core.core.namespaces import path_end
from shared_core.policies.derivation import derivation
from shared_core.storage.postgres.connection.statements import statement

MEMORIES = 20_000
PER_DAY = 40
BEGIN = datetime(2025, 1, 1, tzinfo=UTC)
PAGE = 20
SLICE = statement("list_memories", literals=(("direction", "DESC"),))
COUNTS = statement("count_memories")
THREAD = statement("list_memories", literals=(("direction", "DESC"),), of_thread=True)
IN_THREAD = 30
TENANTS = 51


WITH_STATISTICS = pytest.mark.parametrize("has_statistics", [True, False])
MODES = pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])


@pytest.fixture(scope="module")
def filled(postgres: PostgresDatabases) -> Iterator[psycopg.Connection[Any]]:
    """One user of 20,000 memories, 40 a day, among 50 of 200."""
    for connection in connections(postgres):
        add_memories(
            connection, "generate_series(0, 50) t"
            f" CROSS JOIN generate_series(1, CASE WHEN t = 7 THEN {MEMORIES} ELSE 200 END) n",
            kind="'episodic'", occurred_at=f"timestamptz '{BEGIN}' + n * interval '36 minutes'",
        )  # fmt: skip
        connection.execute(
            "INSERT INTO memory_sources (tenant_id, memory_id, thread_id, event_id)"
            " SELECT tenant_id, memory_id, CASE WHEN key::int <= %s THEN 'first' ELSE 'other' END,"
            " key FROM memories",
            [IN_THREAD],
        )
        connection.execute("ANALYZE")
        yield connection


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
        found = explained(connection, text, values, prepare=True)
    [read] = [
        node for node in found
        if node.get("Index Name", "").startswith("memories_") and node["Actual Loops"]
    ]  # fmt: skip
    return read["Index Name"], touched([read])


@WITH_STATISTICS
@MODES
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
    give_statistics(filled, "memories", has=has_statistics)
    index, rows = scan(filled, text, begin, end, mode)
    assert "memories_in_time" == index
    assert rows <= most


@WITH_STATISTICS
@MODES
@pytest.mark.parametrize("text", [THREAD, statement("count_memories", of_thread=True)])
def test_a_thread_is_read_by_its_turns(
    filled: psycopg.Connection[Any], text: bytes, mode: str, has_statistics: bool
) -> None:
    give_statistics(filled, "memories", "memory_sources", has=has_statistics)
    found = scan(filled, text, "-infinity", "infinity", mode)
    assert ("memories_pkey", IN_THREAD) == found


@WITH_STATISTICS
def test_one_memory_is_read_with_its_relatives_alone(
    filled: psycopg.Connection[Any], has_statistics: bool
) -> None:
    give_statistics(filled, has=has_statistics)
    found = filled.execute("SELECT memory_id FROM memories WHERE tenant_id = '/app/u7/' LIMIT 1")
    row = found.fetchone()
    assert row is not None
    scope = Scope("app", "u7")
    plans = reads_of(filled, "/app/u7/", derivation(scope, row[0], datetime.now(UTC)))
    read = [*of_table(plans, "memories"), *of_table(plans, "memory_sources")]
    assert read and "Seq Scan" not in kinds(read)
    assert touched(read) <= 20


@WITH_STATISTICS
@MODES
@pytest.mark.parametrize(("scope", "limit"), [("/", 20), ("/app/", 1000)])
def test_tenants_are_found_by_one_row_of_each(
    filled: psycopg.Connection[Any], scope: str, limit: int, mode: str, has_statistics: bool
) -> None:
    give_statistics(filled, "memories", has=has_statistics)
    values = {"after": scope, "tenant_end": path_end(scope), "limit": limit}
    with filled.transaction(force_rollback=True):
        filled.execute(BIND, [scope])
        filled.execute(statement("by_index"))
        filled.execute(f"SET LOCAL plan_cache_mode = {mode}")
        found = filled.execute(statement("tenants"), values, prepare=True).fetchall()
        read = of_table(explained(filled, statement("tenants"), values, prepare=True), "memories")
    assert len(found) == min(limit, TENANTS) == round(touched(read))
    assert found == sorted(found)
