"""The part of PostgresStorage that reads stretches of time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from shared_core.core.domain import AsOf, Memory, Scope, ThreadId
from shared_core.core.namespaces import memories_namespace, path_end, rest_of, scope_path
from shared_core.ports.events import SliceOrder, SliceQuery
from shared_core.ports.storage import Clock
from shared_core.storage._rows import as_known, memory_from_row, moments, utc
from shared_core.storage.postgres.connection.database import PostgresDatabase
from shared_core.storage.postgres.connection.sql_files import statement

DIRECTIONS: Final[dict[SliceOrder, str]] = {"newest": "DESC", "oldest": "ASC"}
BETWEEN: Final = "m.occurred_at >= %(begin)s::timestamptz AND m.occurred_at < %(end)s::timestamptz"


def bounds_of(begin: datetime | None, end: datetime | None) -> dict[str, object]:
    """Return the parameters %(begin)s and %(end)s."""
    return {"begin": begin or "-infinity", "end": end or "infinity"}


class PostgresSlices:
    """What was remembered from one moment to another."""

    _database: PostgresDatabase
    _clock: Clock

    async def thread_summary(
        self, scope: Scope, thread_id: ThreadId, as_of: AsOf | None = None
    ) -> Memory | None:
        asked = SliceQuery(
            scope=scope, namespace=memories_namespace(scope), begin=None, end=None, as_of=as_of
        )
        text = statement("thread_summary", as_of=as_of is not None)
        values = self._values(asked) | {"thread_id": thread_id}
        [rows] = await self._database.run(scope_path(scope), (text, values))
        return as_known(memory_from_row(rows[0]), as_of) if rows else None

    async def slice(
        self, query: SliceQuery, order: SliceOrder, limit: int, offset: int
    ) -> Sequence[Memory]:
        values = self._values(query) | {"limit": limit, "offset": offset}
        literals = (("direction", DIRECTIONS[order]),)
        text = statement("slice", as_of=query.as_of is not None, literals=literals)
        _, rows = await self._database.run(
            scope_path(query.scope), (statement("walk_index"), {}), (text, values)
        )
        return [as_known(memory_from_row(row), query.as_of) for row in rows]

    async def slice_extent(self, query: SliceQuery) -> tuple[datetime, datetime] | None:
        text = statement("slice_extent", as_of=query.as_of is not None)
        [rows] = await self._database.run(scope_path(query.scope), (text, self._values(query)))
        [(first, last)] = rows
        return None if first is None else (utc(first), utc(last))

    async def slice_counts(self, query: SliceQuery, bounds: Sequence[datetime]) -> Sequence[int]:
        values = self._values(query) | {"bounds": list(bounds)}
        text = statement("slice_counts", as_of=query.as_of is not None)
        [rows] = await self._database.run(scope_path(query.scope), (text, values))
        counts: dict[int, int] = dict(rows)
        return [counts.get(number, 0) for number in range(1, len(bounds) + 1)]

    def _values(self, query: SliceQuery) -> dict[str, object]:
        path = rest_of(query.namespace)
        return {
            "tenant": scope_path(query.scope),
            "path": path,
            "path_end": path_end(path),
            "kinds": None if query.kinds is None else list(query.kinds),
            "now": self._clock(),
            **bounds_of(query.begin, query.end),
            **moments(query.as_of),
        }
