"""OceanBaseStorage: indexes of large tenants."""

from __future__ import annotations

from shared_core.storage.oceanbase.base import OceanBasePart


class OceanBaseIndexes(OceanBasePart):
    """See the port."""
