"""Chats with an agent are ranked by weights and features of their own: the latest stands first."""

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial

import numpy as np
import pytest
from every_case import every_case
from hypothesis import given, strategies as some
from memories import MARCH, Said, recalled

from shared_core.core.domain import Hit, Role
from shared_core.nlp.text import search_terms
from shared_core.ports.recall import RankingQuery, Recalled
from shared_core.recall.features import BRIEF_AGENT, LONG_AGENT, Matched, features
from shared_core.recall.ranking import PART_OF, rank, weights

Turn = tuple[Role, float, str, float]
"""Who speaks, on which day, what, and the cosine with the question."""
PORTO: Turn = ("user", 1, "we have a flat in porto", 0.6)
LYON: Turn = ("user", 40, "boxes everywhere, lyon is loud at night", 0.5)
REST: Sequence[Turn] = [("user", day, f"thing number {day}", 0.1) for day in range(2, 12)]


def chat(turns: Sequence[Turn], agent: int) -> Recalled:
    """Return turns of a chat; agent: length of what the agent says."""
    said = [
        Said(key=str(number), text=text, role=role, author=role, day=1 + day, similarity=near,
             length=agent if role == "agent" else 6)
        for number, (role, day, text, near) in enumerate(turns)
    ]  # fmt: skip
    return recalled(*said, terms=1)


def answered(question: str, turns: Sequence[Turn], agent: float | None = 20) -> list[Hit]:
    """Return all hits; agent: length of a turn of the agent that is added, None for no agent."""
    said = [*turns, *([("agent", 20.0, "I see.", 0.1)] if agent is not None else [])]
    asked = RankingQuery(text=question, terms=["home"], now=MARCH + timedelta(days=60))
    return rank(chat(said, int(agent or 0)), asked, limit=len(said))


def first(question: str, turns: Sequence[Turn], agent: float | None = 20) -> str:
    return answered(question, turns, agent)[0].memory.text


@every_case("where is my home?", "我家在哪里？")
def test_what_was_told_last_about_a_matter_stands_first(question):
    assert LYON[2] == first(question, [PORTO, LYON, *REST])


def test_what_was_told_first_is_found_by_its_question_and_no_chat_is_without_an_agent():
    assert PORTO[2] == first("where was my home before?", [PORTO, LYON, *REST])
    assert PORTO[2] == first("where is my home?", [PORTO, LYON, *REST], agent=None)
    assert PORTO[2] == first("where is my home?", [PORTO, LYON, *REST], agent=LONG_AGENT)


def test_what_was_told_later_counts_by_nearness_and_time_and_without_vectors_by_words():
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
    holds = [(0, 1, 2, 3), *[(0,)] * 5, (), ()]
    told = [
        Said(key=str(day), text=f"turn of day {day}", role="user", day=1 + day, similarity=None,
             length=6, holds=held)
        for day, held in zip(range(1, 60, 8), holds, strict=True)
    ]  # fmt: skip
    told.append(Said(text="I see.", role="agent", day=61, similarity=None, length=6))
    terms = ["one", "two", "three", "four"]
    asked = RankingQuery(text=" ".join(terms), terms=terms, now=MARCH)
    hits = rank(recalled(*told), asked, limit=len(told))
    assert told[0].text == hits[0].memory.text
    assert {0.0} == {hit.parts["told_later"] for hit in hits}


@given(some.floats(BRIEF_AGENT, LONG_AGENT), some.floats(0, 2))
def test_between_both_weights_the_score_moves_by_steps_that_are_small(length, more):
    """Without a gap: a turn of the agent that is a little longer changes no order at once."""
    before, after = (
        {hit.memory.text: hit.score for hit in answered("my home?", [PORTO, LYON, *REST], agent)}
        for agent in (length, length + more)
    )
    assert all(abs(after[text] - before[text]) < 1 for text in before)


def test_the_share_of_the_weights_for_chats_is_told():
    shares = [
        answered("my home?", [PORTO, LYON], agent)[0].parts["chat"]
        for agent in (None, BRIEF_AGENT, 100, LONG_AGENT)
    ]
    assert [0, 1, 0] == [shares[0], shares[1], shares[3]]
    assert 0 < shares[2] < 1
    # Chinese search terms are characters and pairs: 150 characters are 240 terms.
    brief, long = "可以先放凉再装盒，" * 17, "可以先放凉再装盒，" * 100
    shares = [chat_share(text) for text in (brief, long, "Let it cool first. " * 17)]
    assert [1, 0, 1] == shares


def chat_share(answer: str) -> float:
    said = chat([PORTO, ("agent", 20, answer, 0.1)], len(search_terms(answer)))
    asked = RankingQuery(text="my home?", terms=["home"], now=MARCH)
    return rank(said, asked, limit=2)[0].parts["chat"]


def test_every_weight_for_chats_is_a_finite_number_and_words_never_count_against_a_memory():
    assert weights("chat").keys() <= PART_OF.keys()
    assert all(math.isfinite(weight) for weight in weights("chat").values())
    # The questions of the training are asked in other words than the answers, on purpose.
    of_words = {"z_bm25", "coverage", "z_bm25_around", "coverage_around", "similar_and_worded"}
    assert all(weights("chat").get(name, 0.0) >= 0 for name in of_words)


def found(
    query: str, *said: Said, similarity: float = 0.5, length: int = 5
) -> dict[str, list[float]]:
    terms = query.lower().rstrip("?").split()
    turns = [replace(one, similarity=similarity, length=length, opens=False) for one in said]
    given = recalled(*turns, terms=len(terms))
    assert given.corpus is not None
    asked = RankingQuery(text=query, terms=terms, now=MARCH + timedelta(days=10))
    known = features(Matched(given.corpus, given.candidates, asked))
    return {name: np.asarray(values).tolist() for name, values in known.items()}


turn = partial(Said, author="ana", role="user")


@every_case("Where do I live now?", "我现在住在哪里？")
def test_a_question_that_asks_the_same_is_an_echo(question):
    turns = turn(text=question), turn(text="I live in Leeds.")
    assert [1.0, 0.0] == found("Where do I live?", *turns, similarity=0.7)["echo"]
    assert [0.0, 0.0] == found("Where do I live?", *turns, similarity=0.2)["echo"]
    [half, _] = found("Where do I live?", *turns, similarity=0.45)["echo"]
    assert half == pytest.approx(0.5)
    telling = found("Where do I live?", *turns, similarity=0.7, length=16)
    assert [0.0, 0.0] == telling["echo"], "who says so much tells something"


@every_case(("Where do I live?", 0.5), ("Where did I live before?", 0.0), ("我以前住在哪里？", 0.0))
def test_what_ended_counts_where_it_is_asked_how_it_is(query, counts):
    turns = turn(text="I live in Leeds and love tea.", ended=0.5), turn(text="I live in York.")
    assert [counts, 0.0] == found(query, *turns)["ended"]


def test_within_a_month_it_tells_little_what_came_later():
    minutes = turn(text="a", day=1), turn(text="b", day=1.01)
    assert [0.0, pytest.approx(0.01 / 30)] == found("tea", *minutes)["recency"]
    months = turn(text="a", day=-79), turn(text="b", day=11)
    assert [0.0, 1.0] == found("tea", *months)["recency"]
    fact = turn(text="User likes tea.", kind="semantic", author=None, role=None)
    other = turn(text="Bob likes tea.", author="bob", role="agent")
    mine = turn(text="I like tea.")
    assert [1.0, 1.0, 0.0] == found("ana", mine, fact, other)["named_speaker"]
    assert [0.0, 0.0, 1.0] == found("bob", mine, fact, other)["named_speaker"]
