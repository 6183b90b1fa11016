"""The summary of a thread: kept as it was before a run replaces it, and put back again."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from shared_core.core.ids import uuid7
from shared_core.ports.runs import RunPlan
from shared_core.storage.oceanbase.connection.transactions import Transaction
from shared_core.storage.oceanbase.forgetting import delete_memories
from shared_core.storage.oceanbase.run_records import Change, note
from shared_core.storage.oceanbase.vectors import models, table_of

KEPT = 10
"""Of the summaries that were replaced, for each thread."""

_COPIED = (
    "text, value, terms, term_count, author, importance, run_id, occurred_at, created_at,"
    " updated_at, expires_at"
)
_PLACED = "tenant_id, namespace, kind, thread_id"


def keep_summary(
    tx: Transaction, tenant: str, namespace: str, plan: RunPlan, now: datetime
) -> UUID | None:
    """Keep the summary of a thread that is to be replaced: a copy, superseded, with its vectors.

    Of the copies the last ten. One that expired since the run began still is part of what replaces
    it. Returns the id of the copy, None where there is no summary.
    """
    current = tx.one(
        "SELECT memory_id FROM memories m WHERE m.tenant_id = %s AND m.namespace = %s"
        " AND m.`key` = %s AND m.kind = 'summary' AND m.superseded_at IS NULL"
        " AND LENGTH(m.text) > 0"  # it was not archived
        " AND (m.expires_at IS NULL OR m.expires_at > %s)",
        tenant,
        namespace,
        plan.summary_key,
        plan.started_at,
    )
    if current is None:
        return None
    replaced = tx.rows(
        "SELECT memory_id FROM memories WHERE tenant_id = %s AND thread_id = %s"
        " AND kind = 'summary' AND superseded_at IS NOT NULL"
        " ORDER BY superseded_at DESC, memory_id DESC",
        tenant,
        plan.thread_id,
    )
    delete_memories(tx, tenant, [row[0] for row in replaced[KEPT - 1 :]])
    copy_id = uuid7()
    tx.run(
        f"INSERT INTO memories (memory_id, `key`, superseded_at, {_PLACED}, {_COPIED})"
        f" SELECT %s, CONCAT(`key`, '/', %s), %s, {_PLACED}, {_COPIED} FROM memories"
        " WHERE tenant_id = %s AND memory_id = %s",
        copy_id,
        str(copy_id),
        now,
        tenant,
        current[0],
    )
    _copy_vectors(tx, tenant, current[0], copy_id)
    note(tx, tenant, plan.run_id, "summary", [(current[0], {"copy": str(copy_id)})])
    return copy_id


def bound_summary(tx: Transaction, tenant: str, summary_id: UUID, copy_id: UUID) -> None:
    """A summary that replaced another lives no longer than that one would have."""
    until: dict[UUID, datetime | None] = dict(
        tx.rows(
            "SELECT memory_id, expires_at FROM memories WHERE tenant_id = %s AND memory_id IN %s",
            tenant,
            [summary_id, copy_id],
        )
    )
    ends = [end for end in until.values() if end is not None]
    if ends and until[summary_id] != min(ends):
        tx.run(
            "UPDATE memories SET expires_at = %s WHERE tenant_id = %s AND memory_id = %s",
            min(ends),
            tenant,
            summary_id,
        )


def restore_summary(tx: Transaction, tenant: str, change: Change, summed_from: int | None) -> None:
    """Put back the summary a run replaced: its copy's text, times and vectors; the copy goes.

    With what had become of the one that is undone.
    """
    target, copy_id = change.target, UUID(change.before["copy"])
    columns = _COPIED.replace("\n", "").split(", ")
    copy = tx.one(
        f"SELECT {_COPIED} FROM memories WHERE tenant_id = %s AND memory_id = %s", tenant, copy_id
    )
    if copy is not None:
        _drop_vectors(tx, tenant, target)
        tx.run(
            f"UPDATE memories SET {' = %s, '.join(columns)} = %s, demoted_at = NULL"
            " WHERE tenant_id = %s AND memory_id = %s",
            *copy,
            tenant,
            target,
        )
        _drop_sources_after(tx, tenant, target, summed_from)
        _copy_vectors(tx, tenant, copy_id, target)
    tx.run("DELETE FROM memory_archive WHERE tenant_id = %s AND memory_id = %s", tenant, target)
    tx.run(
        "UPDATE memory_access SET stage = 0, staged_at = NULL"
        " WHERE tenant_id = %s AND memory_id = %s",
        tenant,
        target,
    )
    delete_memories(tx, tenant, [copy_id])


def _drop_sources_after(
    tx: Transaction, tenant: str, memory_id: UUID, summed_from: int | None
) -> None:
    """A summary tells no more of the turns after a number."""
    turns = tx.rows(
        "SELECT s.basis, s.thread_id, s.event_id FROM memory_sources s"
        " JOIN events e ON e.tenant_id = s.tenant_id AND e.thread_id = s.thread_id"
        " AND e.event_id = s.event_id"
        " WHERE s.tenant_id = %s AND s.memory_id = %s AND e.memory_seq > %s",
        tenant,
        memory_id,
        summed_from,
    )
    if turns:
        tx.run(
            "DELETE FROM memory_sources WHERE tenant_id = %s AND memory_id = %s"
            " AND (basis, thread_id, event_id) IN %s",
            tenant,
            memory_id,
            turns,
        )


def _copy_vectors(tx: Transaction, tenant: str, from_id: UUID, to_id: UUID) -> None:
    for table in _tables(tx):
        tx.run(
            f"INSERT INTO {table} (tenant_id, model, memory_id, field, embedding)"
            f" SELECT tenant_id, model, %s, field, embedding FROM {table}"
            " WHERE tenant_id = %s AND memory_id = %s",
            to_id,
            tenant,
            from_id,
        )


def _drop_vectors(tx: Transaction, tenant: str, memory_id: UUID) -> None:
    for table in _tables(tx):
        tx.run(f"DELETE FROM {table} WHERE tenant_id = %s AND memory_id = %s", tenant, memory_id)


def _tables(tx: Transaction) -> list[str]:
    return sorted({table_of(dimensions) for dimensions in models(tx).values()})
