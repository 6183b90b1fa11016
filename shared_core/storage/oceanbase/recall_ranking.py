"""Which memories of a corpus are worth ranking: by meaning, by words, and by both in context. Pure.

What the statement recall of ../sql/queries/memories.sql says in SQL, over arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shared_core.ports.recall import Corpus

if TYPE_CHECKING:
    from shared_core.ports.recall import Numbers, Places

NEIGHBOUR_SHARE = 0.5
"""Of what the turns before and after score: an answer seldom repeats its question."""


def picked(corpus: Corpus, tie: Places, candidates: int) -> list[int]:
    """Return the places of the best memories of each kind of search, so many of each at most.

    tie: (N,), which comes first of memories that score the same, the least.
    """
    bm25 = _bm25(corpus)
    context = _in_context(_standardised(corpus.similarity, bm25), corpus)
    context[np.isnan(corpus.similarity) & np.isnan(bm25)] = np.nan
    firsts = [_first(scores, tie, candidates) for scores in (corpus.similarity, bm25, context)]
    return sorted({int(place) for places in firsts for place in places})


def _bm25(corpus: Corpus) -> Numbers:
    """Return (N,) BM25 with frequency 1 (the fragment bm25), NaN of what holds no word."""
    size = len(corpus.length)
    holders = np.bincount(corpus.words, minlength=corpus.terms)
    idf = np.log(1 + (size - holders + 0.5) / (holders + 0.5))
    summed = np.bincount(corpus.holders, weights=idf[corpus.words], minlength=size)
    mean = max(float(corpus.length.mean()), 1.0)
    scores = summed * 2.2 / (1 + 1.2 * (0.25 + 0.75 * corpus.length / mean))
    scores[np.bincount(corpus.holders, minlength=size) == 0] = np.nan
    return scores


def _standardised(similarity: Numbers, bm25: Numbers) -> Numbers:
    """Return the sum of both as standard scores; what holds no word has a BM25 of 0."""
    by_meaning = np.nan_to_num(_standard(similarity, similarity[~np.isnan(similarity)]))
    by_words = np.nan_to_num(bm25)
    return by_meaning + _standard(by_words, by_words)


def _standard(values: Numbers, known: Numbers) -> Numbers:
    if len(known) == 0 or np.ptp(known) == 0:
        return np.zeros_like(values)
    standard: Numbers = (values - known.mean()) / known.std()
    return standard


def _in_context(scores: Numbers, corpus: Corpus) -> Numbers:
    """Return scores with half of those of the turns before and after in the same session."""
    joined = ~corpus.opens[1:]
    near = np.zeros_like(scores)
    near[1:] += np.where(joined, scores[:-1], 0)
    near[:-1] += np.where(joined, scores[1:], 0)
    return scores + NEIGHBOUR_SHARE * near


def _first(scores: Numbers, tie: Places, limit: int) -> Places:
    """Return the places of the best scores; NaN is none."""
    known = np.flatnonzero(~np.isnan(scores))
    return known[np.lexsort((tie[known], -scores[known]))[:limit]]
