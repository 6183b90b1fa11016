"""Doubtful facts on both engines: marked by a turn, settled, ended, undone, and explained."""

import re
from typing import Any

import pytest
from person import Person, alone, at, then

from shared_core import AsOf, Conflict
from shared_core.core.domain import Memory
from shared_core.core.namespaces import scope_path
from shared_core.core.retention_policy import RetentionPolicy
from shared_core.models.embedders import CallableEmbedder
from shared_core.ports.operations import Select
from tests.integration.doubting import PATTERN, Doubting

pytestmark = pytest.mark.both_engines
TABLES = {
    "facts": ("memory_id", "value", "valid_from", "valid_until", "superseded_at"),
    "memories": ("memory_id", "text", "value", "superseded_at"),
    "retractions": ("retraction_id", "value", "is_doubt"),
    "memory_sources": ("memory_id", "event_id"),
}


@pytest.fixture
def ann(ann_with, clock):
    return ann_with(clock=clock, extractor=Doubting())


async def held(ann: Person) -> list[tuple[str, float | None]]:
    """Return the values that hold, with the day on which each was doubted."""
    days = {one.value: one.doubted_at for one in await ann.facts()}
    return [(value, day and (day - at(0)).days) for value, day in sorted(days.items())]


async def stored(ann: Person) -> dict[str, list[str]]:
    """Return the rows of what runs write, as text."""
    storage = await ann.memory.facts._handle.storage()
    selects = [Select(table, columns) for table, columns in TABLES.items()]
    rows = await storage.read(scope_path(ann.scope), selects)
    return {table: sorted(map(repr, some)) for table, some in zip(TABLES, rows, strict=True)}


async def semantic(ann: Person, query: str, as_of: AsOf | None = None) -> list[Memory]:
    hits = await ann.recall(query, kinds=["semantic"], as_of=as_of)
    return [hit.memory for hit in hits]


@pytest.mark.parametrize(("lives", "doubts", "query", "value", "again"), [
    ("I live in Boston.", "I might leave Boston.", "Where does Ann live?", "Boston",
     "I still live in Boston."),
    ("我住在上海。", "我可能要离开上海。", "她住在哪里？", "上海", "我住在上海。"),
])  # fmt: skip
async def test_a_doubted_fact_is_marked_until_said_again(ann, lives, doubts, query, value, again):
    await ann.say(1, lives)
    [certain] = await ann.facts()
    assert (None, False) == (certain.doubted_at, certain.is_doubtful)
    await ann.say(5, doubts)
    [fact] = await ann.facts()
    assert (at(5), True, None) == (fact.doubted_at, fact.is_doubtful, fact.valid_until)
    assert certain.source_event_ids == fact.source_event_ids
    [found] = await semantic(ann, query)
    assert at(5) == found.doubted_at
    ann.clock.day = 9
    for as_of, expected in ((then(4), None), (then(6), at(5)), (then(known=4), None)):
        [past] = await ann.facts(as_of=as_of)
        [hit] = await semantic(ann, query, as_of)
        assert (expected, expected) == (past.doubted_at, hit.doubted_at), as_of
    [run, *_] = await ann.runs()
    assert (1, 0, 0) == (run.counts["doubted"], run.counts["facts"], run.counts["closed"])
    await ann.say(10, again)
    assert [(value, None)] == await held(ann)
    assert [None] == [one.doubted_at for one in await semantic(ann, query)]
    [run, *_] = await ann.runs()
    assert (1, False) == (run.counts["confirmed"], "doubted" in run.counts)


async def test_a_caller_confirms_or_ends_a_doubtful_fact(ann):
    await ann.say(1, "I live in Boston.")
    await ann.say(2, "I might leave Boston.")
    ann.clock.day = 3
    confirmed = await ann.state_fact("residence", "Boston")
    assert (None, "Boston") == (confirmed.doubted_at, confirmed.value)
    [run, *_] = await ann.runs()
    assert ("statement", {"confirmed": 1}) == (
        run.kind, {name: number for name, number in run.counts.items() if number})  # fmt: skip
    await ann.undo_run(run.run_id)
    assert [("Boston", 2)] == await held(ann)
    [doubtful] = await ann.facts()
    assert (False, []) == ((await ann.retract(doubtful)).is_doubtful, await held(ann))
    assert (await ann.restore(doubtful)).is_doubtful and [("Boston", 2)] == await held(ann)


