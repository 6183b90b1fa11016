"""Picks the candidates of recall from arrays, as the statement `recall` does. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shared_core.ports.recall import Flags, Numbers, Places


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What decides which of N memories are candidates.

    similarity: (N,), NaN without a vector. length, opens: (N,). holders, words: (H,); memory
    holders[i] holds word words[i] of the query. updated, high, low: (N,), when a memory was written
    and the halves of its id; they order equal scores.
    """

    similarity: Numbers
    length: Numbers
    opens: Flags
    holders: Places
    words: Places
    terms: int
    updated: NDArray[Any]
    high: NDArray[Any]
    low: NDArray[Any]


def candidates(among: Selection, most: int) -> Places:
    """Return the positions that are among the best by meaning, by words, or by both in context."""
    similarity = among.similarity
    bm25 = _bm25(among)
    has_vector, has_word = ~np.isnan(similarity), bm25 > 0
    both = _standardised(similarity, has_vector) + _standardised(bm25, np.ones_like(has_word))
    context = both + 0.5 * _before(both, among.opens) + 0.5 * _after(both, among.opens)
    lists = [
        _best(similarity, np.flatnonzero(has_vector), most, among),
        _best(bm25, np.flatnonzero(has_word), most, among),
        _best(context, np.flatnonzero(has_vector | has_word), most, among),
    ]
    picked: Places = np.unique(np.concatenate(lists))
    return picked


def _bm25(among: Selection) -> Numbers:
    """Return BM25 with k1 = 1.2, b = 0.75 and term frequency 1; 0 without a word of the query."""
    size = len(among.length)
    holders = np.bincount(among.words, minlength=among.terms)
    idf = np.log(1 + (size - holders + 0.5) / (holders + 0.5))
    total: Numbers = np.bincount(among.holders, idf[among.words], size).astype(np.float64)
    relative = among.length / max(float(among.length.mean()), 1.0)
    score: Numbers = total * 2.2 / (1 + 1.2 * (0.25 + 0.75 * relative))
    return score


def _standardised(scores: Numbers, counted: Flags) -> Numbers:
    """Return scores in deviations from the mean of the counted ones; 0 for others."""
    some = scores[counted]
    deviation = float(some.std()) if len(some) else 0.0
    if deviation == 0.0:
        return np.zeros_like(scores)
    found: Numbers = np.where(counted, (scores - some.mean()) / deviation, 0.0)
    return found


def _before(scores: Numbers, opens: Flags) -> Numbers:
    moved = np.zeros_like(scores)
    moved[1:] = scores[:-1]
    moved[opens] = 0
    return moved


def _after(scores: Numbers, opens: Flags) -> Numbers:
    moved = np.zeros_like(scores)
    moved[:-1] = scores[1:]
    moved[:-1][opens[1:]] = 0
    return moved


def _best(scores: Numbers, places: Places, most: int, among: Selection) -> Places:
    """Return the best of some places; of equal ones the newest, then the least id."""
    if len(places) <= most:
        return places
    own = scores[places]
    edge = np.partition(own, len(own) - most)[len(own) - most]
    sure, tied = places[own > edge], places[own == edge]
    order = np.lexsort((among.low[tied], among.high[tied], -among.updated[tied]))
    return np.concatenate([sure, tied[order][: most - len(sure)]])
