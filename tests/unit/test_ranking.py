"""The parts of a score: both channels, the turns around, who speaks, when, and what kind it is."""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest
from every_case import every_case
from memories import Said, recalled

from shared_core.core.domain import SCORE_PARTS, Hit, MemoryKind
from shared_core.errors import InvalidInput
from shared_core.nlp.text import is_question
from shared_core.ports.recall import Ranking, RankingQuery, Recalled, ThreeFactor
from shared_core.recall.features import TOPIC_EXCESS
from shared_core.recall.ranking import PART_OF, nearest, rank, relevance, weights

NOW = datetime(2026, 3, 31, tzinfo=UTC)
DAYS = (NOW - datetime(2026, 3, 1, tzinfo=UTC)) / timedelta(days=1)
EVERY_RANKING = get_args(Ranking)
IT = RankingQuery(text="it", terms=["it"], now=NOW)


def ranked(
    *said: Said, by: Ranking | ThreeFactor = "fusion", query: str = "spicy noodle", terms: int = 4
) -> dict[str, Hit]:
    words = query.split() + [f"word{n}" for n in range(len(query.split()), terms)]
    asked = RankingQuery(text=query, terms=words, now=NOW)
    hits = rank(recalled(*said, terms=len(words)), asked, limit=len(said), by=by)
    return {hit.memory.key: hit for hit in hits}


def differences(hits: dict[str, Hit], first: str, second: str) -> dict[str, float]:
    """What the first hit's parts are above the second's, where they differ."""
    return {
        part: pytest.approx(found)
        for part in SCORE_PARTS
        if (found := hits[first].parts.get(part, 0) - hits[second].parts.get(part, 0))
    }


FILLER = (Said(key="far", similarity=0.1), Said(key="worded", similarity=0.2, holds=(1, 2)))


@every_case(*EVERY_RANKING)
def test_the_score_is_the_sum_of_its_parts_and_orders_the_hits(by):
    hits = ranked(
        *FILLER,
        Said(key="a", similarity=0.6, holds=(0, 1), role="user", author="Ann"),
        Said(key="b", similarity=0.4, text="And you?", role="agent", author="bot", opens=False),
        by=by,
    )
    scores = [hit.score for hit in hits.values()]
    assert sorted(scores, reverse=True) == scores
    for hit in hits.values():
        assert hit.score == pytest.approx(sum(hit.parts.get(part, 0) for part in SCORE_PARTS))


def test_both_channels_are_standardised_or_their_ranks_fused_and_one_alone_ranks_by_it():
    hits = ranked(*FILLER, Said(key="near", similarity=0.6))
    mean = (0.1 + 0.2 + 0.6) / 3
    deviation = math.sqrt(sum((one - mean) ** 2 for one in (0.1, 0.2, 0.6)) / 3)
    assert hits["near"].parts["meaning"] == pytest.approx((0.6 - mean) / deviation)
    assert hits["near"].parts["similarity"] == 0.6
    held, nowhere = math.log(1 + 2.5 / 1.5), math.log(1 + 3.5 / 0.5)
    assert hits["worded"].parts["coverage"] == pytest.approx(held / (held + nowhere))
    both = math.sqrt(hits["worded"].parts["coverage"]) * math.sqrt(2)
    assert hits["worded"].parts["words"] == pytest.approx(both)
    near, worded = Said(key="near", similarity=0.9), Said(key="worded", similarity=0, holds=(0, 1))
    assert ["near", "worded"] == list(ranked(near, worded, by="vector"))
    assert ["worded", "near"] == list(ranked(near, worded, by="bm25"))
    assert ranked(near, worded, by="vector")["near"].score == 0.9
    both = Said(key="both", similarity=0.5, holds=(0,))
    near = Said(key="near", similarity=0.9)
    hits = ranked(both, near, by="rrf")
    assert hits["both"].score == pytest.approx(1 / 62 + 1 / 61)
    assert hits["near"].score == pytest.approx(1 / 61)


