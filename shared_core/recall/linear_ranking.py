"""The learned ranking: a weighted sum of features, its weights in weights/linear.v1.json. Pure.

Trained by `python -m benchmarks.train_ranking` on labelled conversations in English and Chinese,
between people and between user and agent; docs/benchmarks.md says how it does on those left out.
Each weight belongs to a part of the score, so a hit can say what it owes to what.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

import numpy as np

from shared_core.recall.features import BY_VOICES

if TYPE_CHECKING:
    from shared_core.ports.recall import Numbers

_PARTS: Final = {
    "similarity": "meaning",
    "z_similarity": "meaning",
    "similar_and_worded": "meaning",
    "z_bm25": "words",
    "coverage": "words",
    "z_bm25_with_previous": "context",
    "z_bm25_with_next": "context",
    "z_bm25_around": "context",
    "z_similarity_previous": "context",
    "z_similarity_next": "context",
    "z_similarity_two_before": "context",
    "z_similarity_two_after": "context",
    "coverage_with_previous": "context",
    "coverage_around": "context",
    "coverage_wide": "context",
    "z_session": "session",
    "z_session_similarity": "session",
    "z_session_words": "session",
    "opens_session": "session",
    "named_speaker": "speaker",
    "other_speaker": "speaker",
    "agent": "speaker",
    "agent_asks": "form",
    "log_length": "form",
    "is_question": "form",
    "echo": "form",
    "time_fit": "time",
    "when_told": "time",
    "recency": "time",
    "ended": "time",
    "fact": "kind",
    "summary": "kind",
}
PART_OF: Final[Mapping[str, str]] = _PARTS | {
    f"{voices}_{name}": _PARTS[name] for voices, names in BY_VOICES.items() for name in names
}
"""What is weighed, and the part of the score it counts in."""


def linear_parts(known: Mapping[str, Numbers]) -> dict[str, Numbers]:
    """Return the parts of the scores of K candidates, (K,) each."""
    parts: dict[str, Numbers] = {}
    for name, weight in weights().items():
        part = PART_OF[name]
        parts[part] = parts.get(part, np.zeros(1)) + weight * known[name]
    return parts


_in_use: ContextVar[Mapping[str, float] | None] = ContextVar("weights", default=None)


@contextmanager
def use(others: Mapping[str, float]) -> Iterator[None]:
    """Rank with other weights than those shipped, in this context and the tasks it starts.

    For measuring weights that have not seen what is measured. Raises ValueError for a weight of
    what is no feature.
    """
    token = _in_use.set(_checked(others, "the weights given"))
    try:
        yield
    finally:
        _in_use.reset(token)


def weights() -> Mapping[str, float]:
    """Return the weight of each feature: those of use(), else the shipped ones."""
    return _in_use.get() or _shipped()


@cache
def _shipped() -> Mapping[str, float]:
    text = (files("shared_core.recall") / "weights" / "linear.v1.json").read_text(encoding="utf-8")
    return _checked(json.loads(text)["weights"], "linear.v1.json")


def _checked(read: Mapping[str, float], name: str) -> Mapping[str, float]:
    if unknown := read.keys() - PART_OF.keys():
        raise ValueError(f"{name}: a weight of what is no feature: {sorted(unknown)}")
    return read
