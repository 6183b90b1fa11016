"""Trains the weights of the linear ranking on labelled conversations.

    python -m benchmarks.train_ranking --data DIR [--features CACHE.npz] [--write]

The weights maximise the mean log-likelihood of a question's evidence under a softmax over its turns
(ListNet's top-one model, Cao et al., 2007; multinomial logistic regression), with an L2 penalty on
standardised weights. Each set counts SHARES times. Prints the figures of conversations left out of
a fit, with five folds over whole conversations of all sets. Also prints those of each set left out
of all fits.
--write: puts the weights of a fit on everything into shared_core/recall/weights/linear.v1.json.
`benchmarks.retrieval` measures the engine with the weights; with --left-out CACHE.npz it ranks each
conversation with the weights of the fold that left it out.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.conversations import files_of
from benchmarks.tally import Tally
from benchmarks.training_set import BY_HAND, TRAINED, TrainingQuestion, collected, load, save
from shared_core.models.embedders import resolve_embedder
from shared_core.recall import ranking
from shared_core.recall.ranking import PART_OF
from shared_core.recall.supersession import raised

WEIGHTS = Path(ranking.__file__).parent / "weights" / "linear.v1.json"
SHARES = {"locomo": 2.0, "memorybank": 1.5, "madial_zh": 2.0, "memdaily": 0.5, "madial_en": 0.5}
"""Weight of a set, by the start of its file name; other sets have weight 1."""
LEFT_OUT = ("realmem",)
"""Sets with sessions as evidence, not turns."""
PENALTY = 0.002
FOLDS = 5
MOST_STEPS, LEAST_STEP = 30, 1e-3
UNLIKELY = 1e-6
"""Turns of a lower probability are left out of the curvature, which only guides the steps."""


def fit(questions: Sequence[TrainingQuestion], penalty: float = PENALTY) -> NDArray[np.float64]:
    """Return a weight for each feature, of the least loss."""
    rows = np.concatenate([one.rows for one in questions]).astype(float)
    mean, deviation = rows.mean(0), rows.std(0) + 1e-9
    scaled = [(one.rows - mean) / deviation for one in questions]
    shares = _shares(questions)

    def derivatives(weights: NDArray[np.float64]) -> tuple[float, Any, Any]:
        loss = penalty * float(weights @ weights)
        slope, curve = 2 * penalty * weights, 2 * penalty * np.eye(len(weights))
        for one, x, share in zip(questions, scaled, shares, strict=True):
            scores = x @ weights
            top = scores.max()
            chance = np.exp(scores - top)
            total = chance.sum()
            chance /= total
            expected = chance @ x
            loss += share * float(top + np.log(total) - scores[one.answers].mean())
            slope += share * (expected - x[one.answers].mean(0))
            likely = chance > UNLIKELY
            of_likely = x[likely]
            curve += share * (
                (of_likely * chance[likely, None]).T @ of_likely - np.outer(expected, expected)
            )
        return loss, slope, curve

    weights = least(derivatives, rows.shape[1])
    found: NDArray[np.float64] = weights / deviation
    return found


def least(
    derivatives: Callable[[NDArray[np.float64]], tuple[float, Any, Any]], size: int
) -> NDArray[np.float64]:
    """Return the weights of the least loss, by Newton's method with step halving.

    derivatives: returns the loss of weights, its slope and its curvature.
    """
    weights = np.zeros(size)
    loss, slope, curve = derivatives(weights)
    for _ in range(MOST_STEPS):
        step = np.linalg.solve(curve, slope)
        while True:
            there = derivatives(weights - step)
            if there[0] <= loss or np.abs(step).max() < LEAST_STEP:
                break
            step /= 2
        weights, (loss, slope, curve) = weights - step, there
        if np.abs(step).max() < LEAST_STEP:
            break
    return weights


def _shares(questions: Sequence[TrainingQuestion]) -> NDArray[np.float64]:
    names = [one.set_name for one in questions]
    shares = np.array([_share(name) / names.count(name) for name in names])
    normalised: NDArray[np.float64] = shares / shares.sum()
    return normalised


def _share(set_name: str) -> float:
    return next((share for start, share in SHARES.items() if set_name.startswith(start)), 1.0)


def left_out(
    questions: Sequence[TrainingQuestion], unseen: str | None = None
) -> dict[str, dict[str, float]]:
    """Return the figures by set, with each question ranked by a fit without its fold.

    unseen: a set that every fit leaves out.
    """
    tallies: dict[str, Tally] = {}
    for fold in range(FOLDS):
        seen = [q for q in questions if q.conversation % FOLDS != fold and q.set_name != unseen]
        weights = fit(seen)
        for one in questions:
            if one.conversation % FOLDS == fold:
                _count(tallies.setdefault(one.set_name, Tally()), one, one.rows @ weights)
    return {name: tally.figures() for name, tally in tallies.items()}


def fold_weights(questions: Sequence[TrainingQuestion]) -> list[dict[str, float]]:
    """Return, for each fold, the weights fitted on the other folds."""
    return [
        named(fit([one for one in questions if one.conversation % FOLDS != fold]))
        for fold in range(FOLDS)
    ]


def _count(tally: Tally, one: TrainingQuestion, scores: NDArray[np.float64]) -> None:
    pairs = [(int(earlier), int(later)) for earlier, later in one.overtaken]
    scores = scores + raised(scores, pairs)
    order = np.argsort(-scores, kind="stable")
    tally.add_ranks((np.nonzero(one.answers[order])[0] + 1).tolist(), one.wanted)
    if one.older.any():
        first = next(at for at in order if one.older[at] or one.newer[at])
        is_knowable = any(one.older[earlier] and one.newer[later] for earlier, later in pairs)
        tally.add_change(bool(one.newer[first]), is_knowable)


def named(weights: NDArray[np.float64]) -> dict[str, float]:
    """Return all weights by name, including those set by hand."""
    found = dict(zip(TRAINED, (round(float(weight), 4) for weight in weights), strict=True))
    found |= BY_HAND
    return {name: found[name] for name in PART_OF if name in found}


def written(weights: Mapping[str, float], questions: Sequence[TrainingQuestion]) -> dict[str, Any]:
    """Return the content of the file of weights; those of chats stay as they are."""
    return {
        **json.loads(WEIGHTS.read_text(encoding="utf-8")),
        "name": "linear.v1",
        "trained_by": "python -m benchmarks.train_ranking",
        "questions": {
            name: sum(one.set_name == name for one in questions)
            for name in sorted({one.set_name for one in questions})
        },
        "by_hand": sorted(BY_HAND),
        "weights": dict(weights),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains the weights of the linear ranking.")
    parser.add_argument("--data", type=Path, help="a folder of labelled conversations")
    parser.add_argument("--features", type=Path, help="cache of the collected questions")
    parser.add_argument("--embedder", default="e5")
    parser.add_argument("--write", action="store_true", help="put the weights into the project")
    arguments = parser.parse_args()
    questions = _questions(arguments)
    for name, figures in left_out(questions).items():
        print("conversations left out:", name, figures)
    names = sorted({one.set_name for one in questions})
    for name in names if len(names) > 1 else ():
        print("set left out:", name, left_out(questions, unseen=name)[name])
    found = written(named(fit(questions)), questions)
    print(json.dumps(found))
    if arguments.write:
        WEIGHTS.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


def _questions(arguments: argparse.Namespace) -> list[TrainingQuestion]:
    cache: Path | None = arguments.features
    if cache and cache.exists():
        return load(cache)
    files = [file for file in files_of(arguments.data) if not file.stem.startswith(LEFT_OUT)]
    questions = asyncio.run(collected(files, resolve_embedder(arguments.embedder)))
    if cache:
        save(cache, questions)
    return questions


if __name__ == "__main__":
    main()
