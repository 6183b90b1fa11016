"""Picks the candidates of recall over arrays, as the statement `recall` does in SQL. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np

from shared_core.nlp.bm25 import after, before, corpus_bm25, standardised

if TYPE_CHECKING:
    from shared_core.ports.recall import Corpus, Flags, Numbers, Places

NEIGHBOUR_SHARE: Final = 0.5
"""Share of a neighbour's score that counts: an answer seldom repeats its question."""


def picked(corpus: Corpus, most: int, in_order: Callable[[Places], Places]) -> Places:
    """Return the places of the best memories by meaning, by words, or by both in context, sorted.

    most: maximum number of each. in_order: sorts places of memories with equal scores, the newest
    first.
    """
    similarity, bm25 = corpus.similarity, corpus.once(corpus_bm25)
    has_vector, has_word = ~np.isnan(similarity), bm25 > 0
    either = has_vector | has_word
    if len(similarity) <= most:
        return np.flatnonzero(either)
    both = standardised(similarity) + standardised(bm25)
    near = before(both, corpus.opens) + after(both, corpus.opens)
    lists = [
        _best(similarity, has_vector, most, in_order),
        _best(bm25, has_word, most, in_order),
        _best(both + NEIGHBOUR_SHARE * near, either, most, in_order),
    ]
    return np.unique(np.concatenate(lists))


def _best(
    scores: Numbers, counted: Flags, most: int, in_order: Callable[[Places], Places]
) -> Places:
    """Return the places of the best of the counted scores."""
    places = np.flatnonzero(counted)
    if len(places) <= most:
        return places
    own = scores if len(places) == len(scores) else scores[places]
    edge = np.partition(own, len(own) - most)[len(own) - most]
    sure, tied = places[own > edge], places[own == edge]
    if len(sure) + len(tied) > most:
        tied = in_order(tied)[: most - len(sure)]
    return np.concatenate([sure, tied])
