"""engine.slice: the memories of a period, and how many fall into each part of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from typing import get_args

from shared_core.core.domain import AsOf, Hit, MemoryKind, Scope
from shared_core.core.shown import shown
from shared_core.core.timestamps import check_moment
from shared_core.core.validation import zone_of
from shared_core.errors import InvalidInput
from shared_core.lifecycle import Handle
from shared_core.nlp.calendar import instant
from shared_core.ports.events import BucketUnit, MemoryQuery, SliceOrder
from shared_core.ports.storage import Storage
from shared_core.recall import query as queries
from shared_core.recall.query import MAX_LIMIT, RecallOptions
from shared_core.recall.service import Recall
from shared_core.recall.time_slices import TimeBucket, TimeSlice, starts, stretch

JUST_AFTER = timedelta(microseconds=1)


class TimeSlices:
    """Memories by time. Call it as engine.slice(scope, "last Tuesday")."""

    def __init__(self, handle: Handle, recall: Recall) -> None:
        self._handle = handle
        self._recall = recall

    async def __call__(
        self,
        scope: Scope,
        when: str | None = None,
        *,
        begin: datetime | str | None = None,
        end: datetime | str | None = None,
        query: str | None = None,
        kinds: Sequence[MemoryKind] | None = None,
        order: SliceOrder = "newest",
        limit: int = 50,
        offset: int = 0,
        bucket: BucketUnit | None = None,
        zone: tzinfo | str | None = None,
        asked_at: datetime | None = None,
        as_of: AsOf | None = None,
    ) -> TimeSlice:
        """Return the memories that occurred in a period.

        This is the documented verb `engine.slice(...)`.

        Args:
            scope: application and user.
            when: words for the time, e.g. "last Tuesday", "上周二". Without when, begin and end:
                all of time.
            begin: the first moment of the period, aware; or words, whose first moment counts.
            end: the moment after the period, aware; or words, whose last moment counts.
            query: rank by relevance to this query, with scores, instead of by time.
            kinds: only these kinds of memory.
            order: "newest" or "oldest" first, where there is no query.
            limit: maximum number of memories.
            offset: number of memories to pass over first.
            bucket: also count the memories of each "hour", "day", "week" (from Monday), "month" or
                "year" of the whole period.
            zone: a tzinfo, or a name such as "Asia/Shanghai". Its days bound the words and the
                buckets, and begin and end are returned in it. Default: that of asked_at.
            asked_at: aware; words are resolved against it. Default: now.
            as_of: return what held at a moment, as it was known at a moment.

        Raises:
            InvalidInput: for words that name no time or more than one, and for an end before the
                beginning.
        """
        now = self._handle.clock() if asked_at is None else asked_at
        check_moment(now, "asked_at")
        days_of = zone_of(zone) or now.tzinfo or UTC
        try:
            now = now.astimezone(days_of)
            since, until = stretch(when, begin, end, now)
            if zone is not None:
                since = since and since.astimezone(days_of)
                until = until and until.astimezone(days_of)
        except OverflowError as error:  # near the first or the last day that Python knows
            raise InvalidInput(f"the time is out of range in {days_of}: {error}") from error
        if order not in get_args(SliceOrder):
            raise InvalidInput(f"order must be 'newest' or 'oldest', got {shown(order)}")
        if query is not None:
            queries.checked_query(scope, query)
        page = queries.page(scope, kinds, limit, offset, as_of=as_of)
        asked = replace(page, begin=since, end=until)
        storage = await self._handle.storage()
        hits: Sequence[Hit] = ()
        if query is not None and query.strip():
            hits = await self._most_relevant(asked, query, now, limit, offset)
            memories = [hit.memory for hit in hits]
        else:
            memories = [*await storage.events.list_memories(asked, order, limit, offset)]
        buckets = await _buckets(storage, asked, bucket, days_of) if bucket else ()
        return TimeSlice(
            begin=since,
            end=until,
            memories=tuple(memories),
            hits=tuple(hits),
            buckets=tuple(buckets),
        )

    async def _most_relevant(
        self, asked: MemoryQuery, query: str, now: datetime, limit: int, offset: int
    ) -> Sequence[Hit]:
        options = RecallOptions(
            now=now, limit=min(offset + limit, MAX_LIMIT), kinds=asked.kinds, as_of=asked.as_of,
            begin=asked.begin, end=asked.end,
        )  # fmt: skip
        found = await self._recall.find(asked.scope, query, options)
        return list(found)[offset:]


async def _buckets(
    storage: Storage, asked: MemoryQuery, unit: BucketUnit, zone: tzinfo
) -> Sequence[TimeBucket]:
    begin, end = asked.begin, asked.end
    if begin is None or end is None:
        starts(datetime.now(UTC), datetime.now(UTC), unit, zone)  # raises for an unknown unit
        first = await storage.events.list_memories(asked, "oldest", 1, 0)
        last = await storage.events.list_memories(asked, "newest", 1, 0)
        if not first or not last:
            return ()
        begin, end = begin or first[0].occurred_at, end or last[0].occurred_at + JUST_AFTER
    if instant(begin) >= instant(end):  # a day that the zone skipped
        return ()
    bounds = starts(begin, end, unit, zone)
    counts = await storage.events.count_memories(asked, bounds)
    ends = [*bounds[1:], end.astimezone(zone)]
    return [
        TimeBucket(begin=max(start, begin, key=instant).astimezone(zone), end=stop, count=count)
        for start, stop, count in zip(bounds, ends, counts, strict=True)
    ]
