"""OceanBaseStorage: session logs and their states."""

from __future__ import annotations

from shared_core.storage.oceanbase.base import OceanBasePart


class OceanBaseSessions(OceanBasePart):
    """See the port."""
