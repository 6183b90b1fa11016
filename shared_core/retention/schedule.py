"""Forgets what has faded now and then, in the background or in a worker; one at a time."""

from __future__ import annotations

import logging
from datetime import timedelta
from uuid import uuid4

from shared_core.core.event_loops import PeriodicTask
from shared_core.errors import MemoryCoreError
from shared_core.lifecycle import Handle
from shared_core.ports.retention import FATES, TaskRun
from shared_core.retention import cleanup
from shared_core.retention.cleanup import RetentionReport

log = logging.getLogger("hippocampus")

TASK = "forget_faded"
LEASE_S = 600.0
"""So long after its last batch a worker that fell silent gives way to another."""
FIRST_LOOK_S = 600.0
LOOK_EVERY_S = 900.0


class ForgettingSchedule(PeriodicTask):
    """When policies are applied to all there is: engine.retention.schedule.

    every_h: hours from one run to the next, of all processes together; None: never by itself.
    in_background: False leaves it to others; else a process that writes looks every quarter of an
    hour whether it is time, the first time after ten minutes.
    """

    def __init__(
        self, handle: Handle, every_h: float | None, *, in_background: bool = True
    ) -> None:
        super().__init__()
        self._handle = handle
        self._clock = handle.clock
        self._every_h = every_h
        self._in_background = in_background and every_h is not None

    async def run_if_due(self) -> RetentionReport | None:
        """Forget what has faded if it is time and no other worker is at it; else None."""
        if self._every_h is None:
            return None
        storage = await self._handle.storage()
        worker_id = uuid4().hex
        if not await storage.retention.take_turn(TASK, worker_id, self._clock(), LEASE_S):
            return None

        async def goes_on() -> bool:
            return await storage.retention.keep_turn(TASK, worker_id, self._clock(), LEASE_S)

        report = await cleanup.forget_faded(storage, self._clock, None, None, goes_on=goes_on)
        now = self._clock()
        next_at = now + timedelta(hours=self._every_h)
        told: dict[str, int] = {fate: report.of(fate) for fate in FATES}
        result = told | {"retimed": report.retimed, "batches": report.batches}
        await storage.retention.end_turn(TASK, worker_id, now, next_at, result)
        counted = ", ".join(f"{count} {fate}" for fate, count in told.items())
        log.info("forgetting took %.2f s: %s", report.duration_s, counted)
        return report

    async def last(self) -> TaskRun | None:
        """Return what the last run of any process did; None before the first."""
        storage = await self._handle.storage()
        return await storage.retention.last_turn(TASK)

    def _waits_s(self) -> tuple[float, float]:
        return FIRST_LOOK_S, LOOK_EVERY_S

    async def _look(self) -> None:
        try:
            await self.run_if_due()
        except MemoryCoreError as error:
            log.warning("what has faded is not forgotten: %s", error)
