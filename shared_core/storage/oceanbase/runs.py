"""OceanBaseStorage: runs that turn turns into knowledge."""

from __future__ import annotations

from shared_core.storage.oceanbase.base import OceanBasePart


class OceanBaseRuns(OceanBasePart):
    """See the port."""
