"""What the figures of benchmarks count, and what the check after kills finds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from every_case import every_case

from benchmarks.conversations import Question
from benchmarks.retrieval import summary
from benchmarks.tally import Tally
from benchmarks.train_ranking import FOLDS, fold_weights, left_out
from benchmarks.training_set import TRAINED, TrainingQuestion, load, save

if TYPE_CHECKING:
    from benchmarks.kill_checks import Rows
    from benchmarks.kill_clients import Notes


def question(**given: frozenset[str]) -> Question:
    none: frozenset[str] = frozenset()
    return Question(
        text="?", category="any", evidence=given.get("evidence", none), any_suffices=False,
        older=given.get("older", none), newer=given.get("newer", none), by_session=False,
        asked_at=None, known_sessions=None,
    )  # fmt: skip


def test_recall_ranks_and_newer_above_older_are_counted_and_averaged_over_files():
    tally = Tally()
    evidence = frozenset({"a", "b"})
    tally.add(question(evidence=evidence), ["x", "a", *"cdefghijk", "b"])
    tally.add(question(evidence=evidence), ["x"])
    figures = tally.figures()
    found = [figures[f"recall_at_{depth}"] for depth in (5, 10, 20)]
    assert ([0.25, 0.25, 0.5], 0.25) == (found, figures["mrr"])
    assert "newer_above_older" not in figures
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
    changed = {"questions": 1, "mrr": 0.5, "newer_above_older": 1.0}
    overall = {"a": changed, "b": {"questions": 3, "mrr": 1.0}}
    report = {name: {"linear": {"overall": one}} for name, one in overall.items()}
    assert {"mrr": 0.75} == summary(report, "linear", "use")["overall"]


def asked(conversation: int, *, misleads: bool = False) -> TrainingQuestion:
    """A question about three turns; the feature "coverage" tells which answers, or misleads."""
    rows = np.zeros((3, len(TRAINED)), dtype=np.float32)
    rows[:, TRAINED.index("coverage")] = [0, 0, 1]
    answers = np.array([misleads, misleads, not misleads])
    return TrainingQuestion(
        set_name="made_up", conversation=conversation, category="any", wanted=1, rows=rows,
        answers=answers, older=np.array([True, False, False]), newer=np.array([False, True, False]),
        overtaken=np.array([[0, 1]], dtype=np.intp),
    )  # fmt: skip


def test_a_conversation_is_ranked_by_unseen_weights_and_a_training_set_read_as_written(tmp_path):
    questions = [asked(number, misleads=number == 0) for number in range(FOLDS)]
    weights = [one["coverage"] for one in fold_weights(questions)]
    assert weights[0] == max(weights) and weights[1] < weights[0]
    figures = left_out(questions)["made_up"]
    assert 1.0 == figures["newer_above_older"] == figures["knowable"], "the later is raised"
    file = tmp_path / "features.npz"
    written = [asked(0), asked(3, misleads=True)]
    save(file, written)
    read = load(file)
    assert [0, 3] == [one.conversation for one in read]
    for one, other in zip(written, read, strict=True):
        assert (one.set_name, one.wanted) == (other.set_name, other.wanted)
        for name in ("rows", "answers", "older", "newer", "overtaken"):
            assert getattr(one, name).tolist() == getattr(other, name).tolist()
    file = tmp_path / "features.npz"
    np.savez(file, trained=np.array(["charm"]))
    with pytest.raises(ValueError, match="other features than are in use"):
        load(file)


TENANT = {"tenant_id": "/app/u1/"}
TEXTS = ["I love red tea. Note e1.", "I love green tea. Note e2."]
OPS = {
    1: {"op": 1, "kind": "append", "user": "u1", "thread": "t", "items": ["e1", "e2"],
        "texts": TEXTS},
    2: {"op": 2, "kind": "remember", "user": "u1", "items": ["k1"], "texts": ["A note."]},
}  # fmt: skip


def whole() -> dict[str, list[dict[str, Any]]]:
    """The rows after two turns of a thread, their facts, and a memory with a key."""
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    rows["threads"] = [
        {**TENANT, "thread_id": "t", "last_seq": 2, "last_memory_seq": 2, "consolidated_seq": 2}
    ]
    for seq, text in enumerate(TEXTS, start=1):
        of_turn = {**TENANT, "thread_id": "t", "event_id": f"e{seq}"}
        rows["events"].append({**of_turn, "seq": seq, "memory_seq": seq, "text": text})
        episode = {**TENANT, "memory_id": f"m{seq}", "key": f"m{seq}", "thread_id": "t"}
        rows["memories"].append({**episode, "kind": "episodic", "text": text})
        rows["memory_sources"].append({**of_turn, "memory_id": f"m{seq}"})
        liked = text.split()[2] + " tea"
        fact = {**TENANT, "memory_id": f"f{seq}", "key": f"like:{liked}", "thread_id": "t"}
        rows["memories"].append({**fact, "kind": "semantic", "text": liked})
        rows["facts"].append({**fact, "slot": "like", "value": liked, "valid_until": None})
    keyed = {**TENANT, "memory_id": "k", "key": "k1", "thread_id": None, "kind": "semantic"}
    rows["memories"].append({**keyed, "text": "A note."})
    rows["embeddings"] = [{**TENANT, "memory_id": row["memory_id"]} for row in rows["memories"]]
    return rows


def notes(**given: Any) -> Notes:
    from benchmarks.kill_clients import Notes  # imports ADK: not while tests are collected

    return Notes(**given)


def kinds(rows: Rows, noted: Notes | None = None) -> list[str]:
    from benchmarks.kill_checks import Check

    found = Check("app", noted or notes(ops=OPS, acked={1, 2}), rows).run()
    return [kind for kind, of_kind in found.by_kind().items() if of_kind]


def test_a_whole_database_is_whole_and_an_interrupted_write_is_not_there_in_part():
    assert kinds(whole()) == []
    ops = {**OPS, 3: {"op": 3, "kind": "forget", "user": "u1", "items": ["k1"]}}
    assert kinds(whole(), notes(ops=ops, acked={1, 2, 3})) == ["resurrected"]
    assert kinds(whole(), notes(ops=ops, acked={1, 2})) == []
    rows = whole()
    assert kinds(rows, notes(ops=OPS)) == []
    for table in ("memories", "embeddings"):
        rows[table].pop()
    assert kinds(rows, notes(ops=OPS, acked={1})) == []
    rows["events"].pop()
    assert "halved" in kinds(rows, notes(ops=OPS))


DAMAGE: list[tuple[str, Callable[[Any], object]]] = [
    ("lost", lambda rows: rows["memories"].pop()), ("halved", lambda rows: rows["events"].pop()),
    ("halved", lambda rows: rows["embeddings"].pop()),
    ("halved", lambda rows: rows["memory_sources"].pop()),
    ("halved", lambda rows: rows["events"][0].update(text="I love")),
    ("doubled", lambda rows: rows["events"].append(rows["events"][0])),
    ("doubled", lambda rows: rows["memories"].append({**rows["memories"][-1], "memory_id": "k2"})),
    ("mixed", lambda rows: rows["events"][0].update(tenant_id="/app/u2/")),
    ("mixed", lambda rows: rows["events"][0].update(event_id="e7")),
    ("facts", lambda rows: rows["facts"].pop()),
    ("facts", lambda rows: rows["facts"].append(rows["facts"][0])),
    ("facts", lambda rows: rows["facts"][0].update(value="tea")),
    ("jobs", lambda rows: rows["threads"][0].update(consolidated_seq=1)),
    ("jobs", lambda rows: rows["consolidation_jobs"].append({"status": "running", "job_type": ""})),
]  # fmt: skip


@every_case(*DAMAGE)
def test_each_damage_is_found(kind, damage):
    rows = whole()
    damage(rows)
    assert kind in kinds(rows)
