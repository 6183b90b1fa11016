"""Waiting no longer than told, whatever the other side does."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_left_alone: set[asyncio.Task[Any]] = set()


async def in_time(work: Coroutine[Any, Any, T], seconds: float) -> T:
    """Return the result of work, or raise TimeoutError at the deadline.

    Work is cancelled then and not waited for: a driver whose server has stopped answering takes
    its time to give up. A caller that is cancelled cancels the work as well.
    """
    task = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        task.cancel()
        raise
    if done:
        return task.result()
    _left_alone.add(task)
    task.add_done_callback(_gone)
    task.cancel()
    raise TimeoutError


def _gone(task: asyncio.Task[Any]) -> None:
    _left_alone.discard(task)
    if not task.cancelled():
        task.exception()  # looked at, so that asyncio does not complain
