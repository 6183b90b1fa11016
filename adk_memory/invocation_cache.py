"""What was found during one run of a runner, so that the same question is asked once.

A turn with one tool call shows the memory to the model twice, and preload_memory, load_memory and
the plugin each ask on their own. begin() opens a cache for everything that runs below it: child
tasks inherit it, and a run inside a run has its own. Outside of a run nothing is kept.
"""

from __future__ import annotations

import time
from collections.abc import Hashable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TypeAlias

from google.adk.memory.base_memory_service import SearchMemoryResponse

Key: TypeAlias = tuple[Hashable, ...]
"""(app_name, user_id, query), with the asked service before it where there are several."""

MAX_AGE_S = 60.0
"""How long an answer counts: a run that was cancelled never says that it ended."""

MAX_DEPTH = 16
"""How many runs inside each other are followed, for the same reason."""


@dataclass(eq=False, slots=True)
class _Invocation:
    invocation_id: str
    outer: _Invocation | None
    depth: int
    ended: bool = False
    found: dict[Key, tuple[float, SearchMemoryResponse]] = field(default_factory=dict)


_innermost: ContextVar[_Invocation | None] = ContextVar("hippocampus_invocation", default=None)


def begin(invocation_id: str) -> None:
    """Open the cache of an invocation for the current context and what starts from it."""
    outer = _live()
    if outer is not None and outer.depth == MAX_DEPTH:
        outer = None
    _innermost.set(_Invocation(invocation_id, outer, outer.depth + 1 if outer else 1))


def end(invocation_id: str) -> None:
    """Close the cache of an invocation, also for contexts that still point to it.

    May be called in another context than begin(), as happens to abandoned generators; so no token
    is reset here.
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
    """Return a copy of what was found for a key in this invocation, or None."""
    run = _live()
    found = run.found.get(key) if run else None
    if found is None or time.monotonic() - found[0] > MAX_AGE_S:
        return None
    return found[1].model_copy(deep=True)


def store(key: Key, response: SearchMemoryResponse) -> None:
    """Keep what was found for a key until the invocation ends or something is written."""
    run = _live()
    if run:
        run.found[key] = (time.monotonic(), response.model_copy(deep=True))


def clear() -> None:
    """Forget all answers, those of the enclosing invocations too: the memory has changed."""
    run = _live()
    while run is not None:
        run.found.clear()
        run = run.outer


def _live() -> _Invocation | None:
    run = _innermost.get()
    while run is not None and run.ended:
        run = run.outer
    return run
