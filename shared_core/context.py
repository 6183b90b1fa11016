"""Packs what a model should read into a token budget, and says what was left out and why. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from shared_core.context_candidates import (
    Candidate,
    fact_of,
    instruction_of,
    memory_of,
    paragraph_of,
    same_words,
    turns_of,
)
from shared_core.context_window import (
    NOTICE,
    REMEMBERED,
    ContextItem,
    ContextWindow,
    DroppedItem,
    Section,
    frame,
    in_reading_order,
    rendered,
    rendered_item,
    shortest_label,
)
from shared_core.domain import Event, Hit
from shared_core.errors import InvalidInput
from shared_core.run_ports import Fact
from shared_core.tokens import TokenCounter, count_tokens

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
"""The least each section may take of what the system prompt and the query leave, if it needs it."""

LEAST_MAX_TOKENS: Final = 64
"""Below this the delimiters alone would fill the window."""

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
"""Who takes what is left when no section's share has room for its next item."""

CHARACTERS_A_TOKEN: Final = 8
"""So much of a text is counted first; nearly every text has more tokens than that."""

NAMES: Final[Mapping[Section, str]] = {"system": "system prompt", "query": "query"}
OVER_BUDGET: Final = "over budget"
NO_TEXT: Final = "no text"


class ContextAssembler:
    """Packs instructions, profile, facts, memories, summary and history around a query.

    shares: the least each section may take of the room, 0 to 1, together at most 1; a section that
    is not named may take what the others leave. Room that a section does not need goes to those
    that do, by their shares. count: the tokenizer of the model, if it is not o200k; what it raises
    is passed on. An assembler holds no state: use one from many threads.
    """

    def __init__(
        self,
        max_tokens: int = 8000,
        *,
        shares: Mapping[Section, float] = DEFAULT_SHARES,
        count: TokenCounter = count_tokens,
    ) -> None:
        if isinstance(max_tokens, bool) or not isinstance(max_tokens, int):
            raise InvalidInput(f"max_tokens must be a whole number, not {max_tokens!r}")
        if max_tokens < LEAST_MAX_TOKENS:
            raise InvalidInput(f"max_tokens must be at least {LEAST_MAX_TOKENS}, not {max_tokens}")
        unknown = sorted(set(shares) - set(DEFAULT_SHARES))
        if unknown:
            raise InvalidInput(
                f"no section is called {', '.join(map(repr, unknown))}: shares are of"
                f" {', '.join(DEFAULT_SHARES)}"
            )
        if not all(0 <= share <= 1 for share in shares.values()) or sum(shares.values()) > 1 + 1e-9:
            raise InvalidInput(
                f"each share must be 0 to 1 and all together at most 1: {dict(shares)}"
            )
        self.max_tokens = max_tokens
        self.shares: Mapping[Section, float] = MappingProxyType(dict(shares))
        self.count = count

    def assemble(
        self,
        *,
        system_prompt: str,
        query: str,
        instructions: Sequence[str] = (),
        profile: str | None = None,
        facts: Sequence[Fact | Hit] = (),
        memories: Sequence[Hit] = (),
        summary: str | None = None,
        history: Sequence[Event] = (),
    ) -> ContextWindow:
        """Return the window: never more than max_tokens, all delimiters included.

        Facts and memories come best first. History comes in any order (turns of one instant in
        theirs) and is shown oldest first; the newest turns are kept. An item is shown whole or not
        at all. query is shown last; "" when the framework sends the user's message itself.
        Raises InvalidInput when the system prompt and the query alone do not fit.
        """
        same = same_words(query)
        required = [
            paragraph_of("system", system_prompt),
            replace(paragraph_of("query", query), tells=(("said", same), ("asked", same))),
        ]
        candidates = [
            *(instruction_of(number, text) for number, text in enumerate(instructions, 1)),
            *(fact_of(number, fact) for number, fact in enumerate(facts, 1)),
            *(memory_of("memories", number, hit) for number, hit in enumerate(memories, 1)),
            *turns_of(history),
            *([] if profile is None else [paragraph_of("profile", profile)]),
            *([] if summary is None else [paragraph_of("summary", summary)]),
        ]
        packing = _Packing(self.max_tokens, self.count, required, candidates)
        packing.take(self.shares)
        return packing.window()


