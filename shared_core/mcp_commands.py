"""What `hippocampus mcp` does: finds the SDK, and runs the server."""

from __future__ import annotations

import sys

from shared_core.engine import MemoryEngine
from shared_core.errors import InvalidInput


async def serve(memory: MemoryEngine, app: str, user: str | None, http: str | None) -> None:
    """Serve on standard input and output, or at HOST:PORT. Raises InvalidInput without the SDK."""
    try:
        from shared_core.mcp import server as mcp
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in {"mcp", "mcp_types", "uvicorn"}:
            raise
        raise InvalidInput(
            "hippocampus mcp needs the SDK of the Model Context Protocol:"
            " pip install 'pg-hippocampus[mcp]'"
        ) from error
    server = mcp.build(memory, app, user)
    if http is None:
        await mcp.serve_stdio(server, memory)
        return
    with mcp.listen(http, with_tokens=False) as listening:
        print(f"Serving {mcp.url_of(listening)}", file=sys.stderr, flush=True)  # noqa: T201
        await mcp.serve_http(server, memory, listening)
