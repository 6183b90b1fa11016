"""Choose the items of a context that fit its token budget: shares, duplicates, cuts. Pure."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from shared_core.context.candidates import ContentKey, WindowCandidate, without_shown
from shared_core.context.window import (
    PROMPT,
    REMEMBERED,
    ContextItem,
    ContextWindow,
    DroppedItem,
    Layout,
    in_reading_order,
    reading_place,
)
from shared_core.core.delimiters import Section
from shared_core.core.digest_cache import DigestCache
from shared_core.core.shown import shown
from shared_core.core.validation import name_of
from shared_core.errors import InvalidInput
from shared_core.nlp.text import HAN, KANA, sentences
from shared_core.nlp.tokenizer import TokenCounter, count_tokens

LABEL: Final = re.compile(r"- \[[^\]\n]*\](?= \S)")
"""The label of a list item. No token of o200k spans "]" and the space after it."""
CACHED_LINES: Final = 16_384

_tokens: Final = DigestCache("tokens", count_tokens, CACHED_LINES)


class Costs:
    """Counts the tokens of texts, each text once, and checks the counts of a caller's tokenizer.

    With o200k, the counts of the pieces of a prompt add up: a piece starts after a line break, and
    not with white space or "/". A prompt of counted pieces is then not counted again. With any
    other tokenizer the whole prompt is counted.
    """

    def __init__(self, count: TokenCounter) -> None:
        self._count = count
        self._adds_up = count is count_tokens
        self._known: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        """Return the tokens of a text.

        An error of the tokenizer is re-raised with a note that names it. Raises InvalidInput if it
        returns no token count.
        """
        known = self._known.get(text)
        if known is None:
            known = self._known[text] = self._counted(text)
        return known

    def of_prompt(self, items: Sequence[ContextItem], layout: Layout) -> tuple[str, int]:
        """Return the prompt of items in reading order, and its tokens."""
        pieces = layout.pieces(items)
        prompt = "".join(pieces)
        return prompt, sum(map(self, pieces)) if self._adds_up else self._counted(prompt)

    def _counted(self, text: str) -> int:
        if self._adds_up:
            return _tokens_of(text)
        try:
            tokens = self._count(text)
        except Exception as error:
            error.add_note(
                f"The tokenizer {self.name} of the context (count=...) raised this for a text of"
                f" {len(text):,} characters."
            )
            raise
        if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 0:
            raise InvalidInput(
                f"the tokenizer {self.name} must return the number of tokens of a text, got"
                f" {shown(tokens)}: pass count=lambda text: len(tokenizer.encode(text))"
            )
        return tokens

    @property
    def name(self) -> str:
        """The name of the tokenizer in messages."""
        return name_of(self._count)


def _tokens_of(line: str) -> int:
    """Return the o200k tokens of a line. Label and text are cached apart: only labels change."""
    label = LABEL.match(line)
    if label is None:
        return _tokens(line)
    return _tokens(line[: label.end()]) + _tokens(line[label.end() :])


CUT_MARK: Final = " […]"
"""The end of a cut text."""

LONGEST_TOKEN: Final = 16
"""Characters read of a long text for each token of room."""

_WORD_ENDS: Final = re.compile(rf"(?<=\S)(?=\s)|(?<=[{HAN}{KANA}])")


def cut_to_fit(text: str, room: int, cost: Callable[[str], int]) -> str:
    """Return the first sentences of a text and CUT_MARK, or "" if nothing fits.

    cost: the tokens of a text as shown; the result costs at most room. If not even one sentence
    fits, the first is cut between two words. Never returns the whole text.
    """
    beginning = text[: LONGEST_TOKEN * max(room, 0)]
    for ends in (
        _sentence_ends(beginning),
        [one.start() for one in _WORD_ENDS.finditer(beginning)],
    ):
        within = [end for end in ends if 0 < end < len(text)]
        # A longer text costs more, except by a few tokens where a word is cut: check again below.
        found = bisect_right(within, room, key=lambda end: cost(text[:end].rstrip() + CUT_MARK))
        for end in within[:found][::-1]:
            shown = text[:end].rstrip() + CUT_MARK
            if cost(shown) <= room:
                return shown
    return ""


def _sentence_ends(text: str) -> Sequence[int]:
    """Return the end of each sentence but the last, which may continue after the given text."""
    ends, start = [], 0
    for sentence in sentences(text)[:-1]:
        start = text.index(sentence, start) + len(sentence)
        ends.append(start)
    return ends


DEFAULT_SHARES: Final[Mapping[Section, float]] = MappingProxyType(
    {
        "instructions": 0.05,
        "profile": 0.05,
        "facts": 0.05,
        "memories": 0.3,
        "summary": 0.05,
        "history": 0.5,
    }
)
"""Guaranteed share of each section in the room that system prompt and query leave free."""

FIRST_TAKEN: Final[Sequence[Section]] = (
    "history",  # first, so that a memory of a turn that is shown leaves its room to others
    "instructions",
    "profile",
    "facts",
    "memories",
    "summary",
)
LAST_TAKEN: Final[Sequence[Section]] = (
    "instructions",
    "profile",
    "summary",
    "facts",
    "memories",
    "history",
)
"""Order in which sections take the remaining room, when no share has room for its next item."""

CHARACTERS_A_TOKEN: Final = 8
"""Characters counted first for each token of room; nearly every text has more tokens than that."""

COUNTED_AT_ONCE: Final = 4_000
"""Characters of a long text that are counted before its tokens are compared with the room."""

FIRST_CUT: Final = 0.5
"""Share of its section's room that a cut item may take while others wait."""

