"""Runs policies by hand on a connection, and returns how the server reads for their operations."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import psycopg

from shared_core.ports.operations import Last, Policy, Row, Select, Verb
from shared_core.storage.postgres.connection.operations import compiled
from tests.plans.test_query_plans import BIND, nodes


def reads_of(
    connection: psycopg.Connection[Any], tenant: str, policy: Policy[Any]
) -> list[dict[str, Any]]:
    """Run a policy, undo it, and return the nodes of all plans that read a table.

    The verbs of the policy are passed over.
    """
    read: list[dict[str, Any]] = []
    rows: list[list[Row]] | None = None
    with connection.transaction(force_rollback=True):
        connection.execute(BIND, [tenant])
        while True:
            try:
                batch = policy.send(rows)  # type: ignore[arg-type] # None starts it
            except StopIteration:
                return [node for node in read if node.get("Relation Name")]
            rows = []
            for operation in batch.operations if isinstance(batch, Last) else batch:
                rows.append([])
                if isinstance(operation, Verb):
                    continue
                text, values = compiled(operation, tenant)
                if isinstance(operation, Select):
                    rows[-1] = connection.execute(text, values).fetchall()
                query = b"EXPLAIN (ANALYZE, FORMAT JSON) " + text
                row = connection.execute(query, values).fetchone()
                assert row is not None
                told = json.loads(row[0]) if isinstance(row[0], str) else row[0]
                read += nodes(told[0]["Plan"])


def touched(read: Sequence[dict[str, Any]]) -> float:
    """Return how many rows of tables the nodes of plans looked at."""
    return sum(
        node["Actual Rows"] * node["Actual Loops"] + node.get("Rows Removed by Filter", 0)
        for node in read
    )
