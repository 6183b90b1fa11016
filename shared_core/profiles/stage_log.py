"""The record of a pipeline's stages: what went in and came out, in counts, and how long it took."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from shared_core.core.domain import JsonValue
from shared_core.ports.profiles import StageRecord, StageStatus

if TYPE_CHECKING:
    from shared_core.ports.storage import Clock

STAGES: Final = ("modification", "update_profile", "update_events", "theory_of_mind")


@dataclass(slots=True)
class Stages:
    """Times the stages of one run, and keeps their records; that of a stage done anew replaces."""

    clock: Clock
    records: dict[str, StageRecord] = field(default_factory=dict)

    @contextmanager
    def timed(self, stage: str, given: Mapping[str, JsonValue]) -> Iterator[dict[str, JsonValue]]:
        """Record a stage; fill the dict with what came out, "warning" with why it is less."""
        began, start, out = self.clock(), time.perf_counter(), dict[str, JsonValue]()

        def record(status: StageStatus, error: str | None) -> StageRecord:
            return StageRecord(
                stage=stage, status=status, input=given, output=out, started_at=began,
                duration_s=time.perf_counter() - start, error=error,
            )  # fmt: skip

        try:
            yield out
        except BaseException as failure:
            self.records[stage] = record("error", type(failure).__name__)
            raise
        warning = out.pop("warning", None)
        why = None if warning is None else str(warning)
        self.records[stage] = record("warning" if why else "success", why)

    @property
    def done(self) -> tuple[StageRecord, ...]:
        """The records in the order of the stages."""
        return tuple(self.records[name] for name in STAGES if name in self.records)
