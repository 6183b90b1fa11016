"""OceanBaseStorage: bearer tokens of the HTTP API."""

from __future__ import annotations

from shared_core.storage.oceanbase.base import OceanBasePart


class OceanBaseTokens(OceanBasePart):
    """See the port."""
