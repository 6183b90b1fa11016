"""The memory as a server of the Model Context Protocol.

Only this room imports the SDK, which comes with the extra [mcp].
"""

from __future__ import annotations

from shared_core.core.extras import from_extras

with from_extras("the MCP server", "mcp"):
    from shared_core.mcp import server

__all__ = ["server"]
