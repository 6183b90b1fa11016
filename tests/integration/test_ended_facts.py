"""Facts that later turns end, plans that lapse, and the stories of lives that change."""

from datetime import UTC, datetime

import pytest
from person import Person, at

from shared_core import AsOf

pytestmark = pytest.mark.both_engines


async def say(ann: Person, day: int, *texts: str) -> None:
    """Let Ann say something on a day, in a thread of its own."""
    await ann.say(day, *texts, thread=f"day {day}")


async def holds(ann: Person) -> set[tuple[str, str]]:
    return {(one.slot, one.value) for one in await ann.facts()}


async def ended(ann: Person) -> dict[tuple[str, str], datetime | None]:
    facts = await ann.facts(history=True)
    return {(one.slot, one.value): one.valid_until for one in facts if one.valid_until}


async def test_a_fact_ends_is_history_and_comes_back_with_the_undo(ann):
    await say(ann, 0, "I work at Deloitte.", "My boss is Maria.", "I love jazz.")
    gone, before = [("employer", "Deloitte"), ("relation.boss", "Maria")], await holds(ann)
    assert {*gone, ("like", "jazz")} <= before
    await say(ann, 90, "so I handed in my notice at Deloitte last week")
    assert await holds(ann) == {("like", "jazz")}
    assert await ended(ann) == dict.fromkeys(gone, at(90))
    edges = await ann.graph.neighbourhood("user", depth=2)
    assert {edge.object for edge in edges.edges} == {"jazz"}
    await ann.undo_run((await ann.runs())[0].run_id)
    assert await holds(ann) == before
    assert not await ended(ann)
    await ann.consolidate("day 90")
    assert await holds(ann) == {("like", "jazz")}


async def test_a_slot_that_was_ended_weeks_ago_takes_its_next_value(ann):
    await say(ann, 0, "I work at Deloitte.")
    await say(ann, 90, "I quit my job", "starting at Patagonia on monday")
    assert not await holds(ann)
    await say(ann, 110, "first week at Patagonia done, everyone is so nice")
    assert await holds(ann) == {("employer", "Patagonia")}
    [fact] = await ann.facts()
    assert fact.pattern == "revise.en.employer.first-week"
    edges = await ann.graph.neighbourhood("user", depth=2)
    assert {edge.object for edge in edges.edges} == {"Patagonia"}


async def test_a_turn_is_found_as_before_when_its_plan_has_come_about(ann):
    await say(ann, 0, "We fly to Lisbon on 9 April.", "I work at Deloitte.")
    await say(ann, 10, "I quit my job at Deloitte")
    assert {slot for slot, _ in await ended(ann)} == {"plan", "employer"}
    hits = await ann.recall("Lisbon, Deloitte", limit=20, asked_at=at(60))
    shares = {hit.memory.text: hit.parts.get("ended") for hit in hits}
    assert not shares["We fly to Lisbon on 9 April."]
    assert shares["I work at Deloitte."] == 1.0


async def test_a_correction_in_chinese_replaces_the_value(ann):
    await say(ann, 0, "我住在南京", "不对，打错了，是苏州")
    assert await holds(ann) == {("residence", "苏州")}
    await say(ann, 60, "我妈已经不住苏州了")
    assert ("residence", "苏州") in await holds(ann)


async def test_a_session_read_late_ends_nothing_that_was_said_after_it(ann):
    await say(ann, 30, "I love coffee.")
    await say(ann, 10, "I quit coffee")
    assert await holds(ann) == {("like", "coffee")}


async def test_a_plan_lapses_by_itself(ann):
    await say(ann, 9, "my flight to Rome is on Sept 14")
    before, after = (AsOf(valid=datetime(2026, 9, day, 12, tzinfo=UTC)) for day in (14, 15))
    [plan] = await ann.facts("plan", as_of=before)
    assert "flight to Rome is on Sept 14" == plan.value
    assert [] == await ann.facts("plan", as_of=after)
    assert ["plan"] == [one.slot for one in await ann.facts(history=True)]


async def test_a_plan_to_come_is_a_fact_that_holds(ann):
    await say(ann, 9, "my wedding is on 4 May 2099")
    [plan] = await ann.facts("plan")
    assert datetime(2099, 5, 5, tzinfo=UTC) == plan.valid_until


async def told(ann: Person, *texts: str) -> dict[str, list[str]]:
    """Tell one turn a day, each consolidated; return the values held at the end, by slot."""
    for day, text in enumerate(texts):
        await say(ann, day, text)
    held: dict[str, list[str]] = {}
    for fact in await ann.facts():
        held.setdefault(fact.slot, []).append(fact.value)
    return held


async def test_a_player_moves_and_gives_up_games(ann):
    texts = ("我喜欢玩RPG游戏", "我性格内向，喜欢科技", "我搬到上海实习", "我不再喜欢游戏了")
    held = await told(ann, *texts)
    assert held == {"trait": ["内向"], "like": ["科技"], "residence": ["上海"]}


async def test_another_employer_is_found_first(ann):
    texts = ("我会Python，在字节跳动上班", "language=zh-CN", "我换工作了，现在在腾讯上班")
    held = await told(ann, *texts)
    assert (held["skill"], held["employer"]) == (["Python"], ["腾讯"])
    for question in ("workplace", "我在哪上班？"):
        first = (await ann.recall(question))[0].memory.text
        assert "腾讯" in first
        assert "字节" not in first
    edges = await ann.graph.history("user")
    assert ("has_skill", "Python") in [(one.relation, one.object) for one in edges]


@pytest.mark.parametrize("texts", [
    ("hi im tom", "my daughter's called Mia, shes 5"),
    ("hello im Tom", "my daughters name is mia. shes 5"),
    ("I'm Tom.", "This is my daughter Mia, she is 5 years old."),
])  # fmt: skip
async def test_a_daughter_has_a_name_and_an_age(ann, texts):
    held = await told(ann, *texts)
    expected = {"name": "tom", "relation.daughter": "mia", "relation.daughter.age": "5"}
    assert {slot: one.lower() for slot, [one] in held.items()} == expected
