"""Fusion of the two channels, and what a hit says about itself."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest

from shared_core.domain import Memory, MemoryId
from shared_core.ports import Candidate, Spread
from shared_core.ranking import Weights, rank

SPREAD = Spread(similarity_mean=0.2, similarity_sd=0.1, bm25_mean=1.0, bm25_sd=2.0)


def candidate(number: int, similarity: float | None, bm25: float) -> Candidate:
    moment = datetime(2026, 3, number, tzinfo=UTC)
    memory = Memory(
        memory_id=MemoryId(UUID(int=number)),
        namespace=("app", "ann", "memories"),
        key=str(number),
        kind="episodic",
        text=f"memory {number}",
        value={},
        author=None,
        importance=5.0,
        occurred_at=moment,
        created_at=moment,
        updated_at=moment,
    )
    return Candidate(memory=memory, similarity=similarity, bm25=bm25)


def test_the_score_is_the_sum_of_both_standardised_scores() -> None:
    [hit] = rank([candidate(1, 0.5, 5.0)], SPREAD, limit=5)
    assert pytest.approx(3.0 + 2.0) == hit.score
    assert pytest.approx({"similarity": 0.5, "bm25": 5.0, "z_similarity": 3.0, "z_bm25": 2.0}) == (
        dict(hit.parts)
    )


def test_weights_decide_between_the_channels() -> None:
    near, worded = candidate(1, 0.9, 0.0), candidate(2, 0.2, 9.0)
    by_words = rank([near, worded], SPREAD, limit=2, weights=Weights(similarity=0.1))
    by_meaning = rank([near, worded], SPREAD, limit=2, weights=Weights(bm25=0.1))
    assert (["2", "1"], ["1", "2"]) == (
        [hit.memory.key for hit in by_words],
        [hit.memory.key for hit in by_meaning],
    )


def test_without_a_vector_words_alone_rank() -> None:
    hits = rank([candidate(1, None, 1.0), candidate(2, None, 3.0)], SPREAD, limit=2)
    assert ["2", "1"] == [hit.memory.key for hit in hits]
    assert "similarity" not in hits[0].parts


def test_equal_scores_rank_the_newest_first_and_the_limit_holds() -> None:
    hits = rank([candidate(n, 0.5, 1.0) for n in (1, 3, 2)], SPREAD, limit=2)
    assert ["3", "2"] == [hit.memory.key for hit in hits]


def test_a_scope_of_one_memory_ranks_without_dividing_by_its_spread() -> None:
    [hit] = rank([candidate(1, 0.5, 1.0)], Spread(similarity_mean=0.5, bm25_mean=1.0), limit=1)
    assert hit.score == 0.0
