"""Packs what a model should read into a token budget, and says what was left out and why. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from shared_core.context.candidates import (
    Candidate,
    fact_of,
    instruction_of,
    memory_of,
    paragraph_of,
    same_words,
    summary_of,
    turns_of,
)
from shared_core.context.packing import DEFAULT_SHARES, counted, packed
from shared_core.context.window import ContextWindow
from shared_core.core.delimiters import Section
from shared_core.core.domain import Event, Hit
from shared_core.core.validation import listed, number
from shared_core.errors import InvalidInput
from shared_core.nlp.tokenizer import TokenCounter, count_tokens
from shared_core.ports.runs import Fact

LEAST_MAX_TOKENS: Final = 64
"""Below this the delimiters alone would fill the window."""


@dataclass(frozen=True, slots=True)
class CountedTurns:
    """What ContextAssembler.counted() made of turns, for one assembly."""

    entries: Sequence[Candidate]


class ContextAssembler:
    """Packs instructions, profile, facts, memories, summary and history around a query.

    shares: the least each section may take of the room, 0 to 1, together at most 1; a section that
    is not named may take what the others leave. Room that a section does not need goes to those
    that do, by their shares. count: the tokenizer of the model, if it is not o200k; what it raises
    is passed on, with a note that names it. cut: of an over-long newest message, best memory or
    summary show the first sentences, marked as cut, instead of nothing. An assembler holds no
    state: use one from many threads.
    """

    def __init__(
        self,
        max_tokens: int = 8000,
        *,
        shares: Mapping[Section, float] = DEFAULT_SHARES,
        count: TokenCounter = count_tokens,
        cut: bool = False,
    ) -> None:
        if isinstance(max_tokens, bool) or not isinstance(max_tokens, int):
            raise InvalidInput(f"max_tokens must be a whole number, not {max_tokens!r}")
        if max_tokens < LEAST_MAX_TOKENS:
            raise InvalidInput(f"max_tokens must be at least {LEAST_MAX_TOKENS}, not {max_tokens}")
        if not callable(count):
            raise InvalidInput(
                f"count must be a function from a text to its tokens, not {count!r:.80}; left out,"
                " o200k counts"
            )
        if not isinstance(shares, Mapping):
            raise InvalidInput(f"shares must be a share of each section, not {shares!r:.80}")
        unknown = sorted(set(shares) - set(DEFAULT_SHARES))
        if unknown:
            raise InvalidInput(
                f"no section is called {', '.join(map(repr, unknown))}: shares are of"
                f" {', '.join(DEFAULT_SHARES)}"
            )
        for section, share in shares.items():
            number(share, f"the share of {section}", 0, 1)
        if sum(shares.values()) > 1 + 1e-9:
            raise InvalidInput(f"shares must be 0 to 1, all together at most 1: {dict(shares)}")
        self.max_tokens = max_tokens
        self.shares: Mapping[Section, float] = MappingProxyType(dict(shares))
        self.count = count
        self.cut = cut

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
        summarised: Sequence[str] = (),
        history: Sequence[Event] | CountedTurns = (),
    ) -> ContextWindow:
        """Return the window: never more than max_tokens, all delimiters included.

        Facts and memories come best first. History comes in any order (turns of one instant in
        theirs) and is shown oldest first; the newest turns are kept. An item is shown whole or not
        at all, unless the assembler cuts. summarised: ids of the turns that summary tells of; it is
        shown as far as the shown turns do not tell it themselves. query is shown last; "" when the
        framework sends the user's message itself.
        Raises InvalidInput when the system prompt and the query alone do not fit.
        """
        if (
            isinstance(instructions, str)
            or not isinstance(instructions, Sequence)
            or not all(isinstance(one, str) for one in instructions)
        ):
            raise InvalidInput(f"instructions must be a list of texts, not {instructions!r}")
        asked = paragraph_of("query", query)
        same = same_words(query)
        required = [
            paragraph_of("system", system_prompt),
            replace(asked, tells=(("said", same), ("asked", same))),
        ]
        candidates = [
            *(instruction_of(place, text) for place, text in enumerate(instructions, 1)),
            *(fact_of(place, fact) for place, fact in enumerate(listed(facts, "facts", "[]"), 1)),
            *(memory_of("memories", place, hit)
              for place, hit in enumerate(listed(memories, "memories", "[]"), 1)),
            *(history.entries if isinstance(history, CountedTurns)
              else turns_of(listed(history, "history", "[]"))),
            *([] if profile is None else [paragraph_of("profile", profile)]),
            *([] if summary is None
              else [summary_of(summary, listed(summarised, "summarised", "[]"))]),
        ]  # fmt: skip
        return packed(
            candidates,
            required,
            max_tokens=self.max_tokens,
            shares=self.shares,
            count=self.count,
            cut=self.cut,
        )

    def counted(self, history: Sequence[Event]) -> CountedTurns:
        """Return turns for assemble(history=...), counted as far as the budget may hold them.

        For who has the turns before the rest: counting is most of the work.
        """
        entries = turns_of(history)
        counted(entries, self.max_tokens, self.count)
        return CountedTurns(entries)

    def format_context(self, window: ContextWindow) -> str:
        """Return the text for the model: the same as window.to_prompt()."""
        return window.to_prompt()
