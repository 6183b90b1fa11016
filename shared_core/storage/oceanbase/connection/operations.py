"""Runs the operations of policies as statements of one transaction (shared_core.ports.operations).

Every statement names the tenant, for each table it reads. Long lists are sent in pages, and the
rows of the pages are joined as if they had been asked for at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from operator import itemgetter
from typing import Any, TypeVar, assert_never, cast

from shared_core.core.namespaces import ROOT
from shared_core.errors import Conflict
from shared_core.ports.operations import (
    Aggregate,
    Condition,
    Delete,
    Insert,
    Join,
    Last,
    Member,
    Operation,
    Policy,
    Row,
    Select,
    Update,
    UpdateEach,
    Verb,
    compare,
    one_of,
    one_of_rows,
)
from shared_core.storage.oceanbase.connection.columns import ColumnType, tables
from shared_core.storage.oceanbase.connection.errors import check_thread_id
from shared_core.storage.oceanbase.connection.transactions import BYTES_AT_ONCE, Transaction, pages

T = TypeVar("T")
SET_AT_ONCE = 200
"""Maximum number of rows in one UPDATE that gives each its own values."""
_SUMMED = ("count", "sum", "bytes")
_AGGREGATES = {
    "count": "COUNT(*)",
    "max": "MAX({})",
    "min": "MIN({})",
    "sum": "COALESCE(SUM({}), 0)",
    "bytes": "COALESCE(SUM(LENGTH({})), 0)",
}
_LOCKS = {None: "", "update": " FOR UPDATE", "skip": " FOR UPDATE SKIP LOCKED"}
_DELETED_FIRST = ("memory_sources", "memory_access")
"""Deleting these rows of memories first halves the time that their foreign keys would take."""
Sql = tuple[str, list[Any]]
"""A part of a statement, and its values."""
RunVerb = Callable[..., Sequence[Row]]
"""Runs a verb with a transaction, the tenant and the arguments of the verb."""


@dataclass(frozen=True, slots=True)
class Operations:
    """Runs operations. verbs: by name. vector_tables: returns the tables that hold vectors."""

    verbs: Mapping[str, RunVerb]
    vector_tables: Callable[[Transaction], Sequence[str]]

    def run(self, tx: Transaction, tenant: str, operation: Operation) -> list[Row]:
        """Run an operation on a tenant's rows, and return its rows."""
        match operation:
            case Select(table="embeddings"):
                return self._vectors(tx, tenant, operation)
            case Select():
                return selected(tx, tenant, operation)
            case Verb(name, arguments):
                return list(self.verbs[name](tx, tenant, *arguments))
            case Insert():
                _insert(tx, tenant, operation)
            case UpdateEach():
                _update_each(tx, tenant, operation)
            case Update(table="embeddings"):
                self._move_vectors(tx, tenant, operation)
            case Update():
                return _update(tx, tenant, operation)
            case Delete(table="memories" | "embeddings"):
                return self._delete_memories(tx, tenant, operation)
            case Delete():
                return _delete(tx, tenant, operation)
            case _:
                assert_never(operation)
        return []

    def _vectors(self, tx: Transaction, tenant: str, select: Select) -> list[Row]:
        """Return what a Select finds in the tables of all dimensions."""
        names = self.vector_tables(tx)
        rows = [row for one in names for row in selected(tx, tenant, replace(select, table=one))]
        if not names and select.columns == (Aggregate("count"),):
            return [(0,)]
        return _joined(select, rows)

    def _delete_memories(self, tx: Transaction, tenant: str, deleted: Delete) -> list[Row]:
        """Delete memories with the rows that depend on them, or their vectors alone."""
        ids, rows = _named_memories(deleted.where), list[Row]()
        if deleted.table == "embeddings":
            assert ids is not None and not deleted.returning, "vectors go with named memories"
        elif ids is None or deleted.returning:
            ids, rows = _held(tx, tenant, "memories", deleted.where, deleted.returning)
            ids = [memory_id for (memory_id,) in ids]
        last = (*_DELETED_FIRST, "memories") if deleted.table == "memories" else ()
        for page in pages(ids or []):
            for table in (*self.vector_tables(tx), *last):
                tx.run(
                    f"DELETE FROM {table} WHERE tenant_id = %s AND memory_id IN %s", [tenant, page]
                )
        return rows

    def _move_vectors(self, tx: Transaction, tenant: str, moved: Update) -> None:
        ids = _named_memories(moved.where)
        assert ids is not None and set(moved.values) == {"memory_id"} and not moved.returning
        for table in self.vector_tables(tx):
            named = f"FROM {table} WHERE tenant_id = %s AND memory_id IN %s"
            tx.run(
                f"INSERT INTO {table} (tenant_id, model, memory_id, field, embedding)"
                f" SELECT tenant_id, model, %s, field, embedding {named}",
                [moved.values["memory_id"], tenant, ids],
            )
            tx.run(f"DELETE {named}", [tenant, ids])


