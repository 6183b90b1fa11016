"""OceanBaseStorage: sessions of process_memory."""

from __future__ import annotations

from shared_core.storage.oceanbase.base import OceanBasePart


class OceanBaseConversations(OceanBasePart):
    """See the port."""
