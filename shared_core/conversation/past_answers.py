"""What a question about the past is answered with: the homes and jobs of a user that ended. Pure.

"Where did I live before?" asks for what no longer holds, which recall leaves out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from shared_core.nlp.relation_phrases import asked_slots, past_label
from shared_core.nlp.relation_schema import slot_relations
from shared_core.nlp.text import Language, language, normalised
from shared_core.ports.runs import Fact

OF_THE_PAST: Final = re.compile(
    r"\b(?:used? to|before|previous(?:ly)?|former(?:ly)?|earlier|in the past|originally|once"
    r"|(?:last|old|first|past|other) (?:job|employer|company|home|place|house|flat|work)s?"
    r"|did (?:i|we) (?:ever |first )?(?:live|work)|(?:was|were) (?:i|we) (?:living|working)"
    r"|(?:have|had) (?:i|we) (?:ever |already )?(?:lived|worked|had))\b"
    r"|以前|之前|从前|过去|原来|曾|早先|当初|前东家|老东家|[上前]一?[份家个]|(?:住|工作|上班|干)过",
    re.IGNORECASE,
)
MARKS: Final[dict[Language, str]] = {"en": "{} (past, until {})", "zh": "{}（以前，至{}）"}


def past_slots(question: str) -> frozenset[str]:
    """Return the slots of the user's work and home whose past a question asks for."""
    return asked_slots(question) if OF_THE_PAST.search(question) else frozenset()


def ended_facts(facts: Iterable[Fact], now: datetime) -> list[Fact]:
    """Return what held once and does so no more, each value once, what ended last first.

    facts: with their history. What was taken back as never true is left out.
    """
    held = [*facts]
    lasting = {
        (fact.slot, normalised(fact.value))
        for fact in held
        if fact.valid_until is None or fact.valid_until > now
    }
    ended: dict[tuple[str, str], tuple[datetime, Fact]] = {}
    for fact in held:
        end, key = fact.valid_until, (fact.slot, normalised(fact.value))
        if end is None or key in lasting or end <= fact.valid_from:
            continue
        if key not in ended or ended[key][0] < end:
            ended[key] = end, fact
    return [fact for _, fact in sorted(ended.values(), key=lambda one: one[0], reverse=True)]


def past_text(fact: Fact) -> str:
    """Return the statement of a fact that ended, with its last day in UTC."""
    assert fact.valid_until is not None
    day = fact.valid_until.astimezone(UTC).date().isoformat()
    return MARKS[language(fact.statement)].format(fact.statement, day)


def past_relations(
    facts: Sequence[Fact], question: str, user_name: str
) -> list[tuple[str, str, str]]:
    """Return (source, relation, target) of facts that ended; none for a user without a name."""
    if not user_name:
        return []
    spoken = language(question)
    return [
        (user_name, past_label(slot_relations()[fact.slot], spoken), fact.value) for fact in facts
    ]