def _named_memories(where: Sequence[Condition]) -> list[Any] | None:
    """Return the ids in a condition that names memories and nothing else, or None."""
    if len(where) == 1 and where[0].columns == ("memory_id",):
        if where[0].comparison == "=":
            return [where[0].value]
        if where[0].comparison == "in":
            return list(dict.fromkeys(where[0].value))
    return None


class _Names:
    """The columns that a statement may name. prefix: of the columns of the first table."""

    def __init__(self, table: str, joins: Sequence[Join] = (), prefix: str = "") -> None:
        if table.startswith("embeddings_"):
            table = "embeddings"
        self._tables = {"t": table, **{join.alias: join.table for join in joins}}
        self._prefix = prefix

    def type_of(self, column: str | Aggregate | Member) -> ColumnType:
        """Return the type of a column or of an aggregate."""
        if isinstance(column, Aggregate) and column.function in _SUMMED:
            return ColumnType.INTEGER
        if not isinstance(column, str):
            column = column.column
        alias, _, name = column.rpartition(".")
        return tables()[self._tables[alias or "t"]].columns[name]

    def quoted(self, column: str) -> str:
        """Return a column as a statement names it."""
        alias, _, name = column.rpartition(".")
        assert name in tables()[self._tables[alias or "t"]].columns, f"no column {column}"
        return f"{alias}.`{name}`" if alias else f"{self._prefix}`{name}`"

    def compared(self, column: str) -> str:
        """Return a column as a term that compares byte by byte."""
        kind = self.type_of(column)
        assert kind not in (ColumnType.JSON, ColumnType.LIST), f"{column} cannot be compared"
        quoted = self.quoted(column)
        return f"CAST({quoted} AS BINARY)" if kind is ColumnType.LONG_TEXT else quoted

    def all_of(self, tenant: Sql, where: Sequence[Condition]) -> Sql:
        """Return the condition that all conditions hold for a tenant's rows."""
        parts = [tenant, *map(self._condition, where)]
        return " AND ".join(sql for sql, _ in parts), [one for _, some in parts for one in some]

    def _condition(self, condition: Condition) -> Sql:
        if condition.comparison in ("null", "not null"):
            is_null = f"{self.quoted(condition.columns[0])} IS {condition.comparison.upper()}"
            return is_null, []
        names = [self.compared(column) for column in condition.columns]
        kinds = [self.type_of(column) for column in condition.columns]
        value, comparison, first = condition.value, condition.comparison, names[0]
        if len(names) > 1:
            assert comparison in ("in", ">"), f"{comparison} takes one column"
            together = f"({', '.join(names)})"
            if comparison == "in":
                rows = [_stored(kinds, row) for row in value]
                return f"{together} IN %s", [rows or [(None,) * len(names)]]
            row = _stored(kinds, value)
            # The first column by itself as well: it bounds the part of the index to read.
            return f"{first} >= %s AND {together} > %s", [row[0], row]
        stored = kinds[0].stored
        match comparison:
            case "in":
                return f"{first} IN %s", [[stored(one) for one in value]]
            case "null or >":
                return f"({first} IS NULL OR {first} > %s)", [stored(value)]
            case "prefix":
                low = value.encode()
                if not low:
                    return f"{first} IS NOT NULL", []
                # No byte of UTF-8 is 255, so the next byte exists.
                return f"{first} >= %s AND {first} < %s", [low, low[:-1] + bytes([low[-1] + 1])]
            case _:
                return f"{first} {comparison} %s", [stored(value)]


