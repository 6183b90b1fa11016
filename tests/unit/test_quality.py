"""Rules, privacy classes and redaction on our own labelled sentences: what they reach must stay."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from every_case import every_case

from benchmarks import extraction, privacy, redaction
from shared_core.models.embedders import UseEmbedder
from shared_core.nlp.text import language
from shared_core.privacy.classifier import Prototypes, prototype_texts

FLOORS = {"EN": (0.97, 0.95), "ZH": (0.97, 0.95)}
"""Precision and recall of the rules; both reach more, see docs/benchmarks.md."""
READ_FLOORS = {"EN": 0.9, "ZH": 0.93}
"""Precision with the trained reader. What it finds beside the labels counts as wrong."""
MOST_LOUD = 6
"""Maximum number of the 83 utterances without a fact from which the reader may draw one."""
BOUNDS = {"EN": (1, 16), "ZH": (0, 19)}
"""Private called public, and public called private, at most, of thirty each; docs/benchmarks.md."""
LANGUAGES = ("EN", "ZH")


@cache
def labelled(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


@cache
def tallies(reader: bool = False) -> dict[str, extraction.Tally]:
    """Return what the rules reach, with the trained reader or without."""
    return extraction.score(labelled(extraction.OWN_DATA), reader=reader)


@every_case(*LANGUAGES)
def test_the_trained_reader_draws_little_beside_the_labels(language):
    tally = tallies(reader=True)[language]
    assert tally.figures()["precision"] >= READ_FLOORS[language], tally.misses
    assert tally.loud <= MOST_LOUD, tally.misses


@every_case(*LANGUAGES)
def test_precision_and_recall_stay_and_nothing_is_drawn_from_what_states_no_fact(language):
    figures = tallies()[language].figures()
    precision, recall = FLOORS[language]
    assert figures["precision"] >= precision, tallies()[language].misses
    assert figures["recall"] >= recall, tallies()[language].misses
    assert 0 == tallies()[language].loud, tallies()[language].misses


@every_case(*LANGUAGES)
def test_questions_tasks_and_attacks_want_no_model(language):
    needs = tallies()[language].figures()["needs"]
    assert isinstance(needs, dict)
    assert (0, 0) == (needs["question"], needs["injection"])
    assert needs["task"] <= 0.1
    assert needs["story"] >= 0.6


@every_case(*LANGUAGES)
def test_the_utterances_are_many_and_two_fifths_state_nothing(language):
    rows = labelled(extraction.OWN_DATA)[language]
    silent = [row for row in rows if not row["expect"]]
    assert len(rows) == len({row["text"] for row in rows}) >= 150
    assert len(silent) >= 0.4 * len(rows)


def test_the_score_counts_what_is_wrong_missed_and_loud():
    rows = [
        {"text": "I love tea", "expect": [{"kind": "profile", "value": "tea"}]},
        {"text": "I love figs", "expect": []},
        {"text": "I live in Porto", "expect": [{"kind": "profile", "value": "Porto"}]},
    ]
    figures = extraction.score({"EN": rows})["EN"].figures()
    assert (0.333, 0.5, 1) == (
        figures["precision"], figures["recall"], figures["negatives_with_drafts"]
    )  # fmt: skip


async def test_what_is_reached_stays():
    results = await privacy.measure(UseEmbedder(), labelled(privacy.OWN_DATA), "test")
    wrong = {
        name: tuple(
            int(results[name][kind].split("/")[0])
            for kind in ("private_called_public", "public_called_private")
        )
        for name in BOUNDS
    }
    for name, most in BOUNDS.items():
        assert wrong[name][0] <= most[0], results[name]["misses"]
        assert wrong[name][1] <= most[1], results[name]["misses"]


async def test_no_private_sentence_of_the_tuning_part_is_called_public():
    results = await privacy.measure(UseEmbedder(), labelled(privacy.OWN_DATA), "tuning")
    assert ["0/30", "0/30"] == [results[name]["private_called_public"] for name in BOUNDS]


@every_case(*LANGUAGES)
def test_the_sentences_are_many_half_public_and_not_the_examples(name):
    parts = labelled(privacy.OWN_DATA)[name]
    rows = [row for part in parts.values() for row in part]
    texts = {row["text"] for row in rows}
    examples = {
        text for classes in prototype_texts().values() for part in classes.values() for text in part
    }
    assert len(texts) == len(rows)
    assert set() == texts & examples
    assert {name.lower()} == {language(text) for text in texts}
    for part, least in (("tuning", 60), ("seen", 80), ("test", 60)):
        private = [row for row in parts[part] if row["privacy"] == "private"]
        assert len(parts[part]) == 2 * len(private) >= least
        assert sum(row.get("hard", False) for row in parts[part]) >= 0.25 * least


def test_the_score_counts_both_kinds_of_errors():
    rows = [
        {"text": "Lemons are sour.", "privacy": "public", "hard": True},
        {"text": "Mia is ill.", "privacy": "private"},
        {"text": "I am ill.", "privacy": "private"},
        {"text": "Salt is white.", "privacy": "public"},
    ]
    one, other = np.array([[1, 0]], dtype=np.float32), np.array([[0, 1]], dtype=np.float32)
    near = Prototypes(private=one, public=other, margin=0.1)
    vectors = np.concatenate([one, other, other, other])
    assert {
        "sentences": 4, "accuracy": 0.5, "hard_accuracy": 0.0,
        "private_called_public": "1/2", "public_called_private": "1/2",
    } == privacy.score(rows, vectors, {"en": near, "zh": near}).figures()  # fmt: skip
    alone = privacy.score(rows, vectors, {"en": near, "zh": near}, by_words=False)
    assert "2/2" == alone.figures()["private_called_public"]


@every_case(*LANGUAGES)
def test_every_secret_goes_and_nothing_else(name):
    tally = redaction.score(labelled(redaction.OWN_DATA)[name])["all"]
    assert [] == tally.misses
    assert (1.0, 1.0) == (tally.figures()["precision"], tally.figures()["recall"])


@every_case(*LANGUAGES)
def test_the_sentences_are_many_of_every_form(name):
    rows = labelled(redaction.OWN_DATA)[name]
    assert len(rows) == len({row["text"] for row in rows})
    assert sum(row["secret"] is None for row in rows) >= 60
    assert sum(row["secret"] is not None for row in rows) >= 60
    kinds = {(row["form"], row["secret"] is None) for row in rows}
    assert kinds == {(form, harmless) for form in redaction.FORMS for harmless in (True, False)}
    assert all(row["secret"] is None or row["secret"] in row["text"] for row in rows)
    spoken = [language(row["text"]) == name.lower() for row in rows]
    assert sum(spoken) >= 0.95 * len(rows)


def test_the_score_counts_what_was_left_and_what_went_beside():
    tally = redaction.Tally()
    tally.add("My PIN is 4821.", "4821")
    tally.add("My PIN is 4821.", None)
    tally.add("My PIN is 4821, and 5555.", "5555")
    tally.add("My secret is green.", "green")
    tally.add("The weather is fine.", None)
    assert {"secrets": 3, "harmless": 2, "precision": 0.333, "recall": 0.333} == tally.figures()
    assert 3 == len(tally.misses)
