"""Which facts that ended a question about the past asks for. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from shared_core.nlp.dialogue_acts import dialogue_acts
from shared_core.nlp.relation_phrases import work_and_home_slots
from shared_core.nlp.text import normalised, search_terms
from shared_core.ports.runs import Fact

READ_CHARACTERS: Final = 500
"""Maximum characters read of a message."""
CORRECTED: Final = timedelta(hours=1)
"""A value that held for less was a mistake."""
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


def asks_for_history(message: str) -> bool:
    """Return whether a message asks how something was, or when it changed."""
    return any(act.name == "history" for act in dialogue_acts(message[:READ_CHARACTERS]))


def past_facts(facts: Iterable[Fact], question: str, now: datetime) -> list[Fact]:
    """Return the ended facts that a question about the past asks for, at most MOST_PAST.

    Those are facts of a slot of past_slots(), and those whose whole value the question names, as
    "did I ever play the flute" does for "flute". facts: with their history.
    """
    slots, asked = past_slots(question), frozenset(search_terms(question))
    return [
        fact
        for fact in ended_facts(facts, now)
        if not _was_corrected(fact)
        and (fact.slot in slots or asked.issuperset(search_terms(fact.value) or [""]))
    ][:MOST_PAST]


def _was_corrected(fact: Fact) -> bool:
    return fact.valid_until is not None and fact.valid_until - fact.valid_from < CORRECTED
