"""Both engines have the tables that the ports describe, and write values as PostgreSQL does."""

import json
import re
from collections import Counter
from typing import Any

import psycopg
import pytest
from every_case import every_case

from shared_core.core import row_text
from shared_core.ports.tables import NOW, tables
from shared_core.storage._rows import to_tsvector
from shared_core.storage.oceanbase.connection import columns as oceanbase
from shared_core.storage.oceanbase.connection.columns import ColumnType
from shared_core.storage.postgres.connection.operations import column_types

OF_POSTGRES = {"embeddings", "writes", "coordinator_writes", "memory_changes"}
OF_OCEANBASE = {"tenants", "writes", "embeddings"}  # the last stands for all vector tables
MATCHING = {
    "text": {ColumnType.TEXT, ColumnType.LONG_TEXT}, "tsvector": {ColumnType.LONG_TEXT},
    "text[]": {ColumnType.LIST}, "bytea": {ColumnType.BYTES, ColumnType.HASH},
    "jsonb": {ColumnType.JSON}, "json": {ColumnType.JSON}, "uuid": {ColumnType.UUID},
    "timestamptz": {ColumnType.MOMENT}, "boolean": {ColumnType.BOOLEAN},
    "smallint": {ColumnType.INTEGER}, "integer": {ColumnType.INTEGER},
    "bigint": {ColumnType.INTEGER}, "real": {ColumnType.NUMBER},
    "double precision": {ColumnType.NUMBER},
}  # fmt: skip


def test_both_engines_have_the_same_tables_and_a_value_keeps_its_letters():
    assert column_types().keys() - OF_POSTGRES == oceanbase.tables().keys() - OF_OCEANBASE
    line = '{"table": "events", "row": {"a":  {"x":1.10 , "y": [1]} ,"b" : "c\\u0041", "d":null}}'
    assert {"a": '{"x":1.10 , "y": [1]}', "b": '"c\\u0041"', "d": "null"} == row_text.fields_of(
        line
    )


@every_case(*sorted(column_types().keys() - OF_POSTGRES))
def test_a_table_has_the_same_columns_on_both_engines(table):
    postgres, ours = column_types()[table], oceanbase.tables()[table].columns
    assert postgres.keys() == ours.keys()
    for column, declared in postgres.items():
        assert ours[column] in MATCHING[declared], column


@pytest.fixture(scope="module")
def connection(postgres):
    """A connection to a database with the schema and no rows."""
    lent = postgres.lend()
    with psycopg.connect(next(lent), options="-c search_path=hippocampus") as connection:
        yield connection
    next(lent, None)


SHOWN = {"timestamp with time zone": "timestamptz", "public.halfvec": "halfvec"}
"""How the catalogue of PostgreSQL shows types that have a shorter name."""


