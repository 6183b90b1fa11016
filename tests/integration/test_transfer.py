"""Everything of a user as lines of JSON, and back, with nothing lost, doubled or made up.

Lines that no export of ours holds write to nobody else, and are refused by name. An export that
does not know of an erasure brings nothing back, and a later one is imported.
"""

import json
from collections import Counter
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from every_case import every_case
from toy_models import Letters
from turns import said
from whole_user import WholeClock, populate, write_the_rest

from shared_core import MemoryEngine, NewMemory, Scope, open_memory, run_sync
from shared_core.core.namespaces import scope_path
from shared_core.core.row_text import MOST_POSITION, fields_of, read_value
from shared_core.errors import Conflict, InvalidInput, NotFound
from shared_core.ports.tables import SCHEMA_VERSION
from shared_core.ports.transfer import LEFT_OUT, TABLES

ANA = Scope("app", "ana/ü%")
TENANT = "/app/ana%2Fü%25/"
FEW, FEW_TENANT = Scope("few of a transfer", "ana/ü%"), "/few of a transfer/ana%2Fü%25/"


async def lines_of(memory: MemoryEngine, scope: Scope = ANA, **options: Any) -> list[str]:
    whose = None if "app" in options else scope
    return [line async for line in memory.export(whose, **options)]


def target(dsn: str, embedder: object = None) -> MemoryEngine:
    clock = WholeClock()
    clock.now = clock.now.replace(year=2028)
    return open_memory(dsn, clock=clock, worker=False, embedder=embedder)


@pytest.fixture(scope="module")
def source(postgres):
    """A memory with a user who has rows in every table, and one with four turns."""
    clock = WholeClock()
    for dsn in postgres.lend():
        memory = open_memory(dsn, clock=clock, worker=False)
        run_sync(populate(memory, ANA, clock))
        write_the_rest(dsn, TENANT)
        run_sync(memory.append_events(FEW, "t", [said(n, f"Number {n}.") for n in range(4)]))
        yield memory
        run_sync(memory.close())


@pytest.fixture(scope="module")
def plain(source):
    """The export of the user with rows in every table, without vectors."""
    return run_sync(lines_of(source))


@pytest.fixture(scope="module")
def whole(source, plain):
    """The same export, made at the same time, with vectors."""
    return run_sync(lines_of(source, vectors=True))


@pytest.fixture(scope="module")
def few(source):
    """The export of the user with four turns."""
    return run_sync(lines_of(source, FEW))


@pytest.fixture
async def other(other_dsn):
    """An empty memory two years later."""
    async with target(other_dsn) as memory:
        yield memory


@pytest.fixture(scope="module")
def elsewhere(postgres):
    """The same, for tests that bring a user of their own."""
    for dsn in postgres.lend():
        memory = target(dsn)
        yield memory
        run_sync(memory.close())


@dataclass
class User:
    """A user of the source whom no other test knows, and a memory to bring them to."""

    memory: MemoryEngine
    elsewhere: MemoryEngine
    scope: Scope

    async def say(self, *texts: str) -> None:
        turns = [said(f"e{number:02}", text) for number, text in enumerate(texts)]
        await self.memory.append_events(self.scope, "t", turns)

    async def lines(self, **options: Any) -> list[str]:
        return await lines_of(self.memory, self.scope, **options)

    async def lines_elsewhere(self) -> list[str]:
        return await lines_of(self.elsewhere, self.scope)

    async def texts(self, memory: MemoryEngine | None = None) -> list[str]:
        found = await (memory or self.memory).list_memories(self.scope, limit=100)
        return sorted(one.text for one in found)


@pytest.fixture
def user(source, elsewhere, scope):
    return User(source, elsewhere, scope)


def test_every_table_is_exported_or_left_out_for_a_reason(shared_dsn):
    with psycopg.connect(shared_dsn) as connection:
        rows = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'hippocampus'::regnamespace"
            " AND relkind IN ('r', 'p') AND NOT relispartition"
        ).fetchall()
    assert sorted(name for (name,) in rows) == sorted([*TABLES, *LEFT_OUT])


