"""An input, and a look for sessions that are over, read as little as there is to do."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from policy_plans import Node, connections, explained, of_table
from postgres_databases import PostgresDatabases

from shared_core.storage.postgres.connection.statements import statement

USERS, PER_USER, OVER = 500, 40, 5
TURN: dict[str, object] = {
    "tenant": "/app/u7/", "thread_id": "new", "event_id": "e", "author": "user", "role": "user",
    "text": "tea", "metadata": "{}", "occurred_at": "2026-03-01", "importance": 5.0,
    "expires_at": None, "context": 5, "once": True, "now": "2026-03-01", "max_events": 100,
    "timeout": timedelta(minutes=30), "max_duration": timedelta(hours=24),
}  # fmt: skip


@pytest.fixture(scope="module")
def filled(postgres: PostgresDatabases) -> Iterator[psycopg.Connection[Any]]:
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


def test_a_look_reads_the_sessions_that_are_over(filled: psycopg.Connection[Any]) -> None:
    [found] = scans(filled, "conversations_over", {"now": "2026-03-01", "limit": 100})
    assert ("conversations_ending", OVER) == (found["Index Name"], found["Actual Rows"])


def test_an_input_reads_its_session(filled: psycopg.Connection[Any]) -> None:
    found = scans(filled, "hear_turn", TURN)
    assert found
    assert {"conversations_one_active"} == {node.get("Index Name") for node in found}
    assert all(node["Actual Rows"] <= 1 for node in found)
