"""OceanBaseStorage: changing the model of the vectors."""

from __future__ import annotations

from shared_core.storage.oceanbase.base import OceanBasePart


class OceanBaseReembed(OceanBasePart):
    """See the port."""