async def test_another_value_and_an_end_end_a_doubtful_fact(ann):
    await ann.say(1, "I live in Boston. I like jazz.")
    await ann.say(2, "I might leave Boston and jazz.")
    assert [("Boston", 2), ("jazz", 2)] == await held(ann)
    await ann.say(3, "I moved to Austin.")
    await ann.say(4, "I left jazz.")
    assert [("Austin", None)] == await held(ann)
    past = {one.value: one for one in await ann.facts(history=True)}
    assert (at(3), False) == (past["Boston"].valid_until, past["Boston"].is_doubtful)
    assert (at(4), False) == (past["jazz"].valid_until, past["jazz"].is_doubtful)


async def test_the_time_of_a_turn_decides_and_not_when_it_is_read(ann):
    await ann.say(1, "I live in Boston.")
    await ann.say(6, "I might leave Boston.")
    await ann.say(4, "I live in Boston.", thread="late")
    assert [("Boston", 6)] == await held(ann)
    await ann.say(8, "I live in Boston.", thread="t")
    await ann.say(7, "I might leave Boston.", thread="late")
    assert [("Boston", None)] == await held(ann)
    # A doubt is kept for a turn of before it that is read after it.
    [fact] = await ann.facts()
    await ann.forget(fact.key)
    await ann.say(5, "I live in Boston.", thread="later")
    assert [("Boston", 7)] == await held(ann)


async def test_undo_restores_what_was_before_in_the_order_of_the_runs(ann):
    await ann.say(1, "I live in Boston.")
    states = [await stored(ann)]
    for day, text in (
        (2, "I might leave Boston."), (3, "I might leave Boston."), (4, "I live in Boston."),
        (5, "I might leave Boston."), (6, "I moved to Austin."),
    ):  # fmt: skip
        await ann.say(day, text)
        states.append(await stored(ann))
    runs = [run.run_id for run in await ann.runs()]
    with pytest.raises(Conflict, match=re.escape(", ".join(map(str, runs[:4])))):
        await ann.undo_run(runs[4])
    for run_id, before in zip(runs, states[-2::-1], strict=False):
        await ann.undo_run(run_id)
        now = await stored(ann)
        turns = [row for row in now["memories"] if "episodic" in row]
        now["memories"] = [row for row in now["memories"] if row not in turns]
        assert before["facts"] == now["facts"]
        assert before["retractions"] == now["retractions"]
        assert [row for row in before["memories"] if "semantic" in row] == [
            row for row in now["memories"] if "semantic" in row]  # fmt: skip
    assert [("Boston", None)] == await held(ann)


async def test_a_fact_said_and_doubted_in_one_run_goes_with_the_run(ann):
    await ann.say(1, "I live in Boston.")
    await ann.say(2, "I might leave Boston. I live in Boston.")
    assert [("Boston", 2)] == await held(ann)
    for run in await ann.runs():
        await ann.undo_run(run.run_id)
    assert ([], []) == (await held(ann), (await stored(ann))["retractions"])


async def test_a_forgotten_doubt_leaves_the_mark_without_its_turn(ann):
    await ann.say(1, "I live in Boston.")
    await ann.say(2, "I might leave Boston.", thread="x")
    await ann.forget_turns("x", ["e2"])
    [fact] = await ann.facts(why=True)
    assert fact.is_doubtful and fact.why and fact.why.doubted
    assert ((), "") == (fact.why.doubted.turns, fact.why.doubted.pattern)
    assert "'e2'" not in str(await stored(ann))


async def test_a_doubtful_fact_ranks_below_an_equal_one(dsn, clock):
    alike = CallableEmbedder(lambda texts: [[1.0, 2.0]] * len(texts), model="alike")
    async with alone(dsn, clock, extractor=Doubting(), embedder=alike) as ann:
        await ann.say(1, "I like rock. I like jazz.")
        for doubted, certain in (("jazz", "rock"), ("rock", "jazz")):
            await ann.say(ann.clock.day + 1, f"I might leave {doubted}.")
            await ann.say(ann.clock.day + 1, f"I like {certain}.")
            for ranking in ("linear", "fusion", "rrf"):
                asked = "What music does Ann like?"
                hits = await ann.recall(asked, kinds=["semantic"], ranking=ranking)
                places = [hit.memory.value["metadata"]["value"] for hit in hits]
                assert ranking != "linear" or [certain, doubted] == places
            assert {0.0, 0.5} == {hit.parts["ended"] for hit in hits}


