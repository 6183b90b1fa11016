"""Read facts about the people and animals around the user, and find their subject. Pure.

A predicate is read in the first person: "She loves art" as "I love art".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from shared_core.core.domain import USER, FactDraft
from shared_core.extraction.pattern_facts import clause_facts
from shared_core.nlp.affect import fact_importance
from shared_core.nlp.coreference import in_first_person, subject_of
from shared_core.nlp.discourse import DiscourseState
from shared_core.nlp.kinship import Referent, plain_title, title_for
from shared_core.nlp.rules import load_kinship, load_rules
from shared_core.nlp.text import Language

DATED: Final = frozenset(
    ["employer", "job", "residence", "education", "origin", "trait", "age", "activity", "place",
     "language", "allergy", "marital_status", "health", "medication", "grade"]
)  # fmt: skip
"""Slots for which a fact begins on the date in its clause."""
OF_PERSONS: Final = DATED | {"birthday", "like", "dislike", "zodiac", "weight", "height", "skill"}
"""Slots, besides favourites, that may be read about somebody other than the user."""
THIRD_PERSON_TRUST: Final = 0.9
"""Factor on the confidence of a fact about somebody else."""


def attribute_of(slot: str) -> str:
    """Return "age" for "relation.daughter.age", and "favourite" for "favourite.colour"."""
    parts = slot.split(".")
    return parts[-1] if parts[0] == "relation" and len(parts) > 2 else parts[0]


def about_whom(
    draft: FactDraft, clause: str, lang: Language, discourse: DiscourseState
) -> FactDraft:
    """Return a fact about a relative with that person as its subject, if known.

    The turns that introduced the person become further sources.
    """
    if draft.slot.count(".") < 2 or not draft.slot.startswith("relation."):
        return draft
    mention = load_rules(lang).kin_mention.search(clause)
    if mention is None:
        return draft
    found = subject_of(clause[mention.start() :], lang, discourse)
    entity = found[0] if found else discourse.kin_entity(mention, lang)
    if entity is None:
        return draft
    statement = with_name(draft, entity, lang)
    return replace(
        draft,
        subject=subject_name(entity),
        statement=statement,
        other_event_ids=discourse.source_turns(entity),
        people=discourse.source_facts(entity),
    )


def subject_name(entity: Referent) -> str:
    """Return the subject of facts about somebody; for an unnamed one, "user" or a title."""
    if entity.named:
        return entity.subject
    words = set(re.split(r"[- ]", plain_title(entity.title)))
    distinguishing = words & load_kinship().titles
    return f"{USER}'s {entity.title}" if distinguishing else USER


def third_person_facts(
    entity: Referent,
    rest: str,
    lang: Language,
    event_id: str,
    without: Collection[str],
    *,
    known: Sequence[FactDraft],
) -> list[FactDraft]:
    """Return the facts in a predicate about somebody, read in the first person."""
    own = in_first_person(rest, lang) if entity.relation else ""
    if not own:
        return []
    known_values = {(attribute_of(draft.slot), draft.value) for draft in known}
    found = []
    by_kin = by_relation(entity, own, rest, lang)
    for draft in clause_facts(by_kin, lang, event_id, without, relations_only=True):
        if (attribute_of(draft.slot), draft.value) in known_values:
            continue
        if draft.slot.count(".") > 1:
            statement = with_name(draft, entity, lang)
            found.append(replace(draft, subject=subject_name(entity), statement=statement))
        elif not entity.named or draft.value == entity.name:
            found.append(draft)
    known_values |= {(attribute_of(draft.slot), draft.value) for draft in found}
    for draft in clause_facts(own, lang, event_id, without):
        name = "place" if draft.slot == "residence" else attribute_of(draft.slot)
        if name not in OF_PERSONS | {"favourite"} or (name, draft.value) in known_values:
            continue
        attribute = name if name != "favourite" else draft.slot
        slot = f"relation.{entity.relation}.{attribute}"
        found.append(
            replace(
                draft,
                fact_type="profile",
                slot=slot,
                subject=subject_name(entity),
                statement=about_entity(draft.statement, entity, lang),
                confidence=round(draft.confidence * THIRD_PERSON_TRUST, 2),
                importance=fact_importance(slot),
            )
        )
    return found


def by_relation(entity: Referent, own: str, rest: str, lang: Language) -> str:
    """Return a predicate about somebody with "my daughter" as its subject."""
    if lang == "zh":
        return f"我{title_for(entity, lang)}{own[1:]}"
    return f"my {title_for(entity, lang)} {rest.lstrip(' ,')}"


def with_name(draft: FactDraft, entity: Referent, lang: Language) -> str:
    """Return the statement of a fact about a relative, with the name if known."""
    if not entity.named:
        return draft.statement
    kin = f"用户的{title_for(entity, lang)}" if lang == "zh" else f"User's {entity.relation}"
    return draft.statement.replace(kin, described(entity, lang), 1)


def about_entity(statement: str, entity: Referent, lang: Language) -> str:
    """Return a statement about "User" as one about somebody else."""
    return statement.replace("用户" if lang == "zh" else "User", described(entity, lang), 1)


def described(entity: Referent, lang: Language) -> str:
    """Return how a statement names somebody: "User's daughter Cancan", "用户的女儿灿灿"."""
    if lang == "zh":
        return f"用户的{title_for(entity, lang)}{entity.name if entity.named else ''}"
    title = f"{entity.relation} {entity.name}" if entity.named else title_for(entity, lang)
    return f"User's {title}"
