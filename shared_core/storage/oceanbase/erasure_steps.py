"""Erasing: the memory of a scope or of one thread, with everything that was derived or noted."""

from __future__ import annotations

from datetime import datetime

from shared_core.storage.oceanbase.connection.transactions import Transaction
from shared_core.storage.oceanbase.forgetting import bury, delete_memories, forget_thread
from shared_core.storage.oceanbase.imports import mark_all_deleted
from shared_core.storage.oceanbase.profile_marks import drop_marks

ROWS_AT_ONCE = 2000
"""Of one DELETE, so that no statement takes long."""

_OF_SCOPE = (
    "entity_aliases", "instructions", "extraction_counts", "profiles", "retimings",
    "retention_policies",
)  # fmt: skip


def erase(tx: Transaction, tenant: str, thread_id: str | None, now: datetime) -> int:
    """Erase what is remembered of a tenant, or of one of its threads; session logs stay.

    Returns how many memories went. The tenant is locked.
    """
    if thread_id is None:
        gone = _forget_all(tx, tenant)
    else:
        gone = len(forget_thread(tx, tenant, thread_id, now))
    _bury_threads(tx, tenant, thread_id, now)
    if thread_id is not None:
        drop_marks(tx, tenant, thread_id)
    for table in ("consolidation_jobs", "runs"):
        _delete(tx, table, tenant, thread_id)
    drop_empty_threads(tx, tenant, thread_id)
    _delete(tx, "conversations", tenant, thread_id)
    if thread_id is None:
        for table in _OF_SCOPE:
            _delete(tx, table, tenant, None)
        mark_all_deleted(tx, tenant, now)
    return gone


def drop_empty_threads(tx: Transaction, tenant: str, thread_id: str | None) -> None:
    """Delete threads that hold no event and no session log; of all, or the one that is named."""
    _delete(
        tx,
        "threads",
        tenant,
        thread_id,
        " AND session_started_at IS NULL AND NOT EXISTS (SELECT 1 FROM events e"
        " WHERE e.tenant_id = threads.tenant_id AND e.thread_id = threads.thread_id)",
    )


def erase_logs(tx: Transaction, tenant: str, thread_id: str | None) -> None:
    """Delete what session logs hold of a tenant, or of one thread, and the threads."""
    for table in ("events", "threads"):
        _delete(tx, table, tenant, thread_id)


def erase_shared(tx: Transaction, tenant: str) -> None:
    """Delete what belongs to a user and to no thread."""
    for table in ("shared_state", "retractions", "schedules"):
        _delete(tx, table, tenant, None)


def _forget_all(tx: Transaction, tenant: str) -> int:
    _delete(tx, "edges", tenant, None)
    ids = [row[0] for row in tx.rows("SELECT memory_id FROM memories WHERE tenant_id = %s", tenant)]
    delete_memories(tx, tenant, ids)
    return len(ids)


def _bury_threads(tx: Transaction, tenant: str, thread_id: str | None, now: datetime) -> None:
    """Note every turn as forgotten, and take those away that no session log holds."""
    where, values = _where(tenant, thread_id)
    said = tx.rows(f"SELECT thread_id, event_id FROM events {where}", *values)
    bury(tx, tenant, ((row[0], row[1]) for row in said), now)
    _delete(tx, "events", tenant, thread_id, " AND payload IS NULL")
    tx.run(
        f"UPDATE events SET memory_seq = NULL {where}"
        " AND payload IS NOT NULL AND memory_seq IS NOT NULL",
        *values,
    )


def _delete(
    tx: Transaction, table: str, tenant: str, thread_id: str | None, condition: str = ""
) -> None:
    where, values = _where(tenant, thread_id)
    statement = f"DELETE FROM {table} {where}{condition} LIMIT {ROWS_AT_ONCE}"
    while tx.run(statement, *values) == ROWS_AT_ONCE:
        pass


def _where(tenant: str, thread_id: str | None) -> tuple[str, list[str]]:
    if thread_id is None:
        return "WHERE tenant_id = %s", [tenant]
    return "WHERE tenant_id = %s AND thread_id = %s", [tenant, thread_id]
