"""Redaction on our own labelled sentences: what it reaches today must not get lost."""

from __future__ import annotations

import json
from typing import Any

import pytest
from every_case import every_case

from benchmarks.redaction import FORMS, OWN_DATA, Tally, score
from shared_core.nlp.text import language

LANGUAGES = ("EN", "ZH")


@pytest.fixture(scope="module")
def data() -> dict[str, list[dict[str, Any]]]:
    return json.loads(OWN_DATA.read_text(encoding="utf-8"))  # type: ignore[no-any-return]


@every_case(*LANGUAGES)
def test_every_secret_goes_and_nothing_else(
    name: str, data: dict[str, list[dict[str, Any]]]
) -> None:
    tally = score(data[name])["all"]
    assert [] == tally.misses
    assert (1.0, 1.0) == (tally.figures()["precision"], tally.figures()["recall"])


@every_case(*LANGUAGES)
def test_the_sentences_are_many_of_every_form(
    name: str, data: dict[str, list[dict[str, Any]]]
) -> None:
    rows = data[name]
    assert len(rows) == len({row["text"] for row in rows})
    assert sum(row["secret"] is None for row in rows) >= 60
    assert sum(row["secret"] is not None for row in rows) >= 60
    kinds = {(row["form"], row["secret"] is None) for row in rows}
    assert kinds == {(form, harmless) for form in FORMS for harmless in (True, False)}
    assert all(row["secret"] is None or row["secret"] in row["text"] for row in rows)
    spoken = [language(row["text"]) == name.lower() for row in rows]
    assert sum(spoken) >= 0.95 * len(rows)


def test_the_score_counts_what_was_left_and_what_went_beside() -> None:
    tally = Tally()
    tally.add("My PIN is 4821.", "4821")
    tally.add("My PIN is 4821.", None)
    tally.add("My PIN is 4821, and 5555.", "5555")
    tally.add("My secret is 4821.", "4821")
    tally.add("The weather is fine.", None)
    assert {"secrets": 3, "harmless": 2, "precision": 0.333, "recall": 0.333} == tally.figures()
    assert 3 == len(tally.misses)
