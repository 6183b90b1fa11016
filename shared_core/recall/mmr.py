"""Diversifies hits by maximal marginal relevance (Carbonell and Goldstein, 1998). Pure.

The similarity of two texts is the Jaccard index of their search terms.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from shared_core.core.domain import Hit
from shared_core.nlp.text import search_terms

MOST = 200
"""Maximum number of compared hits; all pairs of 200 take 30 ms of a busy core. The other hits keep
their order."""


def diversified(hits: Sequence[Hit], limit: int, diversity: float) -> list[Hit]:
    """Return up to limit hits, in the order of their marginal relevance.

    hits: best first. diversity: 0 keeps their order, 1 considers only dissimilarity after the best.
    """
    if diversity == 0:
        return list(hits[:limit])
    best = hits[:MOST]
    words = [frozenset(search_terms(hit.memory.text)) for hit in best]
    order = marginally_relevant([hit.score for hit in best], words, limit, diversity)
    return [*(best[at] for at in order), *hits[MOST:limit]]


def marginally_relevant(
    scores: Sequence[float], words: Sequence[Set[str]], limit: int, diversity: float
) -> list[int]:
    """Return the indexes of up to limit texts, in the order of selection.

    Each step selects the text with the largest (1 - diversity) * relevance - diversity * likeness.
    relevance: the score, scaled to 0 to 1. likeness: to the most similar selected text. The first
    of equal texts wins.
    """
    least, most = min(scores, default=0.0), max(scores, default=0.0)
    span = (most - least) or 1.0
    relevance = [(score - least) / span for score in scores]
    likeness = [0.0] * len(scores)
    left = list(range(len(scores)))
    taken: list[int] = []
    while left and len(taken) < limit:
        if taken:
            for at in left:
                likeness[at] = max(likeness[at], jaccard(words[at], words[taken[-1]]))
        best = max(left, key=lambda at: (1 - diversity) * relevance[at] - diversity * likeness[at])
        left.remove(best)
        taken.append(best)
    return taken


def jaccard(one: Set[str], other: Set[str]) -> float:
    """Return the Jaccard index of two sets, 0 to 1; 0 if both are empty."""
    together = len(one | other)
    return len(one & other) / together if together else 0.0
