"""OceanBaseStorage: export and import."""

from __future__ import annotations

from shared_core.storage.oceanbase.base import OceanBasePart


class OceanBaseTransfer(OceanBasePart):
    """See the port."""
