"""OceanBaseStorage: memories by namespace and key."""

from __future__ import annotations

from shared_core.storage.oceanbase.base import OceanBasePart


class OceanBaseItems(OceanBasePart):
    """See the port."""
