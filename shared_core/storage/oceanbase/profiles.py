"""OceanBaseStorage: versioned profiles."""

from __future__ import annotations

from shared_core.storage.oceanbase.base import OceanBasePart


class OceanBaseProfiles(OceanBasePart):
    """See the port."""
