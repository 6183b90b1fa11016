"""Does something else between the reads of a run and its writes."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from shared_core import MemoryEngine
from shared_core.policies.run_reads import known_of


def while_reading(
    memory: MemoryEngine,
    *,
    before: Callable[[], Awaitable[object]] | None = None,
    after: Callable[[], Awaitable[object]] | None = None,
) -> None:
    """Wait for calls before and after each time that a run reads what is known."""
    storage: Any = memory._storage
    query = storage.query

    async def looks(tenant: str, reader: Callable[[], Any]) -> Any:
        is_known = isinstance(reader, partial) and reader.func is known_of
        if is_known and before:
            await before()
        found = await query(tenant, reader)
        if is_known and after:
            await after()
        return found

    storage.query = looks


def meeting(memory: MemoryEngine, what: str, barrier: asyncio.Barrier) -> None:
    """Make the first reading wait for that of the other memory.

    what: "known", or a method of storage.runs.
    """
    waiting = [True]

    async def meet() -> None:
        if waiting:
            waiting.clear()
            await barrier.wait()

    if what == "known":
        while_reading(memory, after=meet)
        return
    runs = memory._storage.runs
    look: Callable[..., Any] = getattr(runs, what)

    async def looks(*given: Any) -> Any:
        found = await look(*given)
        await meet()
        return found

    setattr(runs, what, looks)
