"""Which turns before it a text draws on: those with words its own turns lack. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from shared_core.core.domain import Event, Extraction, TripleDraft
from shared_core.nlp.text import CHINESE_FUNCTION_CHARACTERS, HAN_CHARACTER, search_terms

MAX_BEFORE: Final = 200
"""So many turns before are looked at."""
LEAST_CHARACTERS: Final = 3
"""Shorter Latin words tell too little."""
GENERIC: Final = frozenset(
    search_terms(
        "user person people someone name call like love enjoy want know think feel say tell talk go"
        " come get make take use need work live plan try keep find give start still always often"
        " now day today time thing lot good new one two"
        " 用户 喜欢 觉得 知道 今天 现在 时候 一个 没有 可以 需要 什么 经常 正在 表示"
    )
)
"""What nearly every text about a user says."""


class Before:
    """The turns shown before those that a model reads, and the words of each."""

    def __init__(self, turns: Sequence[Event]) -> None:
        self._words = {turn.event_id: telling_words(turn.text) for turn in turns[-MAX_BEFORE:]}

    def needed(self, text: str, own: Sequence[Event]) -> tuple[str, ...]:
        """Return the ids of the turns before that hold a telling word of text no own turn has."""
        foreign = telling_words(text).difference(*(search_terms(turn.text) for turn in own))
        named = {turn.event_id for turn in own}
        return tuple(
            event_id
            for event_id, words in self._words.items()
            if event_id not in named and not foreign.isdisjoint(words)
        )


def telling_words(text: str) -> frozenset[str]:
    """Return the words of a text that tell what it is about; of Chinese, pairs of characters."""
    return frozenset(term for term in search_terms(text) if _tells(term)) - GENERIC


def _tells(term: str) -> bool:
    if HAN_CHARACTER.search(term):
        return len(term) > 1 and CHINESE_FUNCTION_CHARACTERS.isdisjoint(term)
    return len(term) >= LEAST_CHARACTERS


def with_context(drafts: Extraction, turns: Sequence[Event], before: Sequence[Event]) -> Extraction:
    """Return drafts from turns that also name those of the turns before which they draw on.

    An edge names one turn only, so all before that one are looked at, also among turns.
    """
    known, by_id = Before(before), {turn.event_id: turn for turn in turns}

    def needed(text: str, event_ids: Sequence[str]) -> tuple[str, ...]:
        return known.needed(text, [by_id[one] for one in event_ids])

    places = {turn.event_id: place for place, turn in enumerate(turns)}
    earlier: dict[int, Before] = {}

    def named_before(edge: TripleDraft) -> tuple[str, ...]:
        own = [by_id[one] for one in (edge.event_id, *edge.other_event_ids)]
        place = places[edge.event_id]
        if place not in earlier:
            earlier[place] = Before([*before, *turns[:place]])
        return earlier[place].needed(f"{edge.subject}\n{edge.object}", own)

    return replace(
        drafts,
        triples=[
            replace(edge, other_event_ids=(*edge.other_event_ids, *named_before(edge)))
            for edge in drafts.triples
        ],
        facts=[
            replace(
                fact,
                other_event_ids=(
                    *fact.other_event_ids,
                    *needed(
                        f"{fact.statement}\n{fact.subject}\n{fact.value}",
                        (fact.event_id, *fact.other_event_ids),
                    ),
                ),
            )
            for fact in drafts.facts
        ],
        statements=[
            replace(one, event_ids=(*one.event_ids, *needed(one.text, one.event_ids)))
            for one in drafts.statements
        ],
        insights=[
            replace(one, event_ids=(*one.event_ids, *needed(one.text, one.event_ids)))
            for one in drafts.insights
        ],
    )
