"""OceanBaseStorage: AccessStorage: how often memories were read."""

from __future__ import annotations

from shared_core.storage.oceanbase.base import OceanBasePart


class OceanBaseAccesses(OceanBasePart):
    """See the port."""
