"""What `hippocampus mcp` does: finds the SDK, and runs the server."""

from __future__ import annotations

import sys

from shared_core.api_tokens import FirstToken
from shared_core.engine import MemoryEngine
from shared_core.errors import InvalidInput


async def serve(memory: MemoryEngine, app: str, user: str | None, http: str | None) -> None:
    """Serve on standard input and output, or at HOST:PORT. Raises InvalidInput without the SDK."""
    try:
        from shared_core.mcp import server as mcp
        from shared_core.mcp.door import Door
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in {"mcp", "mcp_types", "uvicorn"}:
            raise
        raise InvalidInput(
            "hippocampus mcp needs the SDK of the Model Context Protocol:"
            " pip install 'pg-hippocampus[mcp]'"
        ) from error
    if http is None:
        await mcp.serve_stdio(mcp.build(memory, app, user), memory)
        return
    host, port = mcp.address_of(http)
    async with memory:
        first = FirstToken(memory.tokens)
        with_tokens = await first.is_made()
        with mcp.listen(host, port, with_tokens=with_tokens) as listening:
            server = mcp.build(memory, app, user)
            guarded = "a token is needed" if with_tokens else "no token is needed"
            print(f"Serving {mcp.url_of(listening)} ({guarded})", file=sys.stderr, flush=True)  # noqa: T201
            door = Door(app, memory.tokens.verify, first.is_made)
            await mcp.serve_http(server, memory, listening, door=door)
