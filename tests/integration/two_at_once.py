"""Lets two memories read the same state before either writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from shared_core import MemoryEngine


def meeting(memory: MemoryEngine, verb: str, barrier: asyncio.Barrier) -> None:
    """Make the first call of a method of storage.runs wait for that of the other memory."""
    runs = memory._storage.runs
    look: Callable[..., Any] = getattr(runs, verb)

    async def looks(*given: Any) -> Any:
        found = await look(*given)
        if waiting:
            waiting.clear()
            await barrier.wait()
        return found

    waiting = [True]
    setattr(runs, verb, looks)
