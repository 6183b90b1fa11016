"""OceanBaseStorage: recall."""

from __future__ import annotations

from shared_core.storage.oceanbase.base import OceanBasePart


class OceanBaseRecall(OceanBasePart):
    """See the port."""
