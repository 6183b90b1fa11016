"""The rules of retention on a storage, as the engine runs them, one call each."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from shared_core import Scope
from shared_core.core.domain import MemoryKind
from shared_core.core.namespaces import memories_namespace, path_of, rest_of, scope_path
from shared_core.core.retention_policy import Fate, Rules, Stage
from shared_core.policies import retention
from shared_core.policies.timing import RULES
from shared_core.ports.retention import Counts, Kept, RetentionRow, Weak
from shared_core.ports.storage import Storage
from shared_core.retention import pages


@dataclass
class Calls:
    """Runs rules of retention on one storage."""

    storage: Storage
    clock: Callable[[], datetime]

    async def retention_rules(self, scope: Scope) -> Rules:
        path = scope_path(scope)
        [rows] = await self.storage.read(path, [RULES])
        return retention.effective_rules(rows, path)

    async def set_rules(self, path: str, rules: Rules | None) -> None:
        await self.storage.retention.set_retention_rules(path, rules)

    async def retime(self, path: str, limit: int) -> tuple[int, int]:
        return await pages.retime_page(self.storage, path, limit)

    async def retimings(self) -> Sequence[str]:
        return await self.storage.retention.retimings("/")

    async def kept(self, scope: Scope, ids: Sequence[UUID]) -> list[Kept]:
        tenant = scope_path(scope)
        return await self.storage.query(tenant, partial(retention.kept, tenant, ids))

    async def named_ids(self, scope: Scope, names: Sequence[str]) -> list[UUID]:
        return retention.named_ids(await self._named(scope, names))

    async def unknown_names(self, scope: Scope, names: Sequence[str]) -> list[str]:
        return retention.unknown_names(await self._named(scope, names), names)

    async def _named(self, scope: Scope, names: Sequence[str]) -> Any:
        namespace = rest_of(memories_namespace(scope))
        return await self.storage.read(scope_path(scope), retention.select_named(namespace, names))

    async def forget_faded(
        self, scope: Scope | None, now: datetime, limit: int
    ) -> tuple[Counts, int, Mapping[MemoryKind, int]]:
        path, batches = path_of(scope, None), list[pages.MovedBatch]()
        async for batch in pages.move_on(self.storage, path, now, limit):
            batches.append(batch)
        counts = sum((one.counts for one in batches), Counter())
        along = {one for batch in batches for one in batch.along}
        retimed = sum(one.retimed for one in batches)
        return pages.counts_of(counts), retimed, Counter(kind for _, _, kind in along)

    async def due(
        self, scope: Scope | None, app: str | None, now: datetime, limit: int
    ) -> tuple[Counts, Mapping[MemoryKind, int], Sequence[tuple[Kept, Fate]]]:
        return await pages.due(self.storage, path_of(scope, app), now, limit)

    async def weak(self, scope: Scope, weak: Weak) -> list[UUID]:
        _, _, ids = await pages.weak_below(self.storage, scope_path(scope), weak, self.clock())
        return ids

    async def average_score(self, scope: Scope, weak: Weak) -> tuple[int, float]:
        path = scope_path(scope)
        count, average, _ = await pages.weak_below(self.storage, path, weak, self.clock())
        return count, average

    async def staged(
        self, scope: Scope, stages: Sequence[Stage], kinds: Sequence[MemoryKind] | None,
        limit: int, offset: int,
    ) -> list[Kept]:  # fmt: skip
        tenant = scope_path(scope)
        asked = partial(retention.staged, tenant, stages, kinds, limit, offset)
        return await self.storage.query(tenant, asked)

    async def stats(
        self, app: str, now: datetime, days: Sequence[float]
    ) -> tuple[list[RetentionRow], Mapping[float, Mapping[Fate, int]]]:
        counted = await pages.counted(self.storage, path_of(None, app), now, days)
        return counted.rows(), counted.leaving