NAMES: Final[Mapping[Section, str]] = {"system": "system prompt", "query": "query"}
OVER_BUDGET: Final = "over budget"
NO_TEXT: Final = "no text"


def packed(
    candidates: Iterable[WindowCandidate],
    required: Iterable[WindowCandidate] = (),
    *,
    max_tokens: int,
    shares: Mapping[Section, float] = DEFAULT_SHARES,
    count: TokenCounter = count_tokens,
    cut: bool = False,
    layout: Layout = PROMPT,
) -> ContextWindow:
    """Return a window with all required items and the candidates that fit, best first.

    The best candidate is shown whole whenever it fits beside the required items alone, so that a
    larger budget never hides or cuts it.
    """
    known, needed, costs = [*candidates], [*required], Costs(count)
    packing = _Packing(max_tokens, costs, layout, needed, known, cut=cut)
    packing.take(shares)
    best = next((entry for entry in known if entry.is_best and entry.item.text), None)
    if best is not None and not packing.shows_whole(best):
        other = _Packing(max_tokens, costs, layout, needed, known, cut=cut)
        other.take_first(best)
        other.take(shares)
        if other.shows_whole(best) or not packing.shows(best):
            packing = other
    return packing.window()


def counted(
    candidates: Iterable[WindowCandidate],
    max_tokens: int,
    count: TokenCounter = count_tokens,
    layout: Layout = PROMPT,
) -> None:
    """Count candidates before packed(), best first, until they would take max_tokens."""
    costs = Costs(count)
    for entry in candidates:
        if entry.item.text:
            _weigh(entry, max_tokens, costs, layout)
            max_tokens -= entry.item.tokens or entry.at_least
            if max_tokens < 0:
                break


