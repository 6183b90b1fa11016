"""Threads that are here already when an import brings more of them: how they count on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shared_core.storage.oceanbase.connection.transactions import Transaction


def count_on_threads(tx: Transaction, given: Sequence[Mapping[str, Any]]) -> None:
    """Let threads that are here count on behind what is given.

    What they have read and summed up stays where it is: nothing unread here is passed over.
    """
    for row in given:
        _raise(
            tx,
            row,
            row["last_seq"] or 0,
            row["last_memory_seq"] or 0,
            row["unread_bytes"] or 0,
            row["updated_at"],
        )


def count_on_events(tx: Transaction, given: Sequence[Mapping[str, Any]]) -> None:
    """Let the threads of events count on behind them, whatever their own lines said."""
    threads: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in given:
        threads.setdefault((row["tenant_id"], row["thread_id"]), []).append(row)
    for rows in threads.values():
        last_memory_seq = max(row["memory_seq"] or 0 for row in rows)
        _raise(tx, rows[0], max(row["seq"] for row in rows), last_memory_seq, 0, None)


def _raise(
    tx: Transaction,
    thread: Mapping[str, Any],
    last_seq: int,
    last_memory_seq: int,
    unread_bytes: int,
    updated_at: object,
) -> None:
    tx.run(
        # MySQL assigns from left to right: unread_bytes is to see the counter as it was
        "UPDATE threads SET unread_bytes = IF(last_memory_seq < %s,"
        " GREATEST(unread_bytes, %s), unread_bytes),"
        " updated_at = GREATEST(updated_at, COALESCE(%s, updated_at)),"
        " last_seq = GREATEST(last_seq, %s), last_memory_seq = GREATEST(last_memory_seq, %s)"
        " WHERE tenant_id = %s AND thread_id = %s AND (last_seq < %s OR last_memory_seq < %s)",
        last_memory_seq,
        unread_bytes,
        updated_at,
        last_seq,
        last_memory_seq,
        thread["tenant_id"],
        thread["thread_id"],
        last_seq,
        last_memory_seq,
    )
