"""Maximal marginal relevance (Carbonell and Goldstein, 1998): what answers and is not said yet.

Pure. Texts are as alike as the share of their search terms that both hold (Jaccard).
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from shared_core.core.domain import Hit
from shared_core.nlp.text import search_terms

MOST = 200
"""So many of the best are looked at; each is compared with each, which takes 30 ms of a busy core.
The others follow in their order."""


def diversified(hits: Sequence[Hit], limit: int, diversity: float) -> list[Hit]:
    """Return limit of the hits, the next one always the best that is least like those before.

    hits: best first. diversity: 0 keeps their order, 1 looks at likeness alone after the best.
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
    """Return the places of at most limit texts, in the order in which they are taken.

    Each time the largest (1 - diversity) * relevance - diversity * likeness: relevance is the score
    from 0, the least, to 1, the most; likeness that to the most alike text taken before. Of equals
    the first is taken.
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
    """Return the share of the words of both that both hold, 0 to 1; 0 where there are none."""
    together = len(one | other)
    return len(one & other) / together if together else 0.0
