"""What recall puts first: the answer to a question, and a turn that says more than its fact.

Questions that the user has asked before stand below whatever may answer them.
"""

from datetime import timedelta

import numpy as np
import pytest
from every_case import every_case
from person import Person, alone, at
from resident_users import DrawnVectors, make_resident
from turns import said

from shared_core.core.domain import MemoryId
from shared_core.core.ids import uuid7
from shared_core.ports.recall import Candidate, Candidates
from shared_core.recall.supersession import CandidateRoles, Overtaken, raised, told_in_full

ENGLISH = (
    "I live in Leeds and I work at Zenith.", "My sister Clara is 31 years old.",
    "I am allergic to peanuts, by the way.",
    "Which city is nicer, Leeds or York? I want a day out.", "I moved to Otley last week.",
    "My sister wants to know which city is the best home for a cat.",
)  # fmt: skip
CHINESE = (
    "我住在苏州，在云杉书坊工作。", "我女儿小雨六岁。", "我对芒果过敏。",
    "哪座城市的家具好？我想换一张桌子。", "我上周搬到了杭州。",
)  # fmt: skip


async def told(ann: Person, texts: tuple[str, ...]) -> None:
    """Let the user say these texts, one a week, each answered by an agent."""
    for week, text in enumerate(texts):
        said_at = at(7 * week)
        answer = said(
            "a", "Thank you, I noted that down.", said_at + timedelta(minutes=1),
            author="agent", role="agent",
        )  # fmt: skip
        await ann.append_events(f"t{week}", [said("u", text, said_at), answer])
        await ann.consolidate(f"t{week}")


async def best(ann: Person, question: str) -> list[str]:
    """Return the fact that is found first, and the turns that are found before it."""
    texts = []
    for hit in await ann.recall(question):
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
    ("texts", "answers"),
    [(ENGLISH, ENGLISH_ANSWERS), (CHINESE, CHINESE_ANSWERS)],
    ids=["English", "Chinese"],
)
async def test_a_question_of_fact_finds_the_fact_or_its_turn_first(dsn, texts, answers):
    async with alone(dsn, embedder="use") as ann:
        await told(ann, texts)
        for question, (turn, fact) in answers.items():
            assert await best(ann, question) in ([fact], [turn, fact]), question


async def test_the_past_tense_asks_for_a_fact_that_stays_and_for_no_current_one(dsn):
    async with alone(dsn, embedder="use") as ann:
        await told(ann, ENGLISH)
        await ann.state_fact("birthday", "3 May")
        assert "3 May" in (await best(ann, "When was I born?"))[0]
        before = await ann.recall("Where did I live before?", limit=50)
        assert not any(hit.parts["asked"] for hit in before)


async def test_an_index_knows_the_slots_of_facts(dsn):
    async with alone(dsn, embedder=DrawnVectors()) as ann:
        question = "Which city is my home these days?"
        await told(ann, ENGLISH)
        by_statement = await ann.recall(question, limit=50)
        await make_resident(ann.memory, ann.scope)
        by_index = await ann.recall(question, limit=50)
        assert [hit.memory for hit in by_statement] == [hit.memory for hit in by_index]
        asked = [[hit.parts["asked"] for hit in hits] for hits in (by_statement, by_index)]
        assert pytest.approx(asked[0], abs=1e-5) == asked[1] and max(asked[1]) > 0
        await ann.state_fact("residence", "Skye")
        assert ["User lives in Skye."] == await best(ann, question)


async def test_an_asked_fact_is_relevant_whatever_its_words(dsn):
    async with alone(dsn, embedder=DrawnVectors()) as ann:
        await ann.state_fact("residence", "Skye")
        [found] = await ann.recall("Which city is my home?", min_relevance=0.3)
        assert "User lives in Skye." == found.memory.text
        assert [] == await ann.recall("Which city has a castle?", min_relevance=0.3)


TOLD = (
    "hey, im tom and i work as a nurse", "i live in leeds with my dog", "my sister jo is vegan",
    "我对花生过敏", "周末我常去爬山",
)  # fmt: skip


