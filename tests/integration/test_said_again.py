"""A fact that has faded is known still: said again it is back, and until then no graph shows it."""

import pytest
from person import Person

from shared_core import Conflict, RetentionPolicy
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
