"""OceanBaseStorage: turns that are remembered, read again, and forgotten."""

from __future__ import annotations

from shared_core.storage.oceanbase.base import OceanBasePart


class OceanBaseEvents(OceanBasePart):
    """See the port."""
