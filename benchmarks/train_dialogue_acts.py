"""Trains the weights that tell what a sentence does (shared_core.nlp.dialogue_acts).

    python -m benchmarks.train_dialogue_acts [--judge] [--write]

The sentences of benchmarks/data/acts/train_*.tsv, one file a writer and one of topics, become rows
for a multinomial logistic regression with an L2 penalty, fitted by Adam. Prints the figures of each
file left out of a fit. --judge: prints the figures of all weights on judge_*.tsv, which no fit has
seen, the same by rules, and what composing makes of them with the weights of the package.
--write: puts the weights into shared_core/nlp/dialogue_acts.v1.npz. Figures:

recall, precision   of each act as the most likely one; "asking" is a question or history
by rules            of a question by the guards, and of small talk by its wordings
composing           by act, the number of sentences, and of those that get no block, are left out of
                    one, and are told as orders
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

import shared_core.nlp
from shared_core.context import asks_nothing
from shared_core.context.composition import is_aside, is_order
from shared_core.nlp.dialogue_acts import BUCKETS, DialogueAct, buckets
from shared_core.nlp.relation_phrases import is_question
from shared_core.privacy.sanitizing import is_small_talk

DATA: Final = Path(__file__).parent / "data" / "acts"
WEIGHTS: Final = Path(shared_core.nlp.__file__).parent / "dialogue_acts.v1.npz"
ACTS: Final = DialogueAct._fields
PENALTY: Final = 2e-6
STEPS: Final = 300
RATE: Final = 0.15
"""Length of a step of Adam (Kingma and Ba, 2015); the other values are theirs."""
ASKING: Final = (ACTS.index("question"), ACTS.index("history"))
LEAST: Final = 2
"""Least number of sentences of an n-gram that gets weights."""
Numbers = NDArray[np.float32]


class Labelled(NamedTuple):
    """N sentences with E n-grams in all.

    bucket, row: (E,) of each n-gram, by row. act: (N,)
    """

    bucket: NDArray[np.int64]
    row: NDArray[np.int64]
    act: NDArray[np.int64]


class Weights(NamedTuple):
    """of_bucket: (BUCKETS, 5), 0 for an n-gram that is not known. constant: (5,)"""

    of_bucket: Numbers
    constant: Numbers


def read(paths: Sequence[Path]) -> Labelled:
    """Read files of lines "act<TAB>sentence".

    Raises ValueError for an act of another name, or a line of another form.
    """
    lines = [line for path in paths for line in path.read_text("utf-8").splitlines()]
    told = [line.split("\t") for line in lines]
    found = [buckets(text) for _, text in told]
    return Labelled(
        np.concatenate([np.array(one, np.int64) for one in found]),
        np.repeat(np.arange(len(told)), [*map(len, found)]),
        np.array([ACTS.index(act) for act, _ in told]),
    )


def chances(weights: Weights, told: Labelled) -> Numbers:
    """Return the chance of each act, (N, 5)."""
    is_known = np.asarray(weights.of_bucket.any(axis=1))[told.bucket]
    scale = _scale(told, is_known)
    scores = _sums(weights.of_bucket[told.bucket], told) * scale[:, None] + weights.constant
    return _chances(scores)


def _chances(scores: Numbers) -> Numbers:
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    chances: Numbers = odds / odds.sum(axis=1, keepdims=True)
    return chances


def _scale(told: Labelled, is_known: NDArray[np.bool_]) -> Numbers:
    """Return one over the root of the number of known n-grams of each sentence, (N,)."""
    known = np.bincount(told.row[is_known], minlength=len(told.act))
    scale: Numbers = (np.maximum(known, 1) ** -0.5).astype(np.float32)
    return scale


def _sums(values: Numbers, told: Labelled) -> Numbers:
    """Return the sums of rows of n-grams by sentence, (N, 5)."""
    sums = [np.bincount(told.row, one, len(told.act)) for one in values.T]
    return np.stack(sums, axis=1).astype(np.float32)


def fitted(told: Labelled) -> Weights:
    """Return the weights."""
    is_known = (np.bincount(told.bucket, minlength=BUCKETS) >= LEAST)[told.bucket]
    scale = _scale(told, is_known)[:, None]
    told = told._replace(bucket=told.bucket[is_known], row=told.row[is_known])
    right = np.eye(len(ACTS), dtype=np.float32)[told.act]
    # The last row is the constant.
    weights = np.zeros((BUCKETS + 1, len(ACTS)), np.float32)
    mean, square = np.zeros_like(weights), np.zeros_like(weights)
    for step in range(1, STEPS + 1):
        scores = _sums(weights[told.bucket], told) * scale + weights[-1]
        wrong = (_chances(scores) - right) / len(right)
        slope = np.zeros_like(weights)
        for act, one in enumerate((wrong * scale).T):
            slope[:-1, act] = np.bincount(told.bucket, one[told.row], BUCKETS)
        slope[-1] = wrong.sum(axis=0)
        slope += PENALTY * weights
        mean = 0.9 * mean + 0.1 * slope
        square = 0.999 * square + 0.001 * slope * slope
        unbiased = np.sqrt(square / (1 - 0.999**step)) + 1e-8
        weights = weights - RATE * mean / (1 - 0.9**step) / unbiased
    return Weights(weights[:-1], weights[-1])


def rounded(weights: Weights) -> tuple[Weights, float]:
    """Return the weights as whole numbers from -127 to 127, and what one of them is worth."""
    unit = float(max(np.abs(one).max() for one in weights)) / 127
    return Weights(np.round(weights.of_bucket / unit), np.round(weights.constant / unit)), unit


def figures(found: Numbers, act: NDArray[np.int64]) -> dict[str, float]:
    """Return the figures of sentences by their chances, (N, 5)."""
    likely = found.argmax(axis=1)
    told = {"accuracy": _share(likely == act)}
    for number, name in enumerate(ACTS):
        is_act, is_likely = act == number, likely == number
        told[f"{name}_recall"] = _share(is_likely[is_act])
        told[f"{name}_precision"] = _share(is_act[is_likely])
    asks, is_called = np.isin(act, ASKING), np.isin(likely, ASKING)
    told["asking_recall"], told["asking_precision"] = (
        _share(is_called[asks]),
        _share(asks[is_called]),
    )
    return told


def _share(flags: NDArray[np.bool_]) -> float:
    return round(float(flags.mean()), 3) if len(flags) else 0.0


def by_rules(file: Path) -> dict[str, float]:
    """Return the figures of the guards of questions, and of the wordings of small talk."""
    told = [line.split("\t") for line in file.read_text("utf-8").splitlines()]
    asks = np.array([ACTS.index(act) in ASKING for act, _ in told])
    is_called = np.array([is_question(text) for _, text in told])
    social = np.array([is_small_talk(text) for act, text in told if act == "social"])
    return {
        "asking_recall": _share(is_called[asks]),
        "asking_precision": _share(asks[is_called]),
        "social_recall": _share(social),
    }


def composing(file: Path) -> dict[str, dict[str, int]]:
    """Return by act how many sentences composing shows no block for, leaves out, and labels."""
    counts: dict[str, Counter[str]] = {act: Counter() for act in ACTS}
    for line in file.read_text("utf-8").splitlines():
        act, text = line.split("\t")
        counts[act] += Counter(
            sentences=1,
            no_block=asks_nothing(text),
            left_out=is_aside(text),
            as_order=is_order(text),
        )
    return {act: dict(found) for act, found in counts.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains the weights of dialogue acts.")
    parser.add_argument("--judge", action="store_true", help="look at the sentences of judgement")
    parser.add_argument("--write", action="store_true", help="write the weights")
    given = parser.parse_args()
    writers = sorted(DATA.glob("train_*.tsv"))
    for left in writers:
        others = fitted(read([one for one in writers if one != left]))
        told = read([left])
        print(left.stem, json.dumps(figures(chances(others, told), told.act)))
    whole, unit = rounded(fitted(read(writers)))
    if given.judge:
        weights = Weights(whole.of_bucket * np.float32(unit), whole.constant * np.float32(unit))
        for file in sorted(DATA.glob("judge_*.tsv")):
            told = read([file])
            print(file.stem, json.dumps(figures(chances(weights, told), told.act)))
            print(file.stem, "by rules", json.dumps(by_rules(file)))
            print(file.stem, "composing", json.dumps(composing(file)))
    if given.write:
        known = np.flatnonzero(whole.of_bucket.any(axis=1))
        np.savez_compressed(
            WEIGHTS,
            buckets=known.astype(np.uint16),
            weights=whole.of_bucket[known].astype(np.int8),
            constant=whole.constant.astype(np.int8),
            scale=np.float32(unit),
        )


if __name__ == "__main__":
    main()
