"""Compiles operations to SQL of PostgreSQL: one text for each shape, the tenant at every level.

Four rules keep the plans right on tables that nobody has analysed, under row security:
a join is a look-up by key for each row (LATERAL, OFFSET 0), because the planner would start at the
other end and read a whole tenant; pairs are also compared column by column (= ANY), so that the
index is found; rows with values of their own are named by their keys in the same way. Pairs that
are written to are joined and looked up by their key, or each write reads the threads of its turns.
Lists travel as arrays: a shape has one text whatever their length. A value that a partial index
names stands in the text, because a generic plan cannot prove that a parameter has it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, TypeAlias

import psycopg

from shared_core.core.json_text import to_json
from shared_core.ports.operations import (
    Aggregate,
    Condition,
    Delete,
    Insert,
    Join,
    Member,
    Select,
    Update,
    UpdateEach,
)
from shared_core.ports.tables import migrations, tables
from shared_core.storage._rows import to_tsvector
from shared_core.storage.postgres.connection.pipeline import Statement

Compiled: TypeAlias = Select | Insert | Update | UpdateEach | Delete
_TENANT = "%(p0)b::text"
_JSON = ("jsonb", "json")
_FLOATS = ("real", "double precision")
_PARTIAL = re.compile(r"^CREATE [^;]* ON (\w+) [^;]* WHERE (\w+) = '(\w+)';", re.MULTILINE)
_AGGREGATES = {
    "count": "count(*)",
    "max": "max({0})",
    "min": "min({0})",
    "sum": "coalesce(sum({0}), 0)::bigint",
    "bytes": "coalesce(sum(octet_length({0})), 0)::bigint",
}
_ABOVE = f"ARRAY['/', substring({_TENANT} FROM '^/[^/]+/'), {_TENANT}]"


@cache
def column_types() -> Mapping[str, Mapping[str, str]]:
    """Return the types of all columns by table."""
    return {
        name: {column.name: column.type for column in table.columns.values()}
        for name, table in tables().items()
    }


@cache
def _indexed_values() -> frozenset[tuple[str, str, str]]:
    """Return the table, column and value of each partial index that holds one value alone."""
    return frozenset(_PARTIAL.findall(migrations()))


def _literal(table: str, condition: Condition) -> str | None:
    """Return the value that a condition compares with if its text must say it."""
    if condition.comparison != "=" or not isinstance(condition.value, str):
        return None
    named = (table, condition.columns[0], condition.value)
    return condition.value if named in _indexed_values() else None


def _comparison(table: str, condition: Condition) -> str:
    value = _literal(table, condition)
    return condition.comparison if value is None else f"= '{value}'"


def tables_of(error: psycopg.Error) -> set[str]:
    """Return the tables that a violated key is about: of a foreign key, both.

    A node of a Citus cluster names them only in its texts, and as shards.
    """
    told = f"{error.diag.table_name} {error.diag.message_primary} {error.diag.message_detail}"
    return {name for name in re.findall(r"\b([a-z_]+?)(?:_\d+)?\b", told) if name in column_types()}


def compiled(operation: Compiled, tenant: str) -> Statement:
    """Return the statement of an operation in a tenant."""
    values: dict[str, Any] = {"p0": tenant}
    for place, value in enumerate(_values(operation), 1):
        values[f"p{place}"] = value
    return _text(_shape(operation)), values


class _Shape(tuple[Any, ...]):
    """An operation without its values: whatever decides its text."""

    __slots__ = ()


def _shape(operation: Compiled) -> _Shape:
    name = type(operation).__name__
    if isinstance(operation, Insert):
        rest: tuple[Any, ...] = (operation.columns, operation.exists, operation.update)
    elif isinstance(operation, UpdateEach):
        rest = (operation.key, operation.columns)
    else:
        table = operation.table
        where = tuple((one.columns, _comparison(table, one)) for one in operation.where)
        if isinstance(operation, Select):
            has_limit = operation.limit is not None
            rest = (operation.columns, where, operation.joins, operation.order, has_limit,
                    operation.is_distinct, operation.above, operation.lock)  # fmt: skip
        elif isinstance(operation, Update):
            rest = (tuple(operation.values), where, operation.returning)
        else:
            rest = (where, operation.returning)
    return _Shape((name, operation.table, *rest))


def _values(operation: Compiled) -> Iterator[Any]:
    """Yield the values of an operation in the order in which its text names them."""
    if isinstance(operation, Insert | UpdateEach):
        key = operation.key if isinstance(operation, UpdateEach) else ()
        names = (*key, *operation.columns)
        types = column_types()[operation.table]
        columns = zip(*operation.rows, strict=True) if operation.rows else ((),) * len(names)
        for name, column in zip(names, columns, strict=True):
            yield [_sent(value, types[name]) for value in column]
        return
    aliases = {"t": operation.table}
    if isinstance(operation, Update):
        types = column_types()[operation.table]
        for name, value in operation.values.items():
            yield _sent(value, types[name])
    if isinstance(operation, Select):
        aliases |= {join.alias: join.table for join in operation.joins}
    for condition in sorted(operation.where, key=_is_outer):
        if _literal(operation.table, condition) is None:
            yield from _compared(condition, aliases)
    if isinstance(operation, Select) and operation.limit is not None:
        yield operation.limit


def _compared(condition: Condition, aliases: Mapping[str, str]) -> Iterator[Any]:
    """Yield the values that a condition compares with."""
    types = [_type_of(column, aliases) for column in condition.columns]
    if condition.comparison == "in":
        if len(types) == 1:
            yield [_sent(value, types[0]) for value in condition.value]
            return
        rows = list(condition.value)
        columns = zip(*rows, strict=True) if rows else ((),) * len(types)
        for type_, column in zip(types, columns, strict=True):
            yield [_sent(value, type_) for value in column]
    elif condition.comparison not in ("null", "not null"):
        values = condition.value if len(types) > 1 else [condition.value]
        for type_, value in zip(types, values, strict=True):
            if value is None:
                raise AssertionError(f"{condition}: compare with null by is_null()")
            yield _sent(value, type_)


def _is_outer(condition: Condition) -> bool:
    return any("." in column for column in condition.columns)


def _sent(value: Any, type_: str) -> Any:
    """Return a value as it travels: JSON and arrays as text, numbers of a float column as float."""
    if value is None:
        return None
    if type_ in _JSON:
        return to_json(value)
    if type_ == "tsvector" and not isinstance(value, str):
        return to_tsvector(value)
    if type_ in _FLOATS:
        return float(value)
    if type_.endswith("[]"):
        return "{" + ",".join(_element(one) for one in value) + "}"
    return value


def _element(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _type_of(column: str, aliases: Mapping[str, str]) -> str:
    alias, _, name = column.rpartition(".")
    return column_types()[aliases[alias or "t"]][name]


@lru_cache(maxsize=1024)
def _text(shape: _Shape) -> bytes:
    kind, table, *rest = shape
    return _WRITERS[kind](_Writer(table), *rest).encode()


class _Writer:
    """Numbers the placeholders of one text, and knows the types of its columns."""

    def __init__(self, table: str) -> None:
        self.table = table
        self.aliases = {"t": table}
        self.rows_beside: list[str] = []
        self._places = 0

    def hole(self, type_: str) -> str:
        """Return the placeholder of the next value."""
        self._places += 1
        is_text = type_ in _JSON or type_ == "tsvector" or type_.endswith("[]")
        return f"%(p{self._places})b::" + (f"text::{type_}" if is_text else type_)

    def list_hole(self, type_: str) -> str:
        """Return the placeholder of the next list of values."""
        self._places += 1
        is_text = type_ in _JSON or type_ == "tsvector" or type_.endswith("[]")
        return f"%(p{self._places})b::" + ("text[]" if is_text else f"{type_}[]")

    def type_of(self, column: str) -> str:
        return _type_of(column, self.aliases)

    def all_of(
        self, where: Sequence[tuple[tuple[str, ...], str]], *, joins_rows: bool = False
    ) -> str:
        """Return the condition that the tenant and all conditions hold."""
        conditions = (self.condition(*one, joins_rows=joins_rows) for one in where)
        return " AND ".join([f"t.tenant_id = {_TENANT}", *conditions])

    def condition(
        self, columns: tuple[str, ...], comparison: str, *, joins_rows: bool = False
    ) -> str:
        """Return the text of a condition.

        joins_rows: rows that several columns are compared with go to rows_beside, to be joined.
        """
        names = [_qualified(column) for column in columns]
        name, types = names[0], [self.type_of(column) for column in columns]
        if comparison == "null":
            return f"{name} IS NULL"
        if comparison == "not null":
            return f"{name} IS NOT NULL"
        if comparison.startswith("= '"):
            return f"{name} {comparison}"
        if comparison == "in":
            lists = [self.list_hole(type_) for type_ in types]
            if len(names) > 1 and joins_rows:
                alias = f"g{len(self.rows_beside)}"
                rows = f"unnest({', '.join(lists)}) AS {alias}({', '.join(columns)})"
                self.rows_beside.append(rows)
                on = [f"t.{column} = {alias}.{column}" for column in columns]
                # True of each row: the planner then guesses few, and looks each up by its key.
                first = f"{alias}.{columns[0]}::text"
                return " AND ".join([*on, f"{first} || '' = {first}"])
            each = [f"{one} = ANY({values})" for one, values in zip(names, lists, strict=True)]
            if len(names) > 1:
                rows = f"SELECT * FROM unnest({', '.join(lists)})"
                each.append(f"({', '.join(names)}) IN ({rows})")
            return " AND ".join(each)
        if len(names) > 1:
            values = ", ".join(self.hole(type_) for type_ in types)
            return f"({', '.join(names)}) {comparison} ({values})"
        value = self.hole(types[0])
        if comparison == "null or >":
            return f"({name} IS NULL OR {name} > {value})"
        return f"{name} {'^@' if comparison == 'prefix' else comparison} {value}"

    def read(self, column: str | Aggregate | Member) -> str:
        """Return what a column is in a list of selected columns."""
        if isinstance(column, Member):
            return f"{_qualified(column.column)} #> '{{{','.join(column.path)}}}'"
        if isinstance(column, Aggregate):
            return _AGGREGATES[column.function].format(_qualified(column.column))
        cast = "::text" if self.type_of(column) == "tsvector" else ""
        return _qualified(column) + cast


def _qualified(column: str) -> str:
    return column if "." in column or not column else f"t.{column}"


def _select(
    sql: _Writer,
    columns: tuple[str | Aggregate | Member, ...],
    where: tuple[tuple[tuple[str, ...], str], ...],
    joins: tuple[Join, ...],
    order: tuple[str, ...],
    has_limit: bool,
    is_distinct: bool,
    above: bool,
    lock: str | None,
) -> str:
    sql.aliases |= {join.alias: join.table for join in joins}
    inner = [one for one in where if not any("." in column for column in one[0])]
    outer = [one for one in where if one not in inner]
    if above:
        conditions = [f"t.tenant_id = ANY({_ABOVE})", *(sql.condition(*one) for one in inner)]
        source = f"{sql.table} t WHERE {' AND '.join(conditions)}"
    elif joins:
        source = f"(SELECT * FROM {sql.table} t WHERE {sql.all_of(inner)} OFFSET 0) t"
        source += "".join(_joined(join) for join in joins)
        if outer:
            source += " WHERE " + " AND ".join(sql.condition(*one) for one in outer)
    else:
        source = f"{sql.table} t WHERE {sql.all_of(inner)}"
    text = f"SELECT {'DISTINCT ' * is_distinct}{', '.join(map(sql.read, columns))} FROM {source}"
    plain = [one for one in columns if isinstance(one, str)]
    if plain and any(isinstance(one, Aggregate) for one in columns):
        text += " GROUP BY " + ", ".join(map(_qualified, plain))
    if order:
        text += " ORDER BY " + ", ".join(map(_sorted_by, order))
    if has_limit:
        text += f" LIMIT {sql.hole('bigint')}"
    if lock:
        text += " FOR UPDATE OF t" + (" SKIP LOCKED" if lock == "skip" else "")
    return text


def _joined(join: Join) -> str:
    on = "".join(f" AND {join.alias}.{its} = {_qualified(own)}" for own, its in join.on)
    return (
        f" {'LEFT' if join.is_left else 'INNER'} JOIN LATERAL (SELECT * FROM {join.table}"
        f" {join.alias} WHERE {join.alias}.tenant_id = {_TENANT}{on} OFFSET 0) {join.alias} ON true"
    )


def _sorted_by(column: str) -> str:
    return _qualified(column.removeprefix("-")) + " DESC" * column.startswith("-")


def _insert(sql: _Writer, columns: tuple[str, ...], exists: str, update: tuple[str, ...]) -> str:
    types = [sql.type_of(column) for column in columns]
    lists = ", ".join(sql.list_hole(type_) for type_ in types)
    cells = ", ".join(map(_cell, columns, types))
    text = (
        f"INSERT INTO {sql.table} AS t (tenant_id, {', '.join(columns)})"
        f" SELECT {_TENANT}, {cells} FROM unnest({lists}) AS g({', '.join(columns)})"
    )
    if exists == "keep":
        text += " ON CONFLICT DO NOTHING"
    elif exists == "update":
        changes = ", ".join(f"{column} = excluded.{column}" for column in update)
        key = ", ".join(("tenant_id", *tables()[sql.table].key))
        text += f" ON CONFLICT ({key}) DO UPDATE SET {changes}"
    return text + " RETURNING 1"  # Citus refuses it on a table with row security otherwise


def _cell(column: str, type_: str) -> str:
    is_text = type_ in _JSON or type_ == "tsvector" or type_.endswith("[]")
    return f"g.{column}::{type_}" if is_text else f"g.{column}"


def _update(
    sql: _Writer,
    columns: tuple[str, ...],
    where: tuple[tuple[tuple[str, ...], str], ...],
    returning: tuple[str, ...],
) -> str:
    changes = ", ".join(f"{column} = {sql.hole(sql.type_of(column))}" for column in columns)
    conditions = sql.all_of(where, joins_rows=True)
    beside = f" FROM {', '.join(sql.rows_beside)}" if sql.rows_beside else ""
    text = f"UPDATE {sql.table} t SET {changes}{beside} WHERE {conditions}"
    return text + _returned(sql, returning)


def _update_each(sql: _Writer, key: tuple[str, ...], columns: tuple[str, ...]) -> str:
    names = (*key, *columns)
    types = [sql.type_of(name) for name in names]
    lists = [sql.list_hole(type_) for type_ in types]
    changes = ", ".join(f"{column} = {_cell(column, sql.type_of(column))}" for column in columns)
    keyed = " AND ".join(
        f"t.{column} = g.{column} AND t.{column} = ANY({values})"
        for column, values in zip(key, lists, strict=False)
    )
    return (
        f"UPDATE {sql.table} t SET {changes} FROM unnest({', '.join(lists)}) AS"
        f" g({', '.join(names)}) WHERE t.tenant_id = {_TENANT} AND {keyed}"
    )


def _delete(
    sql: _Writer, where: tuple[tuple[tuple[str, ...], str], ...], returning: tuple[str, ...]
) -> str:
    conditions = sql.all_of(where, joins_rows=True)
    beside = f" USING {', '.join(sql.rows_beside)}" if sql.rows_beside else ""
    return f"DELETE FROM {sql.table} t{beside} WHERE {conditions}{_returned(sql, returning)}"


def _returned(sql: _Writer, columns: tuple[str, ...]) -> str:
    return f" RETURNING {', '.join(map(sql.read, columns))}" if columns else ""


_WRITERS: Mapping[str, Callable[..., str]] = {
    "Select": _select,
    "Insert": _insert,
    "Update": _update,
    "UpdateEach": _update_each,
    "Delete": _delete,
}
