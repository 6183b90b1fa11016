"""Finding items below a namespace: listed, by meaning, or by a word; and where there are any.

One order for every way of a search: nearest first, then the newest, then by address. So a page
does not depend on which way it was found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice

from shared_core.core.domain import Namespace
from shared_core.core.namespaces import from_path, path_end, rest_of, tenant_of, to_path
from shared_core.ports.items import ItemQuery, NamespaceQuery
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction, pages
from shared_core.storage.oceanbase.filters import Matches
from shared_core.storage.oceanbase.rows import ITEM_COLUMNS, item_columns
from shared_core.storage.oceanbase.vectors import LargeTenants, asked_form, models, table_of
from shared_core.storage.oceanbase.visibility import Condition, all_of, below, current, living

TENANT_DEPTH = 2

DEEPEST = 100
"""Pages that end further down are read from all vectors."""

MOST_NEAREST = 1_000
"""So many of the nearest vectors are looked at before all are read, for want of results."""

FIRST_ROWS, MOST_ROWS = 500, 16_000
"""What is read at once of rows that a filter goes through: twice as many each time."""

_VALUE = 3
_ORDER = "m.updated_at DESC, m.tenant_id, m.namespace, m.`key`"


def within(prefix: Namespace, alias: str = "m") -> Condition:
    """Return which tenants a prefix is about: one, or those below a path."""
    tenant = tenant_of(prefix)
    if len(prefix) >= TENANT_DEPTH:
        return Condition(f"{alias}.tenant_id = %s", (tenant,))
    return Condition(
        f"{alias}.tenant_id >= %s AND {alias}.tenant_id < %s", (tenant, path_end(tenant))
    )


def find(
    tx: Transaction, query: ItemQuery, wanted: Matches | None, now: datetime, large: LargeTenants
) -> Sequence[Row]:
    """Return a page of item_columns(), with a distance after them where there is one."""
    where = all_of(within(query.prefix), below(rest_of(query.prefix)), current(now))
    if query.terms is not None:
        return _by_word(tx, query, where, wanted)
    if query.vector is None:
        sql = f"SELECT {item_columns('m')} FROM memories m WHERE {where.sql} ORDER BY {_ORDER}"
        return _page(tx, sql, where.values, query, wanted)
    table = _table(tx, query)
    if table is None:
        return []
    near = _nearest(tx, query, table, where, wanted, large)
    return _by_meaning(tx, query, table, where, wanted) if near is None else near


def namespaces(tx: Transaction, query: NamespaceQuery, now: datetime) -> list[Namespace]:
    """Return namespaces that hold living items, cut to a depth, in the order of their labels.

    Raises InvalidInput for a label that cannot be.
    """
    for labels in (*query.prefixes, *query.suffixes):
        to_path(labels)
    plain = max((_plain_start(prefix) for prefix in query.prefixes), key=len, default=())
    where = all_of(within(plain), below(rest_of(plain)), living(now))
    found = {
        labels[: query.max_depth]
        for tenant, path in tx.rows(
            f"SELECT DISTINCT m.tenant_id, m.namespace FROM memories m WHERE {where.sql}",
            *where.values,
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
    """Return the page of one tenant from its nearest vectors, or None where they do not fill it."""
    end = query.offset + query.limit
    if len(query.prefix) < TENANT_DEPTH or end > DEEPEST:
        return None
    assert query.vector is not None and query.model is not None
    tenant, asked = tenant_of(query.prefix), asked_form(query.vector[0])
    how = "APPROXIMATE " if large.has(tx, tenant, query.model, table) else ""
    for most in (4 * end + 100, MOST_NEAREST):
        vectors = tx.rows(
            f"SELECT memory_id, cosine_distance(embedding, %s) FROM {table}"
            " WHERE tenant_id = %s AND model = %s"
            f" ORDER BY cosine_distance(embedding, %s) {how}LIMIT %s",
            asked,
            tenant,
            query.model,
            asked,
            most,
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
    """Return the items of vectors, in order. The last distance is dropped: others may share it."""
    distances = {memory_id: distance for memory_id, distance in reversed(vectors)}
    if not is_all and vectors:
        distances = {key: one for key, one in distances.items() if one < vectors[-1][1]}
    rows = [
        (*row[1:], distances[row[0]])
        for page in pages(list(distances))
        for row in tx.rows(
            f"SELECT m.memory_id, {item_columns('m')} FROM memories m"
            f" WHERE {where.sql} AND m.memory_id IN %s",
            *where.values,
            page,
        )
        if wanted is None or wanted(row[1 + _VALUE])
    ]
    rows.sort(key=lambda row: row[:3])
    rows.sort(key=lambda row: row[5], reverse=True)
    rows.sort(key=lambda row: row[ITEM_COLUMNS])
    return rows


def _by_meaning(
    tx: Transaction, query: ItemQuery, table: str, where: Condition, wanted: Matches | None
) -> list[Row]:
    """Return the page from all vectors, each memory by the nearest of its own."""
    near = _distances(query, table)
    sql = (
        f"SELECT {item_columns('m')}, d.distance FROM ({near.sql}) d JOIN memories m"
        f" ON m.tenant_id = d.tenant_id AND m.memory_id = d.memory_id WHERE {where.sql}"
        f" ORDER BY d.distance, {_ORDER}"
    )
    return _page(tx, sql, (*near.values, *where.values), query, wanted)


def _by_word(
    tx: Transaction, query: ItemQuery, where: Condition, wanted: Matches | None
) -> list[Row]:
    """Return what has a vector, nearest first, then what holds a word, without those named."""
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
        f"SELECT {item_columns('m')}, {distance} FROM memories m{joined} WHERE {where.sql}"
        f" ORDER BY {order}"
    )
    return _page(tx, sql, (*(near.values if near else ()), *where.values), query, wanted)


def _table(tx: Transaction, query: ItemQuery) -> str | None:
    """Return where the vectors of a query are; None where it has none, or its model none."""
    dimensions = models(tx).get(query.model or "") if query.vector is not None else None
    return None if dimensions is None else table_of(dimensions)


def _distances(query: ItemQuery, table: str) -> Condition:
    """Return what tells how near each memory is: the query of a table, not a condition."""
    assert query.vector is not None
    scope = within(query.prefix, "e")
    return Condition(
        "SELECT e.tenant_id, e.memory_id, MIN(cosine_distance(e.embedding, %s)) AS distance"
        f" FROM {table} e WHERE e.model = %s AND {scope.sql} GROUP BY e.tenant_id, e.memory_id",
        (asked_form(query.vector[0]), query.model, *scope.values),
    )


def _page(
    tx: Transaction,
    sql: str,
    values: Sequence[object],
    query: ItemQuery,
    wanted: Matches | None,
) -> list[Row]:
    if wanted is None:
        return tx.rows(f"{sql} LIMIT %s OFFSET %s", *values, query.limit, query.offset)
    found = (row for row in _stream(tx, sql, values) if wanted(row[_VALUE]))
    return list(islice(found, query.offset, query.offset + query.limit))


def _stream(tx: Transaction, sql: str, values: Sequence[object]) -> Iterator[Row]:
    """Yield all rows in order; the transaction reads one moment, so no page overlaps another."""
    start, size = 0, FIRST_ROWS
    while True:
        rows = tx.rows(f"{sql} LIMIT %s OFFSET %s", *values, size, start)
        yield from rows
        if len(rows) < size:
            return
        start, size = start + size, min(2 * size, MOST_ROWS)


def _plain_start(labels: Sequence[str]) -> Namespace:
    """Return the labels before the first that may be any."""
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
