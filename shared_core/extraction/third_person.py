"""Facts about the people and animals around the user, and whom each is about. Pure.

What is said of somebody is read as if they said it of themselves: "She loves art" as "I love art".
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
     "language", "allergy", "marital_status"]
)  # fmt: skip
"""Slots whose facts begin when the clause says something happened."""
OF_PERSONS: Final = DATED | {"birthday", "like", "dislike"}
"""Slots that may be read of somebody else than the user, and favourites."""
THIRD_PERSON_TRUST: Final = 0.9
"""What is said of somebody else counts so much of what is said of oneself."""


def attribute_of(slot: str) -> str:
    """Return "age" for "relation.daughter.age", and "favourite" for "favourite.colour"."""
    parts = slot.split(".")
    return parts[-1] if parts[0] == "relation" and len(parts) > 2 else parts[0]


def about_whom(
    draft: FactDraft, clause: str, lang: Language, discourse: DiscourseState
) -> FactDraft:
    """Return a fact about a relation with whom it is about as its subject, as far as known.

    The turns that told who that is are further turns it rests on.
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
    told = with_name(draft, entity, lang)
    return replace(
        draft,
        subject=subject_name(entity),
        statement=told,
        other_event_ids=discourse.source_turns(entity),
        people=discourse.source_facts(entity),
    )


def subject_name(entity: Referent) -> str:
    """Return the name of somebody; of one without, "user" or what tells them from others."""
    if entity.named:
        return entity.subject
    words = set(re.split(r"[- ]", plain_title(entity.title)))
    told_apart = words & load_kinship().titles
    return f"{USER}'s {entity.title}" if told_apart else USER


def third_person_facts(
    entity: Referent,
    rest: str,
    lang: Language,
    event_id: str,
    without: Collection[str],
    *,
    known: Sequence[FactDraft],
) -> list[FactDraft]:
    """Return what a clause says of somebody, read as if they said it of themselves."""
    own = in_first_person(rest, lang) if entity.relation else ""
    if not own:
        return []
    told = {(attribute_of(draft.slot), draft.value) for draft in known}
    found = []
    by_kin = by_relation(entity, own, rest, lang)
    for draft in clause_facts(by_kin, lang, event_id, without, relations_only=True):
        if (attribute_of(draft.slot), draft.value) in told:
            continue
        if draft.slot.count(".") > 1:
            statement = with_name(draft, entity, lang)
            found.append(replace(draft, subject=subject_name(entity), statement=statement))
        elif not entity.named or draft.value == entity.name:
            found.append(draft)
    told |= {(attribute_of(draft.slot), draft.value) for draft in found}
    for draft in clause_facts(own, lang, event_id, without):
        name = "place" if draft.slot == "residence" else attribute_of(draft.slot)
        if name not in OF_PERSONS | {"favourite"} or (name, draft.value) in told:
            continue
        attribute = name if name != "favourite" else draft.slot
        slot = f"relation.{entity.relation}.{attribute}"
        found.append(
            replace(
                draft,
                fact_type="profile",
                slot=slot,
                subject=subject_name(entity),
                statement=told_of(draft.statement, entity, lang),
                confidence=round(draft.confidence * THIRD_PERSON_TRUST, 2),
                importance=fact_importance(slot),
            )
        )
    return found


def by_relation(entity: Referent, own: str, rest: str, lang: Language) -> str:
    """Return what is said of somebody as the user says it of "my daughter"."""
    if lang == "zh":
        return f"我{title_for(entity, lang)}{own[1:]}"
    return f"my {title_for(entity, lang)} {rest.lstrip(' ,')}"


def with_name(draft: FactDraft, entity: Referent, lang: Language) -> str:
    """Return the statement of a fact about a relation, with the name if there is one."""
    if not entity.named:
        return draft.statement
    kin = f"用户的{title_for(entity, lang)}" if lang == "zh" else f"User's {entity.relation}"
    return draft.statement.replace(kin, described(entity, lang), 1)


def told_of(statement: str, entity: Referent, lang: Language) -> str:
    """Return a statement about "User" as one about somebody."""
    return statement.replace("用户" if lang == "zh" else "User", described(entity, lang), 1)


def described(entity: Referent, lang: Language) -> str:
    """Return somebody as a statement names them: "User's daughter Cancan", "用户的女儿灿灿"."""
    if lang == "zh":
        return f"用户的{title_for(entity, lang)}{entity.name if entity.named else ''}"
    told = f"{entity.relation} {entity.name}" if entity.named else title_for(entity, lang)
    return f"User's {told}"
