"""Retention on PostgreSQL: policies, the moments at which memories are due, and their stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import get_args
from uuid import UUID

from shared_core.core.domain import MemoryId, MemoryKind, Scope
from shared_core.core.ids import is_uuid
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
from shared_core.core.retention_policy import FATES, STAGES, Fate, Rules, Stage
from shared_core.policies.timing import policy_of
from shared_core.ports.retention import (
    Archived,
    Counts,
    Kept,
    RetentionBatch,
    RetentionRow,
    Retimed,
    Revival,
    Weak,
)
from shared_core.ports.storage import Clock
from shared_core.storage._rows import along_of, counts_of, kept_of, policy_columns, to_tsvector
from shared_core.storage.postgres.connection.database import PostgresDatabase
from shared_core.storage.postgres.connection.statements import step, steps
from shared_core.storage.postgres.items import vector_steps


@dataclass
class PostgresRetention:
    """Policies, moments and stages: retention_policies, memory_access and memory_archive."""

    _database: PostgresDatabase
    _clock: Clock

    async def retention_rules(self, scope: Scope | None, app: str | None) -> Rules:
        path = path_of(scope, app)
        kinds = list(get_args(MemoryKind))
        rows = await self._database.rows(path, "retention_rules", kinds=kinds, path=path)
        return {row[0]: policy_of(row[1:]) for row in rows}

    async def own_rules(self, scope: Scope | None, app: str | None) -> Rules:
        path = path_of(scope, app)
        rows = await self._database.rows(path, "own_rules", path=path)
        return {row[0]: policy_of(row[1:]) for row in rows}

    async def set_retention_rules(
        self,
        scope: Scope | None,
        app: str | None,
        rules: Rules | None,
        of: Sequence[MemoryKind] | None = None,
    ) -> str:
        path = path_of(scope, app)
        values: dict[str, object] = {"path": path, "now": self._clock()}
        sent = [step("lock_policies", values)]
        if of is None:
            sent.append(step("drop_policies", values))
        else:
            sent.append(step("drop_policies_of", values | {"kinds": list(of)}))
        if rules is not None:
            sent.append(step("add_policies", values | policy_columns(rules)))
        await self._database.run(path, *sent, step("begin_retiming", values))
        return path

    async def retime(self, path: str, limit: int) -> Retimed:
        values = {"path": path, "limit": limit}
        _, [[looked_at, changed]] = await self._database.run(
            path, step("hold_all_policies"), step("retime", values)
        )
        return Retimed(looked_at=looked_at, changed=changed)

    async def retimings(self, scope: Scope | None, app: str | None) -> Sequence[str]:
        path = path_of(scope, app)
        rows = await self._database.rows(path, "retimings", tenant_end=path_end(path))
        return [row[0] for row in rows]

    async def ahead_of_server(self, now: datetime) -> timedelta:
        [(ahead,)] = await self._database.rows(ROOT, "ahead_of_server", now=now)
        return timedelta(seconds=round(ahead))

    async def kept(self, scope: Scope, memory_ids: Sequence[UUID]) -> Sequence[Kept]:
        rows = await self._database.rows(scope_path(scope), "kept", memory_ids=list(memory_ids))
        return [kept_of(row) for row in rows]

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
        rows = await self._database.rows(
            scope_path(scope),
            "named_ids",
            namespace=rest_of(memories_namespace(scope)),
            keys=[name for name in names if storable(name)],
            memory_ids=[UUID(name) for name in names if is_uuid(name)],
        )
        return [(row[0], row[1], row[2]) for row in rows]

    async def forget_faded(
        self, scope: Scope | None, app: str | None, now: datetime, limit: int
    ) -> RetentionBatch:
        path = path_of(scope, app)
        values = {"tenant": path, "now": now, "limit": limit}
        _, rows = await self._database.run(
            path, step("hold_all_policies"), step("forget_faded", values)
        )
        return RetentionBatch(
            counts=counts_of(rows),
            retimed=sum(count for _, fate, count in rows if fate == "retimed"),
            along=along_of(rows),
        )

    async def due(
        self, scope: Scope | None, app: str | None, now: datetime, limit: int
    ) -> tuple[Counts, Mapping[MemoryKind, int], Sequence[tuple[Kept, Fate]]]:
        path = path_of(scope, app)
        values = {"tenant": path, "tenant_end": path_end(path), "now": now, "limit": limit}
        counted, listed = await self._database.run(path, *steps(values, "count_due", "what_is_due"))
        due = [(kept_of(row[:-1]), row[-1]) for row in listed]
        return counts_of(counted), along_of(counted), due

    async def average_score(self, scope: Scope, weak: Weak) -> tuple[int, float]:
        [[(count, average)]] = await self._database.run(
            scope_path(scope), step("average_score", self._weak(scope, weak))
        )
        return count, average

    async def weak(self, scope: Scope, weak: Weak) -> Sequence[MemoryId]:
        return await self._ids(scope, "weak", self._weak(scope, weak))

    async def forget_weak(
        self, scope: Scope, weak: Weak, memory_ids: Sequence[UUID]
    ) -> Sequence[MemoryId]:
        values = self._weak(scope, weak) | {"memory_ids": list(memory_ids)}
        return await self._ids(scope, "forget_weak", values)

    async def set_pinned(
        self, scope: Scope, memory_ids: Sequence[UUID], pinned: bool
    ) -> Sequence[MemoryId]:
        tenant = scope_path(scope)
        values = {
            "tenant": tenant,
            "tenants": [tenant],
            "memory_ids": list(memory_ids),
            "now": self._clock(),
        }
        _, rows = await self._database.run(
            tenant, *steps(values, "hold_policies", "pin" if pinned else "unpin")
        )
        return [MemoryId(row[0]) for row in rows]

    async def staged(
        self,
        scope: Scope,
        stages: Sequence[Stage],
        kinds: Sequence[MemoryKind] | None,
        limit: int,
        offset: int,
    ) -> Sequence[Kept]:
        rows = await self._database.rows(
            scope_path(scope),
            "staged",
            stages=[STAGES.index(stage) for stage in stages],
            kinds=None if kinds is None else list(kinds),
            limit=limit,
            offset=offset,
        )
        return [kept_of(row) for row in rows]

    async def out_of_recall(self, scope: Scope, memory_ids: Sequence[UUID]) -> Sequence[Archived]:
        rows = await self._database.rows(
            scope_path(scope), "out_of_recall", memory_ids=list(memory_ids)
        )
        return [
            Archived(row[0], from_path(row[1]), row[2], row[3], row[4], bool(row[5]))
            for row in rows
        ]

    async def revive_memories(self, scope: Scope, revival: Revival) -> Sequence[MemoryId]:
        tenant = scope_path(scope)
        values = revival_columns(revival) | {
            "tenant": tenant, "tenants": [tenant], "now": self._clock(),
        }  # fmt: skip
        names = ("hold_policies", "lock_memories", "require_faded", "revive_memories")
        answers = await self._database.run(
            tenant, *steps(values, *names), *vector_steps(revival.vectors)
        )
        return [MemoryId(row[0]) for row in answers.named("revive_memories")]

    async def retention_stats(
        self, scope: Scope | None, app: str | None, now: datetime, days: Sequence[float]
    ) -> tuple[Sequence[RetentionRow], Mapping[float, Mapping[Fate, int]]]:
        path = path_of(scope, app)
        horizons = sorted({float(one) for one in days})
        values = {"tenant": path, "tenant_end": path_end(path), "now": now, "days": horizons}
        _, rows = await self._database.run(path, step("take_time"), step("retention_stats", values))
        leaving: dict[float, dict[Fate, int]] = {one: dict.fromkeys(FATES, 0) for one in days}
        counted = []
        for kind, fades, stage, bucket, first, fate, count, score_sum, pinned, *later in rows:
            counted.append(
                RetentionRow(kind, fades, STAGES[stage], bucket, count, score_sum, pinned)
            )
            second, second_fate, third = later
            met: list[tuple[int | None, Fate]] = [
                (first, fate), (second, second_fate), (third, "erased")
            ]  # fmt: skip
            for later_than, one in met:
                for within in () if later_than is None else horizons[later_than:]:
                    leaving[within][one] += count
        return counted, leaving

    async def _ids(self, scope: Scope, name: str, values: Mapping[str, object]) -> list[MemoryId]:
        rows = await self._database.rows(scope_path(scope), name, **values)
        return [MemoryId(row[0]) for row in rows]

    def _weak(self, scope: Scope, weak: Weak) -> dict[str, object]:
        return {
            "tenant": scope_path(scope),
            "threshold": float(weak.threshold),
            "min_age_days": float(weak.min_age_days),
            "decay_rate": None if weak.decay_rate is None else float(weak.decay_rate),
            "now": self._clock(),
        }


def revival_columns(revival: Revival) -> dict[str, object]:
    """Return the columns of the memories that a revival brings back."""
    ids = [one.memory_id for one in revival.faded]
    terms = revival.terms
    return {
        "memory_ids": ids,
        "archived_at": [one.archived_at for one in revival.faded],
        "terms": [to_tsvector(terms[one]) if one in terms else None for one in ids],
        "term_counts": [len(terms.get(one, ())) for one in ids],
    }


def path_of(scope: Scope | None, app: str | None) -> str:
    """Return the path of a user, an application, or all."""
    if scope is not None:
        return scope_path(scope)
    return to_path(() if app is None else (check_label(app, "app"),))
