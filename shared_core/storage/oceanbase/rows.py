"""Reads memories and items from rows of the table memories m."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from uuid import UUID

from shared_core.core.domain import AsOf, Memory, MemoryId, ThreadId
from shared_core.core.namespaces import from_path
from shared_core.ports.items import Distance, Item
from shared_core.storage._rows import as_known
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction
from shared_core.storage.oceanbase.visibility import WhereClause

MEMORY_COLUMNS = (
    "m.memory_id, m.tenant_id, m.namespace, m.`key`, m.kind, m.text, m.value, m.author,"
    " m.importance, m.occurred_at, m.created_at, m.updated_at, m.expires_at, m.superseded_at,"
    " m.thread_id"
)
ITEM_COLUMNS = "m.tenant_id, m.namespace, m.`key`, m.value, m.created_at, m.updated_at, m.ttl_s"
ITEM_WIDTH = 7
"""Number of columns in ITEM_COLUMNS."""


def memory_of(row: Row, sources: Sequence[str]) -> Memory:
    """Return the memory in MEMORY_COLUMNS."""
    return Memory(
        memory_id=MemoryId(row[0]),
        namespace=from_path(row[1] + row[2][1:]),
        key=row[3],
        kind=row[4],
        text=row[5],
        value=json.loads(row[6]),
        author=row[7],
        importance=row[8],
        occurred_at=row[9],
        created_at=row[10],
        updated_at=row[11],
        expires_at=row[12],
        superseded_at=row[13],
        thread_id=row[14] and ThreadId(row[14]),
        source_event_ids=tuple(sources),
    )


def newest_memories(
    tx: Transaction,
    tenant: str,
    where: WhereClause,
    as_of: AsOf | None,
    limit: int,
    offset: int = 0,
    direction: str = "DESC",
) -> list[Memory]:
    """Return a page of a tenant's memories by when they occurred; direction: DESC or ASC."""
    rows = tx.rows(
        f"SELECT {MEMORY_COLUMNS} FROM memories m WHERE {where.sql}"
        f" ORDER BY m.occurred_at {direction}, m.memory_id {direction} LIMIT %s OFFSET %s",
        [*where.values, limit, offset],
    )
    sources = sources_of(tx, tenant, [row[0] for row in rows])
    return [as_known(memory_of(row, sources.get(row[0], ())), as_of) for row in rows]


def sources_of(
    tx: Transaction, tenant: str, memory_ids: Iterable[UUID]
) -> dict[UUID, tuple[str, ...]]:
    """Return the ids of the turns of memories, each once and sorted, of those that have any."""
    found: dict[UUID, set[str]] = defaultdict(set)
    for memory_id, event_id in tx.select(
        "memory_sources", "memory_id, event_id", tenant, memory_id=memory_ids
    ):
        found[memory_id].add(event_id)
    return {memory_id: tuple(sorted(events)) for memory_id, events in found.items()}


def item_of(row: Row, distance: Distance = "cosine") -> Item:
    """Return the item in ITEM_COLUMNS; a distance of this kind may follow them."""
    similarity = None
    if len(row) > ITEM_WIDTH and row[ITEM_WIDTH] is not None:
        similarity = -row[ITEM_WIDTH]
        if distance == "cosine":
            similarity = min(max(1.0 + similarity, -1.0), 1.0)
    return Item(
        namespace=from_path(row[0] + row[1][1:]),
        key=row[2],
        value=json.loads(row[3]),
        created_at=row[4],
        updated_at=row[5],
        has_ttl=row[6] is not None,
        similarity=similarity,
        score=similarity,
    )
