"""OceanBaseStorage: memories by namespace and key, their search, and the sweep of expired ones.

Every search has the same order: nearest first, then newest, then by address. So a page does not
depend on the way it was found.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import Final

from shared_core.core.domain import Namespace, Scope
from shared_core.core.namespaces import (
    MEMORIES,
    from_path,
    path_end,
    rest_of,
    storable,
    tenant_of,
    to_path,
)
from shared_core.core.retention_policy import Strength
from shared_core.ports.items import (
    Distance,
    Item,
    ItemAddress,
    ItemQuery,
    MemoryRow,
    NamespaceQuery,
    VectorRows,
)
from shared_core.ports.jobs import NewJob
from shared_core.ports.storage import Clock
from shared_core.storage.oceanbase.base import OceanBasePart, reading, writing
from shared_core.storage.oceanbase.connection.database import OceanBaseDatabase
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction
from shared_core.storage.oceanbase.filters import Matches, matches
from shared_core.storage.oceanbase.item_writes import (
    place_of,
    put_rows,
    put_vectors,
    strengths_of,
    tenants_of,
)
from shared_core.storage.oceanbase.job_steps import enqueue
from shared_core.storage.oceanbase.rows import ITEM_COLUMNS, ITEM_WIDTH, item_of
from shared_core.storage.oceanbase.vectors import LargeTenants, models, query_form, table_of
from shared_core.storage.oceanbase.visibility import (
    WhereClause,
    all_of,
    below,
    current,
    living,
    still_read,
)

_REMEMBERED = to_path([MEMORIES])
TENANT_DEPTH = 2
DEEPEST = 100
"""Pages that end beyond this position are read from all vectors."""
MOST_NEAREST = 1_000
"""Number of nearest vectors to try before all are read, if too few of them match."""
FIRST_ROWS, MOST_ROWS = 500, 16_000
"""Rows per read for a filter in Python: first and maximum; the number doubles each time."""
_DISTANCE: Final[Mapping[Distance, str]] = {
    "cosine": "cosine_distance",
    "l2": "l2_distance",
    "inner_product": "negative_inner_product",
}
_VALUE = 3
_ORDER = "m.updated_at DESC, m.tenant_id, m.namespace, m.`key`"


class OceanBaseItems(OceanBasePart):
    """Items and other memories, addressed by namespace and key."""

    def __init__(
        self,
        database: OceanBaseDatabase,
        clock: Clock,
        strength: Strength | None = None,
        ann_threshold: int | None = None,
    ) -> None:
        super().__init__(database, clock, strength)
        self._large = LargeTenants(ann_threshold)

    async def put_memories(
        self,
        rows: Sequence[MemoryRow],
        vectors: VectorRows | None,
        jobs: Sequence[tuple[Scope, NewJob]] = (),
    ) -> None:
        named = [(row.namespace, row.key) for row in rows]
        if not named:
            return
        now = self._clock()
        strengths = strengths_of(self._strength, rows)

        def work(tx: Transaction) -> None:
            put_rows(tx, rows, now, strengths)
            put_vectors(tx, vectors)
            for scope, job in jobs:
                enqueue(tx, scope, None, job, now)

        await self._database.write(work, *tenants_of(named))

    @reading
    def get_items(
        self, tx: Transaction, addresses: Sequence[ItemAddress], *, with_expired: bool = False
    ) -> Sequence[Item]:
        places = [place_of(address) for address in addresses if storable(address[1])]
        alive = still_read(self._clock(), with_expired=with_expired)
        return [
            _as_it_was(row)
            for row in tx.rows_in(
                f"SELECT {ITEM_COLUMNS}, m.demoted_at, x.value, x.text, x.is_shown"
                " FROM memories m LEFT JOIN memory_archive x"
                " ON x.tenant_id = m.tenant_id AND x.memory_id = m.memory_id"
                f" WHERE (m.tenant_id, m.namespace, m.`key`) IN %s AND {alive.sql}",
                [places, *alive.values],
            )
        ]

    @reading
    def find_items(self, tx: Transaction, queries: Sequence[ItemQuery]) -> Sequence[Sequence[Item]]:
        tests = [matches(query.filter) for query in queries]
        now = self._clock()
        pages = [
            find(tx, query, test, now, self._large)
            for query, test in zip(queries, tests, strict=True)
        ]
        return [
            [item_of(row, query.distance) for row in page]
            for query, page in zip(queries, pages, strict=True)
        ]

    async def list_namespaces(self, query: NamespaceQuery) -> Sequence[Namespace]:
        now = self._clock()
        return await self._database.read(lambda tx: namespaces(tx, query, now))

    @writing
    def extend_items(self, tx: Transaction, addresses: Sequence[ItemAddress]) -> None:
        now = self._clock()
        tx.lock(*tenants_of(addresses))
        tx.run_in(
            "UPDATE memories SET expires_at ="
            " TIMESTAMPADD(MICROSECOND, ROUND(ttl_s * 1000000), CAST(%s AS DATETIME(6)))"
            " WHERE (tenant_id, namespace, `key`) IN %s"
            " AND ttl_s IS NOT NULL",
            [now, [place_of(address) for address in addresses]],
        )

    async def expired_tenants(self, prefix: Namespace, limit: int) -> Sequence[str]:
        now = self._clock()
        return await self._database.read(lambda tx: _expired(tx, prefix, limit, now))


def _as_it_was(row: Row) -> Item:
    """Return an item; if it has faded, with its archived value."""
    (demoted_at, value, text, is_shown), item = row[-4:], item_of(row[:ITEM_WIDTH])
    if demoted_at is None or value is None:
        return item
    shown = {"content": text} if is_shown else {}
    return replace(item, value={**json.loads(value), **shown})


def _expired(tx: Transaction, prefix: Namespace, limit: int, now: datetime) -> list[str]:
    """Return tenants with expired memories below a path, or expired turns without a memory."""
    path, of_tenants = rest_of(prefix), within(prefix)
    where = all_of(of_tenants, below(path))
    found = tx.column(
        f"SELECT DISTINCT m.tenant_id FROM memories m WHERE {where.sql} AND m.expires_at <= %s"
        " ORDER BY m.tenant_id LIMIT %s",
        [*where.values, now, limit],
    )
    if path <= _REMEMBERED < path_end(path):
        found += tx.column(
            f"SELECT DISTINCT m.tenant_id FROM events m WHERE {of_tenants.sql}"
            " AND m.expires_at <= %s AND (m.memory_seq IS NOT NULL OR m.payload IS NULL)"
            " AND NOT EXISTS (SELECT 1 FROM memory_sources s JOIN memories x"
            " ON x.tenant_id = s.tenant_id AND x.memory_id = s.memory_id"
            " WHERE s.tenant_id = m.tenant_id AND s.thread_id = m.thread_id"
            " AND s.event_id = m.event_id AND x.kind = 'episodic')"
            " ORDER BY m.tenant_id LIMIT %s",
            [*of_tenants.values, now, limit],
        )
    return sorted(set(found))[:limit]


def within(prefix: Namespace, alias: str = "m") -> WhereClause:
    """Return the condition on the tenants of a prefix: one, or all below a path."""
    tenant = tenant_of(prefix)
    if len(prefix) >= TENANT_DEPTH:
        return WhereClause(f"{alias}.tenant_id = %s", (tenant,))
    return WhereClause(
        f"{alias}.tenant_id >= %s AND {alias}.tenant_id < %s", (tenant, path_end(tenant))
    )


def find(
    tx: Transaction, query: ItemQuery, test: Matches | None, now: datetime, large: LargeTenants
) -> Sequence[Row]:
    """Return a page of ITEM_COLUMNS, followed by a distance if there is one."""
    alive = current(now, with_expired=query.with_expired)
    where = all_of(within(query.prefix), below(rest_of(query.prefix)), alive)
    if query.terms is not None:
        return _by_word(tx, query, where, test)
    if query.vector is None:
        sql = f"SELECT {ITEM_COLUMNS} FROM memories m WHERE {where.sql} ORDER BY {_ORDER}"
        return _page(tx, sql, where.values, query, test)
    table = _table(tx, query)
    if table is None:
        sql = f"SELECT {ITEM_COLUMNS} FROM memories m WHERE {where.sql} ORDER BY {_ORDER}"
        return _page(tx, sql, where.values, query, test)
    near = _nearest(tx, query, table, where, test, large)
    return _by_meaning(tx, query, table, where, test) if near is None else near


def namespaces(tx: Transaction, query: NamespaceQuery, now: datetime) -> list[Namespace]:
    """Return namespaces with living items, cut to a depth and sorted by their labels.

    Raises InvalidInput for an invalid label.
    """
    for labels in (*query.prefixes, *query.suffixes):
        to_path(labels)
    plain = max((_plain_start(prefix) for prefix in query.prefixes), key=len, default=())
    alive = living(now, with_expired=query.with_expired)
    where = all_of(within(plain), below(rest_of(plain)), alive)
    found = {
        labels[: query.max_depth]
        for tenant, path in tx.rows(
            f"SELECT DISTINCT m.tenant_id, m.namespace FROM memories m WHERE {where.sql}",
            where.values,
        )
        if _is_named(labels := from_path(tenant + path[1:]), query)
    }
    return sorted(found)[query.offset : query.offset + query.limit]


def _nearest(
    tx: Transaction,
    query: ItemQuery,
    table: str,
    where: WhereClause,
    test: Matches | None,
    large: LargeTenants,
) -> list[Row] | None:
    """Return a page of one tenant from its nearest vectors, or None if they do not fill it."""
    end = query.offset + query.limit
    if len(query.prefix) < TENANT_DEPTH or end > DEEPEST:
        return None
    assert query.vector is not None and query.model is not None
    tenant, vector = tenant_of(query.prefix), query_form(query.vector[0])
    # Exact search is complete and fast enough below the threshold (decision 14).
    has_index = query.distance == "cosine" and large.has(tx, tenant, query.model, table)
    how, function = "APPROXIMATE " if has_index else "", _DISTANCE[query.distance]
    for most in (4 * end + 100, MOST_NEAREST):
        vectors = tx.rows(
            f"SELECT memory_id, {function}(embedding, %s) FROM {table}"
            " WHERE tenant_id = %s AND model = %s"
            f" ORDER BY {function}(embedding, %s) {how}LIMIT %s",
            [vector, tenant, query.model, vector, most],
        )
        is_all = not how and len(vectors) < most
        rows = _of_vectors(tx, vectors, where, test, is_all=is_all)
        if len(rows) >= end:
            return rows[query.offset : end]
        if is_all:
            break  # items without a vector fill the page
    return None


def _of_vectors(
    tx: Transaction,
    vectors: Sequence[Row],
    where: WhereClause,
    test: Matches | None,
    *,
    is_all: bool,
) -> list[Row]:
    """Return the items of vectors in order, without the last distance: others may share it."""
    distances = {memory_id: distance for memory_id, distance in reversed(vectors)}
    if not is_all and vectors:
        distances = {key: one for key, one in distances.items() if one < vectors[-1][1]}
    rows = [
        (*row[1:], distances[row[0]])
        for row in tx.rows_in(
            f"SELECT m.memory_id, {ITEM_COLUMNS} FROM memories m"
            f" WHERE {where.sql} AND m.memory_id IN %s",
            [*where.values, distances],
        )
        if test is None or test(row[1 + _VALUE])
    ]
    rows.sort(key=lambda row: row[:3])
    rows.sort(key=lambda row: row[5], reverse=True)
    rows.sort(key=lambda row: row[ITEM_WIDTH])
    return rows


def _by_meaning(
    tx: Transaction, query: ItemQuery, table: str, where: WhereClause, test: Matches | None
) -> list[Row]:
    """Return the page from all vectors; the nearest vector of a memory counts."""
    near = _distances(query, table)
    sql = (
        f"SELECT {ITEM_COLUMNS}, d.distance FROM memories m LEFT JOIN ({near.sql}) d"
        f" ON d.tenant_id = m.tenant_id AND d.memory_id = m.memory_id WHERE {where.sql}"
        f" ORDER BY d.distance IS NULL, d.distance, {_ORDER}"
    )
    return _page(tx, sql, (*near.values, *where.values), query, test)


def _by_word(
    tx: Transaction, query: ItemQuery, where: WhereClause, test: Matches | None
) -> list[Row]:
    """Return all but the excluded items, nearest first; without a vector, those with a word."""
    table = _table(tx, query)
    near = _distances(query, table) if table else None
    named = WhereClause("m.memory_id NOT IN %s", (list(query.besides),)) if query.besides else None
    holds = [WhereClause("INSTR(m.terms, %s) > 0", (f" {term} ",)) for term in query.terms or ()]
    either = WhereClause(
        f"({' OR '.join(one.sql for one in holds) or 'FALSE'})",
        tuple(value for one in holds for value in one.values),
    )
    if query.vector is not None:
        either = WhereClause("TRUE")
    where = all_of(either, where, *([named] if named else []))
    distance, joined, order = "NULL", "", _ORDER
    if near:
        distance, order = "d.distance", f"d.distance IS NULL, d.distance, {_ORDER}"
        joined = (
            f" LEFT JOIN ({near.sql}) d ON d.tenant_id = m.tenant_id AND d.memory_id = m.memory_id"
        )
    sql = (
        f"SELECT {ITEM_COLUMNS}, {distance} FROM memories m{joined} WHERE {where.sql}"
        f" ORDER BY {order}"
    )
    return _page(tx, sql, (*(near.values if near else ()), *where.values), query, test)


def _table(tx: Transaction, query: ItemQuery) -> str | None:
    """Return the table with the vectors of a query's model, or None without vectors."""
    dimensions = models(tx).get(query.model or "") if query.vector is not None else None
    return None if dimensions is None else table_of(dimensions)


