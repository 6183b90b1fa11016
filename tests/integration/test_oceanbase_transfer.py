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
from shared_core.ports.transfer import TABLES
from shared_core.storage.oceanbase.transfer_format import (
    CHOICES,
    SHAPES,
    double_text,
    fields_of,
    jsonb_text,
    read_value,
    real_text,
    value_text,
)

ANA = Scope("app", "ana/ü%")
TENANT = "/app/ana%2Fü%25/"

TYPES = {
    "text": "text", "uuid": "uuid", "bigint": "int", "integer": "int", "smallint": "int",
    "boolean": "bool", "real": "real", "double precision": "double", "jsonb": "json",
    "timestamp with time zone": "moment", "json": "raw", "bytea": "bytes", "text[]": "texts",
    "tsvector": "terms", "public.halfvec": "vector",
}  # fmt: skip


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


def test_the_shapes_are_those_of_postgresql(postgres_dsn: str) -> None:
    assert sorted(SHAPES) == sorted(TABLES)
    with psycopg.connect(postgres_dsn) as connection:
        connection.execute("SET search_path TO hippocampus")
        for table, shape in SHAPES.items():
            rows = connection.execute(
                "SELECT attname, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute"
                " WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped"
                " ORDER BY attnum",
                [table],
            ).fetchall()
            there = [(name, TYPES[kind], not filled) for name, kind, filled in rows]
            columns = shape.columns.values()
            assert there == [(one.name, one.type, one.nullable) for one in columns], table
            keys = connection.execute(
                "SELECT array_agg(a.attname::text ORDER BY k.place) FROM pg_index i"
                " CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(number, place)"
                " JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number"
                " WHERE i.indrelid = %s::regclass AND i.indisprimary",
                [table],
            ).fetchone()
            assert keys == (list(shape.key),), table


def test_the_choices_are_those_of_postgresql(postgres_dsn: str) -> None:
    with psycopg.connect(postgres_dsn) as connection:
        rows = connection.execute(
            "SELECT c.conrelid::regclass::text, pg_get_constraintdef(c.oid) FROM pg_constraint c"
            " WHERE c.contype = 'c' AND c.connamespace = 'hippocampus'::regnamespace"
        ).fetchall()
    found = {}
    for table, definition in rows:
        choice = re.fullmatch(r"CHECK \(\((\w+) = ANY \(ARRAY\[(.+)\]\)\)\)", definition)
        name = table.removeprefix("hippocampus.")
        if choice and name in TABLES:
            found[name, choice[1]] = frozenset(re.findall(r"'(\w+)'", choice[2]))
    assert found == dict(CHOICES)


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
    column = SHAPES["memories"].columns["terms"]
    with psycopg.connect(postgres_dsn) as connection:
        for words in WORDS:
            row = connection.execute("SELECT to_json(%s::tsvector::text)::text", [words]).fetchone()
            stored = read_value(column, json.dumps(words))
            assert row == (value_text(column, stored),)


def test_a_value_keeps_its_letters() -> None:
    line = '{"table": "events", "row": {"a":  {"x":1.10 , "y": [1]} ,"b" : "c\\u0041", "d":null}}'
    assert {"a": '{"x":1.10 , "y": [1]}', "b": '"c\\u0041"', "d": "null"} == fields_of(line)
