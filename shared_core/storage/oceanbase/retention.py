"""OceanBaseStorage: retention policies, stages their numbers, and periodic tasks."""

from __future__ import annotations

import json
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

from shared_core.core.decay import stage_end
from shared_core.core.domain import JsonValue, MemoryId, MemoryKind, Scope
from shared_core.core.ids import is_uuid
from shared_core.core.json_text import to_json
from shared_core.core.namespaces import (
    ROOT,
    check_label,
    from_path,
    memories_namespace,
    path_end,
    rest_of,
    scope_path,
    storable,
    to_path,
)
from shared_core.core.retention_policy import STAGES, RetentionPolicy, Rules, Stage
from shared_core.errors import Conflict
from shared_core.ports.retention import (
    FATES,
    Archived,
    Counts,
    Fate,
    Kept,
    RetentionBatch,
    RetentionRow,
    Retimed,
    Revival,
    TaskRun,
    Weak,
)
from shared_core.storage._rows import POLICY_COLUMNS, along_of, counts_of, policy_columns
from shared_core.storage.oceanbase.base import OceanBasePart
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction, pages
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
    PAGE,
    RIPE,
    WITH_ARCHIVE,
    Policies,
    Timed,
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

_OURS = "tenant_id = %s AND task = %s AND worker_id = %s"


class OceanBaseSchedules(OceanBasePart):
    """Turns at a task."""

    async def take_turn(self, task: str, worker_id: str, now: datetime, lease_s: float) -> bool:
        until = now + timedelta(seconds=lease_s)

        def work(tx: Transaction) -> bool:
            tx.lock(ROOT)
            row = tx.one(
                "SELECT next_at, lease_until FROM schedules WHERE tenant_id = %s AND task = %s",
                ROOT,
                task,
            )
            if row is None:
                tx.insert(
                    "schedules",
                    ("tenant_id", "task", "next_at", "worker_id", "lease_until", "result"),
                    [(ROOT, task, now, worker_id, until, "{}")],
                )
                return True
            next_at, lease_until = row
            if next_at > now or (lease_until is not None and lease_until > now):
                return False
            tx.run(
                "UPDATE schedules SET worker_id = %s, lease_until = %s"
                " WHERE tenant_id = %s AND task = %s",
                worker_id,
                until,
                ROOT,
                task,
            )
            return True

        return await self._database.write(work)

    async def keep_turn(self, task: str, worker_id: str, now: datetime, lease_s: float) -> bool:
        until = now + timedelta(seconds=lease_s)

        def work(tx: Transaction) -> bool:
            tx.lock(ROOT)
            sql = f"UPDATE schedules SET lease_until = %s WHERE {_OURS}"
            return bool(tx.run(sql, until, ROOT, task, worker_id))

        return await self._database.write(work)

    async def end_turn(
        self,
        task: str,
        worker_id: str,
        now: datetime,
        next_at: datetime,
        result: Mapping[str, JsonValue],
    ) -> None:
        told = to_json(result)

        def work(tx: Transaction) -> None:
            tx.lock(ROOT)
            tx.run(
                "UPDATE schedules SET worker_id = NULL, lease_until = NULL, next_at = %s,"
                f" done_at = %s, result = %s WHERE {_OURS}",
                next_at, now, told, ROOT, task, worker_id,
            )  # fmt: skip

        await self._database.write(work)

    async def last_turn(self, task: str) -> TaskRun | None:
        row = await self._database.read(
            lambda tx: tx.one(
                "SELECT next_at, done_at, result FROM schedules WHERE tenant_id = %s AND task = %s",
                ROOT,
                task,
            )
        )
        return TaskRun(row[0], row[1], json.loads(row[2])) if row else None

    async def drop_task(self, task: str) -> None:
        def work(tx: Transaction) -> None:
            tx.lock(ROOT)
            tx.run("DELETE FROM schedules WHERE tenant_id = %s AND task = %s", ROOT, task)

        await self._database.write(work)


_SOON = timedelta(microseconds=1)
_Group = tuple[MemoryKind, bool, int, int]


