"""Add to drafts the earlier turns that they draw on. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, TypeVar

from shared_core.core.domain import USER, Event, Extraction, FactDraft, InsightDraft, StatementDraft
from shared_core.nlp.slots import is_name_slot
from shared_core.nlp.text import CHINESE_FUNCTION_CHARACTERS, HAN_CHARACTER, search_terms

Sourced = TypeVar("Sourced", StatementDraft, InsightDraft)

MAX_BEFORE: Final = 200
"""Maximum number of earlier turns that are searched for sources."""
LEAST_CHARACTERS: Final = 3
"""Shortest Latin word that counts as informative."""
GENERIC: Final = frozenset(
    search_terms(
        "user person people someone name call like love enjoy want know think feel say tell talk go"
        " come get make take use need work live plan try keep find give start still always often"
        " now day today time thing lot good new one two"
        " 用户 喜欢 觉得 知道 今天 现在 时候 一个 没有 可以 需要 什么 经常 正在 表示"
    )
)
"""Terms that occur in nearly every text about a user."""


class EarlierTurns:
    """The turns shown before those a model reads, with their informative words."""

    def __init__(self, turns: Sequence[Event]) -> None:
        self._words = {turn.event_id: telling_words(turn.text) for turn in turns[-MAX_BEFORE:]}

    def needed(self, text: str, own: Sequence[Event]) -> tuple[str, ...]:
        """Return the ids of earlier turns with an informative word that no turn of `own` has."""
        foreign = telling_words(text).difference(*(search_terms(turn.text) for turn in own))
        named = {turn.event_id for turn in own}
        return tuple(
            event_id
            for event_id, words in self._words.items()
            if event_id not in named and not foreign.isdisjoint(words)
        )


def telling_words(text: str) -> frozenset[str]:
    """Return the informative words of a text; for Chinese, pairs of characters."""
    return frozenset(term for term in search_terms(text) if _tells(term)) - GENERIC


def _tells(term: str) -> bool:
    if HAN_CHARACTER.search(term):
        return len(term) > 1 and CHINESE_FUNCTION_CHARACTERS.isdisjoint(term)
    return len(term) >= LEAST_CHARACTERS


def with_context(drafts: Extraction, turns: Sequence[Event], before: Sequence[Event]) -> Extraction:
    """Return the drafts with the earlier turns they draw on added as sources.

    The name of somebody is also looked for in the user's turns before in the same window, from the
    last.
    """
    known, by_id = EarlierTurns(before), {turn.event_id: turn for turn in turns}

    def needed(text: str, event_ids: Sequence[str]) -> tuple[str, ...]:
        return known.needed(text, [by_id[one] for one in event_ids])

    places = {turn.event_id: place for place, turn in enumerate(turns)}
    earlier: dict[int, EarlierTurns] = {}

    def naming(fact: FactDraft, own: Sequence[str]) -> tuple[str, ...]:
        place = places[fact.event_id]
        name = (
            fact.subject if fact.subject != USER else fact.value if is_name_slot(fact.slot) else ""
        )
        if not (name and place):
            return ()
        if place not in earlier:
            earlier[place] = EarlierTurns([one for one in turns[:place] if one.role == "user"])
        return earlier[place].needed(name, [by_id[one] for one in own])[-1:]

    def fact_sources(fact: FactDraft) -> tuple[str, ...]:
        text = f"{fact.statement}\n{fact.subject}\n{fact.value}"
        own = (fact.event_id, *fact.other_event_ids)
        found = (*fact.other_event_ids, *needed(text, own), *naming(fact, own))
        return tuple(dict.fromkeys(found))

    def with_sources(draft: Sourced) -> Sourced:
        return replace(draft, event_ids=(*draft.event_ids, *needed(draft.text, draft.event_ids)))

    return replace(
        drafts,
        facts=[replace(fact, other_event_ids=fact_sources(fact)) for fact in drafts.facts],
        statements=[with_sources(one) for one in drafts.statements],
        insights=[with_sources(one) for one in drafts.insights],
    )
