"""A fact that a later turn ends becomes history, and holds again when the run is undone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from shared_core import Event, MemoryEngine, Scope

ANN = Scope("app", "ann")
START = datetime(2026, 3, 1, 9, tzinfo=UTC)

pytestmark = pytest.mark.both_engines


async def say(memory: MemoryEngine, day: int, *texts: str) -> None:
    """Let the user say something on a day, in a thread of its own, and consolidate it."""
    thread = f"day {day}"
    turns = [
        Event(
            event_id=f"{day}.{number}",
            author="ann",
            role="user",
            text=text,
            occurred_at=START + timedelta(days=day, minutes=number),
        )
        for number, text in enumerate(texts)
    ]
    await memory.append_events(ANN, thread, turns)
    await memory.consolidate(ANN, thread)


async def holds(memory: MemoryEngine) -> set[tuple[str, str]]:
    return {(one.slot, one.value) for one in await memory.facts(ANN)}


async def ended(memory: MemoryEngine) -> dict[tuple[str, str], datetime | None]:
    facts = await memory.facts(ANN, history=True)
    return {(one.slot, one.value): one.valid_until for one in facts if one.valid_until}


async def test_a_fact_ends_is_history_and_comes_back_with_the_undo(memory: MemoryEngine) -> None:
    await say(memory, 0, "I work at Deloitte.", "My boss is Maria.", "I love jazz.")
    before = await holds(memory)
    assert {("employer", "Deloitte"), ("relation.boss", "Maria"), ("like", "jazz")} <= before
    await say(memory, 90, "so I handed in my notice at Deloitte last week")
    assert await holds(memory) == {("like", "jazz")}
    at = START + timedelta(days=90)
    assert await ended(memory) == {
        ("employer", "Deloitte"): at, ("relation.boss", "Maria"): at,
    }  # fmt: skip
    edges = await memory.graph.neighbourhood(ANN, "user", depth=2)
    assert {edge.object for edge in edges.edges} == {"jazz"}
    await memory.undo_run(ANN, (await memory.runs(ANN))[0].run_id)
    assert await holds(memory) == before
    assert not await ended(memory)
    await memory.consolidate(ANN, "day 90")
    assert await holds(memory) == {("like", "jazz")}


async def test_a_slot_that_was_ended_weeks_ago_takes_its_next_value(memory: MemoryEngine) -> None:
    await say(memory, 0, "I work at Deloitte.")
    await say(memory, 90, "I quit my job", "starting at Patagonia on monday")
    assert not await holds(memory)
    await say(memory, 110, "first week at Patagonia done, everyone is so nice")
    assert await holds(memory) == {("employer", "Patagonia")}
    [fact] = await memory.facts(ANN)
    assert fact.pattern == "revise.en.employer.first-week"
    edges = await memory.graph.neighbourhood(ANN, "user", depth=2)
    assert {edge.object for edge in edges.edges} == {"Patagonia"}


async def test_a_turn_is_found_as_before_when_its_plan_has_come_about(memory: MemoryEngine) -> None:
    await say(memory, 0, "We fly to Lisbon on 9 April.", "I work at Deloitte.")
    await say(memory, 10, "I quit my job at Deloitte")
    assert {slot for slot, _ in await ended(memory)} == {"plan", "employer"}
    asked_at = START + timedelta(days=60)
    hits = await memory.recall(ANN, "Lisbon, Deloitte", limit=20, asked_at=asked_at)
    shares = {hit.memory.text: hit.parts.get("ended") for hit in hits}
    assert not shares["We fly to Lisbon on 9 April."]
    assert shares["I work at Deloitte."] == 1.0


async def test_a_correction_in_chinese_replaces_the_value(memory: MemoryEngine) -> None:
    await say(memory, 0, "我住在南京", "不对，打错了，是苏州")
    assert await holds(memory) == {("residence", "苏州")}
    await say(memory, 60, "我妈已经不住苏州了")
    assert ("residence", "苏州") in await holds(memory)


async def test_a_session_read_late_ends_nothing_that_was_said_after_it(
    memory: MemoryEngine,
) -> None:
    await say(memory, 30, "I love coffee.")
    await say(memory, 10, "I quit coffee")
    assert await holds(memory) == {("like", "coffee")}
