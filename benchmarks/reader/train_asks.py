"""Fits the head of the reader that tells whether a turn asks to forget something.

    python -m benchmarks.reader.train_asks

Logistic regression on the mean states of the shipped reader, so it runs after train.py, and needs
no PyTorch. Learns from the turns of pairs_<lang>.txt, plain_<lang>.txt, negatives_<lang>.txt, and
from some of corpus_<lang>.txt. Writes "asks.w" and "asks.b" into shared_core/extraction/reader.npz.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.reader.corpus import corpus, plain
from benchmarks.reader.generate import FOLDER, read
from shared_core.extraction.reader_rules import LANGUAGES
from shared_core.extraction.span_tagger import WEIGHTS, Array, sigmoid
from shared_core.models.e5_network import load
from shared_core.models.e5_reader import E5Reader

OUT: Final = Path(__file__).parents[2] / "shared_core" / "extraction" / WEIGHTS
SAMPLED: Final = 3_500
"""Turns of the corpus in each language."""
LEFT_OUT: Final = 5
"""Every one of so many turns is left out to measure."""
STEPS, PENALTY, OF_ASKING = 25, 2e-4, 3.0
"""Steps of Newton's method, the weight of the squares, and the weight of a turn that asks."""
FLOORS: Final = (0.05, 0.1, 0.2, 0.5)


def turns() -> dict[str, bool]:
    """Return turns, and whether each asks to forget something."""
    rng, found = random.Random(3), dict[str, bool]()
    for lang in LANGUAGES:
        for line in (FOLDER / f"pairs_{lang}.txt").read_text("utf-8").splitlines():
            label, *_, turn = line.split("\t")
            found[turn] = found.get(turn, False) or label == "forget"
        for one in [*rng.sample(list(corpus(lang)), SAMPLED), *plain(lang)]:
            found.setdefault(one.text, any(tag == "forget" for tag, *_ in one.spans))
        for text in read(f"negatives_{lang}.txt"):
            found.setdefault(text, False)
    return found


def fitted(states: Array, asks: Array) -> tuple[Array, float]:
    """Return the weights and the bias of a logistic regression, by Newton's method."""
    middle, width = states.mean(axis=0), states.std(axis=0)
    x = np.hstack([(states - middle) / width, np.ones((len(states), 1))])
    of_each = np.where(asks, OF_ASKING, 1.0) / len(states)
    weights = np.zeros(x.shape[1])
    penalty = np.full(x.shape[1], 2 * PENALTY)
    penalty[-1] = 0.0
    for _ in range(STEPS):
        chance = sigmoid(x @ weights)
        slope = x.T @ (of_each * (chance - asks)) + penalty * weights
        curve = (x * (of_each * chance * (1 - chance))[:, None]).T @ x
        weights -= np.linalg.solve(curve + np.diag(penalty + 1e-9), slope)
    head = weights[:-1] / width
    return head, float(weights[-1] - head @ middle)


def main() -> None:
    with np.load(OUT) as stored:
        arrays: dict[str, Any] = {name: stored[name] for name in stored.files}
    reader, told = E5Reader(load(), arrays), turns()
    states = np.stack([reader.states(text[:400])[2] for text in told]).astype(np.float64)
    asks = np.array([*told.values()], float)
    seen = np.arange(len(asks)) % LEFT_OUT > 0
    head, bias = fitted(states[seen], asks[seen])
    chance = sigmoid(states[~seen] @ head + bias)
    for floor in FLOORS:
        shares = [float((chance[asks[~seen] == one] >= floor).mean()) for one in (1, 0)]
        print(f"{floor}: asking {shares[0]:.3f}, others {shares[1]:.3f}")
    head, bias = fitted(states, asks)
    arrays["asks.w"] = head[:, None].astype(np.float32)
    arrays["asks.b"] = np.array([bias], np.float32)
    save: Any = np.savez_compressed  # its types take no array by name
    save(OUT, **arrays)


if __name__ == "__main__":
    main()
