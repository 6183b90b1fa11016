"""What `hippocampus mcp` does: finds the SDK, and runs the server."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from shared_core.core.event_loops import handling_end_signals
from shared_core.engine import MemoryEngine
from shared_core.errors import InvalidInput
from shared_core.jobs.api_tokens import FirstToken


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
    if http is None:
        await mcp.serve_stdio(mcp.build(memory, app, user), memory)
        return
    host, port = mcp.address_of(http)
    told: list[int] = []
    with handling_end_signals(told.append):
        async with memory:
            if not told:
                await _serve_http(memory, app, user, host, port, told)


async def _serve_http(
    memory: MemoryEngine, app: str, user: str | None, host: str, port: int, told: Sequence[int]
) -> None:
    """Serve at an address until told to end; at once if that is told before the server is up."""
    from shared_core.mcp import server as mcp
    from shared_core.mcp.door import Door

    first = FirstToken(memory.tokens)
    with_tokens = await first.is_made()
    with mcp.listen(host, port, with_tokens=with_tokens) as listening:
        server = mcp.build(memory, app, user)
        guarded = "a token is needed" if with_tokens else "no token is needed"
        print(f"Serving {mcp.url_of(listening)} ({guarded})", file=sys.stderr, flush=True)  # noqa: T201
        door = Door(app, memory.tokens.verify, first.is_made)
        if told:
            return
        await mcp.serve_http(server, memory, listening, door=door)
