"""The known facts that a model is shown beside the turns, each with a short id. Pure.

The text of a fact is data like that of a turn: it cannot close the block or pass for another fact.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from shared_core.core.domain import USER, HeldFact, MemoryId
from shared_core.extraction.earlier_turns import telling_words
from shared_core.extraction.transcript import escaped
from shared_core.nlp.slots import slots_named
from shared_core.nlp.text import normalised, place_of, search_terms
from shared_core.nlp.tokenizer import count_tokens

HELD_TOKENS: Final = 2_000
"""Maximum tokens of the facts shown with one call."""
ENDED_TOKENS: Final = 300
"""Maximum tokens of ended facts among them."""
MAX_SHOWN_CHARACTERS: Final = 200
"""Longer values and statements are cut where they are shown."""
CUT: Final = "…"
LIKE_AN_ID: Final = re.compile(r"\[([fe]?\d+)\]", re.IGNORECASE)
"""Matches what passes for the id of a fact or the number of a turn."""
NAMED: Final = 3
"""Weight of a fact whose value or subject a text mentions."""
SINGLE: Final = 2
"""Weight of a fact of the user with one value at a time."""
MOST_WHOLE: Final = 20
"""Number of facts that are shown with their statement where not all fit."""
BORN_TO: Final = {
    "relation.uncle": frozenset(("relation.brother", "relation.sister")),
    "relation.aunt": frozenset(("relation.brother", "relation.sister")),
    "relation.grandfather": frozenset(("relation.daughter", "relation.son")),
    "relation.grandmother": frozenset(("relation.daughter", "relation.son")),
}
"""Whose child makes one what: "I'm an uncle!" is about a sister who expected a baby."""
LASTING: Final = frozenset(("birthday", "name", "origin", "surname", "zodiac"))
"""Slots whose facts nothing ends but a correction, which names the slot or the value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldListing:
    """Facts as text. facts: those that hold, by id ("f1"); only they can be changed."""

    text: str = ""
    facts: Mapping[str, HeldFact] = field(default_factory=dict)


NOTHING_HELD: Final = HeldListing()


