"""Finds items below a namespace: listed, by meaning or by a word; and lists namespaces.

Every search has the same order: nearest first, then newest, then by address. So a page does not
depend on the way it was found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice

from shared_core.core.domain import Namespace
from shared_core.core.namespaces import from_path, path_end, rest_of, tenant_of, to_path
from shared_core.ports.items import ItemQuery, NamespaceQuery
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction
from shared_core.storage.oceanbase.filters import Matches
from shared_core.storage.oceanbase.rows import ITEM_COLUMNS, ITEM_WIDTH
from shared_core.storage.oceanbase.vectors import LargeTenants, asked_form, models, table_of
from shared_core.storage.oceanbase.visibility import Condition, all_of, below, current, living

TENANT_DEPTH = 2
DEEPEST = 100
"""Pages that end beyond this position are read from all vectors."""
MOST_NEAREST = 1_000
"""Number of nearest vectors to try before all are read, if too few of them match."""
FIRST_ROWS, MOST_ROWS = 500, 16_000
"""Rows per read for a filter in Python: first and maximum; the number doubles each time."""
_VALUE = 3
_ORDER = "m.updated_at DESC, m.tenant_id, m.namespace, m.`key`"


def within(prefix: Namespace, alias: str = "m") -> Condition:
    """Return the condition on the tenants of a prefix: one, or all below a path."""
    tenant = tenant_of(prefix)
    if len(prefix) >= TENANT_DEPTH:
        return Condition(f"{alias}.tenant_id = %s", (tenant,))
    return Condition(
        f"{alias}.tenant_id >= %s AND {alias}.tenant_id < %s", (tenant, path_end(tenant))
    )


def find(
    tx: Transaction, query: ItemQuery, wanted: Matches | None, now: datetime, large: LargeTenants
) -> Sequence[Row]:
    """Return a page of ITEM_COLUMNS, followed by a distance if there is one."""
    where = all_of(within(query.prefix), below(rest_of(query.prefix)), current(now))
    if query.terms is not None:
        return _by_word(tx, query, where, wanted)
    if query.vector is None:
        sql = f"SELECT {ITEM_COLUMNS} FROM memories m WHERE {where.sql} ORDER BY {_ORDER}"
        return _page(tx, sql, where.values, query, wanted)
    table = _table(tx, query)
    if table is None:
        return []
    near = _nearest(tx, query, table, where, wanted, large)
    return _by_meaning(tx, query, table, where, wanted) if near is None else near


def namespaces(tx: Transaction, query: NamespaceQuery, now: datetime) -> list[Namespace]:
    """Return namespaces with living items, cut to a depth and sorted by their labels.

    Raises InvalidInput for an invalid label.
    """
    for labels in (*query.prefixes, *query.suffixes):
        to_path(labels)
    plain = max((_plain_start(prefix) for prefix in query.prefixes), key=len, default=())
    where = all_of(within(plain), below(rest_of(plain)), living(now))
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
    where: Condition,
    wanted: Matches | None,
    large: LargeTenants,
) -> list[Row] | None:
    """Return a page of one tenant from its nearest vectors, or None if they do not fill it."""
    end = query.offset + query.limit
    if len(query.prefix) < TENANT_DEPTH or end > DEEPEST:
        return None
    assert query.vector is not None and query.model is not None
    tenant, asked = tenant_of(query.prefix), asked_form(query.vector[0])
    # Exact search is complete and fast enough below the threshold (decision 14).
    how = "APPROXIMATE " if large.has(tx, tenant, query.model, table) else ""
    for most in (4 * end + 100, MOST_NEAREST):
        vectors = tx.rows(
            f"SELECT memory_id, cosine_distance(embedding, %s) FROM {table}"
            " WHERE tenant_id = %s AND model = %s"
            f" ORDER BY cosine_distance(embedding, %s) {how}LIMIT %s",
            [asked, tenant, query.model, asked, most],
        )
        is_all = not how and len(vectors) < most
        rows = _of_vectors(tx, vectors, where, wanted, is_all=is_all)
        if is_all or len(rows) >= end:
            return rows[query.offset : end]
    return None


def _of_vectors(
    tx: Transaction,
    vectors: Sequence[Row],
    where: Condition,
    wanted: Matches | None,
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
        if wanted is None or wanted(row[1 + _VALUE])
    ]
    rows.sort(key=lambda row: row[:3])
    rows.sort(key=lambda row: row[5], reverse=True)
    rows.sort(key=lambda row: row[ITEM_WIDTH])
    return rows


def _by_meaning(
    tx: Transaction, query: ItemQuery, table: str, where: Condition, wanted: Matches | None
) -> list[Row]:
    """Return the page from all vectors; the nearest vector of a memory counts."""
    near = _distances(query, table)
    sql = (
        f"SELECT {ITEM_COLUMNS}, d.distance FROM ({near.sql}) d JOIN memories m"
        f" ON m.tenant_id = d.tenant_id AND m.memory_id = d.memory_id WHERE {where.sql}"
        f" ORDER BY d.distance, {_ORDER}"
    )
    return _page(tx, sql, (*near.values, *where.values), query, wanted)


def _by_word(
    tx: Transaction, query: ItemQuery, where: Condition, wanted: Matches | None
) -> list[Row]:
    """Return items with a vector, nearest first, then items with a word, without excluded ones."""
    table = _table(tx, query)
    near = _distances(query, table) if table else None
    named = Condition("m.memory_id NOT IN %s", (list(query.besides),)) if query.besides else None
    holds = [Condition("INSTR(m.terms, %s) > 0", (f" {term} ",)) for term in query.terms or ()]
    found = [*([Condition("d.distance IS NOT NULL")] if near else []), *holds]
    either = Condition(
        f"({' OR '.join(one.sql for one in found) or 'FALSE'})",
        tuple(value for one in found for value in one.values),
    )
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
    return _page(tx, sql, (*(near.values if near else ()), *where.values), query, wanted)


def _table(tx: Transaction, query: ItemQuery) -> str | None:
    """Return the table with the vectors of a query's model, or None without vectors."""
    dimensions = models(tx).get(query.model or "") if query.vector is not None else None
    return None if dimensions is None else table_of(dimensions)


def _distances(query: ItemQuery, table: str) -> Condition:
    """Return a subquery (not a condition) for the distance of each memory."""
    assert query.vector is not None
    scope = within(query.prefix, "e")
    return Condition(
        "SELECT e.tenant_id, e.memory_id, MIN(cosine_distance(e.embedding, %s)) AS distance"
        f" FROM {table} e WHERE e.model = %s AND {scope.sql} GROUP BY e.tenant_id, e.memory_id",
        (asked_form(query.vector[0]), query.model, *scope.values),
    )


def _page(
    tx: Transaction, sql: str, values: Sequence[object], query: ItemQuery, wanted: Matches | None
) -> list[Row]:
    if wanted is None:
        return tx.rows(f"{sql} LIMIT %s OFFSET %s", [*values, query.limit, query.offset])
    found = (row for row in _stream(tx, sql, values) if wanted(row[_VALUE]))
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


def _fits(labels: Sequence[str], wanted: Sequence[str]) -> bool:
    return len(labels) == len(wanted) and all(
        one in ("*", label) for label, one in zip(labels, wanted, strict=True)
    )
