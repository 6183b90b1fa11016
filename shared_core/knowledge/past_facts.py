"""Which facts that ended a question about the past asks for. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from shared_core.nlp.relation_phrases import work_and_home_slots
from shared_core.nlp.text import HAN_CHARACTER, normalised, search_terms
from shared_core.ports.runs import Fact

MOST_PAST: Final = 3
"""Most ended facts for one question."""
OF_THE_PAST: Final = re.compile(
    r"\b(?:used? to|before|previous(?:ly)?|former(?:ly)?|earlier|in the past|originally|once"
    r"|(?:last|old|first|past|other) (?:job|employer|company|home|place|house|flat|work)s?"
    r"|did (?:i|we) (?:ever |first )?(?:live|work)|(?:was|were) (?:i|we) (?:living|working)"
    r"|(?:have|had) (?:i|we) (?:ever |already )?(?:lived|worked|had))\b"
    r"|以前|之前|从前|过去|原来|曾|早先|当初|前东家|老东家|[上前]一?[份家个]|(?:住|工作|上班|干)过",
    re.IGNORECASE,
)


def past_slots(question: str) -> frozenset[str]:
    """Return the work and home slots that a question about the past asks for."""
    return work_and_home_slots(question) if OF_THE_PAST.search(question) else frozenset()


def ended_facts(facts: Iterable[Fact], now: datetime) -> list[Fact]:
    """Return the facts that ended, one per value, latest end first.

    facts: with their history. A fact retracted as never true is left out.
    """
    known = [*facts]
    current = {
        (fact.slot, normalised(fact.value))
        for fact in known
        if fact.valid_until is None or fact.valid_until > now
    }
    ended: dict[tuple[str, str], tuple[datetime, Fact]] = {}
    for fact in known:
        end, key = fact.valid_until, (fact.slot, normalised(fact.value))
        if end is None or key in current or end <= fact.valid_from:
            continue
        if key not in ended or ended[key][0] < end:
            ended[key] = end, fact
    return [fact for _, fact in sorted(ended.values(), key=lambda one: one[0], reverse=True)]


def past_facts(facts: Iterable[Fact], question: str, now: datetime) -> list[Fact]:
    """Return the ended facts that a question about the past asks for, at most MOST_PAST.

    Those are facts of a slot of past_slots(), and those that share most words with the question.
    facts: with their history.
    """
    slots, asked = past_slots(question), _words(question)
    ended = ended_facts(facts, now)
    shared = [len(asked & _words(fact.statement)) for fact in ended]
    most = max(shared, default=0)
    return [
        fact
        for fact, words in zip(ended, shared, strict=True)
        if fact.slot in slots or (most and words == most)
    ][:MOST_PAST]


def _words(text: str) -> frozenset[str]:
    plain = HAN_CHARACTER.sub(" ", text)
    words = frozenset((*search_terms(plain), *HAN_CHARACTER.findall(text)))
    return words - _OF_ANY


_OF_ANY: Final = frozenset((*search_terms("the user's"), *"的了是我用户在有哪什么以前之过去"))
