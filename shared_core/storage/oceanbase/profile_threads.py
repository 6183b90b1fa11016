"""What profiles are told of threads: what they hold, and what a profile did not follow yet."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from shared_core.core.domain import ThreadId
from shared_core.ports.profiles import SAID, SAID_CHARACTERS, ThreadOverview
from shared_core.storage.oceanbase.connection.batching import pages
from shared_core.storage.oceanbase.connection.transactions import Transaction

THREADS_AT_ONCE = 50
"""Of one statement that reads the last turns of each."""


def overviews(
    tx: Transaction, tenant: str, asked: Sequence[str], now: datetime
) -> list[ThreadOverview]:
    """Return what threads hold, the one spoken in last first."""
    counted = [
        row
        for page in pages(asked)
        for row in tx.rows(
            "SELECT thread_id, count(*), min(occurred_at), max(occurred_at) FROM events"
            " WHERE tenant_id = %s AND thread_id IN %s AND memory_seq IS NOT NULL"
            " GROUP BY thread_id",
            tenant,
            page,
        )
    ]
    summaries: dict[str, str] = {
        thread_id: text
        for page in pages(asked)
        for thread_id, text in tx.rows(
            "SELECT thread_id, text FROM memories WHERE tenant_id = %s AND thread_id IN %s"
            " AND kind = 'summary' AND superseded_at IS NULL",
            tenant,
            page,
        )
    }
    said = _said(tx, tenant, asked, now)
    counted.sort(key=lambda row: row[0].encode())
    counted.sort(key=lambda row: row[3], reverse=True)
    return [
        ThreadOverview(
            thread_id=ThreadId(thread_id),
            started_at=first_at,
            ended_at=last_at,
            turns=turns,
            summary=summaries.get(thread_id, ""),
            said=tuple(said.get(thread_id, ())),
        )
        for thread_id, turns, first_at, last_at in counted
    ]


def _said(
    tx: Transaction, tenant: str, threads: Sequence[str], now: datetime
) -> dict[str, list[str]]:
    """Return what users said last in threads, in order, of each turn the beginning."""
    # By its length: two texts of spaces are equal, and to none.
    last = (
        f"(SELECT thread_id, seq, LEFT(text, {SAID_CHARACTERS}) FROM events"
        " WHERE tenant_id = %s AND thread_id = %s AND memory_seq IS NOT NULL AND role = 'user'"
        " AND LENGTH(text) > 0 AND (expires_at IS NULL OR expires_at > %s)"
        f" ORDER BY seq DESC LIMIT {SAID})"
    )
    said: dict[str, list[tuple[int, str]]] = {}
    for page in pages(threads, THREADS_AT_ONCE):
        values = [value for thread_id in page for value in (tenant, thread_id, now)]
        for thread_id, seq, text in tx.rows(" UNION ALL ".join([last] * len(page)), *values):
            said.setdefault(thread_id, []).append((seq, text))
    return {thread_id: [text for _, text in sorted(turns)] for thread_id, turns in said.items()}
