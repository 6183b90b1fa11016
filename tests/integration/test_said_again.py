"""Facts that end and fade, plans that lapse, and how they come back when said again."""

from datetime import UTC, datetime

import pytest
from person import Person, at

from shared_core import AsOf, Conflict, RetentionPolicy
from shared_core.knowledge import consolidation
from shared_core.knowledge.run_rows import apply_run
from shared_core.ports.retention import Kept
from shared_core.ports.runs import RunPlan
from shared_core.ports.storage import Clock, Storage

pytestmark = pytest.mark.both_engines

QUICK = RetentionPolicy(
    min_age_days=1, threshold=1, archive_threshold=1, archive_after_days=1
)  # demoted after a day, archived a day later


async def fade(ann: Person, times: int) -> None:
    """Let as many runs go by as make facts demoted (1) or archived (2)."""
    for _ in range(times):
        await ann.memory.accesses.flush()  # what was read before counts as read then
        ann.clock.forward(days=20)
        assert 1 == (await ann.retention.forget_faded()).total


async def known(ann: Person) -> list[str]:
    """Return what recall and the list of facts tell alike."""
    facts = [one.statement for one in await ann.facts()]
    hits = await ann.recall("Where does the user work? Acme", kinds=("semantic",))
    assert facts == [hit.memory.text for hit in hits]
    return facts


async def in_graph(ann: Person) -> set[str]:
    """Return the objects of edges that hold, by every way of reading the graph alike."""
    walked = await ann.graph.neighbourhood("user")
    found = {edge.object for edge in walked.edges}
    entities = {one.name for one in await ann.graph.entities()} - {"user"}
    hits = await ann.recall("What do you know of Acme?")
    assert found == entities == {edge.object for edge in hits.graph_results}
    return found


@pytest.fixture
async def ann(ann_by_clock):
    """Ann, whose facts fade."""
    rules = {"semantic": QUICK, "episodic": None, "summary": None}
    await ann_by_clock.memory.retention.set_policy(rules, ann_by_clock.scope)
    return ann_by_clock


async def state(ann: Person) -> None:
    fact = await ann.state_fact("employer", "Acme")
    assert ("Acme", True) == (fact.value, bool(fact.statement))


async def tell(ann: Person) -> None:
    await ann.say(ann.clock.day, "I work at Acme.", thread=f"day {ann.clock.day}")


async def draw(ann: Person) -> None:
    await ann.graph.add("user", "works_at", "Acme")


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("say", [state, tell, draw])
async def test_what_is_said_again_is_known_again(ann, say, times):
    await state(ann)
    said = await known(ann)
    assert 1 == len(said) and {"Acme"} == await in_graph(ann)
    await fade(ann, times)
    assert [] == await known(ann) and set() == await in_graph(ann)
    await say(ann)
    assert said == await known(ann)
    assert {"Acme"} == await in_graph(ann)
    assert () == tuple(await ann.retention.list_faded())


async def test_another_value_ends_what_has_faded(ann):
    await state(ann)
    await fade(ann, 2)
    await ann.state_fact("employer", "Apex")
    assert ["Apex"] == await ann.values()
    around = await ann.graph.neighbourhood("user")
    assert {"Apex"} == {edge.object for edge in around.edges}


async def counters(ann: Person) -> Kept:
    """Return how the one fact is kept, all reads of it counted."""
    await ann.memory.accesses.flush()
    [found] = await ann.retention.list_faded()
    return found


@pytest.mark.parametrize("times", [1, 2])
async def test_a_run_that_fails_brings_nothing_back(ann, monkeypatch, times):
    await state(ann)
    await fade(ann, times)
    before = await counters(ann)

    async def refused(storage: Storage, plan: RunPlan, clock: Clock) -> None:
        raise Conflict("another run came first, always")

    monkeypatch.setattr(consolidation, "apply_run", refused)
    monkeypatch.setattr("shared_core.knowledge.run_rows.PAUSE_S", 0.0)
    with pytest.raises(Conflict):
        await tell(ann)
    assert [] == await known(ann) and set() == await in_graph(ann)
    assert before == await counters(ann)


@pytest.mark.parametrize("times", [1, 2])
async def test_undone_what_was_said_again_has_faded_again(ann, times):
    await state(ann)
    said = await known(ann)
    await fade(ann, times)
    before = await counters(ann)
    await tell(ann)
    assert said == [one.statement for one in await ann.facts()]  # no recall, which would count
    [run, *_] = await ann.runs()
    await ann.undo_run(run.run_id)
    assert [] == await known(ann) and set() == await in_graph(ann)
    after = await counters(ann)
    assert "demoted" == after.stage
    for name in ("staged_at", "access_count", "last_accessed_at"):
        assert getattr(before, name) == getattr(after, name)
    if times == 1:
        assert before == after
    else:  # its text is back; the next cleanup takes it away again
        await fade(ann, 1)
        assert "archived" == (await counters(ann)).stage


async def test_undone_what_was_brought_back_since_stays(ann):
    await state(ann)
    said = await known(ann)
    await fade(ann, 1)
    await tell(ann)
    [run, *_] = await ann.runs()
    [fact] = await ann.facts()
    await ann.retention.pin([fact.key])
    await ann.undo_run(run.run_id)
    assert said == await known(ann)


async def test_a_revival_that_meets_another_writer_changes_nothing(ann, monkeypatch):
    await state(ann)
    await fade(ann, 1)
    plans: list[RunPlan] = []

    async def late(storage: Storage, plan: RunPlan, clock: Clock) -> None:
        plans.append(plan)
        if len(plans) == 1:
            assert plan.revival
            await ann.retention.revive([plan.revival.faded[0].key])
        await apply_run(storage, plan, clock)

    monkeypatch.setattr(consolidation, "apply_run", late)
    await tell(ann)
    assert [True, False] == [plan.revival is not None for plan in plans]
    assert 1 == len(await known(ann))


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
    await say(ann, 90, "so I quit my job at Deloitte")
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
    assert fact.pattern == "reader.en.employer"
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
