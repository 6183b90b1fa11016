"""Doubtful facts on both engines: marked by a turn, settled, ended, undone, and explained."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest

from shared_core import AsOf, Conflict, MemoryEngine, open_memory
from shared_core.core.domain import Memory
from shared_core.core.namespaces import scope_path
from shared_core.core.retention_policy import RetentionPolicy
from shared_core.models.embedders import CallableEmbedder
from shared_core.ports.operations import Select
from tests.integration.doubting import ANN, PATTERN, Clock, Doubting, at, held, say

pytestmark = pytest.mark.both_engines
TABLES = {
    "facts": ("memory_id", "value", "valid_from", "valid_until", "superseded_at"),
    "memories": ("memory_id", "text", "value", "superseded_at"),
    "retractions": ("retraction_id", "value", "is_doubt"),
    "memory_sources": ("memory_id", "event_id"),
}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def memory(dsn: str, clock: Clock) -> AsyncIterator[MemoryEngine]:
    async with open_memory(dsn, clock=clock, worker=False, extractor=Doubting()) as engine:
        yield engine


async def stored(memory: MemoryEngine) -> dict[str, list[str]]:
    """Return the rows of what runs write, as text."""
    storage = await memory.facts._handle.storage()
    rows = await storage.read(
        scope_path(ANN), [Select(table, columns) for table, columns in TABLES.items()]
    )
    return {table: sorted(map(repr, some)) for table, some in zip(TABLES, rows, strict=True)}


async def semantic(memory: MemoryEngine, query: str, as_of: AsOf | None = None) -> list[Memory]:
    hits = await memory.recall(ANN, query, kinds=["semantic"], as_of=as_of)
    return [hit.memory for hit in hits]


@pytest.mark.parametrize(
    ("lives", "doubts", "query", "value", "again"),
    [
        ("I live in Boston.", "I might leave Boston.", "Where does Ann live?", "Boston",
         "I still live in Boston."),
        ("我住在上海。", "我可能要离开上海。", "她住在哪里？", "上海", "我住在上海。"),
    ],
)  # fmt: skip
async def test_a_doubted_fact_holds_with_a_mark_until_it_is_said_again(
    memory: MemoryEngine, clock: Clock, lives: str, doubts: str, query: str, value: str, again: str
) -> None:
    await say(memory, clock, 1, lives)
    [certain] = await memory.facts(ANN)
    assert (None, False) == (certain.doubted_at, certain.is_doubtful)
    await say(memory, clock, 5, doubts)
    [fact] = await memory.facts(ANN)
    assert (at(5), True, None) == (fact.doubted_at, fact.is_doubtful, fact.valid_until)
    assert certain.source_event_ids == fact.source_event_ids
    [found] = await semantic(memory, query)
    assert at(5) == found.doubted_at
    clock.day = 9
    for moments, expected in (
        ({"valid": at(4)}, None), ({"valid": at(6)}, at(5)), ({"known": at(4)}, None),
    ):  # fmt: skip
        [then] = await memory.facts(ANN, as_of=AsOf(**moments))
        [hit] = await semantic(memory, query, AsOf(**moments))
        assert (expected, expected) == (then.doubted_at, hit.doubted_at), moments
    [run, *_] = await memory.runs(ANN)
    assert (1, 0, 0) == (run.counts["doubted"], run.counts["facts"], run.counts["closed"])
    await say(memory, clock, 10, again)
    assert [(value, None)] == await held(memory)
    assert [None] == [one.doubted_at for one in await semantic(memory, query)]
    [run, *_] = await memory.runs(ANN)
    assert (1, False) == (run.counts["confirmed"], "doubted" in run.counts)


async def test_a_caller_confirms_or_ends_a_doubtful_fact(
    memory: MemoryEngine, clock: Clock
) -> None:
    await say(memory, clock, 1, "I live in Boston.")
    await say(memory, clock, 2, "I might leave Boston.")
    clock.day = 3
    confirmed = await memory.state_fact(ANN, "residence", "Boston")
    assert (None, "Boston") == (confirmed.doubted_at, confirmed.value)
    [run, *_] = await memory.runs(ANN)
    assert ("statement", {"confirmed": 1}) == (
        run.kind, {name: number for name, number in run.counts.items() if number})  # fmt: skip
    await memory.undo_run(ANN, run.run_id)
    assert [("Boston", 2)] == await held(memory)
    [doubtful] = await memory.facts(ANN)
    ended = await memory.retract(ANN, doubtful)
    assert (False, []) == (ended.is_doubtful, await held(memory))
    back = await memory.restore(ANN, doubtful)
    assert back.is_doubtful and [("Boston", 2)] == await held(memory)


async def test_another_value_and_an_end_end_a_doubtful_fact(
    memory: MemoryEngine, clock: Clock
) -> None:
    await say(memory, clock, 1, "I live in Boston. I like jazz.")
    await say(memory, clock, 2, "I might leave Boston and jazz.")
    assert [("Boston", 2), ("jazz", 2)] == await held(memory)
    await say(memory, clock, 3, "I moved to Austin.")
    await say(memory, clock, 4, "I left jazz.")
    assert [("Austin", None)] == await held(memory)
    past = {one.value: one for one in await memory.facts(ANN, history=True)}
    assert (at(3), False) == (past["Boston"].valid_until, past["Boston"].is_doubtful)
    assert (at(4), False) == (past["jazz"].valid_until, past["jazz"].is_doubtful)


async def test_the_time_of_a_turn_decides_and_not_when_it_is_read(
    memory: MemoryEngine, clock: Clock
) -> None:
    await say(memory, clock, 1, "I live in Boston.")
    await say(memory, clock, 6, "I might leave Boston.")
    await say(memory, clock, 4, "I live in Boston.", thread="late")
    assert [("Boston", 6)] == await held(memory)
    await say(memory, clock, 8, "I live in Boston.", thread="t")
    await say(memory, clock, 7, "I might leave Boston.", thread="late")
    assert [("Boston", None)] == await held(memory)
    # A doubt is kept for a turn of before it that is read after it.
    [fact] = await memory.facts(ANN)
    await memory.forget(ANN, fact.key)
    await say(memory, clock, 5, "I live in Boston.", thread="later")
    assert [("Boston", 7)] == await held(memory)


async def test_undo_restores_what_was_before_in_the_order_of_the_runs(
    memory: MemoryEngine, clock: Clock
) -> None:
    await say(memory, clock, 1, "I live in Boston.")
    states = [await stored(memory)]
    for day, text in (
        (2, "I might leave Boston."), (3, "I might leave Boston."), (4, "I live in Boston."),
        (5, "I might leave Boston."), (6, "I moved to Austin."),
    ):  # fmt: skip
        await say(memory, clock, day, text)
        states.append(await stored(memory))
    runs = [run.run_id for run in await memory.runs(ANN)]
    with pytest.raises(Conflict, match=re.escape(", ".join(map(str, runs[:4])))):
        await memory.undo_run(ANN, runs[4])
    for run_id, before in zip(runs, states[-2::-1], strict=False):
        await memory.undo_run(ANN, run_id)
        now = await stored(memory)
        turns = [row for row in now["memories"] if "episodic" in row]
        now["memories"] = [row for row in now["memories"] if row not in turns]
        assert before["facts"] == now["facts"]
        assert before["retractions"] == now["retractions"]
        assert [row for row in before["memories"] if "semantic" in row] == [
            row for row in now["memories"] if "semantic" in row]  # fmt: skip
    assert [("Boston", None)] == await held(memory)


async def test_a_fact_said_and_doubted_in_one_run_goes_with_the_run(
    memory: MemoryEngine, clock: Clock
) -> None:
    await say(memory, clock, 1, "I live in Boston.")
    await say(memory, clock, 2, "I might leave Boston. I live in Boston.")
    assert [("Boston", 2)] == await held(memory)
    for run in await memory.runs(ANN):
        await memory.undo_run(ANN, run.run_id)
    assert ([], []) == (await held(memory), (await stored(memory))["retractions"])


async def test_a_forgotten_doubt_leaves_the_mark_without_its_turn(
    memory: MemoryEngine, clock: Clock
) -> None:
    await say(memory, clock, 1, "I live in Boston.")
    await say(memory, clock, 2, "I might leave Boston.", thread="x")
    await memory.forget_turns(ANN, "x", ["e2"])
    [fact] = await memory.facts(ANN, why=True)
    assert fact.is_doubtful and fact.why and fact.why.doubted
    assert ((), "") == (fact.why.doubted.turns, fact.why.doubted.pattern)
    assert "'e2'" not in str(await stored(memory))


async def test_a_doubtful_fact_ranks_below_an_equal_one(dsn: str, clock: Clock) -> None:
    alike = CallableEmbedder(lambda texts: [[1.0, 2.0]] * len(texts), model="alike")
    extractor = Doubting()
    async with open_memory(
        dsn, clock=clock, worker=False, extractor=extractor, embedder=alike
    ) as memory:
        await _doubt_and_ask(memory, clock)


async def _doubt_and_ask(memory: MemoryEngine, clock: Clock) -> None:
    await say(memory, clock, 1, "I like rock. I like jazz.")
    for doubted, certain in (("jazz", "rock"), ("rock", "jazz")):
        await say(memory, clock, clock.day + 1, f"I might leave {doubted}.")
        await say(memory, clock, clock.day + 1, f"I like {certain}.")
        for ranking in ("linear", "fusion", "rrf"):
            hits = await memory.recall(
                ANN, "What music does Ann like?", kinds=["semantic"], ranking=ranking
            )
            places = [hit.memory.value["metadata"]["value"] for hit in hits]  # type: ignore[index,call-overload]
            if ranking == "linear":
                assert [certain, doubted] == places
        ended = {hit.memory.text: hit.parts["ended"] for hit in hits}
        assert {0.0, 0.5} == set(ended.values())


async def test_a_fact_that_faded_is_marked_and_comes_back_whole(
    memory: MemoryEngine, clock: Clock
) -> None:
    await say(memory, clock, 1, "I live in Boston.")
    quick = RetentionPolicy(
        threshold=0.99, min_age_days=0, archive_threshold=0.98, archive_after_days=0
    )
    await memory.retention.set_policy({"semantic": quick}, ANN)
    for day in (300, 600):
        clock.day = day
        await memory.retention.forget_faded(ANN)
    assert [] == await held(memory)
    await say(memory, clock, 601, "I might leave Boston.")
    [run, *_] = await memory.runs(ANN)
    await say(memory, clock, 602, "I live in Boston.")
    [fact] = await memory.facts(ANN)
    assert (None, "User lives in Boston.") == (fact.doubted_at, fact.statement)
    [again, *_] = await memory.runs(ANN)
    await memory.undo_run(ANN, again.run_id)
    await memory.undo_run(ANN, run.run_id)
    await say(memory, clock, 603, "I live in Boston.", thread="other")
    [fact] = await memory.facts(ANN)
    assert (None, "User lives in Boston.") == (fact.doubted_at, fact.statement)


async def test_why_names_the_turns_rules_and_runs(memory: MemoryEngine, clock: Clock) -> None:
    await say(memory, clock, 1, "I live in Boston. I like jazz. I work at Acme.")
    await say(memory, clock, 2, "I like jazz.", thread="second")
    await say(memory, clock, 3, "I might leave jazz.")
    await say(memory, clock, 4, "I left Acme.")
    await say(memory, clock, 5, "I moved to Austin.")
    clock.day = 6
    [austin] = await memory.facts(ANN, "residence")
    await memory.retract(ANN, austin)
    runs = {run.finished_at: run for run in await memory.runs(ANN)}
    found = {one.value: one for one in await memory.facts(ANN, history=True, why=True)}
    assert {"Boston", "Austin", "jazz", "Acme"} == found.keys()
    why = {value: one.why for value, one in found.items()}
    jazz, acme, boston, austin_why = (why[name] for name in ("jazz", "Acme", "Boston", "Austin"))
    assert jazz and acme and boston and austin_why
    assert [("t", "e1"), ("second", "e2")] == [
        (turn.thread_id, turn.event_id) for turn in jazz.stated.turns]  # fmt: skip
    assert ["I live in Boston. I like jazz. I work at Acme.", "I like jazz."] == [
        turn.text for turn in jazz.stated.turns]  # fmt: skip
    assert [at(1), at(2)] == [turn.said_at for turn in jazz.stated.turns]
    assert (found["jazz"].pattern, runs[at(1)].run_id) == (
        jazz.stated.pattern, jazz.stated.run_id)  # fmt: skip
    assert jazz.doubted and jazz.ended is None
    assert (["I might leave jazz."], PATTERN, runs[at(3)].run_id) == (
        [turn.text for turn in jazz.doubted.turns], jazz.doubted.pattern, jazz.doubted.run_id
    )  # fmt: skip
    assert acme.ended and acme.doubted is None
    assert (["e4"], PATTERN, runs[at(4)].run_id, None) == (
        [turn.event_id for turn in acme.ended.turns], acme.ended.pattern, acme.ended.run_id,
        acme.ended.fact_key,
    )  # fmt: skip
    assert boston.ended
    assert (["e5"], found["Austin"].pattern, found["Austin"].key, runs[at(5)].run_id) == (
        [turn.event_id for turn in boston.ended.turns], boston.ended.pattern,
        boston.ended.fact_key, boston.ended.run_id,
    )  # fmt: skip
    assert austin_why.ended
    assert ((), "caller", runs[at(6)].run_id) == (
        austin_why.ended.turns, austin_why.ended.extractor, austin_why.ended.run_id
    )  # fmt: skip
    assert [None] == [one.why for one in await memory.facts(ANN)]


async def test_why_explains_ends_of_the_same_run_and_chinese_ones(
    memory: MemoryEngine, clock: Clock
) -> None:
    await say(memory, clock, 1, "我住在上海。")
    await say(memory, clock, 2, "我搬到北京了。")
    await say(memory, clock, 3, "我可能要离开北京。")
    shanghai, beijing = [
        next(one for one in await memory.facts(ANN, history=True, why=True) if one.value == value)
        for value in ("上海", "北京")
    ]
    assert shanghai.why and shanghai.why.ended and beijing.why and beijing.why.doubted
    assert ["我搬到北京了。"] == [turn.text for turn in shanghai.why.ended.turns]
    assert "revise.zh.home.moved" == shanghai.why.ended.pattern
    assert ["我可能要离开北京。"] == [turn.text for turn in beijing.why.doubted.turns]


async def test_why_names_the_turn_that_told_a_fact_and_its_end(
    memory: MemoryEngine, clock: Clock
) -> None:
    await say(memory, clock, 1, "I'm moving to Lisbon on 1 December 2026.")
    [plan] = await memory.facts(ANN, history=True, why=True)
    assert plan.valid_until and plan.why and plan.why.ended
    assert plan.why.stated == plan.why.ended
    assert ["e1"] == [turn.event_id for turn in plan.why.ended.turns]


async def test_why_shows_no_turn_that_was_set_aside_or_forgotten(
    memory: MemoryEngine, clock: Clock
) -> None:
    await say(memory, clock, 1, "I like jazz.")
    await say(memory, clock, 2, "I like jazz. Theo plays it.", thread="second")
    await say(memory, clock, 3, "I like jazz. Mia does not.", thread="third")
    await memory.forget_about(ANN, "Theo")
    await memory.forget_turns(ANN, "third", ["e3"])
    [fact] = await memory.facts(ANN, why=True)
    assert fact.why
    shown = {turn.event_id: turn.text for turn in fact.why.stated.turns}
    assert ("I like jazz.", None, None) == tuple(map(shown.get, ("e1", "e2", "e3")))
