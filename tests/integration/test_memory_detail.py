"""One memory: where it comes from, what was drawn from it, and how long it will be kept."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from uuid import uuid4

import pytest
from standing_clock import NOW as BEGIN, StandingClock

from shared_core import (
    Event,
    InvalidInput,
    Memory,
    MemoryEngine,
    NewMemory,
    NotFound,
    Scope,
    open_memory,
)

pytestmark = pytest.mark.both_engines

ANN, BOB = Scope("app", "ann"), Scope("app", "bob")


@pytest.fixture
def clock() -> StandingClock:
    return StandingClock()


@pytest.fixture
async def memory(dsn: str, clock: StandingClock) -> AsyncIterator[MemoryEngine]:
    async with open_memory(dsn, worker=False, clock=clock) as engine:
        yield engine


async def told(memory: MemoryEngine, thread_id: str, *texts: str) -> None:
    number = len(await memory.thread_turns(ANN, thread_id))
    events = [
        Event(event_id=f"{thread_id}-{n}", author="ann", role="user", text=text,
              occurred_at=BEGIN + timedelta(minutes=n))
        for n, text in enumerate(texts, number)
    ]  # fmt: skip
    await memory.append_events(ANN, thread_id, events)
    await memory.consolidate(ANN, thread_id)


async def one(memory: MemoryEngine, kind: str, part: str) -> Memory:
    [found] = await memory.list_memories(ANN, kinds=[kind], contains=part)  # type: ignore[list-item]
    return found


async def test_a_fact_names_its_turns_its_reasons_and_its_model(memory: MemoryEngine) -> None:
    await told(memory, "t", "I live in Leeds.", "My sister is called Mia.")
    stored = await one(memory, "semantic", "Leeds")
    detail = await memory.memory(ANN, stored.key)
    assert stored == detail.memory and detail.is_current
    [turn] = detail.turns
    assert ("t", "t-0", "I live in Leeds.", "ann", BEGIN) == (
        turn.thread_id, turn.event_id, turn.text, turn.author, turn.said_at
    )  # fmt: skip
    assert detail.fact is not None and detail.fact.why is not None
    assert ("residence", "Leeds") == (detail.fact.slot, detail.fact.value)
    assert detail.fact.why.stated.turns == detail.turns
    assert ((await memory.report()).model,) == detail.models
    assert ("kept", False, 0, None, None) == (
        detail.stage, detail.is_pinned, detail.access_count, detail.last_accessed_at,
        detail.leaves_stage_at,
    )  # fmt: skip
    assert () == detail.derived == detail.bases
    json.dumps(detail.to_dict())


async def test_an_ended_fact_is_read_with_its_end(memory: MemoryEngine) -> None:
    await told(memory, "t", "I live in Leeds.")
    before = await one(memory, "semantic", "Leeds")
    await told(memory, "u", "I moved to Lisbon.")
    detail = await memory.memory(ANN, before.memory_id)
    assert not detail.is_current and detail.memory.superseded_at is not None
    assert detail.fact is not None and detail.fact.why is not None
    assert detail.fact.why.ended is not None
    assert ["I moved to Lisbon."] == [turn.text for turn in detail.fact.why.ended.turns]


async def test_a_turn_names_what_was_drawn_from_it(memory: MemoryEngine) -> None:
    await told(memory, "t", "I live in Leeds.", "My sister is called Mia.")
    turn = await one(memory, "episodic", "Leeds")
    detail = await memory.memory(ANN, turn.key)
    assert {"semantic", "summary"} == {derived.kind for derived in detail.derived}
    assert [] == [derived for derived in detail.derived if "t-0" not in derived.source_event_ids]
    assert ["I live in Leeds."] == [cited.text for cited in detail.turns]
    assert detail.fact is None and detail.bases == ()
    assert detail.leaves_stage_at is not None and detail.leaves_stage_at > BEGIN


async def test_a_reflection_and_its_bases_name_each_other(memory: MemoryEngine) -> None:
    for thread_id in ("t", "u", "v"):
        await told(memory, thread_id, "I love swimming in the lake.")
    assert 1 == (await memory.reflect(ANN)).reflections_generated
    [reflection] = await memory.list_memories(ANN, kinds=["reflection"])
    detail = await memory.memory(ANN, reflection.key)
    assert detail.bases
    for basis in detail.bases:
        assert reflection in (await memory.memory(ANN, basis.key)).derived


async def test_the_score_falls_until_the_memory_is_read_or_pinned(
    memory: MemoryEngine, clock: StandingClock
) -> None:
    await told(memory, "t", "The weather was fine.")
    turn = await one(memory, "episodic", "weather")
    scores = [(await memory.memory(ANN, turn.key)).score]
    clock.now += timedelta(days=5)
    scores.append((await memory.memory(ANN, turn.key)).score)
    await memory.recall(ANN, "How was the weather?")
    detail = await memory.memory(ANN, turn.key)
    assert scores[1] < scores[0] and scores[1] < detail.score
    assert (1, clock.now) == (detail.access_count, detail.last_accessed_at)
    assert 1 == (await memory.memory(ANN, turn.key)).access_count
    await memory.retention.pin(ANN, turn.key)
    detail = await memory.memory(ANN, turn.key)
    assert detail.is_pinned and detail.leaves_stage_at is None


async def test_an_archived_memory_has_its_text_and_no_vector(
    memory: MemoryEngine, clock: StandingClock
) -> None:
    await told(memory, "t", "The weather was fine.")
    turn = await one(memory, "episodic", "weather")
    for _ in range(8):
        clock.now += timedelta(days=45)
        await memory.retention.forget_faded(ANN)
        if not await memory.retention.unknown_keys(ANN, turn.key):
            detail = await memory.memory(ANN, turn.key)
            if detail.stage == "archived":
                break
    assert ("archived", "The weather was fine.", ()) == (
        detail.stage, detail.memory.text, detail.models
    )  # fmt: skip


async def test_a_forgotten_turn_of_two_leaves_no_text(memory: MemoryEngine) -> None:
    await told(memory, "t", "I live in Leeds.")
    await told(memory, "u", "I live in Leeds.")
    stored = await one(memory, "semantic", "Leeds")
    assert 2 == len((await memory.memory(ANN, stored.key)).turns)
    await memory.forget_turns(ANN, "u", ["u-0"])
    detail = await memory.memory(ANN, stored.key)
    assert ["I live in Leeds."] == [turn.text for turn in detail.turns if turn.text]


async def test_a_memory_of_somebody_else_or_of_the_past_is_not_found(
    memory: MemoryEngine, clock: StandingClock
) -> None:
    await memory.remember(
        ANN, NewMemory(text="soon gone", key="soon", expires_at=BEGIN + timedelta(hours=1))
    )
    soon = await memory.memory(ANN, "soon")
    assert "soon gone" == soon.memory.text and soon.turns == ()
    for scope, key in ((BOB, "soon"), (BOB, str(soon.memory.memory_id)), (ANN, str(uuid4()))):
        with pytest.raises(NotFound):
            await memory.memory(scope, key)
    with pytest.raises(InvalidInput):
        await memory.memory(ANN, 7)  # type: ignore[arg-type]
    clock.now += timedelta(hours=2)
    with pytest.raises(NotFound):
        await memory.memory(ANN, "soon")
