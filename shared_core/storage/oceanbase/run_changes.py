"""What must hold for a change: its turns and memories exist, and each place has one holder."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from uuid import UUID

from shared_core.core.domain import Turn
from shared_core.errors import Conflict
from shared_core.storage.oceanbase.connection.transactions import Transaction
from shared_core.storage.oceanbase.forgetting import by_thread, kinds_of


def _stored_turns(
    tx: Transaction, tenant: str, turns: Iterable[Turn], condition: str = ""
) -> set[tuple[str, str]]:
    """Return those of some turns that are stored."""
    return {
        (thread_id, event_id)
        for thread_id, event_ids in by_thread(turns).items()
        for (event_id,) in tx.rows_in(
            "SELECT event_id FROM events"
            f" WHERE tenant_id = %s AND thread_id = %s AND event_id IN %s{condition}",
            [tenant, thread_id, event_ids],
        )
    }


def require_turns(tx: Transaction, tenant: str, turns: Iterable[Turn]) -> None:
    """Raise Conflict if a turn is not remembered any more."""
    required = set(turns)
    if len(_stored_turns(tx, tenant, required, " AND memory_seq IS NOT NULL")) != len(required):
        raise Conflict("a turn was forgotten meanwhile")


def require_memories(tx: Transaction, tenant: str, memory_ids: Collection[UUID]) -> None:
    """Raise Conflict if a memory is gone."""
    if len(kinds_of(tx, tenant, memory_ids)) != len(memory_ids):
        raise Conflict("a memory was forgotten meanwhile")


def require_places(
    tx: Transaction, tenant: str, facts: Iterable[UUID] = (), edges: Iterable[UUID] = ()
) -> None:
    """Raise Conflict if one of these facts or edges shares its place with another current one.

    A place has one current fact of a type and key; one edge of a subject, relation and object; and
    one edge of a subject and functional relation.
    """
    is_open = "{0}.valid_until IS NULL AND {0}.superseded_at IS NULL"
    taken = (
        "SELECT 1 FROM facts f JOIN facts o ON o.tenant_id = f.tenant_id"
        " AND o.fact_type = f.fact_type AND o.`key` = f.`key` AND o.memory_id <> f.memory_id"
        " WHERE f.tenant_id = %s AND f.memory_id IN %s"
        f" AND {is_open.format('f')} AND {is_open.format('o')} LIMIT 1"
    )
    if tx.rows_in(taken, [tenant, facts]):
        raise Conflict("another fact holds in its place")
    taken = (
        "SELECT 1 FROM edges e JOIN edges o ON o.tenant_id = e.tenant_id"
        " AND o.subject_key = e.subject_key AND o.relation = e.relation AND o.edge_id <> e.edge_id"
        " AND (o.object_key = e.object_key OR o.functional = 1 AND e.functional = 1)"
        " WHERE e.tenant_id = %s AND e.edge_id IN %s"
        f" AND {is_open.format('e')} AND {is_open.format('o')} LIMIT 1"
    )
    if tx.rows_in(taken, [tenant, edges]):
        raise Conflict("another edge holds in its place")