def test_a_turn_is_lifted_by_the_one_before_and_by_its_session_but_not_across_sessions():
    asks = Said(key="asks", similarity=0.8, holds=(0, 1), text="Where?", role="user")
    found = {
        role: ranked(*FILLER, asks, Said(key="told", opens=opens, role=role))["told"]
        for role, opens in (("user", False), ("agent", False), ("system", True))
    }
    assert found["user"].parts["context"] > 0
    assert found["user"].parts["previous"] == pytest.approx(0.8)
    assert found["agent"].parts["context"] == 0
    assert found["system"].parts["context"] == 0
    assert "previous" not in found["system"].parts
    about = [Said(key=f"about{n}", holds=(0, n % 4), opens=n == 0) for n in range(6)]
    rest = [Said(key=f"rest{n}", opens=n == 0) for n in range(6)]
    in_it = Said(key="in it", opens=False)
    apart = Said(key="apart", opens=False)
    hits = ranked(*about, in_it, *rest, apart, by="linear")
    assert hits["in it"].parts["session"] > hits["apart"].parts["session"]
    said = Said(key="said", similarity=None, holds=(0,))
    after = Said(key="after", similarity=None, opens=False)
    apart = Said(key="apart", similarity=None)
    hits = ranked(said, after, apart, query="spicy noodle")
    assert 1.0 == relevance(hits["said"])
    assert 0 < relevance(hits["after"]) == hits["said"].parts["coverage"] < 1
    assert 0.0 == relevance(hits["apart"])
    said = recalled(Said(key="first", opens=False), Said(key="second", opens=False))
    assert said.corpus is not None and [True, False] == said.corpus.opens.tolist()
    assert 2 == len(rank(said, IT, limit=5))


@every_case("fusion", "linear")
def test_a_turn_between_two_that_match_is_found_by_them(by):
    """The answer to a question shares no word with it, and neither does its vector."""
    asks = Said(key="asks", similarity=0.8, holds=(0, 1, 2), text="Where did you eat?", role="user")
    told = Said(key="told", similarity=0.2, opens=False, role="user")
    alone = Said(key="alone", similarity=0.2, role="user")
    hits = ranked(*FILLER, asks, told, alone, by=by)
    assert hits["told"].score > hits["alone"].score
    assert differences(hits, "told", "alone").keys() >= {"context"}


@every_case([0.7, 0.3], [None, None])
@every_case(
    [("user", "Ann")], [("user", "Ann"), ("user", "Bob")], [("user", "ann"), ("agent", "bot")]
)
def test_what_holds_all_words_outranks_its_neighbours(voices, similarity):
    """In a small memory too, where one turn is next to every other."""

    def said(number: int) -> Said:
        role, author = voices[number % len(voices)]
        best = number == 4
        return Said(
            key="best" if best else str(number), similarity=similarity[0 if best else 1],
            holds=(0, 1, 2, 3) if best else (0,), role=role, author=author, opens=number == 0,
        )  # fmt: skip

    assert "best" == next(iter(ranked(*map(said, range(9)), by="linear")))


@every_case("fusion", "linear")
def test_a_turn_that_asks_ranks_below_one_that_tells(by):
    asking, telling = Said(key="asks", text="Where is it?"), Said(key="tells")
    others = [Said(key=name, author=name) for name in ("Ann", "Bob")]
    hits = ranked(*FILLER, *others, asking, telling, by=by)
    below = -1.0 if by == "fusion" else weights()["is_question"]
    assert differences(hits, "asks", "tells") == {"form": below}


