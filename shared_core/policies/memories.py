"""Memories as rows, each with the ids of the turns it was derived from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from shared_core.core.domain import AsOf, Memory, MemoryId, Scope, ThreadId
from shared_core.core.namespaces import from_path, memories_namespace, path_end, rest_of, scope_path
from shared_core.policies.facts import sources_of
from shared_core.ports.operations import (
    Condition,
    Join,
    Policy,
    Row,
    Select,
    compare,
    equal,
    is_null,
    one_of,
    open_after,
)

MEMORY = (
    "memory_id", "namespace", "key", "kind", "text", "value", "author", "importance", "occurred_at",
    "created_at", "updated_at", "expires_at", "superseded_at", "thread_id",
)  # fmt: skip
"""The columns of memories that memory_of() takes."""


def memory_of(scope: Scope, row: Row, sources: Mapping[UUID, set[str]]) -> Memory:
    """Return the memory in a row of MEMORY; sources: as sources_of() returns them."""
    values = dict(zip(MEMORY, row, strict=True))
    thread_id = values.pop("thread_id")
    return Memory(
        **values
        | {
            "memory_id": MemoryId(values["memory_id"]),
            "namespace": from_path(scope_path(scope) + values["namespace"][1:]),
            "thread_id": thread_id and ThreadId(thread_id),
            "source_event_ids": tuple(sorted(sources.get(values["memory_id"], ()))),
        }
    )


def select_sources(memory_ids: Sequence[UUID]) -> Select:
    """Return what reads the turns of memories, for sources_of()."""
    columns = ("memory_id", "event_id")
    return Select("memory_sources", columns, (one_of("memory_id", memory_ids),), is_distinct=True)


def recent_memories(scope: Scope, limit: int, now: datetime) -> Policy[list[Memory]]:
    """Return the newest living memories of a user that no reflection wrote, newest first."""
    where = (*_in_recall(scope, now), is_null("superseded_at"), compare("kind", "<>", "reflection"))
    order = ("-occurred_at", "-memory_id")
    [rows] = yield [Select("memories", MEMORY, where, order=order, limit=limit)]
    [turns] = yield [select_sources([row[0] for row in rows])]
    sources = sources_of(turns)
    return [memory_of(scope, row, sources) for row in rows]


def select_summary(
    scope: Scope, thread_id: ThreadId, as_of: AsOf | None, now: datetime
) -> list[Select]:
    """Return what reads the summary of a thread with its turns, now or as of a moment.

    The selects of newest_summary(). A thread has few summaries, so all that fit are read.
    """
    known, valid = (as_of.known, as_of.valid) if as_of else (None, None)
    where = [
        equal("thread_id", thread_id),
        equal("kind", "summary"),
        *_in_recall(scope, now),
        is_null("superseded_at") if known is None else open_after("superseded_at", known),
    ]
    if known is not None:
        where.append(compare("updated_at", "<=", known))
    if valid is not None:
        where.append(compare("occurred_at", "<=", valid))
    sources = Join("memory_sources", "s", (("memory_id", "memory_id"),))
    columns = ("memory_id", "s.event_id")
    return [
        Select("memories", MEMORY, tuple(where)),
        Select("memories", columns, tuple(where), (sources,), is_distinct=True),
    ]


def newest_summary(scope: Scope, rows: Sequence[Row], turns: Sequence[Row]) -> Memory | None:
    """Return the summary with its full provenance from the rows of select_summary(), or None."""
    sources = sources_of(turns)
    found = [memory_of(scope, row, sources) for row in rows]
    newest = max(found, key=lambda one: (one.occurred_at, one.memory_id), default=None)
    # As of a moment before its retirement it had not been replaced.
    return newest and replace(newest, superseded_at=None)


def _in_recall(scope: Scope, now: datetime) -> list[Condition]:
    """Return the conditions that a memory of a scope has neither faded nor expired."""
    path = rest_of(memories_namespace(scope))
    below = (compare("namespace", ">=", path), compare("namespace", "<", path_end(path)))
    return [*below, is_null("demoted_at"), open_after("expires_at", now)]
