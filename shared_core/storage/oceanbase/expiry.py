"""Deleting what has expired: memories with the turns they were, and turns that left none."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from uuid import UUID

from shared_core.core.domain import Namespace
from shared_core.core.namespaces import MEMORIES, path_end, rest_of, to_path
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction
from shared_core.storage.oceanbase.forgetting import forget_memories, forget_turns
from shared_core.storage.oceanbase.item_search import within
from shared_core.storage.oceanbase.visibility import all_of, below

_REMEMBERED = to_path([MEMORIES])


def sweep(tx: Transaction, prefix: Namespace, limit: int, now: datetime) -> int:
    """Delete expired memories below a path, and as many expired turns; return what memories went.

    limit: so many of each at most. Tenants with none are not locked.
    """
    tenants = {row[0] for row in _memories(tx, prefix, limit, now) + _turns(tx, prefix, limit, now)}
    if not tenants:
        return 0
    tx.lock(*tenants)
    memories: dict[str, list[UUID]] = defaultdict(list)
    for tenant, memory_id in _memories(tx, prefix, limit, now):
        memories[tenant].append(memory_id)
    turns: dict[tuple[str, str], list[str]] = defaultdict(list)
    for tenant, thread_id, event_id in _turns(tx, prefix, limit, now):
        turns[tenant, thread_id].append(event_id)
    gone = 0
    for tenant in sorted(tenants):
        gone += len(forget_memories(tx, tenant, memories[tenant], now))
    for (tenant, thread_id), event_ids in turns.items():
        if tenant in tenants:
            gone += len(forget_turns(tx, tenant, thread_id, event_ids, now))
    return gone


def _memories(tx: Transaction, prefix: Namespace, limit: int, now: datetime) -> list[Row]:
    where = all_of(within(prefix), below(rest_of(prefix)))
    return tx.rows(
        f"SELECT m.tenant_id, m.memory_id FROM memories m WHERE {where.sql}"
        " AND m.expires_at <= %s ORDER BY m.tenant_id, m.expires_at LIMIT %s",
        *where.values,
        now,
        limit,
    )


def _turns(tx: Transaction, prefix: Namespace, limit: int, now: datetime) -> list[Row]:
    """Return expired turns that left no memory, such as small talk."""
    path = rest_of(prefix)
    if not path <= _REMEMBERED < path_end(path):
        return []
    where = within(prefix)
    return tx.rows(
        f"SELECT m.tenant_id, m.thread_id, m.event_id FROM events m WHERE {where.sql}"
        " AND m.expires_at <= %s AND (m.memory_seq IS NOT NULL OR m.payload IS NULL)"
        " AND NOT EXISTS (SELECT 1 FROM memory_sources s JOIN memories x"
        " ON x.tenant_id = s.tenant_id AND x.memory_id = s.memory_id"
        " WHERE s.tenant_id = m.tenant_id AND s.thread_id = m.thread_id"
        " AND s.event_id = m.event_id AND x.kind = 'episodic')"
        " ORDER BY m.tenant_id, m.expires_at LIMIT %s",
        *where.values,
        now,
        limit,
    )