def _stored(kinds: Sequence[ColumnType], row: Sequence[object]) -> tuple[object, ...]:
    return tuple(kind.stored(value) for kind, value in zip(kinds, row, strict=True))


def _paged(where: Sequence[Condition]) -> Iterator[tuple[Condition, ...]]:
    """Yield conditions with their lists cut into pages; nothing if one of the lists is empty."""
    return product(*map(_pages_of, where))


def _pages_of(condition: Condition) -> list[Condition]:
    if condition.comparison != "in":
        return [condition]
    several = len(condition.columns) > 1
    values = dict.fromkeys(map(tuple, condition.value) if several else condition.value)
    return [replace(condition, value=page) for page in pages(values)]


def selected(tx: Transaction, tenant: str, select: Select) -> list[Row]:
    """Return the rows of a Select, all pages of its lists together.

    Members are found here: the server refuses JSON that is nested deeper than 100 levels.
    """
    members = {n: one for n, one in enumerate(select.columns) if isinstance(one, Member)}
    if members:
        whole = tuple(one.column if isinstance(one, Member) else one for one in select.columns)
        return [
            tuple(members[n].of(value) if n in members else value for n, value in enumerate(row))
            for row in selected(tx, tenant, replace(select, columns=whole))
        ]
    names = _Names(select.table, select.joins, "t.")
    plain = [column for column in select.columns if isinstance(column, str)]
    assert not (select.joins and (select.above or select.lock)), "joins are neither above nor held"
    all_pages = list(_paged(select.where))
    is_one_group = len(plain) < len(select.columns) and not plain
    if not all_pages and is_one_group:
        all_pages = [select.where]
    # The server counts the rows that it leaves out towards a LIMIT.
    are_joined = len(all_pages) > 1 or select.lock == "skip"
    columns, limit = select.columns, select.limit
    if are_joined:
        by = [name for name in map(_bare, select.order) if name not in columns]
        assert not by or (len(plain) == len(columns) and not select.is_distinct), (
            f"{select.table}: the order needs {by} among the columns"
        )
        columns = (*columns, *by)
        if len(plain) < len(select.columns) or select.lock == "skip":
            limit = None
    rows = list[Row]()
    for where in all_pages:
        rows += tx.rows(*_text(tenant, replace(select, columns=columns, where=where, limit=limit)))
    if are_joined:
        rows = _joined(replace(select, columns=columns), rows)
    kinds = [names.type_of(column) for column in select.columns]
    return [
        tuple(kind.loaded(value) for kind, value in zip(kinds, row, strict=False)) for row in rows
    ]


def queried(tx: Transaction, tenant: str, reader: Policy[T]) -> T:
    """Return what a policy that only reads returns."""
    try:
        batch = next(reader)
        while True:
            assert not isinstance(batch, Last), "a policy of queried() only reads"
            batch = reader.send([selected(tx, tenant, cast(Select, one)) for one in batch])
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def _bare(column: str) -> str:
    return column.removeprefix("-")


def _text(tenant: str, select: Select) -> Sql:
    """Return the statement of a Select whose lists fit into one."""
    names = _Names(select.table, select.joins, "t.")
    is_grouped = any(isinstance(column, Aggregate) for column in select.columns)
    plain = [column for column in select.columns if isinstance(column, str)]
    # Rows that are the same to the server's text comparison may differ in spaces.
    shown = names.compared if is_grouped or select.is_distinct else names.quoted
    columns = ", ".join(
        _AGGREGATES[column.function].format(names.quoted(column.column or "tenant_id"))
        if isinstance(column, Aggregate)
        else shown(column if isinstance(column, str) else column.column)
        for column in select.columns
    )
    distinct, hint = "DISTINCT " * select.is_distinct, _looked_up(select.joins)
    sql, values = f"SELECT {hint}{distinct}{columns} FROM {select.table} t", []
    for join in select.joins:
        sql += f" {'LEFT' if join.is_left else 'INNER'} JOIN {join.table} {join.alias}"
        sql += f" ON {join.alias}.tenant_id = %s"
        sql += "".join(
            f" AND {join.alias}.`{theirs}` = {names.quoted(ours)}" for ours, theirs in join.on
        )
        values.append(tenant)
    of_tenant = ("t.tenant_id IN %s", [_above(tenant)]) if select.above else _of(tenant, "t.")
    condition, bound = names.all_of(of_tenant, select.where)
    sql += f" WHERE {condition}"
    if is_grouped and plain:
        sql += f" GROUP BY {', '.join(map(names.compared, plain))}"
    if select.order:
        order = (f"{shown(_bare(one))}{' DESC' * one.startswith('-')}" for one in select.order)
        sql += f" ORDER BY {', '.join(order)}"
    if select.limit is not None:
        sql += " LIMIT %s"
        bound = [*bound, select.limit]
    return sql + _LOCKS[select.lock], [*values, *bound]


