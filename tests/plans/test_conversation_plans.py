"""An input, and a look for sessions that are over, read as little as there is to do."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from shared_core.storage.postgres.connection.statements import statement

USERS, PER_USER, OVER = 500, 40, 5
TURN: dict[str, object] = {
    "tenant": "/app/u7/", "thread_id": "new", "event_id": "e", "author": "user", "role": "user",
    "text": "tea", "metadata": "{}", "occurred_at": "2026-03-01", "importance": 5.0,
    "expires_at": None, "context": 5, "once": True, "now": "2026-03-01", "max_events": 100,
    "timeout": timedelta(minutes=30), "max_duration": timedelta(hours=24),
}  # fmt: skip


@pytest.fixture(scope="module")
def filled(server: str, template: str) -> Iterator[psycopg.Connection[Any]]:
    """20,000 sessions of 500 users, one of each active, and five of those over."""
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE conversation_plans TEMPLATE {template}")
    dsn = make_conninfo(server, dbname="conversation_plans")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET search_path TO hippocampus, public")
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
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute("DROP DATABASE conversation_plans WITH (FORCE)")


def scans(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the nodes of a plan that read conversations."""
    if node.get("Relation Name") == "conversations" and "Scan" in node["Node Type"]:
        yield node
    for inner in node.get("Plans", ()):
        yield from scans(inner)


def plan(connection: psycopg.Connection[Any], name: str, values: dict[str, object]) -> Any:
    explain = b"EXPLAIN (ANALYZE, FORMAT JSON) " + statement(name)
    with connection.transaction(force_rollback=True):
        [[[found]]] = connection.execute(explain, values).fetchall()
    return found["Plan"]


def test_a_look_reads_the_sessions_that_are_over(filled: psycopg.Connection[Any]) -> None:
    found = list(scans(plan(filled, "conversations_over", {"now": "2026-03-01", "limit": 100})))
    assert ["conversations_ending"] == [node["Index Name"] for node in found]
    assert OVER == found[0]["Actual Rows"]


def test_an_input_reads_its_session(filled: psycopg.Connection[Any]) -> None:
    found = list(scans(plan(filled, "hear_turn", TURN)))
    assert found
    assert {"conversations_one_active"} == {node.get("Index Name") for node in found}
    assert all(node["Actual Rows"] <= 1 for node in found)
