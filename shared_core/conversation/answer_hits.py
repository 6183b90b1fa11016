"""Which hits have enough to do with a question, and are about whom it asks of. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from shared_core.core.domain import Hit
from shared_core.nlp.question_subject import (
    OF_KIN,
    AskedPeople,
    asked_people,
    asks_of_the_world,
    is_name_of_the_user,
    is_of_the_user_alone,
    shares_words,
    tells_of_another,
)
from shared_core.nlp.relation_phrases import asked_slots, names_slots, topic_of
from shared_core.ports.graph import Edge

LEAST_RELEVANCE: Final = 0.14
"""What has less to do with an input is not returned; as OpenMemoryService does."""
LEAST_OF_THEM: Final = 0.07
"""A memory about the one of whom a question asks may have less to do with its words."""
CLEARLY_RELEVANT: Final = 0.35
"""What has as much to do with a question is told even if it seems to be about something else."""
LEAST_SHARE: Final = 1 / 3
"""Nor is what has so much less to do with it than the most relevant memory."""
ASKS_FOR_NAME: Final = re.compile(
    r"\b(?:name|who am i|call me|address me)\b|名字|姓名|我叫什么|我是谁|称呼|怎么叫我",
    re.IGNORECASE,
)


def of_its_subject(hits: Sequence[Hit], question: str, edges: Sequence[Edge]) -> list[Hit]:
    """Return the hits that have enough to do with a question, and are of whom it asks."""
    people = asked_people(question, edges)
    if people is not None:
        return _of_people(hits, people, question)
    if asks_of_the_world(question):
        return [
            hit
            for hit in _near_enough(hits)
            if score_of(hit) >= CLEARLY_RELEVANT or shares_words(hit.memory.text, question)
        ]
    asked = asked_slots(question)
    if asked:
        return _of_the_user(hits, asked, question)
    return _near_enough(hits)


def _near_enough(hits: Sequence[Hit], asked: Collection[str] = ()) -> list[Hit]:
    least = max([LEAST_RELEVANCE, *(LEAST_SHARE * score_of(hit) for hit in hits)])
    return [hit for hit in hits if score_of(hit) >= least or slot_of(hit) in asked]


def _of_people(hits: Sequence[Hit], people: AskedPeople, question: str) -> list[Hit]:
    """Return the hits about somebody around the user, and of the others what may be about them.

    What the user tells of themselves is left out, unless it is no fact of theirs and names what
    is asked for, as "I have an appointment" does for "my dentist's appointment". Their own name is
    told where a name is asked for and somebody's is known.
    """
    is_theirs = [(hit, people.are_in(hit.memory.text, slot_of(hit))) for hit in hits]
    best = max((score_of(hit) for hit, theirs in is_theirs if theirs), default=0.0)
    least = max(LEAST_OF_THEM, LEAST_SHARE * best)
    known = best >= least
    own = [value_of(hit) for hit in hits if slot_of(hit) and not slot_of(hit).startswith(OF_KIN)]
    topic = topic_of(question)

    def is_told(hit: Hit, theirs: bool | None) -> bool:
        text, score = hit.memory.text, score_of(hit)
        if theirs is not None:
            return theirs and score >= least
        if known and ASKS_FOR_NAME.search(question) and is_name_of_the_user(text):
            return score >= LEAST_RELEVANCE
        if is_of_the_user_alone(text):
            may_be = not slot_of(hit) and not holds_value(hit, own) and shares_words(text, topic)
            return may_be and score >= max(LEAST_RELEVANCE, least)
        shares = not known and shares_words(text, question)
        return score >= (LEAST_RELEVANCE if shares else CLEARLY_RELEVANT)

    return [hit for hit, theirs in is_theirs if is_told(hit, theirs)]


def _of_the_user(hits: Sequence[Hit], asked: Collection[str], question: str) -> list[Hit]:
    """Return the hits that tell of the user's own work or home, as asked for.

    Where its value is known, another one must name what is asked for, or clearly have to do with
    it and not tell another such value.
    """
    own = [hit for hit in hits if not tells_of_another(hit.memory.text, slot_of(hit))]
    near = _near_enough(own, asked)
    values = [value_of(hit) for hit in own if slot_of(hit) in asked]
    if not values:
        return near
    other_values = [value_of(hit) for hit in own if slot_of(hit) and slot_of(hit) not in asked]

    def is_told(hit: Hit) -> bool:
        if slot_of(hit) in asked or holds_value(hit, values) or names_slots(hit.memory.text, asked):
            return True
        return score_of(hit) >= CLEARLY_RELEVANT and not holds_value(hit, other_values)

    return [hit for hit in near if is_told(hit)]


def score_of(hit: Hit) -> float:
    """Return how much a hit has to do with the question, 0 to 1."""
    from shared_core.recall.ranking import relevance  # with numpy: not for who only imports us

    return round(min(max(relevance(hit), 0.0), 1.0), 4)


def holds_value(hit: Hit, values: Sequence[str]) -> bool:
    """Tell whether the text of a hit holds one of some values."""
    text = hit.memory.text.casefold()
    return any(value.casefold() in text for value in values if value)


def value_of(hit: Hit) -> str:
    """Return the value of a fact; "" for what is none."""
    value = about_of(hit).get("value")
    return value if isinstance(value, str) else ""


def slot_of(hit: Hit) -> str:
    """Return the slot of a fact; "" for what is none."""
    slot = about_of(hit).get("slot")
    return slot if isinstance(slot, str) else ""


def about_of(hit: Hit) -> Mapping[str, object]:
    """Return the metadata of a memory."""
    metadata = hit.memory.value.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}
