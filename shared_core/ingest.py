"""Remembering turns of a thread, and things said outright: embed, then one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import get_args

from shared_core.domain import (
    Event,
    JsonValue,
    MemoryId,
    MemoryKind,
    NewMemory,
    Role,
    Scope,
    ThreadId,
)
from shared_core.embedding import Embedding
from shared_core.errors import InvalidInput
from shared_core.ids import uuid7
from shared_core.namespaces import check_label, clean_text, memories_namespace, scope_path
from shared_core.ports import Clock, EventRow, MemoryRow, Storage
from shared_core.text import has_words, search_terms

FEW_EVENTS = 4
"""Up to so many turns are embedded without asking first which of them are known."""

TEXT_FIELD = "text"
"""Name of the vector made of a memory's text."""


async def append_events(
    storage: Storage,
    embedding: Embedding,
    scope: Scope,
    thread_id: ThreadId,
    events: Sequence[Event],
) -> set[str]:
    """Append turns to a thread and remember each that has text; return the ids that were new.

    The same event id in the same thread is ingested once, however often it comes; a turn that was
    forgotten stays forgotten. What is returned is found by the next recall.
    """
    scope_path(scope)
    check_label(thread_id, "thread_id")
    fresh = {event.event_id: _checked(event) for event in reversed(events)}
    if len(fresh) > FEW_EVENTS:
        for known in await storage.known_event_ids(scope, thread_id, list(fresh)):
            del fresh[known]
    if not fresh:
        return set()
    rows = [_event_row(event, thread_id) for event in reversed(fresh.values())]
    namespace = memories_namespace(scope)
    vectors = await embedding.rows(
        [
            ((namespace, str(row.memory_id)), TEXT_FIELD, row.event.text)
            for row in rows
            if row.memory_id
        ]
    )
    return await storage.append_events(scope, thread_id, rows, vectors)


async def remember(
    storage: Storage,
    embedding: Embedding,
    clock: Clock,
    scope: Scope,
    memories: Sequence[NewMemory],
) -> list[str]:
    """Write memories that came from no thread; return their keys, in order.

    A key that exists in the scope is replaced. Raises InvalidInput for a memory without text.
    """
    scope_path(scope)
    rows = [_memory_row(memory, scope, clock()) for memory in memories]
    distinct = {row.key: row for row in rows}
    vectors = await embedding.rows(
        [((row.namespace, row.key), TEXT_FIELD, row.text) for row in distinct.values()]
    )
    if distinct:
        await storage.put_memories(list(distinct.values()), vectors)
    return [row.key for row in rows]


def memory_value(
    kind: str,
    text: str,
    *,
    author: str | None = None,
    occurred_at: datetime | None = None,
    thread_id: str | None = None,
    metadata: Mapping[str, JsonValue] | None = None,
) -> dict[str, JsonValue]:
    """Return what a key-value face shows of a memory: always "kind" and "content"."""
    shown: dict[str, JsonValue] = {"kind": kind, "content": text}
    if author:
        shown["author"] = author
    if occurred_at:
        shown["occurred_at"] = occurred_at.astimezone(UTC).isoformat()
    if thread_id:
        shown["thread_id"] = thread_id
    if metadata:
        shown["metadata"] = dict(metadata)
    return shown


def _checked(event: Event) -> Event:
    check_label(event.event_id, "event_id")
    check_moment(event.occurred_at, f"occurred_at of event {event.event_id!r}")
    if event.role not in get_args(Role):
        raise InvalidInput(
            f"role {event.role!r} of event {event.event_id!r} is not known: take one of"
            f" {', '.join(get_args(Role))}"
        )
    return replace(event, text=clean_text(event.text).strip(), author=clean_text(event.author))


def check_moment(moment: datetime, what: str) -> None:
    """Raise InvalidInput, naming what, for a moment without a time zone or out of range in UTC."""
    if moment.tzinfo is None:
        raise InvalidInput(
            f"{what} has no time zone: give an aware datetime, e.g. datetime.now(UTC)"
        )
    try:
        moment.astimezone(UTC)
    except OverflowError as error:
        raise InvalidInput(f"{what} is out of range in UTC: {moment}") from error


def _event_row(event: Event, thread_id: ThreadId) -> EventRow:
    terms = search_terms(event.text)
    value = memory_value(
        "episodic",
        event.text,
        author=event.author,
        occurred_at=event.occurred_at,
        thread_id=thread_id,
        metadata=event.metadata,
    )
    memory_id = MemoryId(uuid7()) if has_words(event.text) else None
    return EventRow(event=event, memory_id=memory_id, value=value, terms=terms)


def _memory_row(memory: NewMemory, scope: Scope, now: datetime) -> MemoryRow:
    text = clean_text(memory.text).strip()
    if not text:
        raise InvalidInput("a memory needs text: this one is empty or blank")
    if memory.kind not in get_args(MemoryKind):
        raise InvalidInput(
            f"kind {memory.kind!r} is not known: take one of {', '.join(get_args(MemoryKind))}"
        )
    if not 1 <= memory.importance <= 10:
        raise InvalidInput(f"importance must be between 1 and 10, not {memory.importance}")
    memory_id = MemoryId(uuid7())
    key = str(memory_id) if memory.key is None else check_label(memory.key, "memory key")
    occurred_at = memory.occurred_at or now
    for name, moment in (("occurred_at", occurred_at), ("expires_at", memory.expires_at)):
        if moment is not None:
            check_moment(moment, name)
    author = None if memory.author is None else clean_text(memory.author)
    return MemoryRow(
        memory_id=memory_id,
        namespace=memories_namespace(scope),
        key=key,
        kind=memory.kind,
        text=text,
        value=memory_value(
            memory.kind,
            text,
            author=author,
            occurred_at=occurred_at,
            metadata=memory.metadata,
        ),
        terms=search_terms(text),
        occurred_at=occurred_at,
        author=author,
        importance=float(memory.importance),
        expires_at=memory.expires_at,
    )
