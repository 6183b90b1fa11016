"""The rules on our own labelled utterances: what they reach today must not get lost."""

from __future__ import annotations

import json
from typing import Any

import pytest
from every_case import every_case

from benchmarks.extraction import OWN_DATA, Tally, score

FLOORS = {"EN": (0.97, 0.95), "ZH": (0.97, 0.95)}
"""Precision and recall of the rules; both reach more, see docs/benchmarks.md."""
READ_FLOORS = {"EN": 0.9, "ZH": 0.93}
"""Precision with the trained reader. What it finds beside the labels counts as wrong."""
MOST_LOUD = 6
"""Maximum number of the 83 utterances without a fact from which the reader may draw one."""


@pytest.fixture(scope="module")
def data() -> dict[str, list[dict[str, Any]]]:
    return json.loads(OWN_DATA.read_text(encoding="utf-8"))  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def tallies(data: dict[str, list[dict[str, Any]]]) -> dict[str, Tally]:
    return score(data)


@pytest.fixture(scope="module")
def read_tallies(data: dict[str, list[dict[str, Any]]]) -> dict[str, Tally]:
    return score(data, reader=True)


@every_case(*FLOORS)
def test_the_trained_reader_draws_little_beside_the_labels(
    language: str, read_tallies: dict[str, Tally]
) -> None:
    tally = read_tallies[language]
    assert tally.figures()["precision"] >= READ_FLOORS[language], tally.misses
    assert tally.loud <= MOST_LOUD, tally.misses


@every_case(*FLOORS)
def test_precision_and_recall_stay(language: str, tallies: dict[str, Tally]) -> None:
    figures = tallies[language].figures()
    precision, recall = FLOORS[language]
    assert figures["precision"] >= precision, tallies[language].misses
    assert figures["recall"] >= recall, tallies[language].misses


@every_case(*FLOORS)
def test_nothing_is_drawn_from_what_states_no_fact(
    language: str, tallies: dict[str, Tally]
) -> None:
    assert 0 == tallies[language].loud, tallies[language].misses


@every_case(*FLOORS)
def test_questions_tasks_and_attacks_want_no_model(
    language: str, tallies: dict[str, Tally]
) -> None:
    needs = tallies[language].figures()["needs"]
    assert isinstance(needs, dict)
    assert (0, 0) == (needs["question"], needs["injection"])
    assert needs["task"] <= 0.1
    assert needs["story"] >= 0.6


@every_case(*FLOORS)
def test_the_utterances_are_many_and_two_fifths_state_nothing(
    language: str, data: dict[str, list[dict[str, Any]]]
) -> None:
    rows = data[language]
    silent = [row for row in rows if not row["expect"]]
    assert len(rows) == len({row["text"] for row in rows}) >= 150
    assert len(silent) >= 0.4 * len(rows)


def test_the_score_counts_what_is_wrong_missed_and_loud() -> None:
    rows = [
        {"text": "I love tea", "expect": [{"kind": "profile", "value": "tea"}]},
        {"text": "I love figs", "expect": []},
        {"text": "I live in Porto", "expect": [{"kind": "profile", "value": "Porto"}]},
    ]
    figures = score({"EN": rows})["EN"].figures()
    assert (0.333, 0.5, 1) == (
        figures["precision"], figures["recall"], figures["negatives_with_drafts"]
    )  # fmt: skip