class _Packing:
    """One assembly: what is taken, in the order it was taken, and how much room is left.

    Counting is what takes time, so an item is counted when it might fit. With o200k the tokens of
    the parts add up; they need not with every tokenizer, so the prompt is counted as a whole before
    it is handed out.
    """

    def __init__(
        self,
        max_tokens: int,
        count: TokenCounter,
        required: Iterable[Candidate],
        candidates: Iterable[Candidate],
    ) -> None:
        self.max_tokens, self.count = max_tokens, count
        self.required = [self._counted(entry) for entry in required if entry.item.text.strip()]
        self.taken: list[Candidate] = []
        self.blank: list[Candidate] = []
        self.left: dict[Section, list[Candidate]] = {section: [] for section in FIRST_TAKEN}
        for entry in candidates:
            (self.left[entry.item.section] if entry.item.text else self.blank).append(entry)
        self.frames = {one: count(frame(one)) for one, entries in self.left.items() if entries}
        self.labels = {one: count(shortest_label(self.left[one][0].item)) for one in self.frames}
        self.room = max_tokens - self._checked_floor()
        if any(section in self.frames for section in REMEMBERED):
            self.room -= count(NOTICE)

    def take(self, shares: Mapping[Section, float]) -> None:
        """Take what fits: each section its part of the room, then whatever fits what is left."""
        budgets = _budgets(
            self.room, shares, {section: self._need(section) for section in self.frames}
        )
        for section in FIRST_TAKEN:
            if section in budgets:
                self._take_section(section, budgets[section])
        for section in LAST_TAKEN:
            if section in budgets:
                self._take_section(section, self.room)

    def window(self) -> ContextWindow:
        """Return what was taken, without the items taken last for which the prompt is too long."""
        prompt, tokens = self._prompt()
        while tokens > self.max_tokens:
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
        """Return what all items of a section take; no more is counted than there is room for."""
        need = self.frames[section]
        entries = self.left[section]
        for place, entry in enumerate(entries):
            if need > self.room:
                break
            entries[place] = self._counted(entry)
            need += entries[place].item.tokens
        return need

    def _take_section(self, section: Section, budget: float) -> None:
        left, self.left[section] = self.left[section], []
        known = self._known()
        opened = any(entry.item.section == section for entry in self.taken)
        for entry in left:
            opening = 0 if opened else self.frames[section]
            limit = math.floor(min(budget, self.room)) - opening
            if not any(mark in known for mark in entry.repeats):
                entry = self._weighed(entry, limit)
                if 0 < entry.item.tokens <= limit:
                    opened = True
                    budget -= opening + entry.item.tokens
                    self.room -= opening + entry.item.tokens
                    self.taken.append(entry)
                    known |= dict.fromkeys(entry.tells, entry.item.ref)
                    continue
            self.left[section].append(entry)

    def _known(self) -> dict[tuple[str, str], str]:
        """Return what the shown items tell, each with the item that tells it."""
        entries = (*self.required, *self.taken)
        return {mark: entry.item.ref for entry in entries for mark in entry.tells}

    def _shown(self) -> list[ContextItem]:
        return in_reading_order(entry.item for entry in (*self.required, *self.taken))

    def _dropped(self) -> list[DroppedItem]:
        known = self._known()
        reasons = {entry.item.ref: NO_TEXT for entry in self.blank}
        left = [entry for entries in self.left.values() for entry in entries]
        for entry in left:
            shown = next((known[mark] for mark in entry.repeats if mark in known), None)
            reasons[entry.item.ref] = f"duplicate of {shown}" if shown else OVER_BUDGET
        items = in_reading_order(entry.item for entry in (*left, *self.blank))
        return [DroppedItem(item=item, reason=reasons[item.ref]) for item in items]

    def _prompt(self) -> tuple[str, int]:
        prompt = rendered(self._shown())
        return prompt, self.count(prompt)

    def _checked_floor(self) -> int:
        """Return what the prompt takes with nothing packed; raise when that is too much."""
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

    def _weighed(self, entry: Candidate, limit: int) -> Candidate:
        """Return the entry, counted if it might take no more tokens than limit."""
        room = limit - self.labels[entry.item.section]
        if entry.item.tokens or entry.at_least > room:
            return entry
        beginning = entry.item.text[: CHARACTERS_A_TOKEN * (room + 1)]
        if len(beginning) < len(entry.item.text):
            at_least = self.count(beginning) - 1  # its last token may have been cut
            if at_least > room:
                return replace(entry, at_least=at_least)
        return self._counted(entry)

    def _counted(self, entry: Candidate) -> Candidate:
        if entry.item.tokens:
            return entry
        tokens = max(self.count(rendered_item(entry.item)), 1)
        return replace(entry, item=replace(entry.item, tokens=tokens))


def _budgets(
    room: float, shares: Mapping[Section, float], needs: Mapping[Section, int]
) -> dict[Section, float]:
    """Return how much room each section may take: its share or its need, and parts of the rest."""
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