class _Packing:
    """The state of one assembly: the taken items in order, and the room left.

    Counting takes most of the time, so an item is counted only when it might fit. Not every
    tokenizer adds up over the parts, so the whole prompt is counted at the end.
    """

    def __init__(
        self,
        max_tokens: int,
        count: Costs,
        layout: Layout,
        required: Iterable[WindowCandidate],
        candidates: Iterable[WindowCandidate],
        *,
        cut: bool,
    ) -> None:
        self.max_tokens, self.count, self.layout, self.cut = max_tokens, count, layout, cut
        self.required = [self._counted(entry) for entry in required if entry.item.text.strip()]
        self.taken: list[WindowCandidate] = []
        self.blank: list[WindowCandidate] = []
        self.left: dict[Section, list[WindowCandidate]] = {section: [] for section in FIRST_TAKEN}
        for entry in candidates:
            (self.left[entry.item.section] if entry.item.text else self.blank).append(entry)
        self.frames = {
            one: count(layout.frame(one)) for one, entries in self.left.items() if entries
        }
        self.labels = {
            one: count(layout.shortest_line(self.left[one][0].item)) for one in self.frames
        }
        self.room = max_tokens - self._checked_floor()
        if any(section in self.frames for section in REMEMBERED):
            self.room -= count(layout.notice)

    def take(self, shares: Mapping[Section, float]) -> None:
        """Take what fits: first each section within its share, then any section in the rest."""
        budgets = _budgets(
            self.room, shares, {section: self._need(section) for section in self.frames}
        )
        for section in FIRST_TAKEN:
            if section in budgets:
                self._take_section(section, budgets[section])
        for section in LAST_TAKEN:
            if section in budgets:
                self._take_section(section, self.room)
        is_short = not self.layout.may_repeat or any(self._waiting())
        if is_short and self._shorten_summary():
            for section in LAST_TAKEN:
                if section in budgets and section != "summary":
                    self._take_section(section, self.room)
            self._shorten_summary()

    def take_first(self, entry: WindowCandidate) -> None:
        """Take one candidate, if it fits."""
        section = entry.item.section
        others = self.left[section]
        self.left[section] = [entry]
        self._take_section(section, self.room)
        self.left[section] += [other for other in others if other is not entry]

    def shows(self, entry: WindowCandidate) -> bool:
        """Return whether a candidate is shown, or another item that says the same."""
        left = self.left[entry.item.section]
        if not any(other is entry for other in left):
            return True
        return self._duplicate_of(entry, self._known()) is not None

    def shows_whole(self, entry: WindowCandidate) -> bool:
        """Return whether a candidate is shown and not cut, or said by another item."""
        if any(one is entry for one in self.taken):
            return True
        return any(one is entry for one in self.left[entry.item.section]) and self.shows(entry)

    def window(self) -> ContextWindow:
        """Return the window, without the last taken items if the whole prompt is too long."""
        prompt, tokens = self._prompt()
        while tokens > self.max_tokens:
            if not self.taken:
                raise InvalidInput(
                    f"the tokenizer {self.count.name} counts the same text differently each time:"
                    f" {tokens:,} tokens now, at most {self.max_tokens:,} before"
                )
            excess = tokens - self.max_tokens
            while self.taken and excess > 0:
                entry = self.taken.pop()
                self.left[entry.item.section].append(entry)
                excess -= max(entry.item.tokens, 1)
            prompt, tokens = self._prompt()
        return ContextWindow(
            items=tuple(self._shown()),
            dropped=tuple(self._dropped()),
            tokens=tokens,
            max_tokens=self.max_tokens,
            prompt=prompt,
        )

    def _need(self, section: Section) -> int:
        """Return the tokens of all items of a section, counted only as far as there is room."""
        need = self.frames[section]
        for entry in self.left[section]:
            if need > self.room:
                break
            self._weigh(entry, math.floor(self.room) - need)
            need += entry.item.tokens or entry.at_least + self.labels[section]
        return need

    def _take_section(self, section: Section, budget: float) -> None:
        left, self.left[section] = self.left[section], []
        known = self._known()
        opened = any(entry.item.section == section for entry in self.taken)
        for entry in left:
            opening = 0 if opened else self.frames[section]
            limit = math.floor(min(budget, self.room)) - opening
            if not any(key in known for key in entry.repeats):
                self._weigh(entry, limit)
                fits = 0 < entry.item.tokens <= limit
                shown = entry if fits or opened else self._shortened(entry, limit, len(left))
                if 0 < shown.item.tokens <= limit:
                    opened = True
                    budget -= opening + shown.item.tokens
                    self.room -= opening + shown.item.tokens
                    self.taken.append(shown)
                    known |= dict.fromkeys(shown.tells, shown.item)
                    continue
            self.left[section].append(entry)

    def _shortened(self, entry: WindowCandidate, limit: int, waiting: int) -> WindowCandidate:
        """Return an item cut to its first sentences, if cutting is on and that fits."""
        if not self.cut:
            return entry
        room = math.floor(limit * FIRST_CUT) if waiting > 1 else limit

        def cost(text: str) -> int:
            return self.count(self.layout.line(replace(entry.item, text=text)))

        for most in dict.fromkeys((room, limit)):
            if text := cut_to_fit(entry.item.text, most, cost):
                item = replace(entry.item, text=text, cut=True, tokens=0)
                return self._counted(replace(entry, item=item))
        return entry

    def _waiting(self) -> Iterator[WindowCandidate]:
        """Yield the items left out that are no duplicates."""
        known = self._known()
        for entries in self.left.values():
            yield from (entry for entry in entries if self._duplicate_of(entry, known) is None)

    def _shorten_summary(self) -> bool:
        """Remove from the summary what shown turns say; return whether room became free."""
        summaries = (n for n, entry in enumerate(self.taken) if entry.item.section == "summary")
        place = next(summaries, None)
        if place is None:
            return False
        entry = self.taken[place]
        if self._duplicate_of(entry, self._known()) is not None:
            self.left["summary"].append(self.taken.pop(place))
            self.room += self.frames["summary"] + entry.item.tokens
            return True
        item = without_shown(entry.item, self._shown_turns())
        if item is entry.item:
            return False
        self.taken[place] = self._counted(replace(entry, item=item))
        self.room += entry.item.tokens - self.taken[place].item.tokens
        return True

    def _shown_turns(self) -> list[ContextItem]:
        """Return the shown turns, from history or memories."""
        return [e.item for e in self.taken if e.item.section in ("memories", "history")]

    def _duplicate_of(
        self, entry: WindowCandidate, known: Mapping[ContentKey, ContextItem]
    ) -> ContextItem | None:
        """Return the shown item that says the same as a candidate, or None."""
        shown = next((known[key] for key in entry.repeats if key in known), None)
        if shown is None and entry.item.section == "summary" and (turns := self._shown_turns()):
            all_shown = entry.all_of and all(key in known for key in entry.all_of)
            if all_shown or not without_shown(entry.item, turns).text:
                return max(turns, key=lambda turn: (turn.section == "history", turn.number))
        return shown

    def _known(self) -> dict[ContentKey, ContextItem]:
        """Return the content keys of the shown items, each with its item."""
        entries = (*self.required, *self.taken)
        return {key: entry.item for entry in entries for key in entry.tells}

    def _shown(self) -> list[ContextItem]:
        return in_reading_order(entry.item for entry in (*self.required, *self.taken))

    def _dropped(self) -> list[DroppedItem]:
        known = self._known()
        dropped = [DroppedItem(item=entry.item, reason=NO_TEXT) for entry in self.blank]
        for entry in (one for entries in self.left.values() for one in entries):
            shown = self._duplicate_of(entry, known)
            reason = f"duplicate of {shown.ref}" if shown else OVER_BUDGET
            dropped.append(DroppedItem(item=entry.item, reason=reason))
        return sorted(dropped, key=lambda one: reading_place(one.item))

    def _prompt(self) -> tuple[str, int]:
        return self.count.of_prompt(self._shown(), self.layout)

    def _checked_floor(self) -> int:
        """Return the tokens of the required items alone. Raises InvalidInput if they do not fit."""
        _, tokens = self._prompt()
        if tokens > self.max_tokens:
            parts = " and ".join(
                f"the {NAMES[entry.item.section]} ({entry.item.tokens:,} tokens)"
                for entry in self.required
            )
            raise InvalidInput(
                f"{parts} alone take {tokens:,} tokens, {tokens - self.max_tokens:,} more than"
                f" max_tokens = {self.max_tokens:,}: shorten them or raise max_tokens"
            )
        return tokens

    def _weigh(self, entry: WindowCandidate, limit: int) -> None:
        """Count the entry if it might fit into limit tokens."""
        _weigh(entry, limit - self.labels[entry.item.section], self.count, self.layout)

    def _counted(self, entry: WindowCandidate) -> WindowCandidate:
        return _counted(entry, self.count, self.layout)


