"""OceanBaseStorage: retention policies, memories of many users, and access counters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from operator import methodcaller
from uuid import UUID, uuid4

import pymysql
from pymysql.constants import ER

from shared_core.core.domain import MemoryKind
from shared_core.core.namespaces import path_end, scope_path
from shared_core.core.retention_policy import Rules
from shared_core.errors import StorageReadOnly, StorageUnavailable
from shared_core.policies.reviving import MOST_ACCESSES
from shared_core.policies.timing import POLICY_COLUMNS
from shared_core.ports.retention import Accesses, DueMemory, MemoryPlace, NewAccesses
from shared_core.storage._rows import policy_columns
from shared_core.storage.oceanbase.base import OceanBasePart, reading
from shared_core.storage.oceanbase.connection.transactions import Transaction
from shared_core.storage.oceanbase.retention_timing import retime

LOCKED_AT_ONCE = 100
"""Number of tenants checked for writers at a time."""
_COLUMNS = ("tenant_id", "kind", "fades", *POLICY_COLUMNS, "updated_at")
_COUNTED = (
    f"access_count = LEAST(access_count + VALUES(access_count), {MOST_ACCESSES}),"
    " last_accessed_at = GREATEST(COALESCE(last_accessed_at, VALUES(last_accessed_at)),"
    " VALUES(last_accessed_at))"
)
_REFUSED = (ER.TABLEACCESS_DENIED_ERROR, ER.DBACCESS_DENIED_ERROR, ER.COLUMNACCESS_DENIED_ERROR)


class OceanBaseRetention(OceanBasePart):
    """Policies, and due memories of many users."""

    async def set_retention_rules(
        self, path: str, rules: Rules | None, of: Sequence[MemoryKind] | None = None
    ) -> None:
        now = self._clock()
        await self._database.write(lambda tx: replace_policies(tx, path, rules, of, now), path)
        await self._wait_for_writers(path)

    async def retimings(self, path: str) -> Sequence[str]:
        rows = await self._database.read(
            lambda tx: tx.rows(
                "SELECT tenant_id, after_tenant FROM retimings"
                " WHERE tenant_id >= %s AND tenant_id < %s ORDER BY tenant_id",
                [path, path_end(path)],
            )
        )
        for of, after_tenant in rows:
            if not after_tenant:  # who set the policies may have ended before the writers did
                await self._wait_for_writers(of)
        return [row[0] for row in rows]

    async def _wait_for_writers(self, path: str) -> None:
        after: str | None = ""
        while after is not None:
            busy, after = await self._database.write(
                partial(busy_tenants, path=path, after=after, limit=LOCKED_AT_ONCE)
            )
            for tenant in busy:
                await self._database.write(methodcaller("lock", tenant))

    @reading
    def memories_below(
        self, tx: Transaction, path: str, after: MemoryPlace, limit: int
    ) -> Sequence[MemoryPlace]:
        rows = tx.rows(
            "SELECT tenant_id, memory_id FROM memories WHERE tenant_id >= %s AND tenant_id < %s"
            " AND tenant_id >= %s AND (tenant_id, memory_id) > (%s, %s)"
            " ORDER BY tenant_id, memory_id LIMIT %s",
            [path, path_end(path), after[0], *after, limit],
        )
        return [(row[0], row[1]) for row in rows]

    @reading
    def due_memories(
        self, tx: Transaction, path: str, now: datetime, after: DueMemory, limit: int
    ) -> Sequence[DueMemory]:
        rows = tx.rows(
            "SELECT forget_at, tenant_id, memory_id FROM memory_access"
            " WHERE forget_at <= %s AND (staged_at IS NULL OR staged_at < %s)"
            " AND tenant_id >= %s AND tenant_id < %s"
            " AND forget_at >= %s AND (forget_at, tenant_id, memory_id) > (%s, %s, %s)"
            " ORDER BY forget_at, tenant_id, memory_id LIMIT %s",
            [now, now, path, path_end(path), after[0], *after, limit],
        )
        return [(row[0], row[1], row[2]) for row in rows]

    async def ahead_of_server(self, now: datetime) -> timedelta:
        row = await self._database.read(lambda tx: tx.one("SELECT utc_timestamp(6)"))
        assert row is not None
        there: datetime = row[0].astimezone(UTC)
        return timedelta(seconds=round((now - there).total_seconds()))


class OceanBaseAccesses(OceanBasePart):
    """Access counters of memories."""

    async def add_accesses(self, batch: Sequence[NewAccesses]) -> None:
        counted: dict[str, dict[UUID, Accesses]] = defaultdict(dict)
        for one in batch:
            of_tenant = counted[scope_path(one.scope)]
            of_tenant[one.memory_id] = _sum(of_tenant.get(one.memory_id), one.accesses)

        def work(tx: Transaction) -> None:
            for tenant, accesses in sorted(counted.items()):
                _count(tx, tenant, accesses)

        try:
            await self._database.write(work, *counted)
        except StorageUnavailable as error:
            cause = error.__cause__
            if isinstance(cause, pymysql.MySQLError) and cause.args[0] in _REFUSED:
                raise StorageReadOnly(f"reads cannot be counted: {cause.args[1]}") from error
            raise


def replace_policies(
    tx: Transaction, path: str, rules: Rules | None, of: Sequence[MemoryKind] | None, now: datetime
) -> None:
    """Store the policies of a path, and note that its memories have to be retimed.

    Writers that still use the old policies hold locks; busy_tenants() finds them.
    """
    if of is None:
        tx.run("DELETE FROM retention_policies WHERE tenant_id = %s", [path])
    else:
        tx.delete("retention_policies", path, kind=of)
    if rules is not None:
        columns = policy_columns(rules)
        names = ("kinds", "fades", *POLICY_COLUMNS)
        rows = zip(*(columns[name] for name in names), strict=True)
        tx.insert("retention_policies", _COLUMNS, ((path, *row, now) for row in rows))
    # The id tells this retiming from one that begins while a page of it is written.
    tx.insert(
        "retimings",
        ("tenant_id", "after_tenant", "after_id"),
        [(path, "", uuid4())],
        update=("after_tenant", "after_id"),
    )


def busy_tenants(
    tx: Transaction, path: str, after: str, limit: int
) -> tuple[Sequence[str], str | None]:
    """Return the locked tenants in a page below a path, and the last of the page, None at the end.

    Wait for each in its own transaction, so that nobody else waits meanwhile. Later writers read
    the new policies. After the wait, everything that earlier writers wrote is visible, even to
    tenants that were unknown before.
    """
    page = tx.column(
        "SELECT tenant_id FROM tenants WHERE tenant_id >= %s AND tenant_id < %s"
        " AND tenant_id > %s ORDER BY tenant_id LIMIT %s",
        [path, path_end(path), after, limit],
    )
    free = tx.lock_free(page)
    return [name for name in page if name not in free], page[-1] if len(page) == limit else None


def _count(tx: Transaction, tenant: str, accesses: Mapping[UUID, Accesses]) -> None:
    """Add accesses of stored memories, and recompute when each leaves its stage."""
    there = [
        row[0] for row in tx.select("memories", "memory_id", tenant, memory_id=sorted(accesses))
    ]
    tx.insert(
        "memory_access",
        ("tenant_id", "memory_id", "access_count", "last_accessed_at"),
        (
            (
                tenant,
                one,
                min(accesses[one].access_count, MOST_ACCESSES),
                accesses[one].last_accessed_at,
            )
            for one in there
        ),
        update=_COUNTED,
    )
    retime(tx, tenant, there)


def _sum(old: Accesses | None, new: Accesses) -> Accesses:
    if old is None:
        return new
    return Accesses(
        old.access_count + new.access_count, max(old.last_accessed_at, new.last_accessed_at)
    )
