"""Turns of threads, the memories drawn from them, and reads along the line of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from shared_core.core.domain import (
    AsOf,
    Event,
    JsonValue,
    Memory,
    MemoryId,
    MemoryKind,
    Namespace,
    Scope,
    ThreadId,
)
from shared_core.ports.items import ItemAddress, VectorRows
from shared_core.ports.jobs import NewJob


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    """A turn to append. memory_id is None when the turn has no text to remember.

    terms: the words of its text for full-text search, in order, with repeats. value: what a
    key-value face shows, without the text. logged: the very text is in the session log of the
    thread already and is not sent again.
    """

    event: Event
    memory_id: MemoryId | None
    logged: bool
    value: Mapping[str, JsonValue]
    terms: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryQuery:
    """Living memories below a namespace of a scope, newest first; as of now, or of a moment.

    thread_id: only those drawn from that thread.
    """

    scope: Scope
    namespace: Namespace
    kinds: Sequence[MemoryKind] | None
    limit: int
    offset: int
    as_of: AsOf | None = None
    thread_id: ThreadId | None = None


class EventStorage(Protocol):
    """Turns of threads, and the memories of a scope."""

    async def known_turns(
        self, scope: Scope, thread_id: ThreadId, event_ids: Sequence[str]
    ) -> Mapping[str, bytes | None]:
        """Return those of the ids that are here: None if remembered or forgotten.

        What a session log holds and memory does not know comes with the SHA-256 of its text.
        """

    async def append_events(
        self,
        scope: Scope,
        thread_id: ThreadId,
        rows: Sequence[EventRow],
        vectors: VectorRows | None,
        job: NewJob | None = None,
    ) -> set[str]:
        """Append the turns that are new, remember them, and return their ids; enqueue the job."""

    async def thread_events(self, scope: Scope, thread_id: ThreadId, limit: int) -> Sequence[Event]:
        """Return the last of what is remembered of a thread, in the order it was said."""

    async def thread_history(
        self, scope: Scope, thread_id: ThreadId, limit: int, as_of: AsOf | None = None
    ) -> Sequence[Event]:
        """Return the last turns of a thread with words in them, remembered or logged, in order."""

    async def forget_turns(
        self, scope: Scope, thread_id: ThreadId, event_ids: Sequence[str]
    ) -> int:
        """Delete the memories of turns, and what was drawn only from them."""

    async def forget_scope(self, scope: Scope, thread_id: ThreadId | None) -> int:
        """Erase what is remembered of a scope, or of one of its threads; session logs stay."""

    async def list_memories(self, query: MemoryQuery) -> Sequence[Memory]: ...

    async def memories_without_vectors(
        self, scope: Scope, thread_id: ThreadId, model: str, limit: int
    ) -> Sequence[tuple[ItemAddress, str]]:
        """Return addresses and texts of turns of a thread that the model did not embed yet."""

    async def add_vectors(self, scope: Scope, vectors: VectorRows) -> None: ...


SliceOrder = Literal["newest", "oldest"]
BucketUnit = Literal["hour", "day", "week", "month", "year"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceQuery:
    """What was remembered below a namespace of a scope from begin to end, exclusively.

    begin, end: aware; None for no bound. as_of: None for what is current.
    """

    scope: Scope
    namespace: Namespace
    begin: datetime | None
    end: datetime | None
    kinds: Sequence[MemoryKind] | None = None
    as_of: AsOf | None = None


class SliceStorage(Protocol):
    """Reads along the line on which things were said."""

    async def thread_summary(
        self, scope: Scope, thread_id: ThreadId, as_of: AsOf | None = None
    ) -> Memory | None:
        """Return the summary of a thread that stands, or stood; source_event_ids is all it tells.

        None if there is none.
        """

    async def slice(
        self, query: SliceQuery, order: SliceOrder, limit: int, offset: int
    ) -> Sequence[Memory]:
        """Return a page of a stretch of time, in its order."""

    async def slice_extent(self, query: SliceQuery) -> tuple[datetime, datetime] | None:
        """Return when the first and the last of it were said; None if nothing was."""

    async def slice_counts(self, query: SliceQuery, bounds: Sequence[datetime]) -> Sequence[int]:
        """Return how many there are from each bound to the next; bounds rise.

        The first bound is at or before all, and of as many bounds come as many counts: the last
        counts what is at or after the last bound.
        """
