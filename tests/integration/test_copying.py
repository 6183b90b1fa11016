"""Everything of one memory in another, counted and compared; on both engines, both ways."""

import json
from functools import partial
from pathlib import Path

import psycopg
import pytest
from commands import run
from whole_user import WholeClock, populate, said

from shared_core import Conflict, InvalidInput, MemoryEngine, NotFound, Scope, open_memory, run_sync
from shared_core.copy import copy_memory
from shared_core.core.retention_policy import POLICIES
from shared_core.storage.oceanbase.storage import OceanBaseStorage
from shared_core.storage.oceanbase.vectors import table_of

pytestmark = pytest.mark.both_engines

ANA, ZHU = Scope("helper", "ana"), Scope("商店", "朱")


def opened(dsn: str, clock: WholeClock) -> MemoryEngine:
    return open_memory(dsn, clock=clock, worker=False)


async def introduce(memory: MemoryEngine, scope: Scope) -> None:
    await memory.append_events(scope, "t1", [said(1, "我叫朱莉。"), said(2, "我住在深圳。")])
    await memory.consolidate(scope, "t1")


async def fill(memory: MemoryEngine, clock: WholeClock) -> None:
    await introduce(memory, ZHU)
    await populate(memory, ANA, clock)
    await memory.remember(ANA, 'It\'s 100 % \\ "quoted" 中文 \U0001f600')


async def recalled(memory: MemoryEngine, question: str) -> list[str]:
    return [hit.memory.text for hit in await memory.recall(ANA, question)]


@pytest.fixture
def clock():
    return WholeClock()


@pytest.fixture
async def pair(dsn, other_dsn, clock):
    """Two empty memories with one clock."""
    async with opened(dsn, clock) as source, opened(other_dsn, clock) as target:
        yield source, target


@pytest.fixture
async def filled(pair, clock):
    """A memory with two applications, and an empty one."""
    await fill(pair[0], clock)
    return pair


async def test_both_sides_hold_the_same_and_what_differs_is_seen(filled):
    source, target = filled
    steps: list[str] = []
    copied = await copy_memory(
        source, target, progress=lambda app, what, lines: steps.append(f"{app} {what}")
    )
    assert [one.app for one in copied.applications] == ["helper", "商店"]
    assert copied.complete
    assert all(one.written > 10 and one.source.rows > 10 for one in copied.applications)
    assert set(steps) == {"helper written", "商店 written"}  # what is told line by line
    again = await copy_memory(source, target, apps=["helper"])
    assert [(one.written, one.agrees) for one in again.applications] == [(0, True)]
    assert await recalled(target, "Lisbon") == await recalled(source, "Lisbon")
    await target.remember(ANA, "Only over there.")
    copied = await copy_memory(source, target)
    agrees = {one.app: one.agrees for one in copied.applications}
    assert ({"helper": False, "商店": True}, False) == (agrees, copied.complete)


async def test_an_interrupted_copy_goes_on(filled):
    source, target = filled
    told = 0

    def interrupt(app: str, what: str, lines: int) -> None:
        nonlocal told
        told += 1
        if told == 5:
            raise ConnectionError

    with pytest.raises(ConnectionError):
        await copy_memory(source, target, apps=["helper"], progress=interrupt)
    [rest] = (await copy_memory(source, target, apps=["helper"])).applications
    assert rest.agrees and rest.here and rest.written


@pytest.mark.parametrize("spelled", ["the same", "otherwise"])
async def test_nothing_is_copied_into_itself(dsn, tmp_path, spelled):
    other = dsn if spelled == "the same" else other_spelling(dsn, tmp_path)
    async with open_memory(dsn) as source, open_memory(other) as target:
        with pytest.raises(InvalidInput, match="the same memory"):
            await copy_memory(source, target)


def other_spelling(dsn: str, folder: Path) -> str:
    """Return another name of the same database."""
    if not dsn.startswith("seekdb"):
        return f"{dsn} application_name=other options='-c jit=off'"
    place, _, options = dsn.removeprefix("seekdb://").partition("?")
    (folder / "link").symlink_to(place)
    return f"seekdb://{folder}/./link/?{options}"


