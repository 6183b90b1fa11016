"""Scores each memory of a corpus against a query: cosine, BM25 and coverage. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from shared_core.ports.recall import Corpus

if TYPE_CHECKING:
    from shared_core.ports.recall import Flags, Numbers

K1: Final = 1.2
B: Final = 0.75
LEAST_DEVIATION: Final = 1e-9
"""Smaller deviations are rounding noise of equal scores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Matches:
    """Scores of all N memories of a corpus.

    similarity: (N,), NaN without a vector. bm25: (N,). coverage: (N,), the idf-weighted
    share, 0 to 1, of the query's words that the memory holds. holds: (N, T). idf: (T,).
    """

    similarity: Numbers
    bm25: Numbers
    coverage: Numbers
    holds: Flags
    idf: Numbers


def matched(corpus: Corpus) -> Matches:
    """Return the scores of every memory."""
    holds = np.zeros((len(corpus.length), corpus.terms), dtype=bool)
    holds[corpus.holders, corpus.words] = True
    return matched_words(corpus, holds)


def matched_words(corpus: Corpus, holds: Flags) -> Matches:
    """Return the scores of every memory for a subset of words; holds: (N, T)."""
    idf = inverse_document_frequency(holds)
    return Matches(
        similarity=corpus.similarity,
        bm25=bm25(holds.astype(float), corpus.length, idf),
        coverage=covered(holds, idf),
        holds=holds,
        idf=idf,
    )


def inverse_document_frequency(holds: Flags) -> Numbers:
    """Return ln(1 + (N - n + 0.5) / (n + 0.5)) of each of T words; holds: (N, T)."""
    holders = holds.sum(axis=0)
    idf: Numbers = np.log1p((len(holds) - holders + 0.5) / (holders + 0.5))
    return idf


def bm25(frequency: Numbers, length: Numbers, idf: Numbers) -> Numbers:
    """Return BM25 with k1 = 1.2, b = 0.75 (Robertson and Zaragoza, 2009, equation 3.15), (N,).

    frequency: (N, T), occurrences of each word in each text; 0 or 1 for single turns.
    """
    relative = length / max(float(length.mean()), 1.0)
    damped = K1 * (1 - B + B * relative)
    score: Numbers = (frequency * (K1 + 1) / (frequency + damped[:, None])) @ idf
    return score


def covered(holds: Flags, idf: Numbers) -> Numbers:
    """Return the share of the query's idf that each text holds, (N,)."""
    total = float(idf.sum())
    share: Numbers = (holds @ idf) / total if total > 0 else np.zeros(len(holds))
    return share


def standardised(scores: Numbers) -> Numbers:
    """Return scores in standard deviations from their mean; NaN becomes 0."""
    known = scores[~np.isnan(scores)]
    if not len(known):
        return np.zeros_like(scores)
    deviation = float(known.std())
    if deviation <= LEAST_DEVIATION:
        return np.zeros_like(scores)
    counted: Numbers = np.nan_to_num((scores - known.mean()) / deviation)
    return counted
