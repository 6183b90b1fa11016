"""The memory that an application serves."""

from __future__ import annotations

from starlette.requests import Request

from shared_core.engine import MemoryEngine


async def memory_of(request: Request) -> MemoryEngine:
    """Return the memory behind the application of a request."""
    memory: MemoryEngine = request.app.state.memory
    return memory
