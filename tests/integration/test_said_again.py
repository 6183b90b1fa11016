"""A fact that has faded is known still: said again it is back, and until then no graph shows it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from shared_core import Conflict, Event, MemoryEngine, RetentionPolicy, Scope, open_memory
from shared_core.knowledge import consolidation
from shared_core.knowledge.run_rows import apply_run
from shared_core.ports.retention import Kept
from shared_core.ports.runs import RunPlan
from shared_core.ports.storage import Clock, Storage

pytestmark = pytest.mark.both_engines

ANN = Scope("app", "ann")
START = datetime(2026, 3, 1, 9, tzinfo=UTC)
QUICK = RetentionPolicy(
    min_age_days=1, threshold=1, archive_threshold=1, archive_after_days=1
)  # demoted after a day, archived a day later


@dataclass
class World:
    """An open memory whose facts fade, and its clock."""

    memory: MemoryEngine
    now: datetime = START

    async def fade(self, times: int) -> None:
        """Let as many runs go by as make facts demoted (1) or archived (2)."""
        for _ in range(times):
            self.now += timedelta(days=2)
            assert 1 == (await self.memory.retention.forget_faded()).total

    async def say(self, text: str, thread: str) -> None:
        event = Event(
            event_id=f"{thread} {text}", author="ann", role="user", text=text, occurred_at=self.now
        )
        await self.memory.append_events(ANN, thread, [event])
        await self.memory.consolidate(ANN, thread)

    async def known(self) -> list[str]:
        """Return what recall and the list of facts tell alike."""
        facts = [one.statement for one in await self.memory.facts(ANN)]
        kinds = ("semantic",)
        hits = await self.memory.recall(ANN, "Where does the user work? Acme", kinds=kinds)
        assert facts == [hit.memory.text for hit in hits]
        return facts

    async def in_graph(self) -> set[str]:
        """Return the objects of edges that hold, by every way of reading the graph alike."""
        walked = await self.memory.graph.neighbourhood(ANN, "user")
        found = {edge.object for edge in walked.edges}
        entities = {one.name for one in await self.memory.graph.entities(ANN)} - {"user"}
        hits = await self.memory.recall(ANN, "What do you know of Acme?")
        recalled = {edge.object for edge in hits.graph_results}
        assert found == entities == recalled
        return found


@pytest.fixture
async def world(dsn: str) -> AsyncIterator[World]:
    async with open_memory(dsn, clock=lambda: found.now, worker=False) as memory:
        found = World(memory)
        await memory.retention.set_policy({"semantic": QUICK, "episodic": None, "summary": None})
        yield found


async def state(world: World) -> None:
    fact = await world.memory.state_fact(ANN, "employer", "Acme")
    assert ("Acme", True) == (fact.value, bool(fact.statement))


async def tell(world: World) -> None:
    await world.say("I work at Acme.", f"told on {world.now:%d}")


async def draw(world: World) -> None:
    await world.memory.graph.add(ANN, "user", "works_at", "Acme")


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("say", [state, tell, draw])
async def test_what_is_said_again_is_known_again(
    world: World, say: Callable[[World], Awaitable[None]], times: int
) -> None:
    await state(world)
    said = await world.known()
    assert 1 == len(said) and {"Acme"} == await world.in_graph()
    await world.fade(times)
    assert [] == await world.known() and set() == await world.in_graph()
    await say(world)
    assert said == await world.known()
    assert {"Acme"} == await world.in_graph()
    assert () == tuple(await world.memory.retention.list_faded(ANN))


async def test_another_value_ends_what_has_faded(world: World) -> None:
    await state(world)
    await world.fade(2)
    await world.memory.state_fact(ANN, "employer", "Apex")
    assert ["Apex"] == [one.value for one in await world.memory.facts(ANN)]
    around = await world.memory.graph.neighbourhood(ANN, "user")
    assert {"Apex"} == {edge.object for edge in around.edges}


async def counters(world: World) -> Kept:
    """Return how the one fact is kept."""
    [found] = await world.memory.retention.list_faded(ANN)
    return found


@pytest.mark.parametrize("times", [1, 2])
async def test_a_run_that_fails_brings_nothing_back(
    world: World, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    await state(world)
    await world.fade(times)
    before = await counters(world)

    async def refused(storage: Storage, plan: RunPlan, clock: Clock) -> None:
        raise Conflict("another run came first, always")

    monkeypatch.setattr(consolidation, "apply_run", refused)
    monkeypatch.setattr("shared_core.knowledge.run_rows.PAUSE_S", 0.0)
    with pytest.raises(Conflict):
        await tell(world)
    assert [] == await world.known() and set() == await world.in_graph()
    assert before == await counters(world)


@pytest.mark.parametrize("times", [1, 2])
async def test_undone_what_was_said_again_has_faded_again(world: World, times: int) -> None:
    await state(world)
    said = await world.known()
    await world.fade(times)
    before = await counters(world)
    await tell(world)
    assert said == await world.known()
    [run, *_] = await world.memory.runs(ANN)
    await world.memory.undo_run(ANN, run.run_id)
    assert [] == await world.known() and set() == await world.in_graph()
    after = await counters(world)
    assert "demoted" == after.stage
    for name in ("staged_at", "access_count", "last_accessed_at"):
        assert getattr(before, name) == getattr(after, name)
    if times == 1:
        assert before == after
    else:  # its text is back; the next cleanup takes it away again
        await world.fade(1)
        assert "archived" == (await counters(world)).stage


async def test_undone_what_was_brought_back_since_stays(world: World) -> None:
    await state(world)
    said = await world.known()
    await world.fade(1)
    await tell(world)
    [run, *_] = await world.memory.runs(ANN)
    [fact] = await world.memory.facts(ANN)
    await world.memory.retention.pin(ANN, [fact.key])
    await world.memory.undo_run(ANN, run.run_id)
    assert said == await world.known()


async def test_a_revival_that_meets_another_writer_changes_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await state(world)
    await world.fade(1)
    plans: list[RunPlan] = []

    async def late(storage: Storage, plan: RunPlan, clock: Clock) -> None:
        plans.append(plan)
        if len(plans) == 1:
            assert plan.revival
            await world.memory.retention.revive(ANN, [plan.revival.faded[0].key])
        await apply_run(storage, plan, clock)

    monkeypatch.setattr(consolidation, "apply_run", late)
    await tell(world)
    assert [True, False] == [plan.revival is not None for plan in plans]
    assert 1 == len(await world.known())