def counted(
    tx: Transaction, path: str, now: datetime, days: Sequence[float]
) -> tuple[list[RetentionRow], Mapping[float, Mapping[Fate, int]]]:
    """Return how memories below a path are kept, and how many meet which fate within so many days.

    What never fades scores as if it were new. What is due by now goes a little later.
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
    one: Timed, rule: RetentionPolicy | None, now: datetime, latest: datetime
) -> Iterator[tuple[datetime, Fate]]:
    """Yield when a memory leaves its stage and those after it, and what becomes of it then."""
    stage, moment = one.stage, one.forget_at
    while moment is not None:
        fate = fate_of(stage, rule)
        yield moment, fate
        if fate == "erased" or moment >= latest or rule is None:
            return
        since = max(moment, now + _SOON) if stage == one.stage else moment
        stage += 1
        moment = stage_end(
            STAGES[stage],
            initial=one.initial,
            last_used_at=one.used_at,
            since=since,
            accesses=one.access_count,
            arousal=one.arousal,
            policy=rule,
        )


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


PAGE_TRIES = 8
"""So many times a page is looked at again that changed before it was locked."""
LOCKED_AT_ONCE = 100


class OceanBaseRetention(OceanBaseSchedules):
    """Policies, moments and stages: retention_policies, memory_access and memory_archive."""

    async def retention_rules(self, scope: Scope | None, app: str | None) -> Rules:
        path = path_of(scope, app)

        def work(tx: Transaction) -> Rules:
            policies = Policies(tx, [path])
            return {kind: policies.of(path, kind) for kind in get_args(MemoryKind)}

        return await self._database.read(work)

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

        def work(tx: Transaction) -> None:
            tx.lock(path)
            replace_policies(tx, path, rules, of, now)

        await self._database.write(work)
        return path

    async def retime(self, path: str, limit: int) -> Retimed:
        if await self._database.read(lambda tx: is_untold(tx, path)):
            await self._wait_for_writers(path)
        for tried in range(PAGE_TRIES):
            size = max(1, limit >> tried)  # a small one changes less while it is locked
            told = await self._database.write(partial(retime_page, path=path, limit=size))
            if told is not None:
                return told
        raise Conflict("memories were written again and again while they were told of a policy")

    async def _wait_for_writers(self, path: str) -> None:
        after: str | None = ""
        while after is not None:
            busy, after = await self._database.write(
                partial(written_to, path=path, after=after, limit=LOCKED_AT_ONCE)
            )
            for tenant in busy:
                await self._database.write(methodcaller("lock", tenant))

    async def retimings(self, scope: Scope | None, app: str | None) -> Sequence[str]:
        path = path_of(scope, app)
        rows = await self._database.read(
            lambda tx: tx.rows(
                "SELECT tenant_id FROM retimings WHERE tenant_id >= %s AND tenant_id < %s"
                " ORDER BY tenant_id",
                path,
                path_end(path),
            )
        )
        return [row[0] for row in rows]

    async def ahead_of_server(self, now: datetime) -> timedelta:
        row = await self._database.read(lambda tx: tx.one("SELECT utc_timestamp(6)"))
        assert row is not None
        there: datetime = row[0].astimezone(UTC)
        return timedelta(seconds=round((now - there).total_seconds()))

    async def kept(self, scope: Scope, memory_ids: Sequence[UUID]) -> Sequence[Kept]:
        tenant = scope_path(scope)
        return await self._database.read(
            lambda tx: all_kept(
                tx,
                (
                    row
                    for page in pages(sorted(set(memory_ids)))
                    for row in tx.rows(
                        f"SELECT {KEPT_COLUMNS} FROM {WITH_ARCHIVE}"
                        " WHERE m.tenant_id = %s AND m.memory_id IN %s ORDER BY m.memory_id",
                        tenant,
                        page,
                    )
                ),
            )
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

    async def _named(self, scope: Scope, names: Sequence[str]) -> list[tuple[UUID, str, bool]]:
        tenant, namespace = scope_path(scope), rest_of(memories_namespace(scope))
        keys = [name for name in names if storable(name)]
        ids = [UUID(name) for name in names if is_uuid(name)]

        def work(tx: Transaction) -> list[tuple[UUID, str, bool]]:
            found: dict[UUID, tuple[str, bool]] = {}
            for condition, wanted in (
                ("namespace = %s AND `key` IN %s", keys),
                ("(namespace = %s OR TRUE) AND memory_id IN %s", ids),
            ):
                for page in pages(wanted):
                    for memory_id, key, of in tx.rows(
                        "SELECT memory_id, `key`, namespace FROM memories"
                        f" WHERE tenant_id = %s AND {condition}",
                        tenant,
                        namespace,
                        page,
                    ):
                        found[memory_id] = (key, of == namespace)
            return [(memory_id, *found[memory_id]) for memory_id in sorted(found)]

        return await self._database.read(work)

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

    async def due(
        self, scope: Scope | None, app: str | None, now: datetime, limit: int
    ) -> tuple[Counts, Mapping[MemoryKind, int], Sequence[tuple[Kept, Fate]]]:
        path = path_of(scope, app)
        rows, due = await self._database.read(
            lambda tx: (count_due(tx, path, now), due_kept(tx, path, now, limit))
        )
        return counts_of(rows), along_of(rows), due

    async def average_score(self, scope: Scope, weak: Weak) -> tuple[int, float]:
        now = self._clock()

        def work(tx: Transaction) -> tuple[int, float]:
            scores = [
                score_of(one, rule.decay_rate if weak.decay_rate is None else weak.decay_rate, now)
                for one, rule in living(tx, scope_path(scope), now)
                if rule is not None
            ]
            return len(scores), sum(scores) / len(scores) if scores else 0.0

        return await self._database.read(work)

    async def weak(self, scope: Scope, weak: Weak) -> Sequence[MemoryId]:
        tenant, now = scope_path(scope), self._clock()
        found = await self._database.read(lambda tx: weak_of(tx, tenant, weak, now))
        return [MemoryId(one.memory.memory_id) for one in found]

    async def forget_weak(
        self, scope: Scope, weak: Weak, memory_ids: Sequence[UUID]
    ) -> Sequence[MemoryId]:
        tenant, now = scope_path(scope), self._clock()

        def work(tx: Transaction) -> list[MemoryId]:
            tx.lock(tenant)
            found = weak_of(tx, tenant, weak, now, memory_ids)
            erase(tx, found, now, alone=True)
            return [MemoryId(one.memory.memory_id) for one in found]

        return await self._database.write(work)

    async def set_pinned(
        self, scope: Scope, memory_ids: Sequence[UUID], pinned: bool
    ) -> Sequence[MemoryId]:
        tenant, now = scope_path(scope), self._clock()

        def work(tx: Transaction) -> list[MemoryId]:
            tx.lock(tenant)
            return [MemoryId(one) for one in set_pinned(tx, tenant, memory_ids, now, pinned=pinned)]

        return await self._database.write(work)

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
                    tenant, numbers, *values, limit, offset,
                ),
            )
        )  # fmt: skip

    async def out_of_recall(self, scope: Scope, memory_ids: Sequence[UUID]) -> Sequence[Archived]:
        tenant = scope_path(scope)
        rows = await self._database.read(
            lambda tx: [
                row
                for page in pages(sorted(set(memory_ids)))
                for row in tx.rows(
                    "SELECT m.memory_id, m.namespace, m.`key`, x.text, x.archived_at, x.keeps_words"
                    " FROM memories m LEFT JOIN memory_archive x ON x.tenant_id = m.tenant_id"
                    " AND x.memory_id = m.memory_id WHERE m.tenant_id = %s AND m.memory_id IN %s"
                    " AND m.demoted_at IS NOT NULL ORDER BY m.memory_id",
                    tenant,
                    page,
                )
            ]
        )
        return [
            Archived(memory_id, from_path(tenant + namespace[1:]), key, text, at, keeps == 0)
            for memory_id, namespace, key, text, at, keeps in rows
        ]

    async def revive_memories(self, scope: Scope, revival: Revival) -> Sequence[MemoryId]:
        tenant, now = scope_path(scope), self._clock()

        def work(tx: Transaction) -> list[MemoryId]:
            tx.lock(tenant)
            require_faded(tx, tenant, revival.faded)
            return [MemoryId(one) for one in revive(tx, tenant, revival, now)]

        return await self._database.write(work)

    async def retention_stats(
        self, scope: Scope | None, app: str | None, now: datetime, days: Sequence[float]
    ) -> tuple[Sequence[RetentionRow], Mapping[float, Mapping[Fate, int]]]:
        path = path_of(scope, app)
        return await self._database.read(lambda tx: counted(tx, path, now, days))


def path_of(scope: Scope | None, app: str | None) -> str:
    """Return the path of a user, an application, or all."""
    if scope is not None:
        return scope_path(scope)
    return to_path(() if app is None else (check_label(app, "app"),))