def test_what_the_agent_says_ranks_low_unless_it_is_asked_by_name():
    hits = ranked(*FILLER, Said(key="agent", role="agent"), Said(key="user", role="user"))
    assert differences(hits, "agent", "user") == {"speaker": -2.0}
    agent = Said(key="agent", author="scout", role="agent")
    hits = ranked(agent, Said(key="user", author="user", role="user"), query="scout")
    assert [0.0, -1.0] == [hits[key].parts["speaker"] for key in ("agent", "user")]
    zhang, li = Said(key="zhang", author="张伟"), Said(key="li", author="李娜")
    assert ranked(zhang, li, query="张 伟 张伟 住")["li"].parts["speaker"] == -1.0
    assert ranked(zhang, li, query="张 张三")["li"].parts["speaker"] == 0.0


@every_case(
    ("Where do you live?", True), ("你住在哪里？", True), ("He asked “why?” ", True),
    ("Really?! ", False), ("Where? In Leeds.", False), ("", False), ("?", True),
)  # fmt: skip
def test_a_question_is_what_ends_with_a_question_mark(text, expected):
    assert is_question(text) is expected


@every_case(("ann hous", {"bob"}), ("hous", set()), ("ann bob", set()), ("bob", {"ann", "ann lee"}))
def test_turns_of_others_than_the_speaker_the_query_names_rank_low(query, lowered):
    said = [Said(key=name.lower(), author=name) for name in ("Ann", "Ann Lee", "Bob")]
    hits = ranked(*said, Said(key="fact"), query=query)
    assert {key for key, hit in hits.items() if hit.parts["speaker"] < 0} == lowered
    assert {hits[key].parts["speaker"] for key in lowered} <= {-1.0}


def test_facts_rank_above_turns_above_summaries_the_newest_of_equals_first_with_their_words():
    kinds: list[MemoryKind] = ["summary", "episodic", "semantic", "item"]
    hits = ranked(*(Said(key=kind, kind=kind) for kind in kinds))
    found = {key: hit.parts["kind"] for key, hit in hits.items()}
    assert {"summary": -0.5, "episodic": 0.0, "semantic": 0.5, "item": 0.0} == found
    said = [Said(key=str(day), day=day) for day in (1, 3, 2)]
    hits = rank(recalled(*said), IT, limit=2, by="fusion")
    assert ["3", "2"] == [hit.memory.key for hit in hits]
    [hit] = ranked(Said(key="only", similarity=0.5, holds=(0, 1, 2, 3))).values()
    assert hit.score == pytest.approx(0.5 + 1.0)  # the cosine and the coverage
    assert rank(Recalled(), IT, limit=5) == []
    both, one = Said(key="both", holds=(0, 1)), Said(key="one", holds=(1,))
    asked = RankingQuery(text="Green tea", terms=["green", "tea"], now=NOW)
    found = rank(recalled(both, one, Said(key="none")), asked, limit=3)
    hits = {hit.memory.key: hit for hit in found}
    matched = [hits[key].matched for key in ("both", "one", "none")]
    assert [("Green", "tea"), ("tea",), ()] == matched
    said = recalled(
        Said(key="older", similarity=0.4, day=1), Said(key="newer", similarity=0.4, day=2),
        Said(key="opposite", similarity=-0.2),
        Said(key="no vector", similarity=None, holds=(0, 1, 2)), Said(key="near", similarity=0.9),
    )  # fmt: skip
    hits = [one.hit() for one in nearest(said, 10)]
    assert ["near", "newer", "older", "opposite"] == [hit.memory.key for hit in hits]
    assert [0.9, 0.4, 0.4, -0.2] == [hit.score for hit in hits]
    assert all(hit.score == hit.parts["meaning"] == hit.parts["similarity"] for hit in hits)
    assert hits[:2] == [one.hit() for one in nearest(said, 2)] and [] == nearest(Recalled(), 2)
    assert not is_question("?" + ")" * 200_000 + "x")


@every_case(*EVERY_RANKING)
def test_without_a_vector_words_alone_rank(by):
    no_word = Said(key="no word", similarity=None)
    hits = ranked(no_word, Said(key="one word", similarity=None, holds=(0,)), by=by)
    if by != "vector":
        assert next(iter(hits)) == "one word"
    assert "similarity" not in hits["one word"].parts
    assert relevance(hits["one word"]) == 1.0


