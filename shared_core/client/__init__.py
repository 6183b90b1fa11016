"""The memory over HTTP, as a typed async client: HippocampusClient.

Only this package knows HTTPX, which comes with the extra [client]. Answers are models of
`shared_core.wire`.
"""

from __future__ import annotations

from shared_core.core.extras import from_extras

with from_extras("the HTTP client", "client"):
    from shared_core.client.hippocampus_client import HippocampusClient
from shared_core.client.operations.parameters import (
    AsOfParam,
    MessageParam,
    PolicyParam,
    RememberedMemoryParam,
    TurnParam,
)

__all__ = [
    "AsOfParam",
    "HippocampusClient",
    "MessageParam",
    "PolicyParam",
    "RememberedMemoryParam",
    "TurnParam",
]