def listing_of(held: Sequence[HeldFact], text: str, max_tokens: int = HELD_TOKENS) -> HeldListing:
    """Return the facts that matter for a text of turns, oldest first.

    All facts that hold are shown if they fit. Otherwise half of the room is for those whose value
    or subject the text mentions, and a quarter for those that may end, nearest to the text by
    meaning first. Then come those of the user with one value at a time, further near ones, and
    those that share a slot or a word with the text; of each the newest first. All but the first
    are shown without their statement. Ended facts are shown without an id, if the text mentions
    their value or subject.

    Args:
        held: Facts that hold or ended, the newest first.
        text: The turns to read, and those before them.
        max_tokens: Maximum tokens of the listing.
    """
    if not held:
        return NOTHING_HELD
    mentions = _Mentions(text)
    lines = {
        one.memory_id: _line(one)
        for one in held
        if one.ended_at is None or mentions.value_or_subject(one)
    }
    ended = [one for one in held if one.ended_at is not None and one.memory_id in lines]
    ended = _fitting(ended, lines, min(ENDED_TOKENS, max_tokens))
    rest = max_tokens - _tokens(ended, lines)
    current = [one for one in held if one.ended_at is None]
    shown = _fitting(current, lines, rest)
    if len(shown) < len(current):
        weights = {one.memory_id: mentions.weight(one) for one in current}
        touched = [one for one in current if weights[one.memory_id]]
        touched.sort(key=lambda one: -weights[one.memory_id])  # stable: the newest first
        named = [one for one in touched if weights[one.memory_id] == NAMED]
        near = [one for one in current if one.nearness > 0 and one.slot not in LASTING]
        near.sort(key=lambda one: -one.nearness)
        short = {one.memory_id: _line(one, whole=False) for one in current}
        first = [*_fitting(named, short, rest // 2), *_fitting(near, short, rest // 2)]
        single = [one for one in touched if weights[one.memory_id] == SINGLE]
        ordered = {one.memory_id: one for one in (*first, *single, *near, *touched)}
        lines |= {one: short[one] for one in [*ordered][MOST_WHOLE:]}
        chosen = {one.memory_id for one in _fitting(ordered.values(), lines, rest)}
        shown = [one for one in current if one.memory_id in chosen]
    facts = {f"f{number}": one for number, one in enumerate(reversed(shown), 1)}
    text_lines = [f"[{name}] {lines[one.memory_id]}" for name, one in facts.items()]
    text_lines += [f"- {lines[one.memory_id]}" for one in reversed(ended)]
    return HeldListing(text="\n".join(text_lines), facts=facts)


def fits(held: Sequence[HeldFact], max_tokens: int = HELD_TOKENS) -> bool:
    """Return whether all facts that hold are shown, whatever the text."""
    lines = {one.memory_id: _line(one) for one in held if one.ended_at is None}
    return sum(map(_cost, lines.values())) + ENDED_TOKENS <= max_tokens


def _line(one: HeldFact, *, whole: bool = True) -> str:
    ended = f"(ended {one.ended_at.date().isoformat()}) " if one.ended_at is not None else ""
    return ended + fact_line(one, whole=whole)


def fact_line(one: HeldFact, *, whole: bool = True) -> str:
    """Return a fact as one line; whole: with its statement."""
    marks = "(doubtful) " if one.is_doubted and one.ended_at is None else ""
    if one.begins_at is not None:
        marks += f"(from {one.begins_at.date().isoformat()}) "
    about = f"{_shown(one.subject)}, {_shown(one.slot)}"
    statement = f" | {_shown(one.statement)}" if whole else ""
    return f"{marks}{about}: {_shown(one.value)}{statement}"


def written_subject(one: HeldFact) -> str:
    """Return the subject of a fact as its statement writes it, else in lower case."""
    if one.subject == USER:
        return USER
    at = one.statement.casefold().find(one.subject)
    written = one.statement[at : at + len(one.subject)] if at >= 0 else ""
    return written if written.casefold() == one.subject else one.subject


def _shown(text: str) -> str:
    """Return a text on one line, without our tags, cut to its maximum length."""
    line = LIKE_AN_ID.sub(r"(\1)", " ".join(escaped(text).split()))
    if len(line) <= MAX_SHOWN_CHARACTERS:
        return line
    return line[:MAX_SHOWN_CHARACTERS].rstrip() + CUT


def _cost(line: str) -> int:
    return count_tokens(line) + 6  # its id and its line break


def _tokens(facts: Iterable[HeldFact], lines: Mapping[MemoryId, str]) -> int:
    return sum(_cost(lines[one.memory_id]) for one in facts)


def _fitting(
    facts: Iterable[HeldFact], lines: Mapping[MemoryId, str], max_tokens: int
) -> list[HeldFact]:
    """Return the first facts that fit together."""
    fitting: list[HeldFact] = []
    for one in facts:
        max_tokens -= _cost(lines[one.memory_id])
        if max_tokens < 0:
            break
        fitting.append(one)
    return fitting


def _kin_of(one: HeldFact, asked: frozenset[str]) -> frozenset[str]:
    """Return the relatives that a fact mentions, if any are asked for."""
    return slots_named(one.statement) if asked else frozenset()


class _Mentions:
    """What a text mentions: words, names and slots."""

    def __init__(self, text: str) -> None:
        self._text = normalised(text)
        self._terms = frozenset(search_terms(text))

    @cached_property
    def _slots(self) -> frozenset[str]:
        return slots_named(self._text)

    @cached_property
    def _parents(self) -> frozenset[str]:
        return frozenset().union(*(BORN_TO.get(slot, ()) for slot in self._slots))

    def value_or_subject(self, one: HeldFact) -> bool:
        """Tell whether the text has a word of the value, or the name the fact is about."""
        about_other = one.subject != USER
        return self._says(one.value) or (about_other and place_of(one.subject, self._text) >= 0)

    def weight(self, one: HeldFact) -> int:
        """Return how much a fact has to do with the text, 0 for nothing."""
        if self.value_or_subject(one) or not self._parents.isdisjoint(_kin_of(one, self._parents)):
            return NAMED
        if one.functional and one.subject == USER:
            return SINGLE
        return int(self._names(one.slot) or self._says(one.statement))

    def _says(self, text: str) -> bool:
        if words := telling_words(text):
            return not self._terms.isdisjoint(words)
        return place_of(normalised(text), self._text) >= 0

    def _names(self, slot: str) -> bool:
        parts = slot.split(".")
        return (
            slot in self._slots
            or ".".join(parts[:2]) in self._slots
            or self._says(" ".join(parts).replace("_", " "))
        )
