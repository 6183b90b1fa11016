"""How near memories are to a query, by their vectors."""

from __future__ import annotations

from collections.abc import Sequence

from shared_core.ports.recall import SearchRequest
from shared_core.storage.oceanbase.connection.transactions import Transaction
from shared_core.storage.oceanbase.vectors import asked_form, models, table_of
from shared_core.storage.oceanbase.visibility import Condition, all_of

FEW = 3
"""One look-up of a vector by id costs as much as so many in a row."""


def similarities(
    tx: Transaction, tenant: str, request: SearchRequest, ids: Sequence[bytes]
) -> dict[bytes, float]:
    """Return the cosine of each memory with the query, the best of its vectors; some more too."""
    dimensions = models(tx).get(request.model) if request.model else None
    if dimensions is None or request.vector is None:
        return {}
    table = table_of(dimensions)
    whose = Condition("tenant_id = %s AND model = %s", (tenant, request.model))
    if _has_many(tx, table, whose, FEW * len(ids)):
        whose = all_of(whose, Condition("memory_id IN %s", (ids,)))
    found: dict[bytes, float] = {}
    for memory_id, distance in tx.plain_rows(
        f"SELECT memory_id, cosine_distance(embedding, %s) AS distance FROM {table}"
        f" WHERE {whose.sql}",
        asked_form(request.vector[0]),
        *whose.values,
    ):
        found[memory_id] = max(1 - distance, found.get(memory_id, -1.0))
    return found


def _has_many(tx: Transaction, table: str, whose: Condition, limit: int) -> bool:
    [(count,)] = tx.rows(
        f"SELECT count(*) FROM (SELECT 1 FROM {table} WHERE {whose.sql} LIMIT %s) n",
        *whose.values,
        limit,
    )
    return bool(count >= limit)