@pytest.mark.parametrize("vectors", [False, True])
async def test_what_is_imported_is_exported_the_same(plain, whole, other, vectors):
    lines = whole if vectors else plain
    tables = Counter(json.loads(line).get("table") for line in lines)
    # At a user's path there is no state that all users share.
    assert {None, *TABLES} == set(tables), {*TABLES} - {*tables}
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


async def test_the_same_file_twice_changes_nothing(whole, other):
    await other.import_lines(whole)
    again = await other.import_lines(whole)
    assert (0, len(whole) - 2, 0) == (again.written, again.here, again.differ)
    await other.append_events(ANA, "t1", [said("new", "I moved to Porto.")])
    third = await other.import_lines(whole)
    assert (0, 1) == (third.written, third.differ)  # the thread
    assert "I moved to Porto." in [hit.memory.text for hit in await other.recall(ANA, "Porto")]


async def test_an_interrupted_import_goes_on_and_recall_scores_the_same(whole, other, source):
    with pytest.raises(InvalidInput, match="cut off after line 40"):
        await other.import_lines(whole[:40])
    report = await other.import_lines(whole)
    assert 0 < report.here < 40 < report.written
    assert whole == await lines_of(other, vectors=True)
    asked = WholeClock().now.replace(year=2028)
    for question in ("Where does Ana live?", "Which music?", "上海", "cello"):
        hits = [await memory.recall(ANA, question, asked_at=asked) for memory in (source, other)]
        one, two = (
            [(hit.memory.memory_id, hit.memory.text, round(hit.score, 5)) for hit in found]
            for found in hits
        )
        assert one, question
        assert one == two, question
    here, there = [await memory.facts(ANA, history=True) for memory in (source, other)]
    assert [fact.value for fact in here] == [fact.value for fact in there]


async def test_another_model_embeds_anew(plain, whole, other_dsn):
    async with target(other_dsn, Letters()) as other:
        report = await other.import_lines(whole, text_of_field=lambda value, name: value[name])
        assert report.embedded == sum('"table": "embeddings"' in line for line in whole)
        assert plain[1:] == (await lines_of(other))[1:]
        [hit, *_] = await other.search(ANA, "Ana plays the cello.")
        assert "Ana plays the cello." == hit.memory.text


async def test_an_application_comes_with_all_its_users_and_nobody_else(source, other):
    await source.remember(Scope("app", "bo"), "Bo skis.")
    await source.remember(Scope("apple", "bo"), "Not this one.")
    lines = await lines_of(source, app="app")
    assert not any("Not this one" in line for line in lines)
    tenants = {json.loads(line)["row"]["tenant_id"] for line in lines[1:-1]}
    assert {"/app/", TENANT, "/app/bo/"} == tenants  # the state that its users share
    await other.import_lines(lines, text_of_field=lambda value, name: value[name])
    assert lines == await lines_of(other, app="app")


async def test_an_export_is_of_one_moment(user):
    await user.memory.remember(user.scope, [f"Number {n}." for n in range(9)])
    before = await user.lines()
    async with aclosing(user.memory.export(user.scope)) as lines:
        seen = [await anext(lines)]
        await user.memory.remember(user.scope, "Written meanwhile.")
        seen += [line async for line in lines]
    assert before == seen


async def test_what_was_forgotten_here_does_not_come_back_by_itself(whole, other):
    await other.import_lines(whole)
    await other.forget_turns(ANA, "t1", ["e2"])
    number = 1 + next(n for n, line in enumerate(whole) if '"event_id":"e2"' in line)
    with pytest.raises(Conflict, match=f"line {number}, a row of events.*here.*again$") as told:
        await other.import_lines(whole)
    assert "CONTEXT" not in str(told.value)
    assert not any("Acme" in hit.memory.text for hit in await other.recall(ANA, "Acme"))
    await other.import_lines(whole, restore=True)
    assert any("Acme" in hit.memory.text for hit in await other.recall(ANA, "Acme"))


async def test_what_something_else_has_the_place_of_is_refused(whole, other):
    await other.remember(ANA, NewMemory(text="Another cello.", key="cello"))
    place = r"a row of memories: something else has its place .* is of '/.*/', .*key '"
    with pytest.raises(Conflict, match=place):
        await other.import_lines(whole)
    hits = await other.recall(ANA, "cello")
    assert ["Another cello."] == [one.memory.text for one in hits if one.memory.key == "cello"]


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


