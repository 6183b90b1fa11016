"""Two memories that look at what is known at the same time, before either writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from shared_core import MemoryEngine


def meeting(memory: MemoryEngine, verb: str, barrier: asyncio.Barrier) -> None:
    """Let the first call of a verb of the storage wait until the other memory made it, too."""
    look: Callable[..., Any] = getattr(memory._storage, verb)

    async def looks(*given: Any) -> Any:
        found = await look(*given)
        if waiting:
            waiting.clear()
            await barrier.wait()
        return found

    waiting = [True]
    setattr(memory._storage, verb, looks)
