"""How much it matters what was said, from 1 (trivial) to 10 (who the user is). Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from shared_core.core.domain import FactDraft
from shared_core.nlp.affect import MAX_CHARACTERS, load_weights
from shared_core.nlp.extractive_summary import QUESTION, SMALL_TALK

EVERYDAY: Final = 5.0
QUESTION_ALONE: Final = 3.0
SMALL_TALK_ALONE: Final = 1.0

BY_SLOT: Final[Mapping[str, float]] = {
    "name": 10.0, "age": 9.0, "birthday": 9.0, "email": 9.0, "employer": 9.0, "job": 9.0,
    "residence": 9.0, "origin": 9.0, "work_city": 8.0, "allergy": 8.0, "trait": 8.0,
    "marital_status": 8.0, "education": 8.0, "relation": 8.0, "rule": 7.0, "language": 7.0,
    "like": 6.0, "dislike": 6.0, "favourite": 6.0, "activity": 5.0,
}  # fmt: skip
OF_OTHERS: Final[Mapping[str, float]] = {
    "allergy": 8.0, "trait": 7.0, "marital_status": 7.0, "birthday": 7.0,
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
