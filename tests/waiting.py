"""Waits for what happens elsewhere."""

import asyncio
from collections.abc import Callable


async def until(holds: Callable[[], object]) -> None:
    """Return when a condition holds. The timeout of the run ends a test in which it never does."""
    while not holds():  # noqa: ASYNC110  nothing tells of it
        await asyncio.sleep(0.01)
