"""Packs what a model should read into a token budget, and says what was left out and why. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, NamedTuple

from shared_core.context.candidates import (
    WindowCandidate,
    fact_of,
    instruction_of,
    memory_of,
    paragraph_of,
    same_words,
    summary_of,
    turns_of,
)
from shared_core.context.packing import DEFAULT_SHARES, counted, packed
from shared_core.context.window import ContextItem, ContextWindow, Layout
from shared_core.core.delimiters import Section
from shared_core.core.domain import Event, Hit, Memory
from shared_core.core.memory_delimiters import HEAD, TAIL, line
from shared_core.core.namespaces import clean_text
from shared_core.core.validation import listed, number
from shared_core.errors import InvalidInput
from shared_core.nlp.tokenizer import TokenCounter, count_tokens
from shared_core.ports.runs import Fact

SHARES: Final[Mapping[Section, float]] = MappingProxyType(
    {"profile": 0.15, "facts": 0.35, "memories": 0.35, "summary": 0.15}
)
EARLIER: Final = "summary of this conversation so far"


class ShownMemory(NamedTuple):
    """A memory as it would be shown. about: what is told of it, e.g. when and by whom."""

    about: str
    text: str
    is_fact: bool = False


def memory_block(
    found: Iterable[ShownMemory | tuple[str, str]],
    max_tokens: int,
    *,
    profile: str | None = None,
    summary: Memory | None = None,
    count: TokenCounter = count_tokens,
) -> str | None:
    """Return a block of at most max_tokens, or None if none of it is worth showing.

    found: best first. Facts and memories have their shares, which flow where they are needed; what
    says the same again is left out, what does not fit is left out for what does, and the best is
    cut rather than left out. profile comes first; summary, of what the request no longer shows of
    its own conversation, last.
    """
    entries = [
        _entry("facts" if one.is_fact else "memories", number, one.about, one.text)
        for number, one in enumerate((ShownMemory(*one) for one in found), 1)
    ]
    if profile:
        entries.append(_entry("profile", 1, "profile", profile))
    if summary is not None:
        when = summary.occurred_at.isoformat(timespec="seconds")
        entries.append(_entry("summary", 1, f"{when}, {EARLIER}", summary.text))
    window = packed(
        entries, max_tokens=max_tokens, shares=SHARES, count=count, cut=True, layout=BLOCK
    )
    return window.prompt or None


def _entry(section: Section, number: int, about: str, text: str) -> WindowCandidate:
    item = ContextItem(section=section, number=number, author=about, text=clean_text(text) or " ")
    told = () if section == "summary" else (("said", same_words(item.text)),)
    return WindowCandidate(item, told, told)


def _line(item: ContextItem) -> str:
    return line(item.author or "", item.text)


def _pieces(items: Sequence[ContextItem]) -> list[str]:
    places: Mapping[Section, int] = {"profile": 0, "facts": 1, "memories": 1, "summary": 2}
    best_first = sorted(items, key=lambda item: (places[item.section], item.number))
    return [HEAD, *map(_line, best_first), TAIL] if items else []


BLOCK: Final = Layout(_line, lambda section: "", HEAD + TAIL, _pieces, may_repeat=False)
"""One line for each memory, best first, between the delimiters that no memory can write."""


LEAST_MAX_TOKENS: Final = 64
"""Below this the delimiters alone would fill the window."""


@dataclass(frozen=True, slots=True)
class CountedTurns:
    """What ContextAssembler.counted() made of turns, for one assembly."""

    entries: Sequence[WindowCandidate]


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
