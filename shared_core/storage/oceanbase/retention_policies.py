"""Policies as rows, and memories that are told of them, within one transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from itertools import takewhile
from uuid import UUID

from shared_core.core.domain import MemoryKind
from shared_core.core.namespaces import path_end
from shared_core.core.retention_policy import Rules
from shared_core.ports.retention import Fate, Kept, Retimed
from shared_core.storage._retention_columns import POLICY_COLUMNS, policy_columns
from shared_core.storage.oceanbase.connection.batching import pages
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction
from shared_core.storage.oceanbase.retention_rows import (
    KEPT_COLUMNS,
    PAGE,
    RIPE,
    all_kept,
    due_of,
    ripe_values,
)
from shared_core.storage.oceanbase.retention_timing import Policies, counters, retime, timed_of

_FIRST = ("", UUID(int=0))
_COLUMNS = ("tenant_id", "kind", "fades", *POLICY_COLUMNS, "updated_at")
_TIMED = 15


def replace_policies(
    tx: Transaction,
    path: str,
    rules: Rules | None,
    of: Sequence[MemoryKind] | None,
    now: datetime,
) -> None:
    """Store what holds for a path from now on, and note that its memories have to be told.

    Who writes by the rules that held has its tenant locked, and is waited for with
    written_to().
    """
    if of is None:
        tx.run("DELETE FROM retention_policies WHERE tenant_id = %s", path)
    else:
        tx.run("DELETE FROM retention_policies WHERE tenant_id = %s AND kind IN %s", path, list(of))
    if rules is not None:
        columns = policy_columns(rules)
        names = ("kinds", "fades", *POLICY_COLUMNS)
        rows = zip(*(columns[name] for name in names), strict=True)
        tx.insert("retention_policies", _COLUMNS, ((path, *row, now) for row in rows))
    tx.insert(
        "retimings",
        ("tenant_id", "after_tenant", "after_id"),
        [(path, *_FIRST)],
        update=("after_tenant", "after_id"),
    )


def is_untold(tx: Transaction, path: str) -> bool:
    """Tell whether a policy of a path was set of which no memory was told yet."""
    return _mark(tx, path) == _FIRST


def written_to(
    tx: Transaction, path: str, after: str, limit: int
) -> tuple[Sequence[str], str | None]:
    """Return who is written to of a page of tenants below a path; and the last, None if all.

    Each is to be waited for by a transaction of its own, so that nobody else waits meanwhile.
    Whoever comes later reads the policies that hold by now. What those wrote who came before is
    seen from then on, also what they wrote to a tenant that nothing was known of.
    """
    page = [
        row[0]
        for row in tx.rows(
            "SELECT tenant_id FROM tenants WHERE tenant_id >= %s AND tenant_id < %s"
            " AND tenant_id > %s ORDER BY tenant_id LIMIT %s",
            path,
            path_end(path),
            after,
            limit,
        )
    ]
    free = tx.lock_free(page)
    return [name for name in page if name not in free], page[-1] if len(page) == limit else None


def retime_page(tx: Transaction, path: str, limit: int) -> Retimed | None:
    """Tell a page of memories anew when they leave their stage, from where the last call stopped.

    Of the page, only its first tenant is waited for, before others are locked; it ends where
    somebody writes. looked_at: 0 when all are told. None if it changed before it was locked.
    """
    names = [row[0] for row in _page(tx, path, _mark(tx, path), limit)]
    tx.lock(path, *names[:1])
    locked = {*names[:1], *tx.lock_free(names[1:])}
    found = _page(tx, path, _mark(tx, path), limit)
    if not found:
        tx.run("DELETE FROM retimings WHERE tenant_id = %s", path)
        return Retimed(looked_at=0, changed=0)
    page = list(takewhile(lambda row: row[0] in locked, found))
    if not page:
        return None
    ids: dict[str, list[UUID]] = defaultdict(list)
    for tenant, memory_id in page:
        ids[tenant].append(memory_id)
    changed = sum(retime(tx, tenant, some) for tenant, some in ids.items())
    tx.run(
        "UPDATE retimings SET after_tenant = %s, after_id = %s WHERE tenant_id = %s",
        *page[-1],
        path,
    )
    return Retimed(looked_at=len(page), changed=changed)


def _mark(tx: Transaction, path: str) -> Row | None:
    return tx.one("SELECT after_tenant, after_id FROM retimings WHERE tenant_id = %s", path)


def _page(tx: Transaction, path: str, mark: Row | None, limit: int) -> list[Row]:
    if mark is None:
        return []
    return tx.rows(
        "SELECT tenant_id, memory_id FROM memories WHERE tenant_id >= %s AND tenant_id < %s"
        " AND (tenant_id, memory_id) > (%s, %s) ORDER BY tenant_id, memory_id LIMIT %s",
        path,
        path_end(path),
        *mark,
        limit,
    )


def due_kept(tx: Transaction, path: str, now: datetime, limit: int) -> list[tuple[Kept, Fate]]:
    """Return what is due below a path and what becomes of it, what has waited longest first."""
    found: list[tuple[Kept, Fate]] = []
    start = 0
    while len(found) < limit:
        rows = tx.rows(
            f"SELECT {KEPT_COLUMNS} FROM memory_access a JOIN memories m"
            " ON m.tenant_id = a.tenant_id AND m.memory_id = a.memory_id"
            " LEFT JOIN memory_archive x ON x.tenant_id = m.tenant_id AND x.memory_id = m.memory_id"
            f" WHERE {RIPE} ORDER BY a.forget_at, a.memory_id LIMIT %s OFFSET %s",
            *ripe_values(path, now), PAGE, start,
        )  # fmt: skip
        policies = Policies(tx, {row[0] for row in rows})
        for row, kept in zip(rows, all_kept(tx, rows), strict=True):
            one = due_of(timed_of(row[:_TIMED]), policies)
            if one.due_at is not None and one.due_at <= now:
                found.append((kept, one.fate))
        if len(rows) < PAGE:
            break
        start += PAGE
    return found[:limit]


def set_pinned(
    tx: Transaction, tenant: str, memory_ids: Sequence[UUID], now: datetime, *, pinned: bool
) -> list[UUID]:
    """Pin memories of a locked tenant, or no longer; return those that are, or that were."""
    there = counters(tx, tenant, memory_ids)
    some = sorted(
        memory_id for memory_id, one in there.items() if pinned or one.pinned_at is not None
    )
    if pinned:
        tx.insert(
            "memory_access",
            ("tenant_id", "memory_id", "pinned_at", "forget_at"),
            ((tenant, memory_id, there[memory_id].pinned_at or now, None) for memory_id in some),
            update=("pinned_at", "forget_at"),
        )
        return some
    for page in pages(some):
        tx.run(
            "UPDATE memory_access SET pinned_at = NULL WHERE tenant_id = %s AND memory_id IN %s",
            tenant,
            page,
        )
    retime(tx, tenant, some, counted_only=True)
    return some