def _looked_up(joins: Sequence[Join]) -> str:
    """Return the hint to look joined rows up by their keys.

    Otherwise the server may read all rows of a tenant in both tables and merge them.
    """
    aliases = ", ".join(join.alias for join in joins)
    return f"/*+ LEADING(t, {aliases}) USE_NL({aliases}) */ " if joins else ""


def _of(tenant: str, prefix: str = "") -> Sql:
    return f"{prefix}tenant_id = %s", [tenant]


def _above(tenant: str) -> list[str]:
    application = "/".join([*tenant.split("/")[:2], ""])
    return list(dict.fromkeys((ROOT, application, tenant)))


def _joined(select: Select, rows: list[Row]) -> list[Row]:
    """Return the rows of all pages as those of one statement. order: among the columns."""
    if any(isinstance(column, Aggregate) for column in select.columns):
        rows = _regrouped(select.columns, rows)
    if select.is_distinct:
        rows = list(dict.fromkeys(rows))
    for one in reversed(select.order):
        place = select.columns.index(_bare(one))
        rows.sort(key=itemgetter(place), reverse=one.startswith("-"))
    return rows if select.limit is None else rows[: select.limit]


def _regrouped(columns: Sequence[str | Aggregate | Member], rows: Sequence[Row]) -> list[Row]:
    """Return one row for each value of the plain columns."""
    groups: dict[Row, list[Row]] = {}
    for row in rows:
        key = tuple(v for column, v in zip(columns, row, strict=True) if isinstance(column, str))
        groups.setdefault(key, []).append(row)
    return [
        tuple(
            _aggregated(column, [row[place] for row in some])
            if isinstance(column, Aggregate)
            else some[0][place]
            for place, column in enumerate(columns)
        )
        for some in groups.values()
    ]


def _aggregated(aggregate: Aggregate, values: Sequence[Any]) -> Any:
    there = [value for value in values if value is not None]
    if not there:
        return None
    if aggregate.function in _SUMMED:
        return sum(there)
    return max(there) if aggregate.function == "max" else min(there)


def _insert(tx: Transaction, tenant: str, insert: Insert) -> None:
    table = tables()[insert.table]
    kinds = [table.columns[column] for column in insert.columns]
    left_out = {name: text for name, text in table.left_out.items() if name not in insert.columns}
    if insert.table == "threads":
        place = insert.columns.index("thread_id")
        for row in insert.rows:
            check_thread_id(str(row[place]))
    if insert.exists == "update":
        for unique in table.unique:
            _require_own(tx, tenant, insert, unique)
    # The last column is one of the key: what keeps a row assigns it to itself.
    columns = (*left_out, *insert.columns, "tenant_id")
    tx.insert(
        insert.table,
        [f"`{column}`" for column in columns],
        ((*left_out.values(), *_stored(kinds, row), tenant) for row in insert.rows),
        update=[f"`{column}`" for column in insert.update] if insert.exists == "update" else None,
        ignore=insert.exists == "keep",
    )


def _require_own(tx: Transaction, tenant: str, insert: Insert, unique: tuple[str, ...]) -> None:
    """Raise Conflict if another row holds the values of a second unique key.

    ON DUPLICATE KEY UPDATE would overwrite that row.
    """
    key, columns = tables()[insert.table].key, insert.columns
    if not set(unique) <= set(columns):
        return
    given = {
        tuple(row[columns.index(name)] for name in unique): tuple(
            row[columns.index(name)] for name in key
        )
        for row in insert.rows
    }
    held = Select(insert.table, (*unique, *key), (one_of_rows(unique, list(given)),))
    for row in selected(tx, tenant, held):
        if given[row[: len(unique)]] != row[len(unique) :]:
            raise Conflict(f"another row of {insert.table} has the {' and '.join(unique)} of one")


