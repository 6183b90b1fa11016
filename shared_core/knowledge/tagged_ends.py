"""Which of the facts that hold end by what the trained reader takes for over. Pure.

The reader marks the words of a value that no longer holds, "swapped the [iphone] for a pixel".
Those that mention a held fact of the same kind end it, or raise a doubt where the reader is not
sure. Words that mention no held fact, "[handed my badge in]", end nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from shared_core.core.domain import USER, FactDraft, HeldFact
from shared_core.extraction.trained_reader import TRUST, Tag, tag_of
from shared_core.knowledge.clause_changes import Change, vetoed_verdict, weakest
from shared_core.knowledge.held_index import HeldIndex, kinds_of, relation_of
from shared_core.nlp.rules.revision import load_revision_rules

SURE: Final = 0.9 * TRUST
"""Least confidence at which a fact ends; below it is doubted."""
NEAR: Final = (
    {"taste", "pursuit", "trait", "health"}, {"job", "trait"}, {"own", "tool"},
    {"plan", "pursuit"},
)  # fmt: skip
"""Kinds of facts that one may tell of in the words of another: a taste is a habit."""


def tagged_ends(proposed: Iterable[FactDraft], held: HeldIndex) -> Iterator[Change]:
    """Yield the ends and doubts of held facts, each fact once. proposed: retractions."""
    seen: set[int] = set()
    for draft in proposed:
        tag, said = tag_of(draft), draft.statement
        rules = load_revision_rules(draft.language)
        limit = vetoed_verdict(said, said, rules, kinds_of(tag.slot))
        verdict = weakest("end" if draft.confidence >= SURE else "doubt", limit)
        if verdict == "none":
            continue
        for fact in _mentioned(draft, tag, held):
            if id(fact) not in seen:
                seen.add(id(fact))
                yield Change(verdict=verdict, rule=draft.pattern, fact=fact)


def _mentioned(draft: FactDraft, tag: Tag, held: HeldIndex) -> list[HeldFact]:
    """Return the held facts that the words of a retraction mention."""
    return [fact for fact in held.touched(draft.value, draft.language) if _may_be(fact, tag)]


def _may_be(fact: HeldFact, tag: Tag) -> bool:
    """Tell whether a tag may be about a fact."""
    if relation_of(fact):
        return tag.of_kin or tag.slot in ("marital_status", "pet_kind", "children_count")
    if fact.subject != USER or tag.of_kin:
        return fact.slot.rpartition(".")[2] == tag.slot.rpartition(".")[2]
    kinds, own = kinds_of(fact.slot), kinds_of(tag.slot)
    if fact.slot == tag.slot or kinds & own:
        return True
    return any(kinds & near and own & near for near in NEAR)
