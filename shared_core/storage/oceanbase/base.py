"""What every part of OceanBaseStorage has: the database, the time of day, the caller's strength."""

from __future__ import annotations

from shared_core.core.retention_policy import Strength
from shared_core.ports.storage import Clock
from shared_core.storage.oceanbase.connection.database import OceanBaseDatabase


class OceanBasePart:
    """A part of the storage port; parts meet in storage.OceanBaseStorage."""

    def __init__(
        self, database: OceanBaseDatabase, clock: Clock, strength: Strength | None = None
    ) -> None:
        self._database = database
        self._clock = clock
        self._strength = strength
