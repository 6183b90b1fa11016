"""Slips of the tongue that a user takes back: "No, I meant Apex, not Acme." Pure.

What the wrong word was said of, the right one holds of; a word that nothing was read from corrects
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from shared_core.core.domain import Event, FactDraft
from shared_core.extraction.pattern_facts import TRAILING
from shared_core.extraction.rule_reader import guarded
from shared_core.nlp.clauses import own_sentences
from shared_core.nlp.rules import load_rules
from shared_core.nlp.slots import is_name_slot
from shared_core.nlp.text import normalised


@dataclass(frozen=True, slots=True, kw_only=True)
class Slip:
    """A wrong word and the right one. meant: the user says in so many words what was meant."""

    wrong: str
    right: str
    meant: bool


def slips(text: str) -> Iterator[Slip]:
    """Yield what each sentence takes back, of a turn that is no joke."""
    found = own_sentences(text)
    if any(guarded(sentence, load_rules(spoken), "turn") for sentence, spoken in found):
        return
    for sentence, spoken in found:
        match = load_rules(spoken).slip.fullmatch(sentence.strip())
        if match:
            wrong = match["wrong"] or match["wrong_first"]
            right = match["right"] or match["right_last"]
            yield Slip(
                wrong=wrong.strip(TRAILING),
                right=right.strip(TRAILING),
                meant=match["meant"] is not None,
            )


def corrected(event: Event, found: Iterable[Slip], told: Sequence[FactDraft]) -> list[FactDraft]:
    """Return the facts of a turn with these slips.

    told: the facts of the turns before and of this one, in order. Where a slot holds several values
    the wrong one ends, if the user says what was meant: "it's coffee, not tea" may be about a cup.
    Names of people are left alone, for facts stand under them.
    """
    facts: list[FactDraft] = []
    for slip in found:
        draft = next((one for one in reversed(told) if _takes_back(slip, one)), None)
        if draft is None:
            continue
        others = dict.fromkeys([draft.event_id, *draft.other_event_ids])
        others.pop(event.event_id, None)
        anew = replace(draft, event_id=event.event_id, other_event_ids=tuple(others))
        if not draft.functional:
            facts.append(replace(anew, operation="retract"))
        statement = draft.statement.replace(draft.value, slip.right, 1)
        facts.append(replace(anew, value=slip.right, statement=statement))
    return facts


def _takes_back(slip: Slip, draft: FactDraft) -> bool:
    return (
        draft.operation == "assert"
        and (draft.functional or (slip.meant and draft.fact_type != "rule"))
        and not is_name_slot(draft.slot)
        and normalised(draft.value) == normalised(slip.wrong)
    )
