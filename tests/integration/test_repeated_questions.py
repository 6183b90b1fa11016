"""Questions that the user has asked before stand below whatever may answer them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from resident_users import make_resident

from shared_core import Event, MemoryEngine, Scope

ANN = Scope("app", "ann")
START = datetime(2026, 3, 1, 9, tzinfo=UTC)
TOLD = (
    "hey, im tom and i work as a nurse", "i live in leeds with my dog", "my sister jo is vegan",
    "我对花生过敏", "周末我常去爬山",
)  # fmt: skip


async def say(memory: MemoryEngine, *texts: str) -> None:
    for place, text in enumerate(texts):
        turn = Event(
            event_id=f"{place} {text}", author="user", role="user", text=text,
            occurred_at=START + timedelta(hours=place),
        )  # fmt: skip
        await memory.append_events(ANN, f"day {place}", [turn])


async def found(memory: MemoryEngine, question: str) -> list[str]:
    return [hit.memory.text for hit in await memory.recall(ANN, question, limit=20)]


@pytest.mark.both_engines
@pytest.mark.parametrize(
    ("asked", "question", "answer"),
    [
        (("where do i live?", "Where do I live", "where do I live??"), "where do i live?", TOLD[1]),
        (("我对什么过敏？", "我对什么过敏"), "我对什么过敏？", TOLD[3]),
    ],
)
async def test_what_the_user_asked_before_stands_below_all_they_told(
    memory: MemoryEngine, asked: tuple[str, ...], question: str, answer: str
) -> None:
    await say(memory, *TOLD, *asked)
    texts = await found(memory, question)
    assert answer == texts[0]
    assert {*asked} == {*texts[-len(asked) :]} and len(TOLD) + len(asked) == len(texts)


@pytest.mark.both_engines
@pytest.mark.parametrize(
    "turn",
    [
        "where does my sister live?",
        "i moved out of leeds, where do i live?",
        "you live where i live",
    ],
)
async def test_a_turn_that_says_more_or_asks_something_else_keeps_its_place(
    memory: MemoryEngine, turn: str
) -> None:
    await say(memory, *TOLD, turn)
    hits = await memory.recall(ANN, "where do i live?", limit=20)
    assert [0.0] * (len(TOLD) + 1) == [hit.parts["repeats"] for hit in hits]
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


@pytest.mark.both_engines
async def test_who_looks_for_words_still_finds_the_question_that_holds_them(
    memory: MemoryEngine,
) -> None:
    await say(memory, *TOLD, "kyoto flight?")
    assert "kyoto flight?" == (await found(memory, "kyoto flight"))[0]


async def test_the_index_in_the_process_puts_them_last_too(memory: MemoryEngine) -> None:
    asked = ("where do i live?", "Where do I live")
    await say(memory, *TOLD, *asked)
    by_statement = await found(memory, "where do i live?")
    await make_resident(memory, ANN)
    assert by_statement == await found(memory, "where do i live?")
    assert {*asked} == {*by_statement[-2:]}
