"""Between rows and nouns on OceanBase."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from uuid import UUID

from shared_core.core.domain import Memory, MemoryId, ThreadId
from shared_core.core.namespaces import from_path
from shared_core.ports.items import Item
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction


def memory_columns(alias: str) -> str:
    """Return the columns that memory_of() reads."""
    names = ("memory_id", "tenant_id", "namespace", "`key`", "kind", "text", "value", "author",
             "importance", "occurred_at", "created_at", "updated_at", "expires_at",
             "superseded_at", "thread_id")  # fmt: skip
    return ", ".join(f"{alias}.{name}" for name in names)


def memory_of(row: Row, sources: Sequence[str]) -> Memory:
    """Return the memory in the columns of memory_columns()."""
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


def sources_of(
    tx: Transaction, tenant: str, memory_ids: Iterable[UUID]
) -> dict[UUID, tuple[str, ...]]:
    """Return the ids of the turns of memories, each once and sorted, of those that have any."""
    found: dict[UUID, set[str]] = defaultdict(set)
    for memory_id, event_id in tx.rows(
        "SELECT memory_id, event_id FROM memory_sources WHERE tenant_id = %s AND memory_id IN %s",
        tenant,
        list(memory_ids),
    ):
        found[memory_id].add(event_id)
    return {memory_id: tuple(sorted(events)) for memory_id, events in found.items()}


ITEM_COLUMNS = 7


def item_columns(alias: str) -> str:
    """Return the columns that item_of() reads."""
    names = ("tenant_id", "namespace", "`key`", "value", "created_at", "updated_at", "ttl_s")
    return ", ".join(f"{alias}.{name}" for name in names)


def item_of(row: Row) -> Item:
    """Return the item in the columns of item_columns(), and in a distance after them if any."""
    similarity = None
    if len(row) > ITEM_COLUMNS and row[ITEM_COLUMNS] is not None:
        similarity = min(max(1.0 - row[ITEM_COLUMNS], -1.0), 1.0)
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