async def ask(ann: Person, *texts: str) -> None:
    """Let the user say what they told, and then ask, each an hour after the last."""
    for hour, text in enumerate((*TOLD, *texts)):
        await ann.tell(hour / 24, text, thread=f"hour {hour}")


async def found(ann: Person, question: str) -> list[str]:
    return [hit.memory.text for hit in await ann.recall(question, limit=20)]


@pytest.mark.both_engines
@pytest.mark.parametrize(("asked", "question", "answer"), [
    (("where do i live?", "Where do I live", "where do I live??"), "where do i live?", TOLD[1]),
    (("我对什么过敏？", "我对什么过敏"), "我对什么过敏？", TOLD[3]),
])  # fmt: skip
async def test_what_the_user_asked_before_stands_below_all_they_told(ann, asked, question, answer):
    await ask(ann, *asked)
    texts = await found(ann, question)
    assert answer == texts[0]
    assert {*asked} == {*texts[-len(asked) :]} and len(TOLD) + len(asked) == len(texts)


@pytest.mark.both_engines
@pytest.mark.parametrize("turn", [
    "where does my sister live?", "i moved out of leeds, where do i live?",
    "you live where i live",
])  # fmt: skip
async def test_a_turn_that_says_more_or_asks_something_else_keeps_its_place(ann, turn):
    await ask(ann, turn)
    hits = await ann.recall("where do i live?", limit=20)
    assert [0.0] * (len(TOLD) + 1) == [hit.parts["repeats"] for hit in hits]
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


@pytest.mark.both_engines
async def test_who_looks_for_words_still_finds_the_question_that_holds_them(ann):
    await ask(ann, "kyoto flight?")
    assert "kyoto flight?" == (await found(ann, "kyoto flight"))[0]


async def test_the_index_in_the_process_puts_them_last_too(ann):
    asked = ("where do i live?", "Where do I live")
    await ask(ann, *asked)
    by_statement = await found(ann, "where do i live?")
    await make_resident(ann.memory, ann.scope)
    assert by_statement == await found(ann, "where do i live?")
    assert {*asked} == {*by_statement[-2:]}


def candidate(kind: str, text: str, minute: int = 0, ended: float = 0.0) -> Candidate:
    is_turn = kind == "episodic"
    return Candidate(
        memory_id=MemoryId(uuid7()), kind=kind, text=text,  # type: ignore[arg-type]
        author="ann" if is_turn else None, role="user" if is_turn else None,
        occurred_at=at(0) + timedelta(minutes=minute), number=0,
        memory=lambda: pytest.fail("no memory is built"), ended=ended,
    )  # fmt: skip


def pairs_of(*candidates: Candidate) -> Overtaken:
    columns = Candidates.of(candidates)
    return told_in_full(columns, CandidateRoles(columns))


FACT = candidate("semantic", "User has two children.")
TURN = "I have two children, Mila and Jan."


def test_a_turn_of_the_same_time_with_the_words_of_a_fact_is_raised_above_it():
    pairs = pairs_of(FACT, candidate("episodic", TURN))
    assert pairs == [(0, 1)]
    scores = np.array([2.0, 0.5])
    assert (scores + raised(scores, pairs)).argmax() == 1


@every_case(
    candidate("episodic", TURN, minute=1), candidate("episodic", TURN, ended=0.5),
    candidate("episodic", "We went to the zoo."), candidate("summary", TURN),
)  # fmt: skip
def test_another_turn_stays_where_it_is(turn):
    assert pairs_of(FACT, turn) == []


@pytest.mark.parametrize(("text", "question"), [
    ("I have two children, Mila and Jan.", "Which children do I have?"),
    ("我有两个孩子，米拉和小杰。", "我有哪几个孩子？"),
])  # fmt: skip
async def test_the_turn_comes_before_its_fact(ann, text, question):
    await ann.say(0, text)
    assert await ann.facts()
    hits = [hit.memory for hit in await ann.recall(question)]
    places = {one.kind: place for place, one in reversed(list(enumerate(hits)))}
    assert places["episodic"] < places["semantic"]
