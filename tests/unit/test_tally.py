"""What the figures of retrieval count."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.conversations import Question
from benchmarks.retrieval import summary
from benchmarks.tally import Tally
from benchmarks.train_ranking import FOLDS, fold_weights, left_out
from benchmarks.training_set import TRAINED, TrainingQuestion, load, save


def question(**given: frozenset[str]) -> Question:
    none: frozenset[str] = frozenset()
    return Question(
        text="?",
        category="any",
        evidence=given.get("evidence", none),
        any_suffices=False,
        older=given.get("older", none),
        newer=given.get("newer", none),
        by_session=False,
        asked_at=None,
        known_sessions=None,
    )


def test_recall_and_the_inverse_rank_of_the_first() -> None:
    tally = Tally()
    evidence = frozenset({"a", "b"})
    tally.add(question(evidence=evidence), ["x", "a", *"cdefghijk", "b"])
    tally.add(question(evidence=evidence), ["x"])
    figures = tally.figures()
    found = [figures[f"recall_at_{depth}"] for depth in (5, 10, 20)]
    assert ([0.25, 0.25, 0.5], 0.25) == (found, figures["mrr"])
    assert "newer_above_older" not in figures


def test_newer_above_older_is_told_apart_by_whether_it_can_be_known() -> None:
    tally = Tally()
    changed = question(evidence=frozenset("on"), older=frozenset("o"), newer=frozenset("n"))
    tally.add(changed, ["n", "o"], is_knowable=True)
    tally.add(changed, ["o", "n"], is_knowable=False)
    tally.add(changed, ["x", "n"], is_knowable=False)
    same = question(evidence=frozenset("o"), older=frozenset("o"), newer=frozenset("o"))
    tally.add(same, ["o"])
    figures = tally.figures()
    assert 0.5 == figures["newer_above_older"] and 0.25 == figures["knowable"]
    assert 1.0 == figures["newer_above_older_knowable"]
    assert 0.3333 == figures["newer_above_older_rest"]


def asked(conversation: int, *, misleads: bool = False) -> TrainingQuestion:
    """A question about three turns; the feature "coverage" tells which answers, or misleads."""
    rows = np.zeros((3, len(TRAINED)), dtype=np.float32)
    rows[:, TRAINED.index("coverage")] = [0, 0, 1]
    answers = np.array([misleads, misleads, not misleads])
    return TrainingQuestion(
        set_name="made_up",
        conversation=conversation,
        category="any",
        wanted=1,
        rows=rows,
        answers=answers,
        older=np.array([True, False, False]),
        newer=np.array([False, True, False]),
        overtaken=np.array([[0, 1]], dtype=np.intp),
    )


def test_a_conversation_is_ranked_by_weights_that_have_not_seen_it() -> None:
    questions = [asked(number, misleads=number == 0) for number in range(FOLDS)]
    weights = [one["coverage"] for one in fold_weights(questions)]
    assert weights[0] == max(weights) and weights[1] < weights[0]
    figures = left_out(questions)["made_up"]
    assert 1.0 == figures["newer_above_older"] == figures["knowable"], "the later is raised"


def test_a_training_set_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "features.npz"
    written = [asked(0), asked(3, misleads=True)]
    save(file, written)
    read = load(file)
    assert [0, 3] == [one.conversation for one in read]
    for one, other in zip(written, read, strict=True):
        assert (one.set_name, one.wanted) == (other.set_name, other.wanted)
        for name in ("rows", "answers", "older", "newer", "overtaken"):
            assert getattr(one, name).tolist() == getattr(other, name).tolist()


def test_a_training_set_of_other_features_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "features.npz"
    np.savez(file, trained=np.array(["charm"]))
    with pytest.raises(ValueError, match="other features than are in use"):
        load(file)


def test_of_several_files_the_figures_that_all_have_are_averaged() -> None:
    changed = {"questions": 1, "mrr": 0.5, "newer_above_older": 1.0}
    report = {
        "a": {"linear": {"overall": changed}},
        "b": {"linear": {"overall": {"questions": 3, "mrr": 1.0}}},
    }
    assert {"mrr": 0.75} == summary(report, "linear", "use")["overall"]
