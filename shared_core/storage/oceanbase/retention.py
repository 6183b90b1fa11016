"""OceanBaseStorage: retention policies, stages, access counters, and periodic tasks."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import takewhile
from operator import methodcaller
from typing import get_args
from uuid import UUID

import pymysql
from pymysql.constants import ER

from shared_core.core.domain import MemoryId, MemoryKind, Scope
from shared_core.core.ids import is_uuid
from shared_core.core.namespaces import (
    check_label,
    from_path,
    memories_namespace,
    path_end,
    rest_of,
    scope_path,
    storable,
    to_path,
)
from shared_core.core.retention_policy import FATES, STAGES, Fate, RetentionPolicy, Rules, Stage
from shared_core.errors import Conflict, StorageReadOnly, StorageUnavailable
from shared_core.policies.timing import POLICY_COLUMNS
from shared_core.ports.retention import (
    Accesses,
    Archived,
    Counts,
    Kept,
    NewAccesses,
    RetentionBatch,
    RetentionRow,
    Retimed,
    Revival,
    Weak,
)
from shared_core.storage._rows import along_of, counts_of, policy_columns
from shared_core.storage.oceanbase.base import OceanBasePart, reading, writing
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction, grouped
from shared_core.storage.oceanbase.retention_fading import (
    count_due,
    erase,
    forget_ripe,
    require_faded,
    revive,
    weak_of,
)
from shared_core.storage.oceanbase.retention_timing import (
    KEPT_COLUMNS,
    MOST_ACCESSES,
    PAGE,
    RIPE,
    TIMED_WIDTH,
    WITH_ARCHIVE,
    CountedMemory,
    Policies,
    all_kept,
    counters,
    due_of,
    fate_of,
    living,
    retime,
    ripe_values,
    score_of,
    timed_of,
)

PAGE_TRIES = 8
"""Maximum number of tries for a page that changed before it was locked."""
LOCKED_AT_ONCE = 100
"""Number of tenants checked for writers at a time."""
_SOON = timedelta(microseconds=1)
_Group = tuple[MemoryKind, bool, int, int]
_FIRST = ("", UUID(int=0))
_COLUMNS = ("tenant_id", "kind", "fades", *POLICY_COLUMNS, "updated_at")
_COUNTED = (
    f"access_count = LEAST(access_count + VALUES(access_count), {MOST_ACCESSES}),"
    " last_accessed_at = GREATEST(COALESCE(last_accessed_at, VALUES(last_accessed_at)),"
    " VALUES(last_accessed_at))"
)
_REFUSED = (ER.TABLEACCESS_DENIED_ERROR, ER.DBACCESS_DENIED_ERROR, ER.COLUMNACCESS_DENIED_ERROR)


class OceanBaseRetention(OceanBasePart):
    """Policies, counters and stages of memories, and leases of periodic tasks."""

    @reading
    def retention_rules(self, tx: Transaction, scope: Scope | None, app: str | None) -> Rules:
        path = path_of(scope, app)
        policies = Policies(tx, [path])
        return {kind: policies.of(path, kind) for kind in get_args(MemoryKind)}

    async def own_rules(self, scope: Scope | None, app: str | None) -> Rules:
        path = path_of(scope, app)
        return await self._database.read(lambda tx: Policies(tx, [path]).own(path))

    async def set_retention_rules(
        self,
        scope: Scope | None,
        app: str | None,
        rules: Rules | None,
        of: Sequence[MemoryKind] | None = None,
    ) -> str:
        path, now = path_of(scope, app), self._clock()
        await self._database.write(lambda tx: replace_policies(tx, path, rules, of, now), path)
        return path

    async def retime(self, path: str, limit: int) -> Retimed:
        if await self._database.read(lambda tx: is_new_retiming(tx, path)):
            await self._wait_for_writers(path)
        for tried in range(PAGE_TRIES):
            size = max(1, limit >> tried)  # a smaller page is less likely to change
            retimed = await self._database.write(partial(retime_page, path=path, limit=size))
            if retimed is not None:
                return retimed
        raise Conflict("memories kept changing while a policy was applied to them: try again")

    async def _wait_for_writers(self, path: str) -> None:
        after: str | None = ""
        while after is not None:
            busy, after = await self._database.write(
                partial(busy_tenants, path=path, after=after, limit=LOCKED_AT_ONCE)
            )
            for tenant in busy:
                await self._database.write(methodcaller("lock", tenant))

    @reading
    def retimings(self, tx: Transaction, scope: Scope | None, app: str | None) -> Sequence[str]:
        path = path_of(scope, app)
        rows = tx.rows(
            "SELECT tenant_id FROM retimings WHERE tenant_id >= %s AND tenant_id < %s"
            " ORDER BY tenant_id",
            [path, path_end(path)],
        )
        return [row[0] for row in rows]

    async def ahead_of_server(self, now: datetime) -> timedelta:
        row = await self._database.read(lambda tx: tx.one("SELECT utc_timestamp(6)"))
        assert row is not None
        there: datetime = row[0].astimezone(UTC)
        return timedelta(seconds=round((now - there).total_seconds()))

    @reading
    def kept(self, tx: Transaction, scope: Scope, memory_ids: Sequence[UUID]) -> Sequence[Kept]:
        tenant = scope_path(scope)
        return all_kept(
            tx,
            tx.rows_in(
                f"SELECT {KEPT_COLUMNS} FROM {WITH_ARCHIVE}"
                " WHERE m.tenant_id = %s AND m.memory_id IN %s ORDER BY m.memory_id",
                [tenant, sorted(set(memory_ids))],
            ),
        )

    async def named_ids(self, scope: Scope, keys: Sequence[str]) -> Sequence[UUID]:
        return [memory_id for memory_id, _, _ in await self._named(scope, keys)]

    async def unknown_names(self, scope: Scope, names: Sequence[str]) -> Sequence[str]:
        found = await self._named(scope, names)
        ids = {memory_id for memory_id, _, _ in found}
        keys = {key for _, key, is_keyed in found if is_keyed}
        return [
            name for name in names if name not in keys and not (is_uuid(name) and UUID(name) in ids)
        ]

    @reading
    def _named(
        self, tx: Transaction, scope: Scope, names: Sequence[str]
    ) -> list[tuple[UUID, str, bool]]:
        tenant, namespace = scope_path(scope), rest_of(memories_namespace(scope))
        keys = [name for name in names if storable(name)]
        ids = [UUID(name) for name in names if is_uuid(name)]
        found: dict[UUID, tuple[str, bool]] = {}
        for condition, listed in (
            ("namespace = %s AND `key` IN %s", keys),
            ("(namespace = %s OR TRUE) AND memory_id IN %s", ids),
        ):
            for memory_id, key, of in tx.rows_in(
                "SELECT memory_id, `key`, namespace FROM memories"
                f" WHERE tenant_id = %s AND {condition}",
                [tenant, namespace, listed],
            ):
                found[memory_id] = (key, of == namespace)
        return [(memory_id, *found[memory_id]) for memory_id in sorted(found)]

    async def forget_faded(
        self, scope: Scope | None, app: str | None, now: datetime, limit: int
    ) -> RetentionBatch:
        path = path_of(scope, app)
        rows = await self._database.write(lambda tx: forget_ripe(tx, path, now, limit))
        return RetentionBatch(
            counts=counts_of(rows),
            retimed=sum(count for _, fate, count in rows if fate == "retimed"),
            along=along_of(rows),
        )

    @reading
    def due(
        self, tx: Transaction, scope: Scope | None, app: str | None, now: datetime, limit: int
    ) -> tuple[Counts, Mapping[MemoryKind, int], Sequence[tuple[Kept, Fate]]]:
        path = path_of(scope, app)
        rows, due = (count_due(tx, path, now), due_kept(tx, path, now, limit))
        return counts_of(rows), along_of(rows), due

    @reading
    def average_score(self, tx: Transaction, scope: Scope, weak: Weak) -> tuple[int, float]:
        now = self._clock()
        scores = [
            score_of(one, rule.decay_rate if weak.decay_rate is None else weak.decay_rate, now)
            for one, rule in living(tx, scope_path(scope), now)
            if rule is not None
        ]
        return len(scores), sum(scores) / len(scores) if scores else 0.0

    async def weak(self, scope: Scope, weak: Weak) -> Sequence[MemoryId]:
        tenant, now = scope_path(scope), self._clock()
        found = await self._database.read(lambda tx: weak_of(tx, tenant, weak, now))
        return [MemoryId(one.memory.memory_id) for one in found]

    @writing
    def forget_weak(
        self, tx: Transaction, scope: Scope, weak: Weak, memory_ids: Sequence[UUID]
    ) -> Sequence[MemoryId]:
        tenant, now = scope_path(scope), self._clock()
        tx.lock(tenant)
        found = weak_of(tx, tenant, weak, now, memory_ids)
        erase(tx, found, now, alone=True)
        return [MemoryId(one.memory.memory_id) for one in found]

    @writing
    def set_pinned(
        self, tx: Transaction, scope: Scope, memory_ids: Sequence[UUID], pinned: bool
    ) -> Sequence[MemoryId]:
        tenant, now = scope_path(scope), self._clock()
        tx.lock(tenant)
        return [MemoryId(one) for one in set_pinned(tx, tenant, memory_ids, now, pinned=pinned)]

    async def staged(
        self,
        scope: Scope,
        stages: Sequence[Stage],
        kinds: Sequence[MemoryKind] | None,
        limit: int,
        offset: int,
    ) -> Sequence[Kept]:
        tenant, numbers = scope_path(scope), [STAGES.index(stage) for stage in stages]
        condition, values = ("TRUE", []) if kinds is None else ("m.kind IN %s", [list(kinds)])
        return await self._database.read(
            lambda tx: all_kept(
                tx,
                tx.rows(
                    f"SELECT {KEPT_COLUMNS} FROM {WITH_ARCHIVE} WHERE m.tenant_id = %s"
                    f" AND a.stage IN %s AND m.demoted_at IS NOT NULL AND {condition}"
                    " ORDER BY a.staged_at DESC, a.memory_id LIMIT %s OFFSET %s",
                    [tenant, numbers, *values, limit, offset],
                ),
            )
        )

    async def out_of_recall(self, scope: Scope, memory_ids: Sequence[UUID]) -> Sequence[Archived]:
        tenant = scope_path(scope)
        rows = await self._database.read(
            lambda tx: tx.rows_in(
                "SELECT m.memory_id, m.namespace, m.`key`, x.text, x.archived_at, x.keeps_words"
                " FROM memories m LEFT JOIN memory_archive x ON x.tenant_id = m.tenant_id"
                " AND x.memory_id = m.memory_id WHERE m.tenant_id = %s AND m.memory_id IN %s"
                " AND m.demoted_at IS NOT NULL ORDER BY m.memory_id",
                [tenant, sorted(set(memory_ids))],
            )
        )
        return [
            Archived(memory_id, from_path(tenant + namespace[1:]), key, text, at, keeps == 0)
            for memory_id, namespace, key, text, at, keeps in rows
        ]

    async def revive_memories(self, scope: Scope, revival: Revival) -> Sequence[MemoryId]:
        tenant, now = scope_path(scope), self._clock()

        def work(tx: Transaction) -> list[MemoryId]:
            require_faded(tx, tenant, revival.faded)
            return [MemoryId(one) for one in revive(tx, tenant, revival, now)]

        return await self._database.write(work, tenant)

    async def retention_stats(
        self, scope: Scope | None, app: str | None, now: datetime, days: Sequence[float]
    ) -> tuple[Sequence[RetentionRow], Mapping[float, Mapping[Fate, int]]]:
        path = path_of(scope, app)
        return await self._database.read(lambda tx: counted(tx, path, now, days))


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

    @reading
    def accesses(
        self, tx: Transaction, scope: Scope, memory_ids: Sequence[MemoryId]
    ) -> Mapping[MemoryId, Accesses]:
        tenant = scope_path(scope)
        rows = tx.rows_in(
            "SELECT memory_id, access_count, last_accessed_at FROM memory_access"
            " WHERE tenant_id = %s AND memory_id IN %s AND last_accessed_at IS NOT NULL",
            [tenant, memory_ids],
        )
        return {MemoryId(memory_id): Accesses(count, last) for memory_id, count, last in rows}


def counted(
    tx: Transaction, path: str, now: datetime, days: Sequence[float]
) -> tuple[list[RetentionRow], Mapping[float, Mapping[Fate, int]]]:
    """Return the retention of memories below a path, and how many meet which fate within days.

    Memories that never fade score as if new. Memories that are due already leave a bit later.
    """
    horizons = sorted({float(one) for one in days})
    ends = [now + timedelta(days=one) + _SOON for one in horizons]
    leaving: dict[float, dict[Fate, int]] = {one: dict.fromkeys(FATES, 0) for one in days}
    groups: dict[_Group, list[float]] = {}
    for one, rule in living(tx, path, now):
        score = score_of(one, 0 if rule is None else rule.decay_rate, now)
        group = (one.kind, rule is not None, one.stage, min(math.floor(score * 10), 9))
        sums = groups.setdefault(group, [0, 0.0, 0])
        sums[0] += 1
        sums[1] += score
        sums[2] += one.pinned_at is not None
        if ends:
            for moment, fate in _fates(one, rule, now, ends[-1]):
                for within in horizons[bisect_right(ends, moment) :]:
                    leaving[within][fate] += 1
    rows = [
        RetentionRow(kind, fades, STAGES[stage], bucket, int(count), score_sum, int(pinned))
        for (kind, fades, stage, bucket), (count, score_sum, pinned) in sorted(groups.items())
    ]
    return rows, leaving


def _fates(
    one: CountedMemory, rule: RetentionPolicy | None, now: datetime, latest: datetime
) -> Iterator[tuple[datetime, Fate]]:
    """Yield when a memory leaves this and later stages, and its fate at each end."""
    stage, moment = one.stage, one.forget_at
    while moment is not None:
        fate = fate_of(stage, rule)
        yield moment, fate
        if fate == "erased" or moment >= latest or rule is None:
            return
        since = max(moment, now + _SOON) if stage == one.stage else moment
        stage += 1
        moment = one.end_of(stage, since, rule)


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
    tx.insert(
        "retimings",
        ("tenant_id", "after_tenant", "after_id"),
        [(path, *_FIRST)],
        update=("after_tenant", "after_id"),
    )


def is_new_retiming(tx: Transaction, path: str) -> bool:
    """Return whether the retiming of a path has not begun yet."""
    return _mark(tx, path) == _FIRST


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


def retime_page(tx: Transaction, path: str, limit: int) -> Retimed | None:
    """Retime the next page of memories; looked_at is 0 at the end.

    It waits only for the first tenant of the page, and the page ends at the first tenant that
    somebody writes to. Returns None if the page changed before it was locked.
    """
    names = [row[0] for row in _page(tx, path, _mark(tx, path), limit)]
    tx.lock(path, *names[:1])
    locked = {*names[:1], *tx.lock_free(names[1:])}
    found = _page(tx, path, _mark(tx, path), limit)
    if not found:
        tx.run("DELETE FROM retimings WHERE tenant_id = %s", [path])
        return Retimed(looked_at=0, changed=0)
    page = list(takewhile(lambda row: row[0] in locked, found))
    if not page:
        return None
    ids = grouped((row[0], row[1]) for row in page)
    changed = sum(retime(tx, tenant, some) for tenant, some in ids.items())
    tx.run(
        "UPDATE retimings SET after_tenant = %s, after_id = %s WHERE tenant_id = %s",
        [*page[-1], path],
    )
    return Retimed(looked_at=len(page), changed=changed)


def _mark(tx: Transaction, path: str) -> Row | None:
    return tx.one("SELECT after_tenant, after_id FROM retimings WHERE tenant_id = %s", [path])


def _page(tx: Transaction, path: str, mark: Row | None, limit: int) -> list[Row]:
    if mark is None:
        return []
    return tx.rows(
        "SELECT tenant_id, memory_id FROM memories WHERE tenant_id >= %s AND tenant_id < %s"
        " AND (tenant_id, memory_id) > (%s, %s) ORDER BY tenant_id, memory_id LIMIT %s",
        [path, path_end(path), *mark, limit],
    )


def due_kept(tx: Transaction, path: str, now: datetime, limit: int) -> list[tuple[Kept, Fate]]:
    """Return the due memories below a path with their fates, the longest due first."""
    found: list[tuple[Kept, Fate]] = []
    start = 0
    while len(found) < limit:
        rows = tx.rows(
            f"SELECT {KEPT_COLUMNS} FROM memory_access a JOIN memories m"
            " ON m.tenant_id = a.tenant_id AND m.memory_id = a.memory_id"
            " LEFT JOIN memory_archive x ON x.tenant_id = m.tenant_id AND x.memory_id = m.memory_id"
            f" WHERE {RIPE} ORDER BY a.forget_at, a.memory_id LIMIT %s OFFSET %s",
            [*ripe_values(path, now), PAGE, start],
        )
        policies = Policies(tx, {row[0] for row in rows})
        for row, kept in zip(rows, all_kept(tx, rows), strict=True):
            one = due_of(timed_of(row[:TIMED_WIDTH]), policies)
            if one.due_at is not None and one.due_at <= now:
                found.append((kept, one.fate))
        if len(rows) < PAGE:
            break
        start += PAGE
    return found[:limit]


def set_pinned(
    tx: Transaction, tenant: str, memory_ids: Sequence[UUID], now: datetime, *, pinned: bool
) -> list[UUID]:
    """Pin or unpin memories of a locked tenant; return those that are, or were, pinned."""
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
    tx.update("memory_access", {"pinned_at": None}, tenant, memory_id=some)
    retime(tx, tenant, some, counted_only=True)
    return some


def path_of(scope: Scope | None, app: str | None) -> str:
    """Return the path of a user, an application, or of all."""
    if scope is not None:
        return scope_path(scope)
    return to_path(() if app is None else (check_label(app, "app"),))


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
