"""Which sentences of a thread carried facts, and which of them tell of a change. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from shared_core.core.domain import Event, FactDraft
from shared_core.extraction.rule_reader import extract_facts, pattern_of
from shared_core.nlp.extractive_summary import NEWS
from shared_core.nlp.text import sentences

MOST_IMPORTANT: Final = 10.0
LIFE: Final = 8.0
"""A change of what matters as much is news: a job, a home, a marriage; one of taste is none."""


def key_sentences(events: Sequence[Event]) -> Mapping[str, float]:
    """Return the sentences of users that carried facts, each with what it weighs, above 0 to NEWS.

    NEWS weighs what tells of a change of life: an end, a move, another value than before. All else
    weighs by the importance of its facts. What a later value replaced is no key sentence.
    """
    held: dict[tuple[str, str], tuple[FactDraft, tuple[int, str]]] = {}
    weights: dict[tuple[int, str], float] = {}
    for number, (sentence, fact) in enumerate(_carried(events)):
        carrier, changed = (number, sentence), _is_change(fact)
        if fact.functional:
            before, carried_by = held.get((fact.slot, fact.subject), (fact, carrier))
            if (before.value, before.operation) != (fact.value, fact.operation):
                changed = True
                weights.pop(carried_by, None)
            held[fact.slot, fact.subject] = fact, carrier
        is_news = changed and fact.importance >= LIFE
        weights[carrier] = NEWS if is_news else fact.importance / MOST_IMPORTANT
    found: dict[str, float] = {}
    for (_, sentence), weight in weights.items():
        found[sentence] = max(weight, found.get(sentence, 0.0))
    return found


def _carried(events: Sequence[Event]) -> Iterator[tuple[str, FactDraft]]:
    for event in events:
        if event.role != "user" or not extract_facts(event):
            continue
        for sentence in sentences(event.text):
            for fact in extract_facts(replace(event, text=sentence)):
                yield sentence, fact


def _is_change(fact: FactDraft) -> bool:
    pattern = pattern_of(fact)
    return fact.operation == "retract" or bool(pattern and pattern.change)
