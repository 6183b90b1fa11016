"""OceanBaseStorage: the queue."""

from __future__ import annotations

from shared_core.storage.oceanbase.base import OceanBasePart


class OceanBaseJobs(OceanBasePart):
    """See the port."""
