"""The benchmark of text as people type it counts what it says."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest

from benchmarks import typed
from shared_core.extraction import RuleExtractor

MESSAGES = [
    {"lang": "en", "text": "I live in Leeds and I like tea.", "facts": [
        {"subject": "user", "predicate": "lives", "value": ["leeds|Bath"], "required": True},
        {"subject": "user", "predicate": "pet", "value": ["dog"], "required": True}]},
    {"lang": "en", "text": "I live in Oslo.", "facts": []},
    {"lang": "en", "text": "What time is it?", "facts": []},
]  # fmt: skip
HELD = [
    {"subject": "user", "slot words": "lives in", "value": "Leeds"},
    {"subject": "user", "slot words": "works at", "value": "Tarn"},
]
LINES = [
    {"lang": "en", "text": "I handed in my notice at Tarn", "held": HELD, "ends": [1]},
    {"lang": "en", "text": "I moved to Bath", "held": HELD, "ends": [1]},
    {"lang": "en", "text": "we left Leeds at noon", "held": HELD, "ends": []},
]


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    data: dict[str, list[Any]] = {"utterances": MESSAGES, "traps": LINES}
    monkeypatch.setattr(typed, "_loaded", lambda name, _: data[name])


@pytest.mark.usefixtures("loaded")
def test_found_labelled_and_loud_are_counted() -> None:
    figures: typed.Figures = defaultdict(Counter)
    told = list(typed.read_messages(RuleExtractor(reader=False), figures))
    assert figures["en"] == {
        "required": 2, "found": 1, "drafts": 3, "labelled": 1, "silent": 2, "loud": 1,
    }  # fmt: skip
    assert ["missed [['dog']]" in one for one in told] == [True, False]


@pytest.mark.usefixtures("loaded")
def test_ends_and_false_ends_are_counted() -> None:
    figures: typed.Figures = defaultdict(Counter)
    told = list(typed.read_lines(RuleExtractor(reader=False), figures))
    assert figures["en"] == {
        "ends": 2, "traps": 1, "ended": 1, "doubted": 0, "ended_falsely": 1,
    }  # fmt: skip
    assert len(told) == 1


@pytest.mark.parametrize(
    ("texts", "first", "stale_above"),
    [
        (["I live in Bath.", "I live in Leeds."], 1, 0),
        (["I live in Leeds.", "I live in Bath."], 0, 1),
        (["I moved from Leeds to Bath."], 1, 0),
        (["I live in Leeds."], 0, 1),
        (["I row."], 0, 0),
    ],
)
def test_a_stale_answer_above_the_current_one_is_counted(
    texts: list[str], first: int, stale_above: int
) -> None:
    tally: Counter[str] = Counter()
    question = {"q": "Where do I live?", "expect": ["Bath"], "stale": ["Leeds"]}
    typed._count_answer(tally, question, texts)
    assert (tally["first"], tally["stale_above"]) == (first, stale_above)
