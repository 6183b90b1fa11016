"""engine.indexes: builds and drops the approximate indexes of large tenants. The plan is pure."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from shared_core.core.event_loops import PeriodicTask
from shared_core.errors import CapabilityMissing, InvalidInput, MemoryCoreError
from shared_core.lifecycle import Handle
from shared_core.ports.indexes import TenantIndex, TenantVectors

log = logging.getLogger("hippocampus")

MOST_DIMENSIONS = 4_000
"""Maximum dimensions of an index of pgvector; longer vectors are always searched exactly."""

REBUILD_SHARE = 10
"""An index is rebuilt if it lacks more than a tenth of the vectors, and more than a threshold."""

FIRST_LOOK_S = 600.0
LOOK_EVERY_S = 3_600.0

Action: TypeAlias = Literal["build", "rebuild", "keep", "drop", "exact"]
StepHook: TypeAlias = Callable[["IndexStep"], None]


@dataclass(frozen=True, slots=True)
class IndexStep:
    """One action on the index of one tenant.

    "exact": it has no index, and needs none or has too long vectors. old: the index to drop or
    replace. tenant: None if no vector of the active model is left.
    """

    action: Action
    tenant: TenantVectors | None
    old: TenantIndex | None = None


def plan_indexes(
    tenants: Sequence[TenantVectors], known: Sequence[TenantIndex], threshold: int
) -> list[IndexStep]:
    """Return the steps, drops first. An index is dropped below half of the threshold."""
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

    A background task on the bridge's loop checks them every hour, first ten minutes after the first
    use. One process builds at a time. in_background: False leaves the work to other processes.
    """

    def __init__(self, handle: Handle, *, in_background: bool = True) -> None:
        super().__init__()
        self._handle = handle
        self._in_background = in_background

    async def plan(self) -> list[IndexStep]:
        """Return what refresh() would do, including tenants that stay exact, largest first.

        Raises:
            InvalidInput: if indexes are off.
            CapabilityMissing: on a Citus cluster.
        """
        storage = await self._handle.storage()
        threshold = storage.indexes.index_threshold
        if threshold is None:
            raise InvalidInput(
                "approximate indexes are off: HIPPOCAMPUS_ANN_THRESHOLD must be a number of"
                " vectors, or unset, got 'off'"
            )
        known = await storage.indexes.tenant_indexes()
        tenants = await storage.indexes.large_tenants(threshold, known)
        return plan_indexes(tenants, known, threshold)

    async def refresh(
        self, *, begins: StepHook | None = None, done: StepHook | None = None
    ) -> list[IndexStep] | None:
        """Build, rebuild and drop indexes as planned; return the steps done.

        Returns None while another process does it, and [] if the engine maintains its own indexes.

        Args:
            begins: called before each step.
            done: called after each step.

        Raises:
            StorageUnavailable: if the database user may not build indexes; the message says what is
                missing.
            CapabilityMissing: on a Citus cluster.
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
        """Maintain the indexes in the background if it is time. Returns immediately."""
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
        except CapabilityMissing:
            return  # a Citus cluster has none, which is no fault of its worker
        except MemoryCoreError as error:
            log.warning("the indexes of large tenants are not maintained: %s", error)


def _log(step: IndexStep) -> None:
    vectors = 0 if step.tenant is None else step.tenant.vectors
    log.info("index of a tenant with %d vectors: %s", vectors, step.action)
