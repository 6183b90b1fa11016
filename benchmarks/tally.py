"""Computes the figures of questions with known evidence. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.conversations import Question

DEPTHS = (5, 10, 20)
SHOWN = 10


@dataclass(slots=True)
class Tally:
    """Figures of questions, one entry each.

    newer_first: for questions about a change, whether the new value ranks above the old one.
    is_knowable: for the same questions, whether a turn with the new value supersedes one with the
    old value.
    """

    found: dict[int, list[float]] = field(default_factory=lambda: {k: [] for k in DEPTHS})
    all_found: list[float] = field(default_factory=list)
    inverse_rank: list[float] = field(default_factory=list)
    newer_first: list[float] = field(default_factory=list)
    is_knowable: list[bool] = field(default_factory=list)

    def add(self, question: Question, ranked: Sequence[str], *, is_knowable: bool = False) -> None:
        """Count one question. ranked: distinct ids, best first."""
        required = 1 if question.any_suffices else len(question.evidence)
        self.add_ranks(
            [at for at, unit in enumerate(ranked, 1) if unit in question.evidence], required
        )
        first = next((unit for unit in ranked if unit in question.older | question.newer), None)
        if question.older and question.newer and first:
            self.add_change(first in question.newer - question.older, is_knowable)

    def add_ranks(self, ranks: Sequence[int], required: int) -> None:
        """Count the ascending ranks, from 1, of the evidence; only the first `required` count."""
        ranks = ranks[:required]
        for depth in DEPTHS:
            self.found[depth].append(sum(rank <= depth for rank in ranks) / required)
        self.all_found.append(float(sum(rank <= SHOWN for rank in ranks) == required))
        self.inverse_rank.append(1 / ranks[0] if ranks else 0.0)

    def add_change(self, is_newer_first: bool, is_knowable: bool) -> None:
        """Count one question about a change."""
        self.newer_first.append(float(is_newer_first))
        self.is_knowable.append(is_knowable)

    def figures(self) -> dict[str, float]:
        """Return the means, each between 0 and 1."""
        return {
            "questions": len(self.all_found),
            **{f"recall_at_{depth}": mean(self.found[depth]) for depth in DEPTHS},
            "all_gold_at_10": mean(self.all_found),
            "mrr": mean(self.inverse_rank),
            **(self._of_changes() if self.newer_first else {}),
        }

    def _of_changes(self) -> dict[str, float]:
        both = list(zip(self.newer_first, self.is_knowable, strict=True))
        return {
            "newer_above_older": mean(self.newer_first),
            "knowable": mean(self.is_knowable),
            "newer_above_older_knowable": mean([newer for newer, known in both if known]),
            "newer_above_older_rest": mean([newer for newer, known in both if not known]),
        }


def mean(values: Sequence[float]) -> float:
    """Return the mean to four places, or 0 without values."""
    return round(statistics.fmean(values), 4) if values else 0.0
