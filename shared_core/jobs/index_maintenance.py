"""Who earns an approximate index, and who looks after them. The plan is pure."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from shared_core.core.event_loops import PeriodicTask
from shared_core.errors import InvalidInput, MemoryCoreError
from shared_core.lifecycle import Handle
from shared_core.ports.indexes import TenantIndex, TenantVectors

log = logging.getLogger("hippocampus")

MOST_DIMENSIONS = 4_000
"""What the index of pgvector can hold; longer vectors are always searched exactly."""

REBUILD_SHARE = 10
"""An index is built anew when what it lacks is a tenth of all, and a threshold at least."""

FIRST_LOOK_S = 600.0
LOOK_EVERY_S = 3_600.0

Action: TypeAlias = Literal["build", "rebuild", "keep", "drop", "exact"]
Told: TypeAlias = Callable[["IndexStep"], None]


@dataclass(frozen=True, slots=True)
class IndexStep:
    """What becomes of the index of one tenant.

    exact: it has none and needs none, or its vectors are too long for one. old: what is dropped,
    or replaced. tenant: None when no vector of the active model is left.
    """

    action: Action
    tenant: TenantVectors | None
    old: TenantIndex | None = None


def plan_indexes(
    tenants: Sequence[TenantVectors], known: Sequence[TenantIndex], threshold: int
) -> list[IndexStep]:
    """Return what to do, drops first; an index goes below half of what earns one."""
    steps = [_step(tenant, threshold) for tenant in tenants]
    kept = {step.old.name for step in steps if step.old is not None}
    gone = [IndexStep("drop", None, index) for index in known if index.name not in kept]
    return [*gone, *sorted(steps, key=lambda step: step.action != "drop")]


def _step(tenant: TenantVectors, threshold: int) -> IndexStep:
    index = tenant.index
    if index is None:
        earned = tenant.vectors > threshold and tenant.dimensions <= MOST_DIMENSIONS
        return IndexStep("build" if earned else "exact", tenant)
    if tenant.vectors < threshold / 2:
        return IndexStep("drop", tenant, index)
    is_old = tenant.tail > max(threshold, tenant.vectors / REBUILD_SHARE)
    return IndexStep("rebuild" if is_old else "keep", tenant, index)


class Indexes(PeriodicTask):
    """The approximate indexes of a memory: engine.indexes.

    In the background one look an hour, the first ten minutes after the first use, on the bridge's
    own loop; of all processes one builds at a time. in_background: False leaves it to others.
    """

    def __init__(self, handle: Handle, *, in_background: bool = True) -> None:
        super().__init__()
        self._handle = handle
        self._in_background = in_background

    async def plan(self) -> list[IndexStep]:
        """Return what refresh() would do, tenants that stay exact included, largest first.

        Raises InvalidInput when indexes are off.
        """
        storage = await self._handle.storage()
        threshold = storage.indexes.index_threshold
        if threshold is None:
            raise InvalidInput(
                "approximate indexes are off: HIPPOCAMPUS_ANN_THRESHOLD is 'off', make it a number"
                " of vectors, or unset it"
            )
        known = await storage.indexes.tenant_indexes()
        tenants = await storage.indexes.large_tenants(threshold, known)
        return plan_indexes(tenants, known, threshold)

    async def refresh(
        self, *, begins: Told | None = None, done: Told | None = None
    ) -> list[IndexStep] | None:
        """Build what is earned, drop what is not; return what was done, None if another is at it.

        Nothing where the engine keeps its own index.

        begins, done: called before and after each step. Raises StorageUnavailable when the user
        may not build indexes, with what is missing.
        """
        storage = await self._handle.storage()
        if not storage.indexes.builds_indexes:
            return []
        async with storage.indexes.index_builder() as builder:
            if builder is None:
                return None
            for name in await builder.leftovers():
                await builder.drop(name)
            steps = [step for step in await self.plan() if step.action not in ("keep", "exact")]
            for step in steps:
                if begins:
                    begins(step)
                if step.tenant is not None and step.action != "drop":
                    await builder.build(step.tenant)
                if step.old is not None:
                    await builder.drop(step.old.name)
                if done:
                    done(step)
            return steps

    def nudge(self) -> None:
        """Maintain the indexes in the background, when it is time. Returns at once."""
        storage = self._handle.lifecycle.storage_if_open()
        if (
            storage
            and storage.indexes.builds_indexes
            and storage.indexes.index_threshold is not None
        ):
            super().nudge()

    def _waits_s(self) -> tuple[float, float]:
        return FIRST_LOOK_S, LOOK_EVERY_S

    async def _look(self) -> None:
        try:
            storage = await self._handle.storage()
            if storage.indexes.index_threshold is not None:
                await self.refresh(done=_log)
        except MemoryCoreError as error:
            log.warning("the indexes of large tenants are not looked after: %s", error)


def _log(step: IndexStep) -> None:
    vectors = 0 if step.tenant is None else step.tenant.vectors
    log.info("index of a tenant with %d vectors: %s", vectors, step.action)
