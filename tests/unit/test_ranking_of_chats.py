"""Chats with an agent are ranked by weights of their own: what was told last stands first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from every_case import every_case
from hypothesis import given, strategies as some

from shared_core.core.domain import Hit, Memory, MemoryId, Role
from shared_core.core.ids import uuid7
from shared_core.nlp.text import search_terms
from shared_core.ports.recall import Candidate, Candidates, Corpus, RankingQuery, Recalled
from shared_core.recall.features import BRIEF_AGENT, LONG_AGENT
from shared_core.recall.ranking import PART_OF, rank, weights

BEGAN = datetime(2026, 3, 1, tzinfo=UTC)
Turn = tuple[Role, float, str, float]
"""Who speaks, on which day, what, and the cosine with the question."""
PORTO: Turn = ("user", 1, "we have a flat in porto", 0.6)
LYON: Turn = ("user", 40, "boxes everywhere, lyon is loud at night", 0.5)
REST: Sequence[Turn] = [("user", day, f"thing number {day}", 0.1) for day in range(2, 12)]


def answered(question: str, turns: Sequence[Turn], agent: float | None = 20) -> list[Hit]:
    """Return all hits; agent: length of a turn of the agent that is added, None for no agent."""
    said = [*turns, *([("agent", 20.0, "I see.", 0.1)] if agent is not None else [])]
    lengths = [agent if role == "agent" else 6 for role, *_ in said]
    corpus = Corpus.of(
        similarity=[similarity for *_, similarity in said],
        length=[int(length or 0) for length in lengths],
        opens=[True] * len(said), holders=[], words=[], terms=1,
    )  # fmt: skip
    candidates = Candidates.of([candidate(number, turn) for number, turn in enumerate(said)])
    asked = RankingQuery(text=question, terms=["home"], now=BEGAN + timedelta(days=60))
    return rank(Recalled(candidates=candidates, corpus=corpus), asked, limit=len(said))


def candidate(number: int, turn: Turn) -> Candidate:
    role, day, text, _ = turn
    moment = BEGAN + timedelta(days=day)
    memory = Memory(
        memory_id=MemoryId(uuid7()), namespace=("app", "ann", "memories"), key=str(number),
        kind="episodic", text=text, value={}, author=role, importance=5.0,
        occurred_at=moment, created_at=moment, updated_at=moment,
    )  # fmt: skip
    return Candidate(
        memory_id=memory.memory_id, kind="episodic", text=text, author=role, occurred_at=moment,
        number=number, memory=lambda: memory, role=role,
    )  # fmt: skip


def first(question: str, turns: Sequence[Turn], agent: float | None = 20) -> str:
    return answered(question, turns, agent)[0].memory.text


@every_case("where is my home?", "我家在哪里？")
def test_what_was_told_last_about_a_matter_stands_first(question: str) -> None:
    assert LYON[2] == first(question, [PORTO, LYON, *REST])


def test_a_question_for_what_was_before_finds_what_was_told_first() -> None:
    assert PORTO[2] == first("where was my home before?", [PORTO, LYON, *REST])


def test_without_an_agent_the_nearest_stands_first() -> None:
    assert PORTO[2] == first("where is my home?", [PORTO, LYON, *REST], agent=None)


def test_an_agent_that_writes_pages_is_no_chat() -> None:
    assert PORTO[2] == first("where is my home?", [PORTO, LYON, *REST], agent=LONG_AGENT)


def test_what_was_told_later_counts_by_its_nearness_and_by_the_time_between() -> None:
    turns: list[Turn] = [
        ("user", day, f"turn {number}", near)
        for number, (day, near) in enumerate([(1, 0.4), (4, 0.6), (4, 0.1), (25, 0.5), (80, 0.3)])
    ]
    hits = answered("my home?", turns, agent=None)
    z = {hit.memory.text: hit.parts["z_similarity"] for hit in hits}
    total = sum(math.exp(one) for one in z.values())
    for hit in hits:
        began = hit.memory.occurred_at
        later = sum(
            math.exp(z[other.memory.text])
            * min(max((other.memory.occurred_at - began) / timedelta(days=30), 0), 1)
            for other in hits
        )
        assert hit.parts["told_later"] == pytest.approx(later / total)


@given(some.floats(BRIEF_AGENT, LONG_AGENT), some.floats(0, 2))
def test_between_both_weights_the_score_moves_by_steps_that_are_small(
    length: float, more: float
) -> None:
    """Without a gap: a turn of the agent that is a little longer changes no order at once."""
    before, after = (
        {hit.memory.text: hit.score for hit in answered("my home?", [PORTO, LYON, *REST], agent)}
        for agent in (length, length + more)
    )
    assert all(abs(after[text] - before[text]) < 1 for text in before)


def test_the_share_of_the_weights_for_chats_is_told() -> None:
    shares = [
        answered("my home?", [PORTO, LYON], agent)[0].parts["chat"]
        for agent in (None, BRIEF_AGENT, 100, LONG_AGENT)
    ]
    assert [0, 1, 0] == [shares[0], shares[1], shares[3]]
    assert 0 < shares[2] < 1


def test_a_chinese_answer_of_the_agent_is_as_long_as_its_english_one() -> None:
    """Chinese search terms are characters and pairs: 150 characters are 240 terms."""
    brief, long = "可以先放凉再装盒，" * 17, "可以先放凉再装盒，" * 100
    shares = [chat_share(text) for text in (brief, long, "Let it cool first. " * 17)]
    assert [1, 0, 1] == shares


def chat_share(answer: str) -> float:
    said: list[Turn] = [PORTO, ("agent", 20, answer, 0.1)]
    candidates = Candidates.of([candidate(number, turn) for number, turn in enumerate(said)])
    corpus = Corpus.of(
        similarity=[0.6, 0.1], length=[6, len(search_terms(answer))],
        opens=[True, True], holders=[], words=[], terms=1,
    )  # fmt: skip
    asked = RankingQuery(text="my home?", terms=["home"], now=BEGAN)
    [first, _] = rank(Recalled(candidates=candidates, corpus=corpus), asked, limit=2)
    return first.parts["chat"]


def test_without_vectors_the_words_of_a_question_count_more_than_the_time() -> None:
    told: list[Turn] = [("user", day, f"turn of day {day}", 0) for day in range(1, 60, 8)]
    told.append(("agent", 60, "I see.", 0))
    candidates = Candidates.of([candidate(number, turn) for number, turn in enumerate(told)])
    corpus = Corpus.of(
        similarity=[None] * len(told), length=[6] * len(told), opens=[True] * len(told),
        holders=[0, 0, 0, 0, 1, 2, 3, 4, 5], words=[0, 1, 2, 3, 0, 0, 0, 0, 0], terms=4,
    )  # fmt: skip
    asked = RankingQuery(
        text="one two three four", terms=["one", "two", "three", "four"], now=BEGAN
    )
    hits = rank(Recalled(candidates=candidates, corpus=corpus), asked, limit=len(told))
    assert told[0][2] == hits[0].memory.text
    assert {0.0} == {hit.parts["told_later"] for hit in hits}


def test_every_weight_for_chats_is_a_finite_number_of_a_known_part() -> None:
    assert weights("chat").keys() <= PART_OF.keys()
    assert all(math.isfinite(weight) for weight in weights("chat").values())


def test_words_never_count_against_a_memory_of_a_chat() -> None:
    """The questions of the training are asked in other words than the answers, on purpose."""
    of_words = {"z_bm25", "coverage", "z_bm25_around", "coverage_around", "similar_and_worded"}
    assert all(weights("chat").get(name, 0.0) >= 0 for name in of_words)
