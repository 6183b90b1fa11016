"""OceanBaseStorage: facts by slot and in time."""

from __future__ import annotations

from shared_core.storage.oceanbase.base import OceanBasePart


class OceanBaseFacts(OceanBasePart):
    """See the port."""
