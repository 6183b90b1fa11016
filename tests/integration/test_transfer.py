"""Everything of a user as lines of JSON, and back, with nothing lost, doubled or made up."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from whole_user import WholeClock, populate, write_the_rest

from shared_core import Conflict, Event, InvalidInput, MemoryEngine, NotFound, Scope, open_memory
from shared_core.ports.tables import SCHEMA_VERSION
from shared_core.ports.transfer import LEFT_OUT, TABLES

ANA = Scope("app", "ana/ü%")
TENANT = "/app/ana%2Fü%25/"


class Letters:
    """An embedder of another model: how often each letter occurs."""

    model = "letters"

    async def embed_passages(self, texts: Any) -> Any:
        import numpy as np

        rows = np.array([[1 + text.count(chr(97 + n)) for n in range(26)] for text in texts])
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)

    async def embed_query(self, text: str) -> Any:
        return await self.embed_passages([text])


@pytest.fixture
async def source(dsn: str) -> AsyncIterator[MemoryEngine]:
    clock = WholeClock()
    async with open_memory(dsn, clock=clock, worker=False) as memory:
        await populate(memory, ANA, clock)
        write_the_rest(dsn, TENANT)
        yield memory


async def lines_of(memory: MemoryEngine, **options: Any) -> list[str]:
    scope = None if "app" in options else ANA
    return [line async for line in memory.export(scope, **options)]


def target(dsn: str, embedder: object = None) -> MemoryEngine:
    clock = WholeClock()
    clock.now = clock.now.replace(year=2028)
    return open_memory(dsn, clock=clock, worker=False, embedder=embedder)


def test_every_table_is_exported_or_left_out_for_a_reason(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        rows = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'hippocampus'::regnamespace"
            " AND relkind IN ('r', 'p') AND NOT relispartition"
        ).fetchall()
    assert sorted(name for (name,) in rows) == sorted([*TABLES, *LEFT_OUT])


@pytest.mark.parametrize("vectors", [False, True])
async def test_what_is_imported_is_exported_the_same(
    source: MemoryEngine, other_dsn: str, vectors: bool
) -> None:
    lines = await lines_of(source, vectors=vectors)
    tables = Counter(json.loads(line).get("table") for line in lines)
    # At a user's path there is no state that all users share.
    assert {None, *TABLES} == set(tables), {*TABLES} - {*tables}
    async with target(other_dsn) as other:
        report = await other.import_lines(lines)
        fields = 0 if vectors else 2
        assert (len(lines) - 2 - fields, 0, fields) == (
            report.written, report.here, report.unembedded
        )  # fmt: skip
        assert bool(report.embedded) != vectors
        if not vectors:  # nobody said what the fields of an item's own are made of
            again = await other.import_lines(lines, text_of_field=lambda value, name: value[name])
            assert (2, 0, 0) == (again.written, again.differ, again.unembedded)
        assert lines == await lines_of(other, vectors=vectors)
        assert "\n".join(lines).count("\n") == len(lines) - 1


async def test_recall_finds_the_same_with_the_same_scores(
    source: MemoryEngine, other_dsn: str
) -> None:
    async with target(other_dsn) as other:
        await other.import_lines(await lines_of(source, vectors=True))
        asked = WholeClock().now.replace(year=2028)
        for question in ("Where does Ana live?", "Which music?", "上海", "cello"):
            one, two = [
                [
                    (hit.memory.memory_id, hit.memory.text, round(hit.score, 5))
                    for hit in await memory.recall(ANA, question, asked_at=asked)
                ]
                for memory in (source, other)
            ]
            assert one, question
            assert one == two, question
        assert [fact.value for fact in await source.facts(ANA, history=True)] == [
            fact.value for fact in await other.facts(ANA, history=True)
        ]


async def test_the_same_file_twice_changes_nothing(source: MemoryEngine, other_dsn: str) -> None:
    lines = await lines_of(source, vectors=True)
    async with target(other_dsn) as other:
        await other.import_lines(lines)
        again = await other.import_lines(lines)
        assert (0, len(lines) - 2, 0) == (again.written, again.here, again.differ)
        await other.append_events(ANA, "t1", [_event("new", "I moved to Porto.")])
        third = await other.import_lines(lines)
        assert (0, 1) == (third.written, third.differ)  # the thread
        assert "I moved to Porto." in [hit.memory.text for hit in await other.recall(ANA, "Porto")]


async def test_an_interrupted_import_goes_on(source: MemoryEngine, other_dsn: str) -> None:
    lines = await lines_of(source, vectors=True)
    async with target(other_dsn) as other:
        with pytest.raises(InvalidInput, match="cut off after line 40"):
            await other.import_lines(lines[:40])
        report = await other.import_lines(lines)
        assert 0 < report.here < 40 < report.written
        assert lines == await lines_of(other, vectors=True)


async def test_another_model_embeds_anew(source: MemoryEngine, other_dsn: str) -> None:
    lines = await lines_of(source, vectors=True)
    async with target(other_dsn, Letters()) as other:
        report = await other.import_lines(lines, text_of_field=lambda value, name: value[name])
        assert report.embedded == sum('"table": "embeddings"' in line for line in lines)
        assert (await lines_of(source))[1:] == (await lines_of(other))[1:]
        [hit, *_] = await other.search(ANA, "Ana plays the cello.")
        assert "Ana plays the cello." == hit.memory.text


async def test_an_application_comes_with_all_its_users_and_nobody_else(
    source: MemoryEngine, other_dsn: str
) -> None:
    await source.remember(Scope("app", "bo"), "Bo skis.")
    await source.remember(Scope("apple", "bo"), "Not this one.")
    lines = await lines_of(source, app="app")
    assert not any("Not this one" in line for line in lines)
    tenants = {json.loads(line)["row"]["tenant_id"] for line in lines[1:-1]}
    assert {"/app/", TENANT, "/app/bo/"} == tenants  # the state that its users share
    async with target(other_dsn) as other:
        await other.import_lines(lines, text_of_field=lambda value, name: value[name])
        assert lines == await lines_of(other, app="app")


async def test_an_export_is_of_one_moment(source: MemoryEngine) -> None:
    before = await lines_of(source)
    async with aclosing(source.export(ANA)) as lines:
        seen = [await anext(lines)]
        await source.remember(ANA, "Written meanwhile.")
        seen += [line async for line in lines]
    assert before == seen


async def test_what_was_forgotten_here_does_not_come_back_by_itself(
    source: MemoryEngine, other_dsn: str
) -> None:
    lines = await lines_of(source, vectors=True)
    async with target(other_dsn) as other:
        await other.import_lines(lines)
        await other.forget_turns(ANA, "t1", ["e2"])
        number = 1 + next(n for n, line in enumerate(lines) if '"event_id":"e2"' in line)
        with pytest.raises(Conflict, match=f"line {number}, a row of events.*here.*again$") as told:
            await other.import_lines(lines)
        assert "CONTEXT" not in str(told.value)
        assert not any("Acme" in hit.memory.text for hit in await other.recall(ANA, "Acme"))
        await other.import_lines(lines, restore=True)
        assert any("Acme" in hit.memory.text for hit in await other.recall(ANA, "Acme"))


async def test_what_something_else_has_the_place_of_is_refused(
    source: MemoryEngine, other_dsn: str
) -> None:
    lines = await lines_of(source, vectors=True)
    async with target(other_dsn) as other:
        [_] = await other.remember(ANA, [_named("cello", "Another cello.")])
        with pytest.raises(
            Conflict,
            match=r"a row of memories: something else has its place .* is of '/.*/', .*key '",
        ):
            await other.import_lines(lines)
        assert ["Another cello."] == [
            hit.memory.text for hit in await other.recall(ANA, "cello") if hit.memory.key == "cello"
        ]


def _event(event_id: str, text: str) -> Event:
    at = WholeClock().now
    return Event(event_id=event_id, author="user", role="user", text=text, occurred_at=at)


def _named(key: str, text: str) -> Any:
    from shared_core import NewMemory

    return NewMemory(text=text, key=key)


BROKEN = [
    (0, "", "line 2: it is not the first line"),
    (0, '{"hippocampus_export": 3, "schema_version": 1}', "line 1: it names format 3"),
    (0, '{"hippocampus_export": 1, "schema_version": 99999}', "line 1: it names format.*99999"),
    (0, '{"hippocampus_export": 2, "schema_version": 2}', "line 1: it names format 2 and schema 2"),
    (0, '{"hippocampus_export": 1, "schema_version": 1, "of": {"app": ""}}', "line 1: it lacks"),
    (5, '{"table": "memories", "row": {', "line 6, column 31: it is no JSON"),
    (5, "[1, 2]", "line 6: it is not a JSON object"),
    (5, '{"table": "pg_class", "row": {}}', "line 6: it names an unknown table: 'pg_class'"),
    (5, '{"table": "events", "row": 7}', "line 6: it holds no row"),
    (5, '{"table": "events", "row": {"tenant_id": "/app/bo/"}}', "line 6: it belongs to '/app/bo"),
    (5, '{"table": "events", "row": {"tenant_id": "TENANTx/"}}', "line 6: it belongs to '/.*/x/'"),
    (5, '{"table": "events", "row": {"tenant_id": NaN}}', "line 6: it cannot be read: NaN"),
    (5, "{}" * 1, "line 6: it names an unknown table: None"),
    (-2, '{"table": "threads", "row": {"tenant_id": "TENANT"}}', "comes too late: threads must"),
    (-1, '{"end": true, "rows": 3}', "it counts 3 rows before it"),
    (-1, "", "was cut off after line"),
    (5, b'{"table": "\xff"}', "line 6, column 12: it is no UTF-8"),
    (5, "[" * 100_000, "line 6: it cannot be read"),
]  # fmt: skip


@pytest.mark.parametrize(("place", "line", "told"), BROKEN)
async def test_a_broken_file_is_refused_by_line_and_column(
    memory: MemoryEngine, tmp_path: Path, other_dsn: str, place: int, line: str | bytes, told: str
) -> None:
    await memory.append_events(ANA, "t", [_event(f"e{n}", f"Number {n}.") for n in range(4)])
    lines: list[bytes] = [one.encode() async for one in memory.export(ANA)]
    bad = line if isinstance(line, bytes) else line.replace("TENANT", TENANT).encode()
    lines[place] = bad
    file = tmp_path / "ana.jsonl"
    file.write_bytes(b"\n".join(lines) + b"\n")
    async with target(other_dsn) as other:
        with pytest.raises(InvalidInput, match=told):
            await other.import_lines(file)
        assert [] == list(await other.list_memories(ANA))  # nothing was written


@pytest.mark.parametrize("number", [33, 34])
async def test_an_export_of_a_development_version_is_imported(
    memory: MemoryEngine, tmp_path: Path, other_dsn: str, number: int
) -> None:
    """Its database is refused, and export and import are the way out of it."""
    await memory.append_events(ANA, "t", [_event(f"e{n}", f"Number {n}.") for n in range(4)])
    lines = [one async for one in memory.export(ANA)]
    header = json.loads(lines[0])
    assert SCHEMA_VERSION == header["schema_version"]
    older = {"hippocampus_export": 1, "schema_version": number}
    file = tmp_path / "ana.jsonl"
    file.write_text("\n".join([json.dumps(header | older), *lines[1:]]))
    async with target(other_dsn) as other:
        await other.import_lines(file)
        assert lines == [one async for one in other.export(ANA)]


REFUSED = [
    ("text", None, "null value"),
    ("kind", "no kind", "violates check constraint"),
    ("created_at", "yesterday-ish", "date/time|timestamp"),
    ("importance", "high", "invalid input syntax"),
    ("namespace", "no path", "violates check constraint"),
    ("text", "\ud800", "cannot be|invalid|surrogate"),
    ("mystery", 1, "memories has no 'mystery'"),
]


@pytest.mark.parametrize(("column", "value", "told"), REFUSED)
async def test_a_row_that_fits_no_table_is_named_and_what_stands_before_it_is_in(
    memory: MemoryEngine, other_dsn: str, column: str, value: object, told: str
) -> None:
    await memory.append_events(ANA, "t", [_event(f"e{n:02}", f"Number {n}.") for n in range(40)])
    lines = await lines_of(memory)
    of_memories = [n for n, line in enumerate(lines) if '"table": "memories"' in line]
    bad = of_memories[23]
    row = json.loads(lines[bad])
    row["row"][column] = value
    good, lines[bad] = lines[bad], json.dumps(row)
    async with target(other_dsn) as other:
        with pytest.raises(InvalidInput, match=f"line {bad + 1}, a row of memories: .*({told})"):
            await other.import_lines(lines)
        assert 23 == len(await other.list_memories(ANA, limit=100))
        lines[bad] = good
        await other.import_lines(lines)
        assert lines == await lines_of(other)


async def test_columns_that_are_newer_than_a_file_have_their_defaults(
    memory: MemoryEngine, other_dsn: str
) -> None:
    await memory.append_events(ANA, "t", [_event("e1", "Ana skis.")])
    older = []
    for line in await lines_of(memory):
        row = json.loads(line)
        row.get("row", {}).pop("importance", None)
        older.append(json.dumps(row))
    async with target(other_dsn) as other:
        await other.import_lines(older)
        [found] = await other.list_memories(ANA)
        assert 5 == found.importance
        assert [line for line in await lines_of(memory)] == await lines_of(other)


async def test_vectors_of_a_wrong_length_are_refused(source: MemoryEngine, other_dsn: str) -> None:
    lines = await lines_of(source, vectors=True)
    place = next(n for n, line in enumerate(lines) if '"table": "embeddings"' in line)
    row = json.loads(lines[place])
    row["row"]["embedding"] = "[1,0]"
    lines[place] = json.dumps(row)
    async with target(other_dsn) as other:
        with pytest.raises(Conflict, match=f"line {place + 1}.*dimensions"):
            await other.import_lines(lines)


@pytest.mark.parametrize(
    ("column", "value", "told"),
    [
        ("memory_id", str(UUID(int=7)), "there is no memory"),
        ("memory_id", "seven", "invalid input syntax for memory_id.*'seven'"),
        ("field", None, 'null value in column "field" of embeddings'),
        ("embedding", "[1,", "for embedding, of type halfvec"),
    ],
)
async def test_vectors_that_do_not_fit_are_refused(
    source: MemoryEngine, other_dsn: str, column: str, value: str | None, told: str
) -> None:
    lines = await lines_of(source, vectors=True)
    place = next(n for n, line in enumerate(lines) if '"table": "embeddings"' in line)
    row = json.loads(lines[place])
    row["row"][column] = value
    lines[place] = json.dumps(row)
    async with target(other_dsn) as other:
        with pytest.raises(InvalidInput, match=f"line {place + 1}.*{told}"):
            await other.import_lines(lines)


async def test_bad_arguments_are_named(memory: MemoryEngine, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="not both"):
        await anext(memory.export())
    with pytest.raises(InvalidInput, match="not both"):
        await anext(memory.export(ANA, app="app"))
    with pytest.raises(NotFound, match=r"absent\.jsonl"):
        await memory.import_lines(tmp_path / "absent.jsonl")
    with pytest.raises(InvalidInput, match="is empty"):
        await memory.import_lines([])


async def test_a_file_may_begin_with_a_mark_of_its_encoding(
    memory: MemoryEngine, tmp_path: Path, other_dsn: str
) -> None:
    await memory.remember(ANA, "Ana skis.")
    lines = await lines_of(memory)
    file = tmp_path / "ana.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode())
    async with target(other_dsn) as other:
        await other.import_lines(file)
        assert lines == await lines_of(other)
