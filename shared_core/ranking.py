"""Turns candidates into ranked hits. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shared_core.domain import Hit
from shared_core.ports import Candidate, Spread


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """How much each channel counts in the sum of standardised scores."""

    similarity: float = 1.0
    bm25: float = 1.0


def rank(
    candidates: Sequence[Candidate],
    spread: Spread,
    *,
    limit: int,
    weights: Weights = Weights(),
) -> list[Hit]:
    """Return the best candidates, best first, with the parts of their scores.

    Each score is standardised over all living memories of the scope, then summed: a rank fusion
    throws the confidence of either channel away (docs/benchmarks.md). Equal scores: newest first.
    """
    hits = [_hit(candidate, spread, weights) for candidate in candidates]
    hits.sort(
        key=lambda hit: (hit.score, hit.memory.occurred_at, hit.memory.memory_id.int), reverse=True
    )
    return hits[:limit]


def _hit(candidate: Candidate, spread: Spread, weights: Weights) -> Hit:
    parts = {"bm25": candidate.bm25}
    parts["z_bm25"] = _standardised(candidate.bm25, spread.bm25_mean, spread.bm25_sd)
    score = weights.bm25 * parts["z_bm25"]
    if candidate.similarity is not None:
        parts["similarity"] = candidate.similarity
        parts["z_similarity"] = _standardised(
            candidate.similarity, spread.similarity_mean, spread.similarity_sd
        )
        score += weights.similarity * parts["z_similarity"]
    return Hit(memory=candidate.memory, score=score, parts=parts)


def _standardised(score: float, mean: float, deviation: float) -> float:
    return (score - mean) / deviation if deviation > 1e-9 else 0.0
