"""What the core asks of a storage along the line of time; ports.Storage joins it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from shared_core.core.domain import AsOf, Memory, MemoryKind, Namespace, Scope, ThreadId

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
        ...

    async def slice(
        self, query: SliceQuery, order: SliceOrder, limit: int, offset: int
    ) -> Sequence[Memory]:
        """Return a page of a stretch of time, in its order."""
        ...

    async def slice_extent(self, query: SliceQuery) -> tuple[datetime, datetime] | None:
        """Return when the first and the last of it were said; None if nothing was."""
        ...

    async def slice_counts(self, query: SliceQuery, bounds: Sequence[datetime]) -> Sequence[int]:
        """Return how many there are from each bound to the next; bounds rise.

        The first bound is at or before all, and of as many bounds come as many counts: the last
        counts what is at or after the last bound.
        """
        ...
