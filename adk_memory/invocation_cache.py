"""Caches the searches of one run of a runner, so that each query is searched once.

A turn with one tool call searches twice, and preload_memory, load_memory and the plugin each
search on their own. begin() opens a cache for the current context: child tasks inherit it, and a
nested run has its own. Outside of a run nothing is cached.
"""

from __future__ import annotations

import time
from collections.abc import Hashable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TypeAlias

from google.adk.memory.base_memory_service import SearchMemoryResponse

Key: TypeAlias = tuple[Hashable, ...]
"""(service id, app_name, user_id, query)."""

MAX_AGE_S = 60.0
"""Seconds that a result stays valid: a cancelled run never calls end()."""

MAX_DEPTH = 16
"""Maximum depth of nested runs, because a cancelled run never calls end()."""


@dataclass(eq=False, slots=True)
class _Invocation:
    invocation_id: str
    outer: _Invocation | None
    depth: int
    ended: bool = False
    found: dict[Key, tuple[float, SearchMemoryResponse]] = field(default_factory=dict)


_innermost: ContextVar[_Invocation | None] = ContextVar("hippocampus_invocation", default=None)


def begin(invocation_id: str) -> None:
    """Open the cache of an invocation for the current context and its child tasks."""
    outer = _live()
    if outer is not None and outer.depth == MAX_DEPTH:
        outer = None
    _innermost.set(_Invocation(invocation_id, outer, outer.depth + 1 if outer else 1))


def end(invocation_id: str) -> None:
    """Close the cache of an invocation, also for contexts that still point to it.

    It resets no token: an abandoned generator calls it in another context than begin().
    """
    run = _innermost.get()
    while run is not None:
        if run.invocation_id == invocation_id and not run.ended:
            run.ended = True
            run.found.clear()
            break
        run = run.outer
    _innermost.set(_live())


def cached(key: Key) -> SearchMemoryResponse | None:
    """Return a copy of the cached response for a key in this invocation, or None."""
    run = _live()
    found = run.found.get(key) if run else None
    if found is None or time.monotonic() - found[0] > MAX_AGE_S:
        return None
    return found[1].model_copy(deep=True)


def store(key: Key, response: SearchMemoryResponse) -> None:
    """Cache the response for a key until the invocation ends or a write clears the cache."""
    run = _live()
    if run:
        run.found[key] = (time.monotonic(), response.model_copy(deep=True))


def clear() -> None:
    """Clear the caches of this and all enclosing invocations, after the memory has changed."""
    run = _live()
    while run is not None:
        run.found.clear()
        run = run.outer


def _live() -> _Invocation | None:
    run = _innermost.get()
    while run is not None and run.ended:
        run = run.outer
    return run
