"""The storage port on real engines."""

from __future__ import annotations

from shared_core.core.extras import from_extras
from shared_core.core.retention_policy import Strength
from shared_core.core.uri_validation import is_oceanbase
from shared_core.ports.storage import Clock, Storage
from shared_core.settings import Settings


def open_storage(settings: Settings, clock: Clock, strength: Strength | None = None) -> Storage:
    """Return the storage that the settings name; it connects when it is opened."""
    # Imported here so that a user of one engine does not pay for the driver of another.
    if is_oceanbase(settings.uri):
        with from_extras("SeekDB or OceanBase", "oceanbase"):
            from shared_core.storage.oceanbase.storage import OceanBaseStorage

        return OceanBaseStorage(settings, clock, strength)
    from shared_core.storage.postgres.storage import PostgresStorage

    return PostgresStorage(settings, clock, strength)
