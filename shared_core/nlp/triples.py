"""Edges of the knowledge graph from facts: (user) -[works_at]-> (Google). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from shared_core.core.domain import USER, FactDraft, TripleDraft
from shared_core.nlp.relation_schema import slot_relations
from shared_core.nlp.slots import ABOUT, Slot, slot_of


def triples_of(facts: Iterable[FactDraft]) -> list[TripleDraft]:
    """Return the edges that facts state, each once; ends of facts and the unnamed give none."""
    edges: dict[tuple[str, str, str], TripleDraft] = {}
    for fact in facts:
        relation, subject = relation_of(fact.slot), fact.subject
        unnamed = (about_person(fact.slot) and subject == USER) or subject.startswith(f"{USER}'s ")
        if fact.operation == "retract" or not relation or unnamed:
            continue
        edge = TripleDraft(
            subject=subject,
            relation=relation,
            object=fact.value,
            event_id=fact.event_id,
            functional=fact.functional,
            confidence=fact.confidence,
            valid_from=fact.valid_from,
            other_event_ids=fact.other_event_ids,
            people=fact.people,
        )
        edges.setdefault((subject, relation, fact.value.casefold()), edge)
    return list(edges.values())


def slot_of_relation(relation: str) -> Slot | None:
    """Return the known slot whose facts about the user are edges of a relation; None if none is."""
    named = next((one for one, name in slot_relations().items() if name == relation), relation)
    slot = slot_of(named)
    return slot if slot and slot.known and relation_of(slot.name) == relation else None


def about_person(slot: str) -> bool:
    """Tell whether a slot says something of a relation of the user, not who it is."""
    return slot.startswith("relation.") and slot.count(".") > 1


def relation_of(slot: str) -> str:
    """Return the edge of a slot in snake_case, "" for one that is none.

    Rules, e-mail addresses, traits and activities are none.
    """
    first, _, rest = slot.partition(".")
    if first == "relation":
        kin, _, attribute = rest.partition(".")
        return relation_of(attribute) if attribute else snake_case(kin)
    if first == ABOUT:
        return relation_of(rest.partition(".")[2])
    if first == "favourite":
        return f"favourite_{snake_case(rest)}"
    return slot_relations().get(first, "")


def snake_case(words: str) -> str:
    """Return words in small letters with underscores between."""
    return re.sub(r"\W+", "_", words.lower()).strip("_")
