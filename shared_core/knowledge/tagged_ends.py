"""Which of the facts that hold end by what the trained reader takes for over. Pure.

The reader marks the words of a value that no longer holds, "swapped the [iphone] for a pixel".
Those that are the value of a held fact of the same kind end it. Those that only mention it raise a
doubt, and so does a reading that is not sure. Words that mention no held fact, "[handed my
badge in]", end nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, Literal

from shared_core.core.domain import USER, FactDraft, HeldFact
from shared_core.extraction.proposals import RULE
from shared_core.extraction.reader_rules import LANGUAGES, Tag, load_reader_rules
from shared_core.extraction.trained_reader import SOMEBODY, TRUST, tag_of
from shared_core.knowledge.clause_changes import Change, vetoed_verdict
from shared_core.knowledge.held_index import (
    HeldIndex,
    Key,
    key_of,
    kinds_of,
    mention_forms,
    relation_of,
)
from shared_core.nlp.rules.revision import load_revision_rules
from shared_core.nlp.slots import RELATION
from shared_core.nlp.text import Language, normalised

SURE: Final = 0.9 * TRUST
"""Least confidence at which a fact ends; below it is doubted."""
REPLACES: Final = 0.9 * TRUST
"""Least confidence at which a value of the reader replaces another one."""
DOUBTS: Final = 0.8 * TRUST
"""Least confidence at which it raises a doubt about that one."""
ARTICLE: Final = re.compile(r"^(?:the|my|our|an?|some|old|that|this) (?:old )?")
LEAST_TOPIC: Final = 2
"""Minimum characters of a word that mentions an instruction."""
NEAR: Final = (
    {"taste", "pursuit", "trait", "health"}, {"job", "trait"}, {"own", "tool"},
    {"plan", "pursuit"},
)  # fmt: skip
"""Kinds of facts that one may tell of in the words of another: a taste is a habit."""


def tagged_ends(
    proposed: Iterable[FactDraft], held: HeldIndex
) -> Iterator[tuple[Change, Language]]:
    """Yield the ends and doubts of held facts, each fact once. proposed: retractions."""
    seen: set[Key] = set()
    for draft in proposed:
        tag, said = tag_of(draft), draft.statement
        rules = load_revision_rules(draft.language)
        limit = vetoed_verdict(said, said, rules, kinds_of(tag.slot))
        for fact in _touched(draft, tag, held):
            if limit == "none" or key_of(fact) in seen or not _may_be(fact, draft, tag):
                continue
            seen.add(key_of(fact))
            is_sure = draft.confidence >= SURE and _names(draft.value, fact)
            verdict: Literal["end", "doubt"] = "end" if is_sure and limit == "end" else "doubt"
            yield Change(verdict=verdict, rule=draft.pattern, fact=fact), draft.language


def _touched(draft: FactDraft, tag: Tag, held: HeldIndex) -> list[HeldFact]:
    """Return the facts that the words of a retraction mention.

    The word for a thing mentions the only one that is held: "sold the car". A word of an
    instruction mentions it: 表情 for 回复别用表情.
    """
    words = ARTICLE.sub("", normalised(draft.value))
    facts = held.of_slot(tag.slot)
    if words in load_reader_rules(draft.language).things.get(tag.slot, ()):
        return facts if len(facts) == 1 else []
    if tag.slot == RULE and len(words) >= LEAST_TOPIC:
        return [one for one in facts if words in normalised(one.value)]
    return held.touched(draft.value, draft.language)


def _names(words: str, fact: HeldFact) -> bool:
    """Tell whether words are the value of a fact, and no word beside: golf, but no golf clubs."""
    said, value = (ARTICLE.sub("", normalised(one)) for one in (words, fact.value))
    if fact.slot == RULE or any(
        said in load_reader_rules(one).things.get(fact.slot, ()) for one in LANGUAGES
    ):
        return True
    return said == value or said in mention_forms(fact.value)


def _may_be(fact: HeldFact, draft: FactDraft, tag: Tag) -> bool:
    """Tell whether a retraction may be about a fact: of the same person, and of a like kind."""
    if relation_of(fact):
        kin = draft.slot.removeprefix(f"{RELATION}.")
        return tag.of_kin and tag.shape == "name" and kin in (SOMEBODY, relation_of(fact))
    if tag.of_kin or fact.subject != USER:
        return fact.slot == draft.slot
    kinds, own = kinds_of(fact.slot), kinds_of(tag.slot)
    if fact.slot == tag.slot or kinds & own:
        return True
    return any(kinds & near and own & near for near in NEAR)
