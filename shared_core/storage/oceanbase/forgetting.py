"""Deletes memories with the rows that depend on them, and buries turns."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from uuid import UUID

from shared_core.storage.oceanbase.connection.transactions import Transaction, grouped, pages
from shared_core.storage.oceanbase.vectors import vector_tables

TurnKey = tuple[str, str]
"""The ids of a thread and of one of its turns."""


def turns_of(tx: Transaction, tenant: str, memory_ids: Iterable[UUID]) -> set[TurnKey]:
    """Return the turns that memories were derived from."""
    return set(tx.select("memory_sources", "thread_id, event_id", tenant, memory_id=memory_ids))


def kinds_of(tx: Transaction, tenant: str, memory_ids: Iterable[UUID]) -> dict[UUID, str]:
    """Return the kinds of stored memories."""
    return dict(tx.select("memories", "memory_id, kind", tenant, memory_id=sorted(set(memory_ids))))


def delete_memories(tx: Transaction, tenant: str, memory_ids: Iterable[UUID]) -> None:
    """Delete memories with the rows that depend on them, and nothing else."""
    vectors = vector_tables(tx)
    for page in pages(sorted(memory_ids)):
        # Deleting these rows first halves the time that their foreign keys would take.
        for table in (*vectors, "memory_sources", "memory_access", "memories"):
            tx.run(f"DELETE FROM {table} WHERE tenant_id = %s AND memory_id IN %s", [tenant, page])


def by_thread(turns: Iterable[TurnKey]) -> dict[str, list[str]]:
    """Return the ids of turns by their thread, in order."""
    return grouped(sorted(turns))


def bury_turns(tx: Transaction, tenant: str, turns: Collection[TurnKey], now: datetime) -> None:
    """Bury turns, and delete them unless a session log holds them."""
    bury(tx, tenant, turns, now)
    where = "WHERE tenant_id = %s AND thread_id = %s AND event_id IN %s AND payload IS"
    for thread_id, event_ids in by_thread(turns).items():
        tx.run_in(f"DELETE FROM events {where} NULL", [tenant, thread_id, event_ids])
        tx.run_in(
            f"UPDATE events SET memory_seq = NULL {where} NOT NULL", [tenant, thread_id, event_ids]
        )


def bury(tx: Transaction, tenant: str, turns: Iterable[TurnKey], now: datetime) -> None:
    """Note turns as forgotten, so that they cannot be appended again."""
    tx.insert(
        "tombstones",
        ("tenant_id", "thread_id", "event_id", "deleted_at"),
        ((tenant, thread_id, event_id, now) for thread_id, event_id in sorted(turns)),
        ignore=True,
    )
