"""Judges the lines of a block: does one answer, or does it tell what no longer holds? Pure.

Two logistic regressions (Hosmer et al., 2013, ch. 1) over the parts of a line's score and the lines
beside it. `python -m benchmarks.train_shown` fits them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple, Protocol

from shared_core.nlp.changes import asks_how_it_was, tells_change

PARTS: Final = (
    "similarity", "coverage", "z_similarity", "z_bm25", "recency", "told_later", "is_overtaken",
    "agent", "echo", "is_question", "log_length", "when_told", "ended", "asked",
)  # fmt: skip
"""Parts of a hit's score that count by themselves."""

LEAST_SHARE: Final = 0.05
"""Least chance to answer of a line, as a share of the best line's chance."""
LEAST_CHANCE: Final = 0.03
"""Least chance to answer of a line beyond the first ones."""
FIRST_LINES: Final = 3
"""Number of lines that need no LEAST_CHANCE."""
OUTDATED: Final = 0.5
"""A line perhaps no longer holds if its chance to tell what held before is higher."""
OLDER_OUTDATED: Final = 0.2
"""The same for a line that is older than one that answers."""
ANSWERS: Final = 0.6
"""A line answers if its chance is higher."""


class JudgedLine(Protocol):
    """What is judged; ShownMemory has it."""

    @property
    def text(self) -> str: ...
    @property
    def said_at(self) -> datetime | None: ...
    @property
    def parts(self) -> Mapping[str, float]: ...
    @property
    def by_agent(self) -> bool: ...
    @property
    def is_fact(self) -> bool: ...


class Worth(NamedTuple):
    """Chances, 0 to 1, that a line answers the question, and that it tells what held before."""

    answers: float
    outdated: float


def worths(
    question: str,
    asked: frozenset[str],
    lines: Sequence[JudgedLine],
    words: Sequence[frozenset[str]],
) -> list[Worth]:
    """Return the worth of lines that recall found, best first.

    Args:
        asked: The words of the question.
        words: The words of each line.
    """
    answers, outdated = _weights()
    return [
        Worth(_chance(answers, row), _chance(outdated, row) if has_rival(row) else 0.0)
        for row in features(question, asked, lines, words)
    ]


def hardly_answer(chances: Sequence[float]) -> set[int]:
    """Return the places of lines that are not worth their tokens, by their chances to answer.

    Where one line surely answers, others need more to be shown than where no line does. The first
    line is always shown.
    """
    least = LEAST_SHARE * max(chances, default=0.0)
    return {
        place
        for place, chance in enumerate(chances)
        if place > 0 and (chance < least or (place >= FIRST_LINES and chance < LEAST_CHANCE))
    }


def outdated_lines(lines: Sequence[JudgedLine], judged: Sequence[Worth]) -> set[int]:
    """Return the places of lines that perhaps no longer hold.

    Less doubt is enough where a person said something later that answers the question.
    """
    pairs = [*zip(lines, judged, strict=True)]
    answers = [one.said_at for one, worth in pairs if worth.answers > ANSWERS and not one.by_agent]
    newest = max(filter(None, answers), default=None)
    outdated = set()
    for place, (one, worth) in enumerate(pairs):
        is_older = one.said_at is not None and newest is not None and one.said_at < newest
        if worth.outdated > (OLDER_OUTDATED if is_older else OUTDATED):
            outdated.add(place)
    return outdated


def has_rival(row: Mapping[str, float]) -> bool:
    """Return whether a later line speaks of the same, or tells of a change, or a part has ended."""
    return row["later_words"] > 0 or row["change"] > 0 or row["ended"] > 0


def features(
    question: str,
    asked: frozenset[str],
    lines: Sequence[JudgedLine],
    words: Sequence[frozenset[str]],
) -> list[dict[str, float]]:
    """Return the features of lines, by name."""
    from shared_core.recall.ranking import relevance_of  # deferred: it imports numpy

    is_past = asks_how_it_was(question)
    relevance = [relevance_of(one.parts) for one in lines]
    best = max(relevance, default=0.0) or 1.0
    near = [one / best for one in relevance]
    changes = [tells_change(one.text) for one in lines]
    rows = []
    for at, one in enumerate(lines):
        later = [
            other
            for other, two in enumerate(lines)
            if one.said_at and two.said_at and two.said_at > one.said_at and not two.by_agent
        ]
        told = [other for other in later if changes[other]]
        shared = [_share(words[at], those) for those in words]
        row = {name: one.parts.get(name, 0.0) for name in PARTS}
        row |= {
            "relevance": near[at],
            "place": 1 / (at + 1),
            "fact": float(one.is_fact),
            "tells_change": float(changes[at]),
            "words": math.log1p(len(words[at])),
            "asked_words": _share(asked, words[at]),
            "later_words": max((shared[other] for other in later), default=0.0),
            "later_relevance": max((near[other] for other in later), default=0.0),
            "later_both": max((shared[other] * near[other] for other in later), default=0.0),
            "later_asked": max((_share(asked, words[other]) for other in later), default=0.0),
            "later_place": max((1 / (other + 1) for other in later), default=0.0),
            "later_fact": max(
                (near[other] for other in later if lines[other].is_fact), default=0.0
            ),
            "change": float(bool(told)),
            "change_words": max((shared[other] for other in told), default=0.0),
            "change_relevance": max((near[other] for other in told), default=0.0),
            "change_both": max((shared[other] * near[other] for other in told), default=0.0),
            "past": float(is_past),
        }
        row["past_later"] = row["past"] * row["later_relevance"]
        rows.append(row)
    return rows


def _share(words: frozenset[str], others: frozenset[str]) -> float:
    return len(words & others) / len(words) if words else 0.0


def _chance(weights: Mapping[str, float], row: Mapping[str, float]) -> float:
    score = weights["constant"] + sum(weights[name] * value for name, value in row.items())
    return 1 / (1 + math.exp(-max(-50.0, min(50.0, score))))


@cache
def _weights() -> tuple[Mapping[str, float], Mapping[str, float]]:
    text = (files("shared_core.context") / "worth.v1.json").read_text(encoding="utf-8")
    read = json.loads(text)
    return read["answers"], read["outdated"]