@every_case(*BROKEN)
async def test_a_broken_file_is_refused_by_line(place, line, told, few, tmp_path, shared_memory):
    lines = [one.encode() for one in few]
    lines[place] = line if isinstance(line, bytes) else line.replace("TENANT", FEW_TENANT).encode()
    file = tmp_path / "ana.jsonl"
    file.write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(InvalidInput, match=told):
        await shared_memory.import_lines(file)
    assert [] == await shared_memory.list_memories(FEW)  # nothing was written


@pytest.mark.parametrize("number", [33, 34])
async def test_an_export_of_a_development_version_is_imported(user, tmp_path, number):
    """Its database is refused, and export and import are the way out of it."""
    await user.say(*(f"Number {n}." for n in range(4)))
    lines = await user.lines()
    header = json.loads(lines[0])
    assert SCHEMA_VERSION == header["schema_version"]
    older = {"hippocampus_export": 1, "schema_version": number}
    file = tmp_path / "ana.jsonl"
    file.write_text("\n".join([json.dumps(header | older), *lines[1:]]))
    await user.elsewhere.import_lines(file)
    assert lines == await user.lines_elsewhere()


REFUSED = [
    ("text", None, "null value"), ("kind", "no kind", "violates check constraint"),
    ("created_at", "yesterday-ish", "date/time|timestamp"),
    ("importance", "high", "invalid input syntax"),
    ("namespace", "no path", "violates check constraint"),
    ("text", "\ud800", "cannot be|invalid|surrogate"),
    ("mystery", 1, "memories has no 'mystery'"),
]  # fmt: skip


@pytest.mark.parametrize(("column", "value", "told"), REFUSED)
async def test_a_row_that_fits_no_table_is_named_and_those_before_are_in(user, column, value, told):
    await user.say(*(f"Number {n}." for n in range(12)))
    lines = await user.lines()
    bad = [n for n, line in enumerate(lines) if '"table": "memories"' in line][7]
    good, lines[bad] = lines[bad], changed(lines[bad], column, value)
    with pytest.raises(InvalidInput, match=f"line {bad + 1}, a row of memories: .*({told})"):
        await user.elsewhere.import_lines(lines)
    assert 7 == len(await user.texts(user.elsewhere))
    lines[bad] = good
    await user.elsewhere.import_lines(lines)
    assert lines == await user.lines_elsewhere()


def changed(line: str, column: str, value: object) -> str:
    """Return a line with another value in a column of its row."""
    row = json.loads(line)
    row["row"][column] = value
    return json.dumps(row)


async def test_columns_that_are_newer_than_a_file_have_their_defaults(user):
    await user.say("Ana skis.")
    lines = await user.lines()
    older = [json.loads(line) for line in lines]
    for row in older:
        row.get("row", {}).pop("importance", None)
    await user.elsewhere.import_lines(map(json.dumps, older))
    [found] = await user.elsewhere.list_memories(user.scope)
    assert 5 == found.importance
    assert lines == await user.lines_elsewhere()


@pytest.mark.parametrize(
    ("column", "value", "told"),
    [
        ("embedding", "[1,0]", "dimensions"),
        ("memory_id", str(UUID(int=7)), "there is no memory"),
        ("memory_id", "seven", "invalid input syntax for memory_id.*'seven'"),
        ("field", None, 'null value in column "field" of embeddings'),
        ("embedding", "[1,", "for embedding, of type halfvec"),
    ],
)
async def test_vectors_that_do_not_fit_are_refused(user, column, value, told):
    await user.memory.remember(user.scope, ["Ana skis.", "Ana rows."])
    lines = await user.lines(vectors=True)
    place = next(n for n, line in enumerate(lines) if '"table": "embeddings"' in line)
    lines[place] = changed(lines[place], column, value)
    error = Conflict if told == "dimensions" else InvalidInput
    with pytest.raises(error, match=f"line {place + 1}.*{told}"):
        await user.elsewhere.import_lines(lines)


