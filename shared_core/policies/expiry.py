"""Deleting expired memories, and expired turns that are no memory, such as small talk."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from shared_core.core.namespaces import MEMORIES, to_path
from shared_core.policies.forgetting import NAMED, TurnKey, forget_named, select_turns
from shared_core.ports.operations import (
    Join,
    Policy,
    Select,
    after,
    begins_with,
    compare,
    equal,
    is_null,
    one_of,
    one_of_rows,
)

_TURN = ("thread_id", "event_id")


def sweep(path: str, limit: int, now: datetime) -> Policy[int]:
    """Delete expired memories below a path, and expired turns; return how many memories go.

    limit: maximum number of expired memories, and of turns. What others write now is left alone.
    """
    below = (begins_with("namespace", path), compare("expires_at", "<=", now))
    expired = Select("memories", NAMED, below, order=("expires_at",), limit=limit, lock="skip")
    [named] = yield [expired]
    turns: set[TurnKey] = set()
    if to_path((MEMORIES,)).startswith(path):
        turns = yield from _expired_turns(limit, now)
    episodic = [row[0] for row in named if row[1] == "episodic"]
    if episodic:
        [said] = yield [select_turns(one_of("memory_id", episodic))]
        turns |= {(row[0], row[1]) for row in said}
    if not named and not turns:
        return 0
    return (yield from forget_named(named, turns, now))


def _expired_turns(limit: int, now: datetime) -> Policy[set[TurnKey]]:
    """Return expired turns without a memory, page by page until there are enough."""
    found: set[TurnKey] = set()
    order = ("expires_at", *_TURN)
    behind: tuple[Any, ...] = ()
    memories = Join("memories", "m", (("memory_id", "memory_id"),))
    while True:
        where = (compare("expires_at", "<=", now), *behind)
        columns = (*order, "memory_seq")
        [page] = yield [Select("events", columns, where, order=order, limit=limit)]
        named = one_of_rows(_TURN, [row[1:3] for row in page])
        episodic = (named, equal("m.kind", "episodic"))
        remembered, unlogged = yield [
            Select("memory_sources", _TURN, episodic, (memories,), is_distinct=True),
            Select("events", _TURN, (named, is_null("payload"))),
        ]
        kept, forgotten = set(remembered), {row[1:3] for row in page if row[3] is None}
        gone = {row[1:3] for row in page} - kept - (forgotten - set(unlogged))
        found |= {(thread_id, event_id) for thread_id, event_id in gone}
        if len(page) < limit or len(found) >= limit:
            return found
        behind = (after(order, page[-1][:3]),)