@pytest.mark.parametrize("there", ["nothing", "a folder", "a database"])
def test_a_source_that_is_not_there_is_not_made(dsn, tmp_path, there):
    folder, target = tmp_path / "source", tmp_path / "target"
    is_seekdb = dsn.startswith("seekdb")
    source, schema = f"{'seekdb' if is_seekdb else 'embedded'}://{folder}", "hippocampus"
    if there == "a folder":
        folder.mkdir()
    if there == "a database":
        source, schema = dsn, "not_there"
    done = run("copy", "--from", source, "--to", f"embedded://{target}", "--schema", schema)
    assert done.exit_code == 1
    assert "there is no memory" in done.stderr
    assert folder.exists() == (there == "a folder")
    assert not folder.exists() or not [*folder.iterdir()]
    assert not target.exists()
    for _ in range(2):
        with pytest.raises(NotFound, match="there is no memory"):
            run_sync(open_memory(source, schema=schema, create=False).transfer.applications())


async def test_what_holds_for_all_applications_goes_along(pair):
    source, target = pair
    for scope in (ANA, ZHU):
        await source.append_events(scope, "t1", [said(1, "I live in Leeds.")])
    await source.retention.set_policy({"semantic": POLICIES["knowledge"], "episodic": None})
    part = await copy_memory(source, target, apps=["helper"])
    assert part.policies.left == ["episodic", "semantic"]
    assert part.complete
    assert {} == await target.retention.own_policy()
    copied = await copy_memory(source, target)
    assert copied.policies.written == ["episodic", "semantic"]
    assert copied.complete
    assert await target.retention.own_policy() == await source.retention.own_policy()
    again = await copy_memory(source, target)
    assert (again.policies.written, again.policies.here) == ([], ["episodic", "semantic"])
    assert again.complete
    await target.retention.set_policy({"semantic": None, "item": None})
    await source.retention.set_policy({"summary": POLICIES["sensitive"]})
    other = await copy_memory(source, target)
    assert other.policies.written == ["summary"]
    assert (other.policies.differ, other.policies.only_there) == (["semantic"], ["item"])
    assert not other.complete
    assert (await target.retention.own_policy())["semantic"] is None


async def test_a_vector_that_differs_is_seen_and_one_that_is_missing_is_written(pair):
    source, target = pair
    await source.remember(ZHU, ["我喜欢深圳的海。", "I like the sea."])
    assert (await copy_memory(source, target)).complete
    halves = str([0.5] * ((await target.report()).dimensions or 0))
    await change_vectors(target, "UPDATE {} SET embedding = %s", halves)
    differing = await copy_memory(source, target)
    assert [(one.written, one.agrees) for one in differing.applications] == [(0, False)]
    await change_vectors(target, "DELETE FROM {}")
    missing = await copy_memory(source, target)
    assert [(one.written, one.agrees) for one in missing.applications] == [(2, True)]


async def change_vectors(memory: MemoryEngine, sql: str, *values: str) -> None:
    storage = memory._storage
    if isinstance(storage, OceanBaseStorage):
        statement = sql.format(table_of((await memory.report()).dimensions or 0))
        await storage._database.write(lambda tx: tx.run(statement, values))
    else:
        with psycopg.connect(await memory.dsn(), options="-c search_path=hippocampus") as changing:
            changing.execute(sql.format("embeddings").encode(), values)


async def test_an_application_must_be_there_and_what_was_forgotten_does_not_come_back(pair):
    source, target = pair
    assert await source.transfer.applications() == []
    assert (await copy_memory(source, target)).applications == []
    with pytest.raises(NotFound, match="no application 'x'"):
        await copy_memory(source, target, apps=["x"])
    await source.append_events(ANA, "t2", [said(6, "I love fado."), said(7, "I love jazz.")])
    await copy_memory(source, target)
    assert await target.forget_turns(ANA, "t2", ["e6"])
    with pytest.raises(Conflict, match="forgotten"):
        await copy_memory(source, target, apps=["helper"])
    assert (await copy_memory(source, target, apps=["helper"], restore=True)).complete


