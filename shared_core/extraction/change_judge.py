"""Judge what a turn does to a held fact, by a network on the states of multilingual-e5-small.

The statement of the fact and the turn pass the first layers of e5 one by one. Their states, one
after the other, pass trained layers, so that each word of one text sees the words of the other.
benchmarks/reader/train_ends.py trains them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from shared_core.extraction.span_tagger import Array, load_trained, softmax
from shared_core.models.e5_reader import E5Reader

WEIGHTS: Final = "ends.npz"
ANYTHING: Final = "*"
"""The statement that stands for all that is held: a request to forget anything forgets it."""
MOST_TOGETHER: Final = 8
"""Number of facts that are judged at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What a turn does to a fact: probabilities, which with that of nothing add up to 1.

    affirms: it says that the fact holds. doubts: the fact may end. ends: it is over. replaces: it
    is over, and the turn tells another value. forgets: it asks the memory to forget the fact.
    """

    affirms: float
    doubts: float
    ends: float
    replaces: float
    forgets: float


class ChangeJudge:
    """The trained network."""

    def __init__(self, reader: E5Reader, arrays: Mapping[str, Array]) -> None:
        self._reader, self._side = reader, arrays["side"]
        self._weights, self._bias = arrays["verdict.w"].astype(np.float32), arrays["verdict.b"]

    def judge(self, statements: Sequence[str], turn: str) -> list[Judgement]:
        """Return what a turn does to the facts with these statements, in order."""
        found: list[Judgement] = []
        for first in range(0, len(statements), MOST_TOGETHER):
            some = statements[first : first + MOST_TOGETHER]
            means = self._reader.pair_means(some, turn, self._side)
            for row in softmax(means @ self._weights + self._bias).tolist():
                _, affirms, doubts, ends, replaces, forgets = row
                found.append(
                    Judgement(
                        affirms=affirms, doubts=doubts, ends=ends, replaces=replaces,
                        forgets=forgets,
                    )
                )  # fmt: skip
        return found


def load_change_judge() -> ChangeJudge | None:
    """Return the trained judge, loaded at the first call; None where "e5" cannot run."""
    return load_trained(WEIGHTS, ChangeJudge)