def _update(tx: Transaction, tenant: str, update: Update) -> list[Row]:
    names = _Names(update.table)
    kinds = {column: names.type_of(column) for column in update.values}
    new = {column: kinds[column].stored(value) for column, value in update.values.items()}
    where, rows = update.where, list[Row]()
    if update.returning:
        keys, rows = _held(tx, tenant, update.table, update.where, update.returning)
        where = _by_key(update.table, keys)
    assigned = ", ".join(f"{names.quoted(column)} = %s" for column in new)
    for page in _paged(where) if rows or not update.returning else ():
        condition, values = names.all_of(_of(tenant), page)
        tx.run(f"UPDATE {update.table} SET {assigned} WHERE {condition}", [*new.values(), *values])
    now = {column: kinds[column].loaded(value) for column, value in new.items()}
    return [
        tuple(now.get(name, old) for name, old in zip(update.returning, row, strict=True))
        for row in rows
    ]


def _delete(tx: Transaction, tenant: str, delete: Delete) -> list[Row]:
    names, where, rows = _Names(delete.table), delete.where, list[Row]()
    if delete.returning:
        keys, rows = _held(tx, tenant, delete.table, delete.where, delete.returning)
        where = _by_key(delete.table, keys)
    for page in _paged(where) if rows or not delete.returning else ():
        condition, values = names.all_of(_of(tenant), page)
        tx.run(f"DELETE FROM {delete.table} WHERE {condition}", values)
    return rows


def _held(
    tx: Transaction, tenant: str, table: str, where: tuple[Condition, ...], columns: tuple[str, ...]
) -> tuple[list[Row], list[Row]]:
    """Lock rows, and return the keys and the columns of each."""
    key = tables()[table].key
    rows = selected(tx, tenant, Select(table, (*key, *columns), where, lock="update"))
    return [row[: len(key)] for row in rows], [row[len(key) :] for row in rows]


def _by_key(table: str, keys: Sequence[Row]) -> tuple[Condition, ...]:
    """Return the condition that names rows by their keys."""
    key = tables()[table].key
    if not key:  # a tenant has one row
        return ()
    if len(key) == 1:
        return (one_of(key[0], [value for (value,) in keys]),)
    return (one_of_rows(key, keys),)


def _update_each(tx: Transaction, tenant: str, update: UpdateEach) -> None:
    assert not set(update.key) & set(update.columns), "a key is not set"
    names, width = _Names(update.table), len(update.key)
    kinds = [names.type_of(column) for column in (*update.key, *update.columns)]
    is_it = " AND ".join(f"{names.quoted(column)} = %s" for column in update.key)
    last_of_each = {tuple(row[:width]): row for row in update.rows}
    for page in _sized([_stored(kinds, row) for row in last_of_each.values()]):
        cases, bound = list[str](), list[object]()
        for place, column in enumerate(map(names.quoted, update.columns), width):
            cases.append(f"{column} = CASE{f' WHEN {is_it} THEN %s' * len(page)} ELSE {column} END")
            bound += [value for row in page for value in (*row[:width], row[place])]
        keys = [row[:width] if width > 1 else row[0] for row in page]
        listed = compare(update.key[0], "in", keys) if width == 1 else one_of_rows(update.key, keys)
        condition, values = names.all_of(_of(tenant), (listed,))
        tx.run(f"UPDATE {update.table} SET {', '.join(cases)} WHERE {condition}", [*bound, *values])


def _sized(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Yield rows in lists that fit into one UPDATE."""
    page, size = list[Row](), 0
    for row in rows:
        one = sum(len(value) for value in row if isinstance(value, str | bytes))
        if page and (len(page) == SET_AT_ONCE or size + one > BYTES_AT_ONCE):
            yield page
            page, size = [], 0
        page.append(row)
        size += one
    if page:
        yield page