@every_case(*EVERY_RANKING)
def test_a_query_without_words_ranks_by_meaning(by):
    far = Said(key="far", similarity=0.1)
    hits = ranked(far, Said(key="near", similarity=0.9), by=by, terms=0, query="")
    if by != "bm25":
        assert next(iter(hits)) == "near"
    assert not any(math.isnan(part) for hit in hits.values() for part in hit.parts.values())


@every_case(
    ("What happened on March 5?", 5), ("What did she do on 5 March 2026?", 5),
    ("3月5号她做了什么", 5), ("What did we do last week?", 25),
)  # fmt: skip
def test_a_time_in_the_question_lifts_what_was_said_then(query, day):
    then, other = Said(key="then", day=day), Said(key="other", day=14)
    hits = ranked(*FILLER, then, other, by="linear", query=query)
    assert hits["then"].parts["time_fit"] == 1.0
    assert hits["other"].parts["time_fit"] == 0.0
    assert hits["then"].parts["time"] > hits["other"].parts["time"]


def test_three_factors_are_multiplied_by_finite_weights_of_known_parts():
    old = Said(key="old", similarity=0.8, day=1, importance=10)
    excited = replace(old, key="excited", value={"emotion": {"arousal": 1.0}})
    new = Said(key="new", similarity=0.8, day=31, importance=5)
    hits = ranked(old, excited, new, by="three_factor")
    assert hits["old"].score == pytest.approx(0.8 * math.exp(-DAYS / 30) * 1.0)
    assert hits["excited"].score == pytest.approx(0.8 * math.exp(-DAYS / 60) * 1.0)
    assert hits["new"].score == pytest.approx(0.8 * 0.5)
    old = Said(key="old", similarity=0.8, day=1, importance=10)
    new = Said(key="new", similarity=0.4, day=31, importance=5)
    hits = ranked(old, new, by=ThreeFactor(relevance=2, recency=0.5, importance=0, recency_days=10))
    assert hits["old"].score == pytest.approx(0.8**2 * math.exp(-DAYS / 10) ** 0.5)
    assert hits["new"].score == pytest.approx(0.4**2)
    plain, named = ranked(old, new, by=ThreeFactor()), ranked(old, new, by="three_factor")
    assert {key: hit.score for key, hit in plain.items()} == {
        key: hit.score for key, hit in named.items()
    }
    for wrong in ({"recency": -1}, {"importance": math.inf}, {"recency_days": 0}):
        with pytest.raises(InvalidInput, match=next(iter(wrong))):
            ThreeFactor(**wrong)
    assert weights().keys() | weights("chat").keys() == PART_OF.keys()
    assert set(PART_OF.values()) == set(SCORE_PARTS)
    assert all(math.isfinite(weight) for weight in weights().values())


@every_case((1e308, 1.0), (7, 1.0), (-3, 0.0), ("high", 0.0))
def test_arousal_counts_from_0_to_1_whatever_a_value_says(told, counted):
    excited = Said(key="excited", similarity=0.8, day=1, value={"emotion": {"arousal": told}})
    score = ranked(excited, by="three_factor")["excited"].score
    assert score == pytest.approx(0.8 * math.exp(-DAYS * (1 - counted / 2) / 30) * 0.5)


@every_case(("What do I do for a living?", 0.3 - TOPIC_EXCESS), ("living", 1.0))
def test_a_single_shared_word_of_a_question_for_a_topic_is_no_relevance(query, expected):
    said = Said(key="hamster", similarity=0.3, holds=(0,))
    asked = RankingQuery(text=query, terms=["live"], now=NOW, pulled=1.0)
    after = Said(key="after", similarity=0.0, opens=False)
    hits = rank(recalled(said, after, terms=1), asked, limit=2)
    found = {hit.memory.key: relevance(hit) for hit in hits}
    assert expected == pytest.approx(found["hamster"])
    assert expected == pytest.approx(found["after"])
