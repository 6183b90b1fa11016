"""An export of one engine is an import of the other, letter by letter."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import psycopg
import pytest
from seekdb_databases import SeekdbDatabases
from whole_user import WholeClock, populate, write_the_rest

from shared_core import Conflict, InvalidInput, MemoryEngine, Scope, open_memory
from shared_core.core.row_text import (
    double_text,
    fields_of,
    jsonb_text,
    read_value,
    real_text,
    value_text,
)
from shared_core.ports.tables import NOW, tables
from shared_core.ports.transfer import TABLES
from shared_core.storage._rows import to_tsvector

ANA = Scope("app", "ana/ü%")
TENANT = "/app/ana%2Fü%25/"

Exports = dict[bool, list[str]]
_made: Exports = {}


@pytest.fixture
async def exports(request: pytest.FixtureRequest) -> Exports:
    """Exports, without vectors and with them, of a user with rows in every table.

    From PostgreSQL, made once.
    """
    if not _made:
        dsn, clock = request.getfixturevalue("postgres_dsn"), WholeClock()
        async with open_memory(dsn, clock=clock, worker=False) as memory:
            await populate(memory, ANA, clock)
            write_the_rest(dsn, TENANT)
            for vectors in (False, True):
                _made[vectors] = await lines_of(memory, vectors=vectors)
    return _made


@pytest.fixture
async def seek(seekdb: SeekdbDatabases) -> AsyncIterator[MemoryEngine]:
    """A memory on SeekDB, with nothing in it."""
    lent = seekdb.lend()
    async with open_memory(next(lent), clock=WholeClock(), worker=False) as memory:
        yield memory
    next(lent, None)


async def lines_of(memory: MemoryEngine, **options: Any) -> list[str]:
    return [line async for line in memory.export(ANA, **options)]


SHOWN = {"timestamp with time zone": "timestamptz", "public.halfvec": "halfvec"}
"""How the catalogue of PostgreSQL shows types that have a shorter name."""


def test_the_description_of_the_tables_is_that_of_postgresql(postgres_dsn: str) -> None:
    with psycopg.connect(postgres_dsn) as connection:
        connection.execute("SET search_path TO hippocampus")
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
                (name, SHOWN.get(kind, kind), nullable, _json(default))
                for name, kind, nullable, default in rows
            ]
            columns = shape.columns.values()
            here = [(one.name, one.type, one.is_nullable, one.default) for one in columns]
            assert there == here, table


def _json(default: str | None) -> str | None:
    """Return a default as the catalogue shows it as JSON text."""
    if default is None or default == NOW:
        return default
    value, _, kind = default.partition("::")
    return value.strip("'") if kind == "jsonb" else value.replace("'", '"')


def test_the_described_keys_are_those_of_postgresql(postgres_dsn: str) -> None:
    with psycopg.connect(postgres_dsn) as connection:
        connection.execute("SET search_path TO hippocampus")
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
    assert unique == Counter(
        (name, one.columns, len(one.among))
        for name, shape in shapes.items()
        for one in shape.unique
    )
    there = Counter(
        (table, *match.groups())
        for table, definition in parents
        if (match := re.match(r"FOREIGN KEY \(tenant_id, (.*?)\) REFERENCES (\w+)", definition))
    )
    assert there == Counter(
        (name, ", ".join(one.columns), one.table)
        for name, shape in shapes.items()
        for one in shape.parents
    )


def test_the_choices_and_ranges_are_those_of_postgresql(postgres_dsn: str) -> None:
    with psycopg.connect(postgres_dsn) as connection:
        connection.execute("SET search_path TO hippocampus")
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


@pytest.mark.parametrize("vectors", [False, True])
async def test_an_export_goes_to_the_other_engine_and_back(
    exports: Exports, seek: MemoryEngine, postgres_dsn: str, vectors: bool
) -> None:
    lines = exports[vectors]
    tables = Counter(json.loads(line).get("table") for line in lines)
    assert {None, *TABLES} == set(tables), {*TABLES} - {*tables}

    def text_of_field(value: Any, name: str) -> Any:
        return value[name]

    report = await seek.import_lines(lines, text_of_field=text_of_field)
    assert (len(lines) - 2, 0, 0) == (report.written, report.here, report.unembedded)
    again = await seek.import_lines(lines, text_of_field=text_of_field)
    assert (0, len(lines) - 2, 0) == (again.written, again.here, again.differ)
    assert lines == await lines_of(seek, vectors=vectors)
    async with open_memory(postgres_dsn, clock=WholeClock(), worker=False) as back:
        await back.import_lines(await lines_of(seek, vectors=True))
        assert lines == await lines_of(back, vectors=vectors)


async def test_what_was_forgotten_here_comes_back_if_that_is_asked(
    exports: Exports, seek: MemoryEngine
) -> None:
    lines = exports[True]
    await seek.import_lines(lines)
    database: Any = seek._storage
    await database._database.write(
        lambda tx: tx.run("INSERT INTO tombstones VALUES (%s, 't1', 'e2', '2026-01-01')", [TENANT])
    )
    number = 1 + next(n for n, line in enumerate(lines) if '"event_id":"e2"' in line)
    with pytest.raises(Conflict, match=f"line {number}, a row of events: this turn was forgotten"):
        await seek.import_lines(lines)
    report = await seek.import_lines(lines, restore=True)
    assert 0 == report.written
    assert lines == await lines_of(seek, vectors=True)


async def test_what_something_else_has_the_place_of_is_refused(
    exports: Exports, seek: MemoryEngine
) -> None:
    lines = exports[True]
    await seek.import_lines(lines)
    number, row = next(
        (n, json.loads(line)) for n, line in enumerate(lines) if '"table": "memories"' in line
    )
    row["row"]["memory_id"] = "00000000-0000-4000-8000-000000000000"
    with pytest.raises(
        Conflict, match=r"a row of memories: something else has its place .* is of '/.*/', .*key '"
    ):
        await seek.import_lines([*lines[:number], json.dumps(row), *lines[number + 1 :]])


REFUSED = [
    ("text", None, "null value"),
    ("kind", "no kind", "violates check constraint"),
    ("created_at", "yesterday-ish", "date/time|timestamp"),
    ("importance", "high", "invalid input syntax"),
    ("importance", 11, "violates check constraint"),
    ("text", "\ud800", "cannot be|invalid|surrogate"),
    ("value", {"a": "\0"}, "NUL"),
    ("mystery", 1, "memories has no 'mystery'"),
]


@pytest.mark.parametrize(("column", "value", "told"), REFUSED)
async def test_a_row_that_fits_no_table_is_named(
    seek: MemoryEngine, exports: Exports, column: str, value: object, told: str
) -> None:
    lines = [*exports[False]]
    bad = next(n for n, line in enumerate(lines) if '"table": "memories"' in line)
    row = json.loads(lines[bad])
    row["row"][column] = value
    lines[bad] = json.dumps(row)
    with pytest.raises(InvalidInput, match=f"line {bad + 1}, a row of memories: .*({told})"):
        await seek.import_lines(lines)


async def test_a_fact_that_ends_before_it_begins_is_refused(
    seek: MemoryEngine, exports: Exports
) -> None:
    lines = [*exports[False]]
    bad = next(n for n, line in enumerate(lines) if '"table": "facts"' in line)
    row = json.loads(lines[bad])
    row["row"]["valid_until"] = "1970-01-01T00:00:00+00:00"
    lines[bad] = json.dumps(row)
    with pytest.raises(InvalidInput, match=f"line {bad + 1}, a row of facts: OceanBase cannot"):
        await seek.import_lines(lines)


async def test_an_export_may_be_left_early(exports: Exports, seek: MemoryEngine) -> None:
    lines = exports[True]
    await seek.import_lines(lines)
    for wanted in (1, 2, len(lines) - 1):
        async with aclosing(seek.export(ANA, vectors=True)) as some:
            assert lines[:wanted] == [await anext(some) for _ in range(wanted)]


NUMBERS = [
    0.0, -0.0, 0.1, 1.0, 5.0, 0.7, 1e-4, 1e-5, 123456.0, 999999.0, 1e6, 1234567.0, 1e14, 1e15,
    123456789012345.0, 0.30000000000000004, 1e300, 5e-324, 7.0064923216240854e-46, -2.5, 65504.0,
]  # fmt: skip


def test_numbers_are_written_as_postgresql_does(postgres_dsn: str) -> None:
    with psycopg.connect(postgres_dsn) as connection:
        for number in NUMBERS:
            [double] = connection.execute("SELECT %s::float8::text", [number]).fetchone() or ()
            assert double == double_text(number)
            if abs(number) < 1e38 and (number == 0 or abs(number) > 1e-44):
                [real] = connection.execute("SELECT %s::float4::text", [number]).fetchone() or ()
                assert real == real_text(number)


DOCUMENTS = [
    '{"b": 1, "aa": 2, "a": [1.10, 1e2, -0.0, 1.5E-3, 0e5, 12345678901234567890.10], "é": null}',
    '{"a": 1, "a": {"x": [], "y": {}}}', '"\\u4e0a \\ud83d\\ude00 \\u0007 \\/ \\"\\\\"',
    "[true, false]", "1e30", '{"key with \\n": "line\\u2028"}',
]  # fmt: skip


def test_documents_are_written_as_postgresql_does(postgres_dsn: str) -> None:
    with psycopg.connect(postgres_dsn) as connection:
        for document in DOCUMENTS:
            found = connection.execute("SELECT %s::jsonb::text", [document]).fetchone()
            assert found == (jsonb_text(document),)


WORDS = [
    "'a':1", "'b':2,4 'a':1", "'it''s':1 'back\\\\slash':3 '火锅':2", "", "'ab':1 'a':2 'b':3",
]  # fmt: skip


def test_words_are_written_as_postgresql_does(postgres_dsn: str) -> None:
    with psycopg.connect(postgres_dsn) as connection:
        for words in WORDS:
            row = connection.execute("SELECT to_json(%s::tsvector::text)::text", [words]).fetchone()
            read = read_value("terms", "tsvector", json.dumps(words))
            assert row == (value_text("tsvector", to_tsvector(read)),)


def test_a_value_keeps_its_letters() -> None:
    line = '{"table": "events", "row": {"a":  {"x":1.10 , "y": [1]} ,"b" : "c\\u0041", "d":null}}'
    assert {"a": '{"x":1.10 , "y": [1]}', "b": '"c\\u0041"', "d": "null"} == fields_of(line)
