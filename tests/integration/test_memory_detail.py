"""One memory: where it comes from, what was drawn from it, and how long it will be kept."""

import json
from typing import Any
from uuid import uuid4

import pytest
from person import Person, at

from shared_core import InvalidInput, Memory, NewMemory, NotFound

pytestmark = pytest.mark.both_engines


@pytest.fixture
def ann(ann_by_clock):
    return ann_by_clock


async def told(ann: Person, thread: str, *texts: str) -> None:
    await ann.say(0, *texts, thread=thread)


async def detail_of(ann: Person, key: Any) -> Any:
    return await ann.memory.memory(ann.scope, key)


async def one(ann: Person, kind: str, part: str) -> Memory:
    [found] = await ann.list_memories(kinds=[kind], contains=part)  # type: ignore[list-item]
    return found


async def test_a_fact_names_its_turns_its_reasons_and_its_model(ann):
    await told(ann, "t", "I live in Leeds.", "My sister is called Mia.")
    stored = await one(ann, "semantic", "Leeds")
    detail = await detail_of(ann, stored.key)
    assert stored == detail.memory and detail.is_current
    [turn] = detail.turns
    assert ("t", "e0", "I live in Leeds.", "user", at(0)) == (
        turn.thread_id, turn.event_id, turn.text, turn.author, turn.said_at
    )  # fmt: skip
    assert detail.fact is not None and detail.fact.why is not None
    assert ("residence", "Leeds") == (detail.fact.slot, detail.fact.value)
    assert detail.fact.why.stated.turns == detail.turns
    assert ((await ann.memory.report()).model,) == detail.models
    assert ("kept", False, 0, None, None) == (
        detail.stage, detail.is_pinned, detail.access_count, detail.last_accessed_at,
        detail.leaves_stage_at,
    )  # fmt: skip
    assert () == detail.derived == detail.bases
    json.dumps(detail.to_dict())


async def test_an_ended_fact_is_read_with_its_end(ann):
    await told(ann, "t", "I live in Leeds.")
    before = await one(ann, "semantic", "Leeds")
    await told(ann, "u", "I moved to Lisbon.")
    detail = await detail_of(ann, before.memory_id)
    assert not detail.is_current and detail.memory.superseded_at is not None
    assert detail.fact is not None and detail.fact.why is not None
    assert detail.fact.why.ended is not None
    assert ["I moved to Lisbon."] == [turn.text for turn in detail.fact.why.ended.turns]


async def test_a_turn_names_what_was_drawn_from_it(ann):
    await told(ann, "t", "I live in Leeds.", "My sister is called Mia.", "Thanks!")
    detail = await detail_of(ann, (await one(ann, "episodic", "Leeds")).key)
    assert {"semantic", "summary"} == {derived.kind for derived in detail.derived}
    assert [] == [derived for derived in detail.derived if "e0" not in derived.source_event_ids]
    assert ["I live in Leeds."] == [cited.text for cited in detail.turns]
    assert detail.fact is None and detail.bases == ()
    assert detail.leaves_stage_at is not None and detail.leaves_stage_at > at(0)


async def test_a_reflection_and_its_bases_name_each_other(ann):
    for day in range(3):
        await ann.say(day, "I love swimming in the lake.", thread=f"day {day}")
    assert 1 == (await ann.reflect()).reflections_generated
    [reflection] = await ann.list_memories(kinds=["reflection"])
    detail = await detail_of(ann, reflection.key)
    assert detail.bases
    for basis in detail.bases:
        assert reflection in (await detail_of(ann, basis.key)).derived


async def test_the_score_falls_until_the_memory_is_read_or_pinned(ann):
    await told(ann, "t", "The weather was fine.")
    turn = await one(ann, "episodic", "weather")
    scores = [(await detail_of(ann, turn.key)).score]
    ann.clock.forward(days=5)
    scores.append((await detail_of(ann, turn.key)).score)
    await ann.recall("How was the weather?")
    detail = await detail_of(ann, turn.key)
    assert scores[1] < scores[0] and scores[1] < detail.score
    assert (1, ann.clock.now) == (detail.access_count, detail.last_accessed_at)
    assert 1 == (await detail_of(ann, turn.key)).access_count
    await ann.retention.pin(turn.key)
    detail = await detail_of(ann, turn.key)
    assert detail.is_pinned and detail.leaves_stage_at is None


async def test_an_archived_memory_has_its_text_and_no_vector(ann):
    await told(ann, "t", "The weather was fine.")
    turn = await one(ann, "episodic", "weather")
    for _ in range(8):
        ann.clock.forward(days=45)
        await ann.retention.forget_faded()
        if not await ann.retention.unknown_keys(turn.key):
            detail = await detail_of(ann, turn.key)
            if detail.stage == "archived":
                break
    assert ("archived", "The weather was fine.", ()) == (
        detail.stage, detail.memory.text, detail.models
    )  # fmt: skip


async def test_a_forgotten_turn_of_two_leaves_no_text(ann):
    await told(ann, "t", "I live in Leeds.")
    await told(ann, "u", "I live in Leeds.")
    stored = await one(ann, "semantic", "Leeds")
    assert 2 == len((await detail_of(ann, stored.key)).turns)
    await ann.forget_turns("u", ["e0"])
    detail = await detail_of(ann, stored.key)
    assert ["I live in Leeds."] == [turn.text for turn in detail.turns if turn.text]


async def test_a_memory_of_somebody_else_or_of_the_past_is_not_found(ann):
    await ann.remember(NewMemory(text="soon gone", key="soon", expires_at=at(1 / 24)))
    soon = await detail_of(ann, "soon")
    assert "soon gone" == soon.memory.text and soon.turns == ()
    bob = ann.other("bob")
    for who, key in ((bob, "soon"), (bob, str(soon.memory.memory_id)), (ann, str(uuid4()))):
        with pytest.raises(NotFound):
            await detail_of(who, key)
    with pytest.raises(InvalidInput):
        await detail_of(ann, 7)  # type: ignore[arg-type]
    ann.clock.forward(hours=2)
    with pytest.raises(NotFound):
        await detail_of(ann, "soon")
