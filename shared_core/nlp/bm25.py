"""Scores texts by the words of a query that they hold: BM25, and how scores deviate. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shared_core.ports.recall import Corpus, Flags, Numbers, Places, TurnOrder

    Values = TypeVar("Values", bound=NDArray[Any])

K1: Final = 1.2
B: Final = 0.75
LEAST_DEVIATION: Final = 1e-9
"""Smaller deviations are rounding noise of equal scores."""


def inverse_document_frequency(words: Places, terms: int, size: int) -> Numbers:
    """Return ln(1 + (N - n + 0.5) / (n + 0.5)) of each of T words, (T,).

    words: (H,), the word of each pair of a text and a word that it holds. size: N, all texts.
    """
    holders: Numbers = np.bincount(words, minlength=terms).astype(np.float64)
    idf: Numbers = np.log1p((size - holders + 0.5) / (holders + 0.5))
    return idf


def damped(length: Numbers) -> Numbers:
    """Return how much the length of each text damps the frequency of its words, (N,)."""
    relative: Numbers = length * (K1 * B / max(float(length.mean()), 1.0) if len(length) else 0.0)
    return relative + K1 * (1 - B)


def own_damped(order: TurnOrder) -> Numbers:
    """Return damped() of the texts of a corpus, for TurnOrder.once."""
    return damped(order.length)


def bm25(
    texts: Places, words: Places, frequency: Numbers | float, damping: Numbers, idf: Numbers
) -> Numbers:
    """Return BM25 with k1 = 1.2, b = 0.75 (Robertson and Zaragoza, 2009, equation 3.15), (N,).

    texts, words: (H,); texts[i] holds words[i], frequency[i] times. damping: damped(), (N,). Texts
    with the same words need them in the same order: their sums are equal then.
    """
    gain = idf[words] * (frequency * (K1 + 1) / (frequency + damping[texts]))
    score: Numbers = np.bincount(texts, gain, len(damping)).astype(np.float64, copy=False)
    return score


def corpus_bm25(corpus: Corpus) -> Numbers:
    """Return BM25 of each memory for the words of the query, (N,)."""
    idf = inverse_document_frequency(corpus.words, corpus.terms, len(corpus.length))
    return bm25(corpus.holders, corpus.words, 1.0, corpus.order.once(own_damped), idf)


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and standard deviation of scores."""

    mean: float
    deviation: float

    def standardised(self, scores: Numbers) -> Numbers:
        """Return scores in standard deviations from the mean; NaN becomes 0."""
        if self.deviation <= LEAST_DEVIATION:
            return np.zeros_like(scores)
        found: Numbers = (scores - self.mean) / self.deviation
        return np.where(np.isnan(found), 0.0, found)


def spread(scores: Numbers) -> Spread:
    """Return mean and deviation of scores, NaN aside."""
    if not len(scores):
        return Spread(0.0, 0.0)
    mean = float(np.add.reduce(scores)) / len(scores)
    if math.isnan(mean):
        return spread(scores[~np.isnan(scores)])
    return Spread(mean, math.sqrt(float(np.add.reduce(np.square(scores - mean))) / len(scores)))


def standardised(scores: Numbers) -> Numbers:
    """Return scores in standard deviations from their mean; NaN becomes 0."""
    return spread(scores).standardised(scores)


def before(values: Values, opens: Flags) -> Values:
    """Return the values of the turn before, or 0 where a session opens."""
    moved: Values = np.zeros_like(values)
    moved[1:] = values[:-1]
    moved[opens] = 0
    return moved


def after(values: Values, opens: Flags) -> Values:
    """Return the values of the turn after, or 0 where a session ends."""
    moved: Values = np.zeros_like(values)
    moved[:-1] = values[1:]
    moved[:-1][opens[1:]] = 0
    return moved