def test_the_description_of_tables_keys_and_choices_is_that_of_postgresql(connection):
    names = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname='hippocampus'")
    assert sorted(name for (name,) in names) == sorted([*tables(), "schema_migrations"])
    for table, shape in tables().items():
        rows = connection.execute(
            "SELECT attname, format_type(atttypid, atttypmod), NOT attnotnull,"
            " pg_get_expr(d.adbin, d.adrelid) FROM pg_attribute a LEFT JOIN pg_attrdef d"
            " ON d.adrelid = a.attrelid AND d.adnum = a.attnum"
            " WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped"
            " ORDER BY attnum",
            [table],
        ).fetchall()
        there = [
            (name, SHOWN.get(kind, kind), null, _json(text)) for name, kind, null, text in rows
        ]
        columns = shape.columns.values()
        here = [(one.name, one.type, one.is_nullable, one.default) for one in columns]
        assert there == here, table
    indexes = connection.execute(
        "SELECT c.relname, i.indisprimary, pg_get_indexdef(i.indexrelid) FROM pg_index i"
        " JOIN pg_class c ON c.oid = i.indrelid WHERE i.indisunique"
        " AND c.relnamespace = 'hippocampus'::regnamespace"
    ).fetchall()
    parents = connection.execute(
        "SELECT conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint"
        " WHERE contype = 'f' AND connamespace = 'hippocampus'::regnamespace"
    ).fetchall()
    keys, unique = Counter[Any](), Counter[Any]()
    for table, is_primary, definition in indexes:
        columns = re.findall(r"USING btree \(([^)]*)\)", definition)[0].split(", ")
        condition = definition.partition(" WHERE ")[2]
        if columns[0] != "tenant_id":  # of the database
            continue
        place = (table, tuple(columns[1:]))
        if is_primary:
            keys[place] += 1
        else:
            unique[*place, len(re.findall(r"IS NULL|= '|functional", condition))] += 1
    shapes = {name: one for name, one in tables().items() if "tenant_id" in one.columns}
    assert keys == Counter((name, one.key) for name, one in shapes.items())
    uniques = [(name, one) for name, shape in shapes.items() for one in shape.unique]
    assert unique == Counter((name, one.columns, len(one.among)) for name, one in uniques)
    there = Counter(
        (table, *match.groups())
        for table, definition in parents
        if (match := re.match(r"FOREIGN KEY \(tenant_id, (.*?)\) REFERENCES (\w+)", definition))
    )
    described = [(name, one) for name, shape in shapes.items() for one in shape.parents]
    assert there == Counter((name, ", ".join(one.columns), one.table) for name, one in described)
    rows = connection.execute(
        "SELECT c.conrelid::regclass::text, pg_get_constraintdef(c.oid) FROM pg_constraint c"
        " WHERE c.contype = 'c' AND c.connamespace = 'hippocampus'::regnamespace"
    ).fetchall()
    choices, bounded = {}, set()
    for table, definition in rows:
        choice = re.fullmatch(r"CHECK \(\((\w+) = ANY \(ARRAY\[(.+)\]\)\)\)", definition)
        bound = re.match(r"CHECK \(\(+(\w+) >=? \(?'?\d", definition)
        if choice:
            choices[table, choice[1]] = frozenset(re.findall(r"'(\w+)'", choice[2]))
        elif bound:
            bounded.add((table, bound[1]))
    columns = [(name, one) for name, shape in tables().items() for one in shape.columns.values()]
    assert choices == {(name, one.name): one.choices for name, one in columns if one.choices}
    assert bounded == {(name, one.name) for name, one in columns if one.low >= 0}


def _json(default: str | None) -> str | None:
    """Return a default as the catalogue shows it as JSON text."""
    if default is None or default == NOW:
        return default
    value, _, kind = default.partition("::")
    return value.strip("'") if kind == "jsonb" else value.replace("'", '"')


NUMBERS = [
    0.0, -0.0, 0.1, 1.0, 5.0, 0.7, 1e-4, 1e-5, 123456.0, 999999.0, 1e6, 1234567.0, 1e14, 1e15,
    123456789012345.0, 0.30000000000000004, 1e300, 5e-324, 7.0064923216240854e-46, -2.5, 65504.0,
]  # fmt: skip
REALS = [one for one in NUMBERS if abs(one) < 1e38 and (one == 0 or abs(one) > 1e-44)]
DOCUMENTS = [
    '{"b": 1, "aa": 2, "a": [1.10, 1e2, -0.0, 1.5E-3, 0e5, 12345678901234567890.10], "é": null}',
    '{"a": 1, "a": {"x": [], "y": {}}}', '"\\u4e0a \\ud83d\\ude00 \\u0007 \\/ \\"\\\\"',
    "[true, false]", "1e30", '{"key with \\n": "line\\u2028"}',
]  # fmt: skip
WORDS = [
    "'a':1", "'b':2,4 'a':1", "'it''s':1 'back\\\\slash':3 '火锅':2", "", "'ab':1 'a':2 'b':3",
]  # fmt: skip


def words_text(words: str) -> str:
    return row_text.value_text(
        "tsvector", to_tsvector(row_text.read_value("terms", "tsvector", json.dumps(words)))
    )


@every_case(
    ("SELECT %s::float8::text", NUMBERS, row_text.double_text),
    ("SELECT %s::float4::text", REALS, row_text.real_text),
    ("SELECT %s::jsonb::text", DOCUMENTS, row_text.jsonb_text),
    ("SELECT to_json(%s::tsvector::text)::text", WORDS, words_text),
)
def test_values_are_written_as_postgresql_does(sql, values, written, connection):
    for value in values:
        assert connection.execute(sql, [value]).fetchone() == (written(value),)