async def test_bad_arguments_are_named(shared_memory, tmp_path):
    with pytest.raises(InvalidInput, match="not both"):
        await anext(shared_memory.export())
    with pytest.raises(InvalidInput, match="not both"):
        await anext(shared_memory.export(ANA, app="app"))
    with pytest.raises(NotFound, match=r"absent\.jsonl"):
        await shared_memory.import_lines(tmp_path / "absent.jsonl")
    with pytest.raises(InvalidInput, match="is empty"):
        await shared_memory.import_lines([])


async def test_a_file_may_begin_with_a_mark_of_its_encoding(user, tmp_path):
    await user.memory.remember(user.scope, "Ana skis.")
    lines = await user.lines()
    file = tmp_path / "ana.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode())
    await user.elsewhere.import_lines(file)
    assert lines == await user.lines_elsewhere()


END = '{"end": true, "rows": 1}'


def head(scope: Scope) -> str:
    of = {"app": scope.app, "user": scope.user}
    return json.dumps({"hippocampus_export": 2, "schema_version": 1, "of": of})


def memory_row(scope: Scope, **more: Any) -> dict[str, Any]:
    memory_id, at = str(uuid4()), "2026-01-22T10:00:00+00:00"
    return {
        "tenant_id": scope_path(scope), "memory_id": memory_id, "namespace": "/memories/",
        "key": memory_id, "kind": "semantic", "text": "Ana skis.", "terms": "", "value": {},
        "importance": 5, "term_count": 0, "created_at": at, "updated_at": at, "occurred_at": at,
        **more,
    }  # fmt: skip


@pytest.mark.both_engines
async def test_a_second_row_on_a_line_writes_to_nobody_else(user):
    bob = Scope(user.scope.app, "bob")
    own, others = json.dumps(memory_row(user.scope)), json.dumps(memory_row(bob))
    line = f'{{"table": "memories", "row": {others}, "row": {own}}}'
    await user.memory.import_lines([head(user.scope), line, END])
    assert [] == await user.memory.list_memories(bob)
    assert 1 == len(await user.memory.list_memories(user.scope))


ODD = [
    ("value", '{"a": 1%s}' % ("0" * 5000), "type jsonb"),
    ("value", '{"a": 1e5000}', "type jsonb"),
    ("importance", "1" + "0" * 5000, "type number"),
    ("importance", "1e39", "type number: '1e39': it is out of range"),
    ("tenant_id", "1" + "0" * 5000, "belongs to '1000"),
]  # fmt: skip


@pytest.mark.both_engines
@every_case(*ODD)
async def test_a_number_that_nothing_reads_is_refused_by_name(column, token, told, user):
    row = json.dumps(memory_row(user.scope, **{column: "HERE"})).replace('"HERE"', token)
    lines = [head(user.scope), f'{{"table": "memories", "row": {row}}}', END]
    with pytest.raises(InvalidInput, match=f"line 2.*{told}"):
        await user.memory.import_lines(lines)
    assert [] == await user.memory.list_memories(user.scope)


@pytest.mark.both_engines
@pytest.mark.parametrize("odd", [{"target": 5}, {"target": None}, {"counts": []}])
async def test_a_receipt_that_nothing_reads_is_refused(user, odd):
    await user.memory.erase(user.scope)
    receipt = json.loads((await user.lines())[1])
    receipt["row"] |= {"erasure_id": str(uuid4()), **odd}
    with pytest.raises(InvalidInput, match="line 2: it holds no receipt"):
        await user.memory.import_lines([head(user.scope), json.dumps(receipt), END])
    assert 1 == len(await user.memory.erasures(app=user.scope.app))


@every_case("\\u0000", "\\ud800")
def test_texts_of_a_list_can_be_stored(text):
    with pytest.raises(InvalidInput, match="NUL byte or a lone surrogate"):
        read_value("event_ids", "text[]", f'["{text}"]')


def test_a_word_far_away_costs_no_memory():
    words = read_value("terms", "tsvector", "\"'a':1 'b':999999999999\"")
    assert (MOST_POSITION, "a", "b") == (len(words), words[0], words[-1])


