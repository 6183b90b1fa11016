"""The base of all parts of OceanBaseStorage: database, clock, strength."""

from __future__ import annotations

from shared_core.core.retention_policy import Strength
from shared_core.ports.storage import Clock
from shared_core.storage.oceanbase.connection.database import OceanBaseDatabase


class OceanBasePart:
    """A part of the storage port; storage.OceanBaseStorage composes all parts."""

    def __init__(
        self, database: OceanBaseDatabase, clock: Clock, strength: Strength | None = None
    ) -> None:
        self._database = database
        self._clock = clock
        self._strength = strength
