"""Whether two statements say the same, by their vectors and their words. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from shared_core.facts import normalised
from shared_core.run_ports import LikeText
from shared_core.text import search_terms

MIN_SIMILARITY: Final = 0.9
MIN_SHARED_WORDS: Final = 0.75
"""Of all words of both, by Jaccard. A vector alone takes "likes tea" and "dislikes tea" for one."""

NUMBER: Final = re.compile(r"\d+(?:[.,:]\d+)*")
NEGATION: Final = re.compile(
    r"\b(?:no|not|never|without|nor|cannot|\w+n['’]t|dislikes?|hates?|stopped|quit|former(?:ly)?|"
    r"no longer|except)\b|[不没无非未别勿莫]|讨厌|停止|以前|除了",
    re.IGNORECASE,
)


def same_statement(text: str, near: Sequence[LikeText]) -> LikeText | None:
    """Return the first of near that says what text says, or None."""
    for other in near:
        if normalised(text) == normalised(other.text):
            return other
        if other.similarity >= MIN_SIMILARITY and _agree(text, other.text):
            return other
    return None


def _agree(text: str, other: str) -> bool:
    """Tell whether two texts share their words, and all their numbers and negations."""
    if sorted(NUMBER.findall(text)) != sorted(NUMBER.findall(other)):
        return False
    if sorted(map(str.lower, NEGATION.findall(text))) != sorted(
        map(str.lower, NEGATION.findall(other))
    ):
        return False
    words, others = set(search_terms(text)), set(search_terms(other))
    return len(words & others) >= MIN_SHARED_WORDS * len(words | others)
