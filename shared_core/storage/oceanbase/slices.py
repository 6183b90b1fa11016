"""OceanBaseStorage: what was remembered from one moment to another."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from shared_core.core.domain import AsOf, Memory, Scope, ThreadId
from shared_core.core.namespaces import memories_namespace, rest_of, scope_path
from shared_core.ports.events import SliceOrder, SliceQuery
from shared_core.storage._rows import as_known
from shared_core.storage.oceanbase.base import OceanBasePart
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction
from shared_core.storage.oceanbase.rows import memory_columns, memory_of, sources_of
from shared_core.storage.oceanbase.visibility import (
    Condition,
    all_of,
    below,
    between,
    current_at,
    of_kinds,
)

DIRECTIONS: Final[dict[SliceOrder, str]] = {"newest": "DESC", "oldest": "ASC"}
QUARTER: Final = "timestampdiff(MINUTE, '2000-01-01', m.occurred_at) DIV 15"
"""Quarters of an hour: buckets of every time zone that is in use begin with one."""


class OceanBaseSlices(OceanBasePart):
    """See the port."""

    async def thread_summary(
        self, scope: Scope, thread_id: ThreadId, as_of: AsOf | None = None
    ) -> Memory | None:
        asked = SliceQuery(
            scope=scope, namespace=memories_namespace(scope), begin=None, end=None, as_of=as_of
        )

        def work(tx: Transaction) -> Memory | None:
            there = all_of(
                Condition("m.thread_id = %s AND m.kind = 'summary'", (thread_id,)),
                self._there(tx, asked),
            )
            rows = tx.rows(
                f"SELECT {memory_columns('m')} FROM memories m WHERE {there.sql}"
                " ORDER BY m.occurred_at DESC, m.memory_id DESC LIMIT 1",
                *there.values,
            )
            return next(iter(_memories(tx, asked, rows)), None)

        return await self._database.read(work)

    async def slice(
        self, query: SliceQuery, order: SliceOrder, limit: int, offset: int
    ) -> Sequence[Memory]:
        direction = DIRECTIONS[order]

        def work(tx: Transaction) -> list[Memory]:
            there = self._there(tx, query)
            rows = tx.rows(
                f"SELECT {memory_columns('m')} FROM memories m WHERE {there.sql}"
                f" ORDER BY m.occurred_at {direction}, m.memory_id {direction} LIMIT %s OFFSET %s",
                *there.values,
                limit,
                offset,
            )
            return _memories(tx, query, rows)

        return await self._database.read(work)

    async def slice_extent(self, query: SliceQuery) -> tuple[datetime, datetime] | None:
        def work(tx: Transaction) -> tuple[datetime, datetime] | None:
            there = self._there(tx, query)
            [(first, last)] = tx.rows(
                f"SELECT min(m.occurred_at), max(m.occurred_at) FROM memories m WHERE {there.sql}",
                *there.values,
            )
            return None if first is None else (first, last)

        return await self._database.read(work)

    async def slice_counts(self, query: SliceQuery, bounds: Sequence[datetime]) -> Sequence[int]:
        def work(tx: Transaction) -> list[int]:
            there = self._there(tx, query)
            counts = [0] * len(bounds)
            parted = []
            for first, last, count in tx.rows(
                "SELECT min(m.occurred_at), max(m.occurred_at), count(*) FROM memories m"
                f" WHERE {there.sql} GROUP BY {QUARTER}",
                *there.values,
            ):
                place = bisect_right(bounds, first)
                if place != bisect_right(bounds, last):
                    parted.append((first, last))
                elif place:
                    counts[place - 1] += count
            for first, last in parted:  # a bound stands within the quarter
                for (moment,) in tx.rows(
                    f"SELECT m.occurred_at FROM memories m WHERE {there.sql}"
                    " AND m.occurred_at BETWEEN %s AND %s",
                    *there.values,
                    first,
                    last,
                ):
                    if place := bisect_right(bounds, moment):
                        counts[place - 1] += 1
            return counts

        return await self._database.read(work)

    def _there(self, tx: Transaction, query: SliceQuery) -> Condition:
        tenant = scope_path(query.scope)
        return all_of(
            Condition("m.tenant_id = %s", (tenant,)),
            between(query.begin, query.end),
            below(rest_of(query.namespace)),
            current_at(tx, tenant, self._clock(), query.as_of),
            of_kinds(query.kinds),
        )


def _memories(tx: Transaction, query: SliceQuery, rows: Sequence[Row]) -> list[Memory]:
    sources = sources_of(tx, scope_path(query.scope), [row[0] for row in rows])
    return [as_known(memory_of(row, sources.get(row[0], ())), query.as_of) for row in rows]
