"""Turns of threads, and the memories of a scope along the line of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple, Protocol

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
from shared_core.ports.items import VectorRows
from shared_core.ports.jobs import NewJob


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    """A turn to append. memory_id: None if the turn has no text to remember.

    terms: the words of its text for full-text search, in order, with repeats. value: the JSON
    object of key-value reads, without the text. logged: the session log of the thread holds the
    same text already, so it is not sent again.
    """

    event: Event
    memory_id: MemoryId | None
    logged: bool
    value: Mapping[str, JsonValue]
    terms: Sequence[str]


SliceOrder = Literal["newest", "oldest"]
BucketUnit = Literal["hour", "day", "week", "month", "year"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryQuery:
    """Selects memories below a namespace of a scope, from begin to before end.

    begin, end: aware; None for no bound. as_of: None for current memories. thread_id: only memories
    with a turn of this thread among their sources. contains: only memories whose text holds this,
    in upper or lower case; "" for all.
    """

    scope: Scope
    namespace: Namespace
    kinds: Sequence[MemoryKind] | None = None
    begin: datetime | None = None
    end: datetime | None = None
    as_of: AsOf | None = None
    thread_id: ThreadId | None = None
    contains: str = ""


class KnownTurn(NamedTuple):
    """A turn that is stored or was forgotten.

    digest: SHA-256 of its text; None if it was forgotten. is_remembered: false if only a session
    log holds it.
    """

    digest: bytes | None
    is_remembered: bool


class Holdings(NamedTuple):
    """The memories of a scope. newest_at: of all, also those that recall does not find."""

    memories: int
    newest_at: datetime | None


class EventStorage(Protocol):
    """Turns of threads, and the memories of a scope."""

    async def known_turns(
        self, scope: Scope, thread_id: ThreadId, event_ids: Sequence[str]
    ) -> Mapping[str, KnownTurn]:
        """Return the known ones of some turns of a thread, by their ids."""

    async def append_events(
        self,
        scope: Scope,
        thread_id: ThreadId,
        rows: Sequence[EventRow],
        vectors: VectorRows | None,
        job: NewJob | None = None,
    ) -> set[str]:
        """Append and remember the new turns, enqueue the job, and return the ids of new turns."""

    async def thread_events(self, scope: Scope, thread_id: ThreadId, limit: int) -> Sequence[Event]:
        """Return the last remembered turns of a thread, oldest first."""

    async def thread_history(
        self, scope: Scope, thread_id: ThreadId, limit: int, as_of: AsOf | None = None
    ) -> Sequence[Event]:
        """Return the last turns with text of a thread, remembered or logged, oldest first.

        A turn that a request to forget set aside is left out.
        """

    async def list_memories(
        self, query: MemoryQuery, order: SliceOrder, limit: int, offset: int
    ) -> Sequence[Memory]:
        """Return a page of the selected memories, by when they occurred."""

    async def count_memories(self, query: MemoryQuery, bounds: Sequence[datetime]) -> Sequence[int]:
        """Return the number of selected memories from each bound to before the next.

        Bounds rise, and the first is at or before all memories. The last count has no upper bound.
        """

    async def tenants(self, path: str, after: str, limit: int) -> Sequence[str]:
        """Return the next tenants below a path that have memories or items, in order.

        Its time grows with the number of tenants it returns, not with that of their memories.
        """

    async def holdings(self, path: str, queries: Sequence[MemoryQuery]) -> Sequence[Holdings]:
        """Return what the scope of each query holds: how many it selects, and the newest.

        path: above all of the scopes.
        """
