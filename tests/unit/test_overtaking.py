"""What a later turn overtakes, and what not, in English and Chinese."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from every_case import every_case
from memories import Said, recalled

from shared_core.nlp import changes
from shared_core.nlp.text import search_terms
from shared_core.recall import supersession
from shared_core.recall.matches import Matches
from shared_core.recall.query import query_terms
from shared_core.recall.ranking import use_weights, weights

FILLER = ("The weather is fine in Leeds.", "今天天气很好。", "We watched a film together.")


turn = partial(Said, similarity=0.5, author="ann", role="user")
"""A turn: its text, its day, how near it is to the query, and who said it."""


def pairs(query: str, *said: Said) -> list[tuple[int, int]]:
    """What overtakes what among turns that stand beside others."""
    everything = [*said, *(turn(text=text, day=1, similarity=0.1) for text in FILLER)]
    terms = query_terms(query)
    words = [set(search_terms(one.text)).intersection(terms) for one in everything]
    held = [replace(one, holds=[terms.index(word) for word in held])
            for one, held in zip(everything, words, strict=True)]  # fmt: skip
    found = recalled(*held, terms=len(terms))
    assert found.corpus is not None
    matches, roles = Matches.of(found.corpus), supersession.CandidateRoles(found.candidates)
    return list(supersession.overtaken(matches, found.candidates, roles, query))


WORK = "Where do I work?"
BANK = turn(text="I work at a bank.", day=1)
SHOP = turn(text="I now work at a shop.", day=2)

CHANGES = [
    (WORK, BANK.text, SHOP.text),
    ("How many sources are in my Zotero library?", "My Zotero library has 45 sources.",
     "I've added some, my Zotero library holds 52 sources."),
    ("What time is the meeting with Danielle?", "My meeting with Danielle is at 3 PM.",
     "The meeting with Danielle was rescheduled to 4:30 PM."),
    ("What is our kitchen budget?", "Our kitchen budget is 8000 euros.",
     "We cut the kitchen budget to 7000 euros."),
    ("我在哪里工作？", "我在银行工作。", "我现在在超市工作了。"),
    ("装修预算是多少？", "装修预算是二十万。", "装修预算又砍到十八万了。"),
    ("和李娜的会议几点开始？", "和李娜的会议三点开始。", "和李娜的会议推迟到四点半了。"),
    ("我每个月的预算是多少？", "我每个月的预算是三千。", "我把每个月的预算增加到四千。"),
]  # fmt: skip


@every_case(*CHANGES)
def test_a_later_turn_that_tells_a_change_overtakes(query, older, newer):
    told = turn(text=older, day=1), turn(text=newer, day=5)
    assert [(0, 1)] == pairs(query, *told)
    assert [(1, 0)] == pairs(query, *reversed(told)), "by time, not by place"


@every_case("Where was my work?", "Where did I work?", "我当时在哪里工作？")
def test_a_question_of_what_happened_is_answered_by_nothing_later(query):
    assert [] == pairs(query, BANK, SHOP)


@every_case("Where did I work before?", "Where did I work at first?")
def test_a_question_of_how_it_was_before_is_answered_by_the_earlier(query):
    assert [(1, 0)] == pairs(query, BANK, SHOP)
    last = turn(text="I now work at a school.", day=3)
    added = supersession.raised(np.array([0.0, 0.0, 1.0]), pairs(query, BANK, SHOP, last))
    assert added.argmax() == 0


@every_case("我以前在哪里工作？", "我最初在哪里工作？", "我原来在哪里工作？")
def test_a_chinese_question_of_how_it_was_before_is_as_well(query):
    told = turn(text="我在银行工作。", day=1), turn(text="我现在在超市工作了。", day=5)
    assert [(1, 0)] == pairs(query, *told)


def test_a_fact_is_overtaken_by_a_turn_of_its_user_alone_and_the_most_similar_count(monkeypatch):
    fact = turn(text="User works at a bank.", day=1, kind="semantic", author=None, role=None)
    bobs = turn(text=SHOP.text, day=2, author="bob", role="agent")
    assert [(0, 1)] == pairs(WORK, fact, SHOP)
    assert [] == pairs(WORK, fact, bobs)
    later = turn(text="User now works at a bank.", day=5, kind="semantic", author=None, role=None)
    assert [] == pairs(WORK, SHOP, later), "a fact tells no change"
    told = [turn(text=one.text, day=one.day, similarity=None) for one in (BANK, SHOP)]
    assert [(0, 1)] == pairs(WORK, *told)
    assert [] == pairs("zebra?", BANK, SHOP)
    assert [] == pairs("?", BANK, SHOP)
    assert not changes.tells_change("x " * 500_000 + "now")
    monkeypatch.setattr("shared_core.recall.supersession.MOST_COMPARED", 2)
    told = [
        turn(text=BANK.text, day=1, similarity=0.6),
        turn(text=BANK.text, day=1, similarity=0.4),
        turn(text=SHOP.text, day=2, similarity=0.5),
    ]
    assert [(0, 2)] == pairs(WORK, *told)


@every_case(
    turn(text="I work at a shop.", day=2),  # tells no change
    turn(text="I now like tea.", day=2),  # is about something else
    turn(text=SHOP.text, day=2, similarity=0.1),  # means something else
    turn(text=SHOP.text, day=2, author="bob"),  # said by another
    turn(text=SHOP.text, day=2, role="agent"),  # said by an agent
    turn(text=SHOP.text, day=2, kind="summary"),  # no turn
)
def test_what_overtakes_nothing(other):
    assert [] == pairs(WORK, BANK, other)


@every_case(
    ("I now work at a shop.", True), ("The deadline was extended to May.", True),
    ("I no longer eat meat.", True), ("Now that I think of it, I like tea.", False),
    ("I bought a new lamp.", False), ("会议改到周五了。", True), ("我已经搬到上海了。", True),
    ("我换工作了。", True), ("我现在也很喜欢做饭。", False), ("我喜欢尝试新的美食。", False),
    ("", False),
)  # fmt: skip
def test_words_of_change(text, expected):
    assert changes.tells_change(text) is expected


@every_case(
    ("Where do I work?", False), ("What is the deadline of the first sprint?", False),
    ("When did she go to Leeds?", True), ("What was my first budget?", True),
    ("What is my previous address?", True), ("How has my budget changed?", True),
    ("我住在哪里？", False), ("我们的过程是什么？", False), ("我去过哪些地方？", True),
    ("他之前住在哪里？", True), ("最初的预算是多少？", True),
)  # fmt: skip
def test_questions_of_how_it_was(query, expected):
    assert changes.asks_how_it_was(query) is expected


@every_case(
    ([3.0, 1.0, 0.0], [(0, 1)], [1, 0, 2]), ([3.0, 1.0, 2.0], [(0, 1), (0, 2), (1, 2)], [2, 1, 0]),
    ([3.0, 5.0, 0.0], [(0, 1)], [1, 0, 2]), ([1.0, 1.0, 1.0], [(0, 1), (1, 2)], [2, 1, 0]),
)  # fmt: skip
def test_each_stands_just_above_what_it_overtakes(scores, chain, order):
    given = np.array(scores)
    added = supersession.raised(given, chain)
    assert order == np.argsort(-(given + added), kind="stable").tolist()
    assert (added >= 0).all() and (given + added).max() <= max(scores) + 0.11
    assert given.tolist() == scores


def test_other_weights_of_known_features_are_in_use_until_the_end_of_their_context():
    shipped = weights()
    with use_weights({"similarity": 2.0}):
        assert {"similarity": 2.0} == weights()
    assert shipped == weights()
    with pytest.raises(ValueError, match="unknown features.*charm"), use_weights({"charm": 1.0}):
        raise AssertionError