def _distances(query: ItemQuery, table: str) -> WhereClause:
    """Return a subquery (not a condition) for the distance of each memory."""
    assert query.vector is not None
    scope = within(query.prefix, "e")
    return WhereClause(
        f"SELECT e.tenant_id, e.memory_id, MIN({_DISTANCE[query.distance]}(e.embedding, %s))"
        f" AS distance FROM {table} e WHERE e.model = %s AND {scope.sql}"
        " GROUP BY e.tenant_id, e.memory_id",
        (query_form(query.vector[0]), query.model, *scope.values),
    )


def _page(
    tx: Transaction, sql: str, values: Sequence[object], query: ItemQuery, test: Matches | None
) -> list[Row]:
    if test is None:
        return tx.rows(f"{sql} LIMIT %s OFFSET %s", [*values, query.limit, query.offset])
    found = (row for row in _stream(tx, sql, values) if test(row[_VALUE]))
    return list(islice(found, query.offset, query.offset + query.limit))


def _stream(tx: Transaction, sql: str, values: Sequence[object]) -> Iterator[Row]:
    """Yield all rows in order; pages do not overlap, because the transaction is a snapshot."""
    start, size = 0, FIRST_ROWS
    while True:
        rows = tx.rows(f"{sql} LIMIT %s OFFSET %s", [*values, size, start])
        yield from rows
        if len(rows) < size:
            return
        start, size = start + size, min(2 * size, MOST_ROWS)


def _plain_start(labels: Sequence[str]) -> Namespace:
    """Return the labels before the first wildcard."""
    wild = [position for position, label in enumerate(labels) if label == "*"]
    return tuple(labels[: wild[0]] if wild else labels)


def _is_named(labels: Namespace, query: NamespaceQuery) -> bool:
    return all(_fits(labels[: len(prefix)], prefix) for prefix in query.prefixes) and all(
        _fits(labels[max(len(labels) - len(suffix), 0) :], suffix) for suffix in query.suffixes
    )


def _fits(labels: Sequence[str], pattern: Sequence[str]) -> bool:
    return len(labels) == len(pattern) and all(
        one in ("*", label) for label, one in zip(labels, pattern, strict=True)
    )
