"""How much it matters what was said, from 1 (trivial) to 10 (who the user is). Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from shared_core.domain import FactDraft
from shared_core.signals import MAX_CHARACTERS, load_weights
from shared_core.summary import QUESTION, SMALL_TALK

EVERYDAY: Final = 5.0
QUESTION_ALONE: Final = 3.0
SMALL_TALK_ALONE: Final = 1.0

BY_SLOT: Final[Mapping[str, float]] = {
    "name": 10, "age": 9, "birthday": 9, "email": 9, "employer": 9, "job": 9, "residence": 9,
    "origin": 9, "work_city": 8, "allergy": 8, "trait": 8, "marital_status": 8, "education": 8,
    "relation": 8, "rule": 7, "language": 7, "like": 6, "dislike": 6, "favourite": 6, "activity": 5,
}  # fmt: skip
OF_OTHERS: Final[Mapping[str, float]] = {
    "allergy": 8, "trait": 7, "marital_status": 7, "birthday": 7,
}  # fmt: skip
"""What is known of the people around the user; all else of them matters as much as a taste."""
OTHERWISE: Final = 6.0


def fact_importance(slot: str) -> float:
    """Return how much a fact of a slot matters."""
    parts = slot.split(".")
    if parts[0] == "relation" and len(parts) > 2:
        return OF_OTHERS.get(parts[2], OTHERWISE)
    return float(BY_SLOT.get(parts[0], EVERYDAY))


def turn_importance(text: str, facts: Sequence[FactDraft]) -> float:
    """Return how much a turn matters, by the facts in it and by the words for what weighs."""
    if facts:
        return max(fact.importance for fact in facts)
    text = text[:MAX_CHARACTERS].strip()
    for importance, regex in load_weights():
        if regex.search(text):
            return importance
    if SMALL_TALK.match(text) or not re.search(r"\w", text):
        return SMALL_TALK_ALONE
    return QUESTION_ALONE if QUESTION.search(text) else EVERYDAY