def _weigh(entry: WindowCandidate, room: int, count: Costs, layout: Layout) -> None:
    """Count an item if its text might fit into room tokens. Else set entry.at_least above room."""
    if entry.item.tokens or entry.at_least > room:
        return
    text, at_least = entry.item.text, 0
    end = CHARACTERS_A_TOKEN * (max(room, 0) + 1)
    for start in range(0, end if end < len(text) else 0, COUNTED_AT_ONCE):
        part = text[start : min(start + COUNTED_AT_ONCE, end)]
        at_least += count(part) - 1  # its last token may have been cut
        if at_least > room:
            entry.at_least = at_least
            return
    _counted(entry, count, layout)


def _counted(entry: WindowCandidate, count: Costs, layout: Layout) -> WindowCandidate:
    if not entry.item.tokens:
        tokens = max(count(layout.line(entry.item)), 1)
        entry.item = replace(entry.item, tokens=tokens)
    return entry


def _budgets(
    room: float, shares: Mapping[Section, float], needs: Mapping[Section, int]
) -> dict[Section, float]:
    """Return the room of each section: its share or need, plus a part of what others leave."""
    room = max(room, 0)
    budgets = {section: min(need, shares.get(section, 0) * room) for section, need in needs.items()}
    rest = room - sum(budgets.values())
    while rest > 1 and (needy := [one for one in needs if budgets[one] < needs[one]]):
        weights = {section: shares.get(section, 0) for section in needy}
        total = sum(weights.values())
        for section in needy:
            part = weights[section] / total if total else 1 / len(needy)
            budgets[section] = min(needs[section], budgets[section] + part * rest)
        rest = room - sum(budgets.values())
    return budgets
