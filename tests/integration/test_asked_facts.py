"""A question of fact finds its answer first, whatever the words of the question and of turns."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from resident_users import DrawnVectors, make_resident

from shared_core import Event, MemoryEngine, Scope, open_memory

START = datetime(2026, 1, 5, 9, tzinfo=UTC)
ANN, LIN = Scope("app", "ann"), Scope("app", "lin")
ENGLISH = (
    "I live in Leeds and I work at Zenith.",
    "My sister Clara is 31 years old.",
    "I am allergic to peanuts, by the way.",
    "Which city is nicer, Leeds or York? I want a day out.",
    "I moved to Otley last week.",
    "My sister wants to know which city is the best home for a cat.",
)
CHINESE = (
    "我住在苏州，在云杉书坊工作。",
    "我女儿小雨六岁。",
    "我对芒果过敏。",
    "哪座城市的家具好？我想换一张桌子。",
    "我上周搬到了杭州。",
)


async def told(memory: MemoryEngine, scope: Scope, texts: tuple[str, ...]) -> None:
    """Let the user say these texts, one a week, each answered by an agent."""
    for week, text in enumerate(texts):
        at = START + timedelta(weeks=week)
        turns = [
            Event(event_id="u", author="user", role="user", text=text, occurred_at=at),
            Event(
                event_id="a", author="agent", role="agent", text="Thank you, I noted that down.",
                occurred_at=at + timedelta(minutes=1),
            ),
        ]  # fmt: skip
        await memory.append_events(scope, f"t{week}", turns)
        await memory.consolidate(scope, f"t{week}")


async def best(memory: MemoryEngine, scope: Scope, question: str) -> list[str]:
    """Return the fact that is found first, and the turns that are found before it."""
    texts = []
    for hit in await memory.recall(scope, question):
        texts.append(hit.memory.text)
        if hit.memory.kind == "semantic":
            break
    return texts


ENGLISH_ANSWERS = {
    "Which city is my home these days?": ("I moved to Otley last week.", "User lives in Otley."),
    "who am i working for": (ENGLISH[0], "User works at Zenith."),
    "What food could make me ill?": (ENGLISH[2], "User is allergic to peanuts."),
    "how old is my sister": (ENGLISH[1], "User's sister Clara is 31 years old."),
    "where does the user live?": ("I moved to Otley last week.", "User lives in Otley."),
}
CHINESE_ANSWERS = {
    "我如今家在什么地方？": (CHINESE[4], "用户住在杭州。"),
    "我在哪家公司上班": (CHINESE[0], "用户在云杉书坊工作。"),
    "哪种水果我碰不得？": (CHINESE[2], "用户对芒果过敏。"),
    "我的孩子多大了？": (CHINESE[1], "用户的女儿六岁。"),
}


@pytest.mark.both_engines
@pytest.mark.parametrize(
    ("scope", "texts", "answers"),
    [(ANN, ENGLISH, ENGLISH_ANSWERS), (LIN, CHINESE, CHINESE_ANSWERS)],
    ids=["English", "Chinese"],
)
async def test_a_question_of_fact_finds_the_fact_or_its_turn_first(
    dsn: str, scope: Scope, texts: tuple[str, ...], answers: dict[str, tuple[str, str]]
) -> None:
    async with open_memory(dsn, embedder="use", worker=False) as memory:
        await told(memory, scope, texts)
        for question, (turn, fact) in answers.items():
            assert await best(memory, scope, question) in ([fact], [turn, fact]), question


async def test_the_past_tense_asks_for_a_fact_that_stays_and_for_no_current_one(dsn: str) -> None:
    async with open_memory(dsn, embedder="use", worker=False) as memory:
        await told(memory, ANN, ENGLISH)
        await memory.state_fact(ANN, "birthday", "3 May")
        assert "3 May" in (await best(memory, ANN, "When was I born?"))[0]
        before = await memory.recall(ANN, "Where did I live before?", limit=50)
        assert not any(hit.parts["asked"] for hit in before)


async def test_an_index_knows_the_slots_of_facts(dsn: str) -> None:
    question = "Which city is my home these days?"
    async with open_memory(dsn, embedder=DrawnVectors(), worker=False) as memory:
        await told(memory, ANN, ENGLISH)
        by_statement = await memory.recall(ANN, question, limit=50)
        await make_resident(memory, ANN)
        by_index = await memory.recall(ANN, question, limit=50)
        assert [hit.memory for hit in by_statement] == [hit.memory for hit in by_index]
        asked = [[hit.parts["asked"] for hit in hits] for hits in (by_statement, by_index)]
        assert pytest.approx(asked[0], abs=1e-5) == asked[1] and max(asked[1]) > 0
        await memory.state_fact(ANN, "residence", "Skye")
        assert ["User lives in Skye."] == await best(memory, ANN, question)


async def test_an_asked_fact_is_relevant_whatever_its_words(dsn: str) -> None:
    async with open_memory(dsn, embedder=DrawnVectors(), worker=False) as memory:
        await memory.state_fact(ANN, "residence", "Skye")
        [found] = await memory.recall(ANN, "Which city is my home?", min_relevance=0.3)
        assert "User lives in Skye." == found.memory.text
        assert [] == await memory.recall(ANN, "Which city has a castle?", min_relevance=0.3)
