"""The verbs of MemoryEngine that read along the line of time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import get_args

from shared_core.core.domain import AsOf, Hit, Memory, MemoryKind, Scope, ThreadId
from shared_core.core.namespaces import check_label, scope_path
from shared_core.core.timestamps import check_moment
from shared_core.core.validation import zone_of
from shared_core.errors import InvalidInput
from shared_core.nlp.calendar import instant
from shared_core.ports.events import BucketUnit, SliceOrder, SliceQuery
from shared_core.ports.storage import Clock, Storage
from shared_core.recall import query as recalls
from shared_core.recall.query import MAX_LIMIT, RecallOptions
from shared_core.recall.service import Recalling
from shared_core.recall.time_slices import TimeBucket, TimeSlice, starts, stretch

JUST_AFTER = timedelta(microseconds=1)


class SliceVerbs:
    """What a scope remembers of a stretch of time."""

    _storage: Storage
    _clock: Clock
    _recalling: Recalling

    async def open(self) -> None:
        raise NotImplementedError

    async def slice(
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
        """Return what is remembered of a stretch of time, by when it happened or was said.

        when: words for the time, e.g. "last Tuesday", "上周二"; or begin and end, exclusively:
        aware moments, or words, of which begin takes the first moment and end the last. Without
        any, all of time. query: most relevant first instead, with scores. order: "newest" or
        "oldest" first, without a query. bucket: count the memories of each "hour", "day", "week"
        (from Monday), "month" or "year" of the whole stretch as well. zone: e.g. "Asia/Shanghai" or
        a tzinfo, in whose days the words, the buckets, begin and end are told (default: that of
        asked_at). asked_at: aware; words are resolved against it; now if left out. as_of: what held
        at a moment, as it was known then.
        Raises InvalidInput for words that name no time or several, and an end before the beginning.
        """
        now = self._clock() if asked_at is None else asked_at
        check_moment(now, "asked_at")
        days_of = zone_of(zone) or now.tzinfo or UTC
        now = now.astimezone(days_of)
        since, until = stretch(when, begin, end, now)
        if zone is not None:
            since, until = since and since.astimezone(days_of), until and until.astimezone(days_of)
        if order not in get_args(SliceOrder):
            raise InvalidInput(f"order must be 'newest' or 'oldest', not {order!r}")
        page = recalls.page(scope, kinds, limit, offset, as_of=as_of)
        asked = SliceQuery(
            scope=scope, namespace=page.namespace, begin=since, end=until, kinds=kinds, as_of=as_of
        )
        await self.open()
        hits: Sequence[Hit] = ()
        if query is not None and query.strip():
            hits = await self._most_relevant(asked, query, now, limit, offset)
            memories = [hit.memory for hit in hits]
        else:
            memories = [*await self._storage.slice(asked, order, limit, offset)]
        buckets = await self._buckets(asked, bucket, days_of) if bucket else ()
        return TimeSlice(
            begin=since,
            end=until,
            memories=tuple(memories),
            hits=tuple(hits),
            buckets=tuple(buckets),
        )

    async def thread_summary(self, scope: Scope, thread_id: str) -> Memory | None:
        """Return what a thread is about so far, as consolidation summed it up; None if it did not.

        source_event_ids: every turn it tells of.
        """
        scope_path(scope)
        check_label(thread_id, "thread_id")
        await self.open()
        return await self._storage.thread_summary(scope, ThreadId(thread_id))

    async def _most_relevant(
        self, asked: SliceQuery, query: str, now: datetime, limit: int, offset: int
    ) -> Sequence[Hit]:
        wanted = RecallOptions(
            now=now, limit=min(offset + limit, MAX_LIMIT), kinds=asked.kinds, as_of=asked.as_of,
            begin=asked.begin, end=asked.end,
        )  # fmt: skip
        found = await self._recalling.recall(asked.scope, query, wanted, None)
        return list(found)[offset:]

    async def _buckets(
        self, asked: SliceQuery, unit: BucketUnit, zone: tzinfo
    ) -> Sequence[TimeBucket]:
        begin, end = asked.begin, asked.end
        if begin is None or end is None:
            starts(datetime.now(UTC), datetime.now(UTC), unit, zone)  # refuses what is no unit
            extent = await self._storage.slice_extent(asked)
            if extent is None:
                return ()
            begin, end = begin or extent[0], end or extent[1] + JUST_AFTER
        bounds = starts(begin, end, unit, zone)
        counts = await self._storage.slice_counts(asked, bounds)
        ends = [*bounds[1:], end.astimezone(zone)]
        return [
            TimeBucket(begin=max(start, begin, key=instant).astimezone(zone), end=stop, count=count)
            for start, stop, count in zip(bounds, ends, counts, strict=True)
        ]
