"""OceanBaseStorage: forgetting."""

from __future__ import annotations

from shared_core.storage.oceanbase.base import OceanBasePart


class OceanBaseRetention(OceanBasePart):
    """See the port."""