async def test_a_fact_that_faded_is_marked_and_comes_back_whole(ann):
    await ann.say(1, "I live in Boston.")
    at_once = {"min_age_days": 0, "archive_after_days": 0}
    quick = RetentionPolicy(threshold=0.99, archive_threshold=0.98, **at_once)
    await ann.memory.retention.set_policy({"semantic": quick}, ann.scope)
    for day in (300, 600):
        ann.clock.day = day
        await ann.retention.forget_faded()
    assert [] == await held(ann)
    await ann.say(601, "I might leave Boston.")
    [run, *_] = await ann.runs()
    await ann.say(602, "I live in Boston.")
    [fact] = await ann.facts()
    assert (None, "User lives in Boston.") == (fact.doubted_at, fact.statement)
    [again, *_] = await ann.runs()
    await ann.undo_run(again.run_id)
    await ann.undo_run(run.run_id)
    await ann.say(603, "I live in Boston.", thread="other")
    [fact] = await ann.facts()
    assert (None, "User lives in Boston.") == (fact.doubted_at, fact.statement)


def reason(told: Any) -> tuple[list[str], str, Any]:
    return [turn.text for turn in told.turns], told.pattern, told.run_id


async def test_why_names_the_turns_rules_and_runs(ann):
    await ann.say(1, "I live in Boston. I like jazz. I work at Acme.")
    await ann.say(2, "I like jazz.", thread="second")
    await ann.say(3, "I might leave jazz.")
    await ann.say(4, "I left Acme.")
    await ann.say(5, "I moved to Austin.")
    ann.clock.day = 6
    [austin] = await ann.facts("residence")
    await ann.retract(austin)
    runs = {(run.finished_at - at(0)).days: run.run_id for run in await ann.runs()}
    found = {one.value: one for one in await ann.facts(history=True, why=True)}
    assert {"Boston", "Austin", "jazz", "Acme"} == found.keys()
    jazz, acme, boston, end = (found[name].why for name in ("jazz", "Acme", "Boston", "Austin"))
    first, second = jazz.stated.turns
    assert ("t", "e1", at(1)) == (first.thread_id, first.event_id, first.said_at)
    assert ("second", "e2", at(2)) == (second.thread_id, second.event_id, second.said_at)
    texts = ["I live in Boston. I like jazz. I work at Acme.", "I like jazz."]
    assert (texts, found["jazz"].pattern, runs[1]) == reason(jazz.stated)
    assert (["I might leave jazz."], PATTERN, runs[3]) == reason(jazz.doubted)
    assert (["I left Acme."], PATTERN, runs[4]) == reason(acme.ended)
    assert (None, None, None) == (jazz.ended, acme.doubted, acme.ended.fact_key)
    assert (["I moved to Austin."], found["Austin"].pattern, runs[5]) == reason(boston.ended)
    assert found["Austin"].key == boston.ended.fact_key
    assert ((), "caller", runs[6]) == (end.ended.turns, end.ended.extractor, end.ended.run_id)
    assert [None] == [one.why for one in await ann.facts()]


async def test_why_explains_ends_of_the_same_run_and_chinese_ones(ann):
    await ann.say(1, "我住在上海。")
    await ann.say(2, "我搬到北京了。")
    await ann.say(3, "我可能要离开北京。")
    found = {one.value: one for one in await ann.facts(history=True, why=True)}
    shanghai, beijing = found["上海"], found["北京"]
    assert ["我搬到北京了。"] == [turn.text for turn in shanghai.why.ended.turns]
    assert "revise.zh.home.moved" == shanghai.why.ended.pattern
    assert ["我可能要离开北京。"] == [turn.text for turn in beijing.why.doubted.turns]


async def test_why_names_the_turn_that_told_a_fact_and_its_end(ann):
    await ann.say(1, "I'm moving to Lisbon on 1 December 2026.")
    [plan] = await ann.facts(history=True, why=True)
    assert plan.valid_until and plan.why and plan.why.ended
    assert plan.why.stated == plan.why.ended
    assert ["e1"] == [turn.event_id for turn in plan.why.ended.turns]


async def test_why_shows_no_turn_that_was_set_aside_or_forgotten(ann):
    await ann.say(1, "I like jazz.")
    await ann.say(2, "I like jazz. Theo plays it.", thread="second")
    await ann.say(3, "I like jazz. Mia does not.", thread="third")
    await ann.forget_about("Theo")
    await ann.forget_turns("third", ["e3"])
    [fact] = await ann.facts(why=True)
    shown = {turn.event_id: turn.text for turn in fact.why.stated.turns}
    assert ("I like jazz.", None, None) == tuple(map(shown.get, ("e1", "e2", "e3")))
