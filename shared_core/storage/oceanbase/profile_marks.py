"""Which turns of a thread profiles have read, as the log of their runs says it.

"to_seq": a profile followed the thread up to there. "read": the turns that were given to one, as
ranges in PostgreSQL's spelling, {[1,4),[6,7)}.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from shared_core.core.domain import Event, ThreadId
from shared_core.core.json_text import to_json
from shared_core.storage.oceanbase.connection.batching import pages
from shared_core.storage.oceanbase.connection.transactions import Transaction
from shared_core.storage.oceanbase.event_steps import EVENT_COLUMNS, event_of

_RANGE = re.compile(r"\[(\d+),(\d+)\)")


def unread(
    tx: Transaction,
    tenant: str,
    memory_ids: Sequence[UUID],
    thread_id: ThreadId,
    limit: int,
    now: datetime,
) -> list[tuple[int, Event]]:
    """Return the first consolidated turns of a thread that no profile of these ids has read."""
    to_seq, read = 0, set[int]()
    for (noted,) in tx.rows(
        "SELECT input FROM pipeline_log WHERE tenant_id = %s AND memory_id IN %s"
        " AND thread_id = %s AND status <> 'error'",
        tenant,
        list(memory_ids),
        thread_id,
    ):
        given = json.loads(noted)
        to_seq = max(to_seq, int(given.get("to_seq") or 0))
        for first, end in _RANGE.findall(str(given.get("read") or "")):
            read.update(range(int(first), int(end)))
    rows = tx.rows(
        f"SELECT memory_seq, {EVENT_COLUMNS} FROM events"
        " WHERE tenant_id = %s AND thread_id = %s AND (expires_at IS NULL OR expires_at > %s)"
        " AND memory_seq > %s AND memory_seq <= (SELECT consolidated_seq FROM threads"
        " WHERE tenant_id = %s AND thread_id = %s) ORDER BY memory_seq LIMIT %s",
        tenant,
        thread_id,
        now,
        to_seq,
        tenant,
        thread_id,
        limit + len(read),
    )
    return [(row[0], event_of(row[1:])) for row in rows if row[0] not in read][:limit]


def mark_read(
    tx: Transaction, tenant: str, run_id: UUID, thread_id: str, event_ids: Sequence[str]
) -> None:
    """Note which turns of a thread a run was given, unless it followed the thread."""
    first = tx.one(
        "SELECT input FROM pipeline_log WHERE tenant_id = %s AND run_id = %s AND step = 1",
        tenant,
        run_id,
    )
    given = json.loads(first[0]) if first else {"to_seq": 0}
    numbers = [
        row[0]
        for page in pages(event_ids)
        for row in tx.rows(
            "SELECT memory_seq FROM events WHERE tenant_id = %s AND thread_id = %s"
            " AND event_id IN %s AND memory_seq IS NOT NULL",
            tenant,
            thread_id,
            page,
        )
    ]
    if numbers and "to_seq" not in given:
        tx.run(
            "UPDATE pipeline_log SET input = %s WHERE tenant_id = %s AND run_id = %s AND step = 1",
            to_json(given | {"read": _ranges(numbers)}),
            tenant,
            run_id,
        )


def mark_all_read(
    tx: Transaction, tenant: str, memory_id: UUID, marks_id: UUID, run_id: UUID, now: datetime
) -> None:
    """Before a profile goes: what was said up to now is not read into the next one."""
    drop_logged_runs(tx, tenant, marks_id)
    if not tx.rows(
        "SELECT 1 FROM profiles WHERE tenant_id = %s AND memory_id = %s LIMIT 1", tenant, memory_id
    ):
        return
    last = tx.one("SELECT coalesce(max(number), 0) FROM runs WHERE tenant_id = %s", tenant)
    tx.insert(
        "runs",
        ("tenant_id", "run_id", "kind", "extractor", "counts", "started_at", "finished_at",
         "number"),
        [(tenant, run_id, "profile", "", '{"deleted": true}', now, now,
          1 + int(last[0] if last else 0))],
    )  # fmt: skip
    threads = tx.rows(
        "SELECT thread_id, last_memory_seq FROM threads"
        " WHERE tenant_id = %s AND last_memory_seq > 0 ORDER BY thread_id",
        tenant,
    )
    tx.insert(
        "pipeline_log",
        ("tenant_id", "run_id", "step", "stage", "output", "started_at", "duration_s", "input",
         "memory_id", "thread_id"),
        (
            (tenant, run_id, step, "deletion", "{}", now, 0.0, to_json({"to_seq": to_seq}),
             marks_id, thread_id)
            for step, (thread_id, to_seq) in enumerate(threads, start=1)
        ),
    )  # fmt: skip


def drop_logged_runs(tx: Transaction, tenant: str, memory_id: UUID) -> None:
    """Delete the runs that are logged of a profile, and with them their log."""
    logged = tx.rows(
        "SELECT DISTINCT run_id FROM pipeline_log WHERE tenant_id = %s AND memory_id = %s",
        tenant,
        memory_id,
    )
    for page in pages([row[0] for row in logged]):
        tx.run("DELETE FROM runs WHERE tenant_id = %s AND run_id IN %s", tenant, page)


def drop_marks(tx: Transaction, tenant: str, thread_id: str) -> None:
    """What profiles have read of a thread counts no more: its turns are numbered anew."""
    for run_id, step, noted in tx.rows(
        "SELECT run_id, step, input FROM pipeline_log WHERE tenant_id = %s AND thread_id = %s",
        tenant,
        thread_id,
    ):
        given = json.loads(noted)
        left = {name: value for name, value in given.items() if name not in ("to_seq", "read")}
        if left != given:
            tx.run(
                "UPDATE pipeline_log SET input = %s"
                " WHERE tenant_id = %s AND run_id = %s AND step = %s",
                to_json(left),
                tenant,
                run_id,
                step,
            )


def _ranges(numbers: Sequence[int]) -> str:
    """Return numbers as ranges that touch nowhere: {[1,4),[6,7)}."""
    found: list[list[int]] = []
    for number in sorted(set(numbers)):
        if found and found[-1][1] == number:
            found[-1][1] = number + 1
        else:
            found.append([number, number + 1])
    return "{" + ",".join(f"[{first},{end})" for first, end in found) + "}"
