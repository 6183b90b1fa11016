"""engine.users and engine.count_memories: who has memories, how many, and when they occurred."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final, overload

from shared_core.core.domain import AsOf, JsonValue, MemoryKind, Scope
from shared_core.core.namespaces import from_path, memories_namespace, path_of, scope_path
from shared_core.core.shown import shown
from shared_core.core.timestamps import check_moment
from shared_core.core.validation import listed, whole_number
from shared_core.errors import InvalidInput
from shared_core.lifecycle import Handle
from shared_core.ports.events import MemoryQuery
from shared_core.ports.storage import Storage
from shared_core.recall import query as queries
from shared_core.recall.time_slices import MAX_BUCKETS

FIRST: Final = datetime.min.replace(tzinfo=UTC)
"""A moment before all memories."""
WALKED = 1_000
"""Number of tenants read at once while users are looked for by name."""
MAX_USERS = 1_000


@dataclass(frozen=True, slots=True)
class UserSummary:
    """A user of an application who has memories.

    Attributes:
        memories: number of memories, as count_memories() returns it; 0 if all have faded or
            expired.
        newest_at: when the newest memory occurred, faded ones too.
    """

    scope: Scope
    memories: int
    newest_at: datetime

    def to_dict(self) -> dict[str, JsonValue]:
        """Return a JSON object; the time in ISO 8601."""
        return {
            "app": self.scope.app,
            "user_id": self.scope.user,
            "memories": self.memories,
            "newest_at": self.newest_at.isoformat(),
        }


class Users:
    """The users who have memories. Call it to list them: engine.users("my-app")."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    async def __call__(
        self,
        app: str | None = None,
        *,
        contains: str = "",
        limit: int = 50,
        after: Scope | None = None,
        among: Sequence[str] | None = None,
    ) -> Sequence[UserSummary]:
        """Return the users who have memories, by application and user, one page at a time.

        This is the documented verb `engine.users(...)`. The order is that of the stored paths, and
        stable. Every user of a page is counted anew.

        Args:
            app: only users of this application.
            contains: only users whose id contains this text, in upper or lower case. It reads the
                ids of all users until the page is full.
            limit: maximum number of users, 1 to 1,000.
            after: the last user of the page before.
            among: only these users of the application, which must be named then.
        """
        path = path_of(None, app)
        queries.check_text(contains, "contains")
        whole_number(limit, "limit", 1, MAX_USERS)
        part, last = contains.casefold(), path if after is None else scope_path(after)
        named = None if among is None else _named(app, among)
        storage = await self._handle.storage()
        found: list[UserSummary] = []
        scopes: list[Scope] = []
        async for scope in _scopes(storage, path, last, WALKED if contains else limit, named):
            if part in scope.user.casefold():
                scopes.append(scope)
            if len(scopes) == limit - len(found):
                found += await _summaries(storage, path, scopes)
                scopes = []
            if len(found) == limit:
                return found
        return found + await _summaries(storage, path, scopes)


def _named(app: str | None, users: Sequence[str]) -> list[str]:
    """Return the tenants of some users of an application, in order."""
    if app is None:
        raise InvalidInput("among names users of an application: give app, too")
    names = listed(users, "among", '["ana"]')
    return sorted({scope_path(Scope(app, one)) for one in names})


async def _scopes(
    storage: Storage, path: str, last: str, at_once: int, named: Sequence[str] | None
) -> AsyncIterator[Scope]:
    """Yield the users below a path who have memories or items, in order.

    named: the only tenants that are asked for, in order; None for all.
    """
    if named is not None:
        for tenant in named:
            if tenant > last:
                yield Scope(*from_path(tenant))
        return
    more = True
    while more:
        tenants = await storage.events.tenants(path, last, at_once)
        more = len(tenants) == at_once
        for last in tenants:
            labels = from_path(last)
            if len(labels) == 2:
                yield Scope(*labels)


async def _summaries(storage: Storage, path: str, scopes: Sequence[Scope]) -> list[UserSummary]:
    """Return the summaries of those users who have memories beside their items."""
    asked = [MemoryQuery(scope=one, namespace=memories_namespace(one)) for one in scopes]
    held = await storage.events.holdings(path, asked) if asked else ()
    return [
        UserSummary(scope, one.memories, one.newest_at)
        for scope, one in zip(scopes, held, strict=True)
        if one.newest_at is not None
    ]


class MemoryCounts:
    """Numbers of memories. Call it to count: engine.count_memories(scope)."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    @overload
    async def __call__(
        self, scope: Scope, bounds: None = None, *, kinds: Sequence[MemoryKind] | None = None,
        thread_id: str | None = None, contains: str = "", begin: datetime | None = None,
        end: datetime | None = None, as_of: AsOf | None = None,
    ) -> int: ...  # fmt: skip
    @overload
    async def __call__(
        self, scope: Scope, bounds: Sequence[datetime], *,
        kinds: Sequence[MemoryKind] | None = None, thread_id: str | None = None,
        contains: str = "", begin: datetime | None = None, end: datetime | None = None,
        as_of: AsOf | None = None,
    ) -> Sequence[int]: ...  # fmt: skip
    async def __call__(
        self,
        scope: Scope,
        bounds: Sequence[datetime] | None = None,
        *,
        kinds: Sequence[MemoryKind] | None = None,
        thread_id: str | None = None,
        contains: str = "",
        begin: datetime | None = None,
        end: datetime | None = None,
        as_of: AsOf | None = None,
    ) -> int | Sequence[int]:
        """Return the number of memories that list_memories() lists, or one for each period.

        This is the documented verb `engine.count_memories(...)`.

        Args:
            scope: application and user.
            bounds: rising moments, aware, at most 10,000. Returns the number of memories from each
                to before the next; the last number has no upper bound.
            kinds: only these kinds.
            thread_id: derived from a turn of this thread.
            contains: a part of the text, in upper or lower case.
            begin: the start of the period in which they occurred, aware.
            end: its end, aware, exclusive.
            as_of: what held at a moment, as it was known at a moment.
        """
        asked = queries.selection(
            scope, kinds, thread_id=thread_id, contains=contains, begin=begin, end=end, as_of=as_of
        )
        if bounds is None:
            storage = await self._handle.storage()
            [number] = await storage.events.count_memories(asked, [FIRST])
            return number
        moments = _rising(bounds)
        storage = await self._handle.storage()
        return await storage.events.count_memories(asked, moments) if moments else []


def _rising(bounds: Sequence[datetime]) -> list[datetime]:
    moments = listed(bounds, "bounds", "[datetime(2026, 3, 1, tzinfo=UTC)]")
    if len(moments) > MAX_BUCKETS:
        raise InvalidInput(f"bounds must be at most {MAX_BUCKETS:,} moments, got {len(moments):,}")
    for one in moments:
        check_moment(one, "each of bounds")
    moments = [one.astimezone(UTC) for one in moments]
    for first, second in pairwise(moments):
        if second <= first:
            raise InvalidInput(
                f"bounds must rise, got {shown(second.isoformat())} after"
                f" {shown(first.isoformat())}"
            )
    return moments
