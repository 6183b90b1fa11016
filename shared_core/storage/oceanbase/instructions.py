"""OceanBaseStorage: versioned instructions."""

from __future__ import annotations

from shared_core.storage.oceanbase.base import OceanBasePart


class OceanBaseInstructions(OceanBasePart):
    """See the port."""