@every_case(
    '{"table": "events", "row": {"a": 1}, "row": {"a": 2}}',
    '{"table": "events", "row": {"a": 1}, "r\\u006fw": {"a": 2}}',
    '{"table": "events", "row": {"a": 1, "a": 2}}',
    '{"row": {"a": 1}, "table": "events", "row": {"a": 2}}',
    ' {"table": "events", "row": {"a": 2}, "b": {"a": 3}} ',
    '{"table": "events", "row": {"a": 2 } }\t',
)
def test_the_last_of_several_members_counts_as_for_json(line):
    assert {"a": "2"} == fields_of(line) == {key: str(value) for key, value in
                                             json.loads(line)["row"].items()}  # fmt: skip


@pytest.mark.both_engines
async def test_a_turn_whose_number_another_turn_has_is_refused_at_its_line(user):
    await user.say("I ski.", "I row.")
    lines = await user.lines(vectors=True)
    await user.elsewhere.append_events(user.scope, "t", [said("x1", "I sail.")])
    number = 1 + next(n for n, line in enumerate(lines) if '"event_id":"e00"' in line)
    with pytest.raises(Conflict, match=f"line {number}, a row of events: something else"):
        await user.elsewhere.import_lines(lines)
    assert ["I sail."] == await user.texts(user.elsewhere)
    await user.elsewhere.forget_thread(user.scope, "t")
    await user.elsewhere.import_lines(lines)
    assert ["I row.", "I ski."] == await user.texts(user.elsewhere)


ERASED = r"line \d+, a row of \w+: it was erased here.*--restore.*Nothing was imported"


@pytest.mark.both_engines
@pytest.mark.parametrize("given_as", ["list", "file", "iterator"])
async def test_an_older_export_of_an_erased_user_is_refused(user, tmp_path, given_as):
    await user.memory.remember(user.scope, "Ana skis.")  # leaves no tombstone
    lines = await user.lines()
    await user.memory.erase(user.scope)
    file = tmp_path / "ana.jsonl"
    file.write_text("\n".join(lines))
    given = {"list": lines, "file": file, "iterator": iter(lines)}[given_as]
    refused = ERASED if given_as != "iterator" else "it was erased here"
    with pytest.raises(Conflict, match=refused):
        await user.memory.import_lines(given)
    assert [] == await user.texts()
    await user.memory.import_lines(lines, restore=True)
    assert ["Ana skis."] == await user.texts()


@pytest.mark.both_engines
async def test_an_export_that_was_made_after_the_erasure_is_imported(user):
    await user.memory.remember(user.scope, "Ana skis.")
    older = await user.lines()
    await user.memory.erase(user.scope)
    await user.memory.remember(user.scope, "Ana swims.")
    later = await user.lines()
    for lines in (later, iter(later)):
        assert 0 == (await user.memory.import_lines(lines)).written
    await user.elsewhere.import_lines(later)
    assert later == await user.lines_elsewhere()
    assert ["Ana swims."] == await user.texts(user.elsewhere)
    with pytest.raises(Conflict, match=ERASED):  # the receipt came along
        await user.elsewhere.import_lines(older)


@pytest.mark.both_engines
async def test_an_older_export_of_an_erased_thread_is_refused(user):
    async def say(thread: str, text: str) -> None:
        await user.memory.append_events(user.scope, thread, [said(text, text)])

    await say("t1", "I live in Rome.")
    await say("t2", "I like tea.")
    lines = await user.lines()
    await user.memory.forget_turns(user.scope, "t2", ["I like tea."])
    await user.memory.erase(user.scope, "t1")
    with pytest.raises(Conflict, match=ERASED):
        await user.memory.import_lines(lines, restore=False)
    assert [] == await user.texts()
    await say("t3", "I play chess.")
    assert 0 == (await user.memory.import_lines(await user.lines())).written
    await user.memory.import_lines(lines, restore=True)
    assert ["I like tea.", "I live in Rome.", "I play chess."] == await user.texts()


@pytest.mark.both_engines
async def test_an_export_of_an_older_version_has_its_receipts_late(user, tmp_path):
    await user.memory.erase(user.scope)
    await user.memory.remember(user.scope, "Ana swims.")
    first, *rows, end = await user.lines()
    rows.sort(key=lambda line: json.loads(line)["table"] == "erasures")
    assert '"table": "erasures"' in rows[-1]
    file = tmp_path / "ana.jsonl"
    file.write_text("\n".join([first, *rows, end]))
    assert len(rows) == (await user.memory.import_lines(file)).here
