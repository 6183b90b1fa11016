"""OceanBaseStorage: stretches of time."""

from __future__ import annotations

from shared_core.storage.oceanbase.base import OceanBasePart


class OceanBaseSlices(OceanBasePart):
    """See the port."""
