"""OceanBaseStorage: the knowledge graph."""

from __future__ import annotations

from shared_core.storage.oceanbase.base import OceanBasePart


class OceanBaseGraph(OceanBasePart):
    """See the port."""
