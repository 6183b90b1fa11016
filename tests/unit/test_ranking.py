"""The parts of a score: both channels, the turn before, who speaks and what kind it is."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest

from shared_core.domain import Memory, MemoryId, MemoryKind, Role
from shared_core.ports import Candidate, Match, Spread
from shared_core.ranking import Weights, is_question, rank

SPREAD = Spread(similarity_mean=0.2, similarity_sd=0.1, bm25_mean=1.0, bm25_sd=2.0)


def match(similarity: float | None, bm25: float, coverage: float = 1.0) -> Match:
    return Match(similarity=similarity, bm25=bm25, coverage=coverage)


def candidate(
    number: int,
    matched: Match,
    *,
    text: str = "a statement.",
    kind: MemoryKind = "episodic",
    author: str | None = None,
    role: Role | None = None,
    previous: Match | None = None,
) -> Candidate:
    moment = datetime(2026, 3, number, tzinfo=UTC)
    memory = Memory(
        memory_id=MemoryId(UUID(int=number)),
        namespace=("app", "ann", "memories"),
        key=str(number),
        kind=kind,
        text=text,
        value={},
        author=author,
        importance=5.0,
        occurred_at=moment,
        created_at=moment,
        updated_at=moment,
    )
    return Candidate(
        memory_id=memory.memory_id,
        kind=kind,
        text=text,
        author=author,
        occurred_at=moment,
        match=matched,
        memory=lambda: memory,
        role=role,
        previous=previous,
    )


def scores(*candidates: Candidate, asked: tuple[str, ...] = ()) -> dict[str, float]:
    hits = rank(candidates, SPREAD, asked=asked, limit=len(candidates))
    return {hit.memory.key: hit.score for hit in hits}


AVERAGE = match(0.2, 1.0)
"""Scores nothing in either channel: what is added is all of the score."""


def test_the_score_is_the_sum_of_both_standardised_scores() -> None:
    [hit] = rank([candidate(1, match(0.5, 5.0))], SPREAD, limit=5)
    assert pytest.approx(3.0 + 2.0) == hit.score
    raw = {"similarity": 0.5, "bm25": 5.0, "coverage": 1.0, "z_similarity": 3.0, "z_bm25": 2.0}
    added = {"meaning": 3.0, "words": 2.0, "context": 0.0, "question": 0.0, "speaker": 0.0}
    assert pytest.approx({**raw, **added, "kind": 0.0}) == dict(hit.parts)


def test_weights_decide_between_the_channels() -> None:
    near, worded = candidate(1, match(0.9, 0.0)), candidate(2, match(0.2, 9.0))
    by_words = rank([near, worded], SPREAD, limit=2, weights=Weights(similarity=0.1))
    by_meaning = rank([near, worded], SPREAD, limit=2, weights=Weights(words=0.1))
    assert (["2", "1"], ["1", "2"]) == (
        [hit.memory.key for hit in by_words],
        [hit.memory.key for hit in by_meaning],
    )


def test_one_rare_word_of_many_counts_less_than_most_of_the_words() -> None:
    name_only, most = candidate(1, match(0.2, 9.0, 0.25)), candidate(2, match(0.2, 7.0, 0.81))
    assert {"1": pytest.approx(0.5 * 4.0), "2": pytest.approx(0.9 * 3.0)} == scores(name_only, most)


def test_the_turn_before_adds_a_share_of_what_it_scores() -> None:
    answer = candidate(1, AVERAGE, role="user", previous=match(0.5, 5.0, 0.25))
    assert pytest.approx(Weights().context * (3.0 + 0.5 * 2.0)) == scores(answer)["1"]


def test_the_turn_before_without_a_vector_adds_its_words_alone() -> None:
    answer = candidate(1, AVERAGE, role="user", previous=match(None, 5.0))
    assert pytest.approx(Weights().context * 2.0) == scores(answer)["1"]


def test_what_the_agent_says_ranks_low_whatever_it_answers() -> None:
    answer = candidate(1, AVERAGE, role="agent", previous=match(0.9, 9.0))
    assert {"1": Weights().agent} == scores(answer)


def test_a_turn_that_asks_ranks_below_one_that_tells() -> None:
    asking, telling = candidate(1, AVERAGE, text="Where is it?"), candidate(2, AVERAGE)
    assert {"2": 0.0, "1": Weights().question} == scores(asking, telling)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Where do you live?", True),
        ("你住在哪里？", True),
        ("He asked “why?” ", True),
        ("Really?! ", False),
        ("Where? In Leeds.", False),
        ("", False),
        ("?", True),
    ],
)
def test_a_question_is_what_ends_with_a_question_mark(text: str, expected: bool) -> None:
    assert is_question(text) is expected


def test_a_long_tail_of_closing_marks_takes_no_time() -> None:
    assert not is_question("?" + ")" * 200_000 + "x")


def test_turns_of_others_than_the_speaker_the_query_names_rank_low() -> None:
    ann, bob = candidate(1, AVERAGE, author="Ann Lee"), candidate(2, AVERAGE, author="Bob")
    fact = candidate(3, AVERAGE)
    lowered = Weights().other_speaker
    assert {"1": 0.0, "2": lowered, "3": 0.0} == scores(ann, bob, fact, asked=("ann", "hous"))


@pytest.mark.parametrize("asked", [(), ("hous",), ("ann", "bob")])
def test_a_query_that_names_nobody_or_everybody_lowers_nobody(asked: tuple[str, ...]) -> None:
    ann, bob = candidate(1, AVERAGE, author="Ann"), candidate(2, AVERAGE, author="Bob")
    assert {"1": 0.0, "2": 0.0} == scores(ann, bob, asked=asked)


def test_a_chinese_speaker_is_named_by_the_whole_name_only() -> None:
    zhang, li = candidate(1, AVERAGE, author="张伟"), candidate(2, AVERAGE, author="李娜")
    lowered = Weights().other_speaker
    assert {"1": 0.0, "2": lowered} == scores(zhang, li, asked=("张", "伟", "张伟", "住"))
    assert {"1": 0.0, "2": 0.0} == scores(zhang, li, asked=("张", "张三"))


def test_an_agent_asked_by_name_about_what_it_said_is_not_lowered() -> None:
    agent = candidate(1, AVERAGE, author="scout", role="agent")
    user = candidate(2, AVERAGE, author="user", role="user")
    assert {"1": 0.0, "2": Weights().other_speaker} == scores(agent, user, asked=("scout",))


def test_facts_rank_above_turns_and_turns_above_summaries() -> None:
    kinds: list[MemoryKind] = ["summary", "episodic", "semantic", "item"]
    found = scores(*(candidate(n, AVERAGE, kind=kind) for n, kind in enumerate(kinds, start=1)))
    assert {"3": Weights().fact, "2": 0.0, "4": 0.0, "1": Weights().summary} == found


def test_without_a_vector_words_alone_rank() -> None:
    found = [candidate(1, match(None, 1.0)), candidate(2, match(None, 3.0))]
    hits = rank(found, SPREAD, limit=2)
    assert ["2", "1"] == [hit.memory.key for hit in hits]
    assert "similarity" not in hits[0].parts


def test_the_score_is_the_sum_of_the_parts_that_are_added() -> None:
    told = candidate(
        1, match(0.3, 4.0, 0.5), text="And you?", role="agent", author="bot", previous=AVERAGE
    )
    [hit] = rank([told], SPREAD, limit=1)
    added = ("meaning", "words", "context", "question", "speaker", "kind")
    assert pytest.approx(sum(hit.parts[name] for name in added)) == hit.score


def test_equal_scores_rank_the_newest_first_and_the_limit_holds() -> None:
    hits = rank([candidate(n, match(0.5, 1.0)) for n in (1, 3, 2)], SPREAD, limit=2)
    assert ["3", "2"] == [hit.memory.key for hit in hits]


def test_a_scope_of_one_memory_ranks_without_dividing_by_its_spread() -> None:
    spread = Spread(similarity_mean=0.5, bm25_mean=1.0)
    [hit] = rank([candidate(1, match(0.5, 1.0))], spread, limit=1)
    assert pytest.approx(0.5 + 1.0) == hit.score  # the cosine and the coverage
    alike = rank([candidate(n, match(0.5, 1.0, 0.25)) for n in (1, 2)], spread, limit=2)
    assert [("2", 0.75), ("1", 0.75)] == [(hit.memory.key, hit.score) for hit in alike]
