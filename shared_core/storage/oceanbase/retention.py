"""OceanBaseStorage: forgetting by policies; the policies, and when memories are due."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from operator import methodcaller
from typing import get_args
from uuid import UUID

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
from shared_core.core.retention_policy import STAGES, Rules, Stage
from shared_core.errors import Conflict
from shared_core.ports.items import VectorRows
from shared_core.ports.retention import (
    Archived,
    Batch,
    Counts,
    Fate,
    Kept,
    RetentionRow,
    Retimed,
    Weak,
)
from shared_core.storage._retention_columns import along_of, counts_of
from shared_core.storage.oceanbase.connection.batching import pages
from shared_core.storage.oceanbase.connection.transactions import Transaction
from shared_core.storage.oceanbase.item_writes import put_vectors
from shared_core.storage.oceanbase.retention_counts import counted
from shared_core.storage.oceanbase.retention_fading import count_due, erase, forget_ripe, weak_of
from shared_core.storage.oceanbase.retention_policies import (
    due_kept,
    is_untold,
    replace_policies,
    retime_page,
    set_pinned,
    written_to,
)
from shared_core.storage.oceanbase.retention_restoring import require_faded, restore
from shared_core.storage.oceanbase.retention_rows import (
    KEPT_COLUMNS,
    WITH_ARCHIVE,
    all_kept,
    living,
    score_of,
)
from shared_core.storage.oceanbase.retention_timing import Policies
from shared_core.storage.oceanbase.schedules import OceanBaseSchedules

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
    ) -> Batch:
        path = path_of(scope, app)
        rows = await self._database.write(lambda tx: forget_ripe(tx, path, now, limit))
        return Batch(
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

    async def restore_memories(
        self,
        scope: Scope,
        away: Sequence[Archived],
        terms: Mapping[UUID, Sequence[str]],
        vectors: VectorRows | None,
    ) -> Sequence[MemoryId]:
        tenant, now = scope_path(scope), self._clock()

        def work(tx: Transaction) -> list[MemoryId]:
            tx.lock(tenant)
            require_faded(tx, tenant, away)
            back = restore(tx, tenant, [one.memory_id for one in away], terms, now)
            put_vectors(tx, vectors)
            return [MemoryId(one) for one in back]

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