def test_the_command_counts_and_compares(dsn, other_dsn):
    async def filled() -> None:
        async with open_memory(dsn, worker=False) as memory:
            for scope in (ANA, ZHU):
                await introduce(memory, scope)

    run_sync(filled())
    copy = partial(run, "copy", "--from", dsn, "--to")
    done = copy(other_dsn, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["complete"]
    assert {one["app"] for one in found["applications"]} == {"helper", "商店"}
    assert all(one["source"] == one["target"] for one in found["applications"])
    plain = copy(other_dsn, "--app", "helper")
    assert plain.exit_code == 0 and "agree" in plain.stdout
    same = copy(dsn)
    assert same.exit_code == 1 and "same memory" in same.stderr


@pytest.mark.tail
@pytest.mark.parametrize("to_seekdb", [True, False], ids=["to seekdb", "from seekdb"])
async def test_from_one_engine_to_the_other(postgres_dsn, seekdb_dsn, to_seekdb):
    places = (postgres_dsn, seekdb_dsn) if to_seekdb else (seekdb_dsn, postgres_dsn)
    clock = WholeClock()
    async with opened(places[0], clock) as source, opened(places[1], clock) as target:
        await fill(source, clock)
        copied = await copy_memory(source, target)
        differ = [(one.app, one.differ) for one in copied.applications]
        assert differ == [("helper", 0), ("商店", 0)]
        assert copied.complete
        question = "Where does she live?"
        assert await recalled(target, question) == await recalled(source, question)


async def test_a_thread_that_grew_is_copied_again(pair):
    source, target = pair
    texts = ["I live in Leeds.", "我喜欢红茶。", "I like green tea.", "I moved to Paris."]
    turns = [said(number, text) for number, text in enumerate(texts, start=1)]
    await source.append_events(ANA, "t1", turns[:1])
    await copy_memory(source, target)
    await source.append_events(ANA, "t1", turns[1:3])
    copied = await copy_memory(source, target)
    assert await thread_of(target) == await thread_of(source)
    assert (copied.complete, copied.applications[0].differ) == (True, 0)
    await target.append_events(ANA, "t1", turns[3:])
    await copy_memory(source, target)  # what is behind lowers nothing
    await target.append_events(ANA, "t1", [said(5, "I like the Seine.")])
    held = [*texts, "I like the Seine."]
    assert [(row["event_id"], row["text"]) for row in await rows_of(target, "events")] == [
        (f"e{number}", text) for number, text in enumerate(held, start=1)
    ]
    kept = await target.list_memories(ANA, limit=20)
    assert sorted(one.text for one in kept) == sorted(held)
    thread = await thread_of(target)
    assert (thread["last_seq"], thread["last_memory_seq"]) == (5, 5)


async def test_a_copied_thread_has_read_no_further(pair):
    """What the source read of turns that came later is unread in the target, and read there."""
    source, target = pair
    await source.append_events(ANA, "t1", [said(1, "I live in Leeds.")])
    await copy_memory(source, target)
    await source.append_events(ANA, "t1", [said(2, "I like green tea.")])
    await source.consolidate(ANA, "t1")
    await copy_memory(source, target)
    assert (await thread_of(target))["consolidated_seq"] == 0
    await target.consolidate(ANA, "t1")
    assert (await thread_of(target))["consolidated_seq"] == 2
    facts = await target.facts(ANA)
    assert [fact.value for fact in facts] == [fact.value for fact in await source.facts(ANA)]


async def test_events_beyond_the_counter_of_their_thread(pair):
    """A file that says less of a thread than its events do: the next turn goes behind them."""
    source, target = pair
    await source.append_events(ANA, "t1", [said(1, "I live in Leeds."), said(2, "I like tea.")])
    lines = [line async for line in source.export(ANA)]
    row = json.loads(lines[1])
    assert row["table"] == "threads"
    row["row"] |= {"last_seq": 1, "last_memory_seq": 0}
    await target.import_lines([lines[0], json.dumps(row), *lines[2:]])
    await target.append_events(ANA, "t1", [said(3, "I moved to Paris.")])
    events = await rows_of(target, "events")
    assert [row["event_id"] for row in events] == ["e1", "e2", "e3"]


async def thread_of(memory: MemoryEngine) -> dict[str, object]:
    [row] = await rows_of(memory, "threads")
    return row


async def rows_of(memory: MemoryEngine, table: str) -> list[dict[str, object]]:
    """Return what Ana's export holds of a table, in order."""
    found = [json.loads(line) async for line in memory.export(ANA)]
    return [line["row"] for line in found if line.get("table") == table]
