"""Pack a context window, or the block of recalled memories, into a token budget. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

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
from shared_core.context.composition import Composition, ShownMemory, memory_label
from shared_core.context.packing import DEFAULT_SHARES, counted, packed
from shared_core.context.window import ContextItem, ContextWindow, DroppedItem, Layout
from shared_core.core.delimiters import HEAD, TAIL, Section, line
from shared_core.core.domain import Event, Hit, Memory
from shared_core.core.namespaces import clean_text
from shared_core.core.shown import shown
from shared_core.core.validation import listed, number
from shared_core.errors import InvalidInput
from shared_core.nlp.tokenizer import TokenCounter, count_tokens
from shared_core.ports.runs import Fact

SHARES: Final[Mapping[Section, float]] = MappingProxyType(
    {"profile": 0.15, "facts": 0.35, "memories": 0.35, "summary": 0.15}
)
EARLIER: Final = "summary of this conversation so far"


def memory_block(
    memories: Composition,
    max_tokens: int,
    *,
    profile: str | None = None,
    summary: Memory | None = None,
    notice: str = "",
    count: TokenCounter = count_tokens,
) -> ContextWindow:
    """Return a window whose prompt is one block of at most max_tokens, or "" if nothing fits.

    Items that do not fit give way to items that do, and the best item is cut rather than dropped.
    `dropped` holds them, and what is not worth showing, with the reasons.

    Args:
        memories: See composed().
        max_tokens: Budget of the whole block.
        profile: Shown first.
        summary: Summary of the turns that the request no longer shows. Shown last.
        notice: What the memory does about a request to forget. Shown before all.
        count: Tokenizer of the model.
    """
    entries = [_entry_of(one, number) for number, one in enumerate(memories.shown, 1)]
    if entries:
        entries[0].is_best = True
    if profile:
        entries.append(_entry("profile", 1, "profile", profile))
    if notice:
        entries.append(_entry("profile", 0, "request to forget", notice))
    if summary is not None:
        when = memory_label(summary.text, summary.occurred_at, None)
        entries.append(_entry("summary", 1, f"{when}, {EARLIER}", summary.text))
    window = packed(
        entries, max_tokens=max_tokens, shares=SHARES, count=count, cut=True, layout=BLOCK
    )
    dropped = [
        DroppedItem(item=_entry_of(one, number).item, reason=reason)
        for number, (one, reason) in enumerate(memories.left_out, len(memories.shown) + 1)
    ]
    return replace(window, dropped=(*window.dropped, *dropped))


def _entry_of(memory: ShownMemory, number: int) -> WindowCandidate:
    return _entry("facts" if memory.is_fact else "memories", number, memory.about, memory.text)


def _entry(section: Section, number: int, about: str, text: str) -> WindowCandidate:
    item = ContextItem(section=section, number=number, author=about, text=clean_text(text) or " ")
    keys = () if section == "summary" else (("turn_text", same_words(item.text)),)
    return WindowCandidate(item, keys, keys)


def _line(item: ContextItem) -> str:
    return line(item.author or "", item.text)


def _pieces(items: Sequence[ContextItem]) -> list[str]:
    places: Mapping[Section, int] = {"profile": 0, "facts": 1, "memories": 1, "summary": 2}
    best_first = sorted(items, key=lambda item: (places[item.section], item.number))
    return [HEAD, *map(_line, best_first), TAIL] if items else []


BLOCK: Final = Layout(_line, lambda section: "", HEAD + TAIL, _pieces, may_repeat=False)
"""One line for each memory, best first, between delimiters that no memory can contain."""


LEAST_MAX_TOKENS: Final = 64
"""Smallest budget: below it the delimiters alone would fill the window."""


@dataclass(frozen=True, slots=True)
class CountedTurns:
    """Turns counted by ContextAssembler.counted(), for one assembly."""

    entries: Sequence[WindowCandidate]


class ContextAssembler:
    """Packs instructions, profile, facts, memories, summary and history around a query.

    An assembler holds no state: many threads may use one.

    Args:
        max_tokens: Budget of the whole prompt, delimiters included; at least 64.
        shares: Guaranteed share of each section in the free room, 0 to 1, at most 1 in total.
            Unused room goes to the sections that need it, in proportion to their shares. A section
            without a share only gets what others leave.
        count: Tokenizer of the model; o200k by default. Its errors are re-raised with a note.
        cut: Whether an over-long newest message, best memory or summary is cut to its first
            sentences, marked as cut, instead of dropped.
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
            raise InvalidInput(f"max_tokens must be a whole number, got {shown(max_tokens)}")
        if max_tokens < LEAST_MAX_TOKENS:
            raise InvalidInput(f"max_tokens must be at least {LEAST_MAX_TOKENS}, got {max_tokens}")
        if not callable(count):
            raise InvalidInput(
                f"count must be a function from a text to its number of tokens, got {shown(count)};"
                " without count, o200k is used"
            )
        if not isinstance(shares, Mapping):
            raise InvalidInput(f"shares must map sections to numbers, got {shown(shares)}")
        unknown = sorted(set(shares) - set(DEFAULT_SHARES))
        if unknown:
            raise InvalidInput(
                f"shares has unknown sections {', '.join(map(repr, unknown))}: name"
                f" {', '.join(DEFAULT_SHARES)}"
            )
        for section, share in shares.items():
            number(share, f"the share of {section}", 0, 1)
        if sum(shares.values()) > 1 + 1e-9:
            raise InvalidInput(f"shares must add up to at most 1, got {dict(shares)}")
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
        left_out: Sequence[tuple[Hit, str]] = (),
    ) -> ContextWindow:
        """Return a window of at most max_tokens, all delimiters included.

        An item is shown whole or not at all, unless the assembler cuts.

        Args:
            system_prompt: Shown first, always.
            query: Shown last, always; "" if the framework sends the user's message itself.
            instructions: Texts, in order.
            profile: One text.
            facts: Best first.
            memories: Best first.
            summary: Summary of earlier turns, shown without what the shown turns say.
            summarised: Event ids of the turns that summary covers.
            history: Turns in any order; turns of the same time keep their order. The newest are
                kept, and shown oldest first.
            left_out: Hits that are not worth showing, each with the reason. They are in
                ContextWindow.dropped.

        Raises:
            InvalidInput: The system prompt and the query alone do not fit.
        """
        if (
            isinstance(instructions, str)
            or not isinstance(instructions, Sequence)
            or not all(isinstance(one, str) for one in instructions)
        ):
            raise InvalidInput(f"instructions must be a list of texts, got {shown(instructions)}")
        facts, memories = listed(facts, "facts", "[]"), listed(memories, "memories", "[]")
        hits = [one for one in (*facts[:1], *memories[:1]) if isinstance(one, Hit)]
        best = max(hits, key=lambda hit: hit.score, default=None)
        request = paragraph_of("query", query)
        words = same_words(query)
        required = [
            paragraph_of("system", system_prompt),
            replace(request, tells=(("turn_text", words), ("query_text", words))),
        ]
        candidates = [
            *(instruction_of(place, text) for place, text in enumerate(instructions, 1)),
            *(fact_of(place, fact) for place, fact in enumerate(facts, 1)),
            *(memory_of("memories", place, hit)
              for place, hit in enumerate(memories, 1)),
            *(history.entries if isinstance(history, CountedTurns)
              else turns_of(listed(history, "history", "[]"))),
            *([] if profile is None else [paragraph_of("profile", profile)]),
            *([] if summary is None
              else [summary_of(summary, listed(summarised, "summarised", "[]"))]),
        ]  # fmt: skip
        for entry in candidates:
            entry.is_best = best is not None and entry.item.source == str(best.memory.memory_id)
        window = packed(
            candidates,
            required,
            max_tokens=self.max_tokens,
            shares=self.shares,
            count=self.count,
            cut=self.cut,
        )
        dropped = _dropped(window, left_out, facts=len(facts), memories=len(memories))
        return replace(window, dropped=(*window.dropped, *dropped))

    def counted(self, history: Sequence[Event]) -> CountedTurns:
        """Return turns for assemble(history=...), counted as far as they might fit.

        Saves time if the turns are known before the rest, because counting is most of the work.
        """
        entries = turns_of(history)
        counted(entries, self.max_tokens, self.count)
        return CountedTurns(entries)

    def format_context(self, window: ContextWindow) -> str:
        """Return the text for the model, as window.to_prompt() does."""
        return window.to_prompt()


def _dropped(
    window: ContextWindow, left_out: Sequence[tuple[Hit, str]], **numbers: int
) -> Iterator[DroppedItem]:
    """Yield items for hits that are not worth showing. numbers: of items before them, by section.

    A turn that the history shows is its duplicate.
    """
    turns = {item.source: item.ref for item in window.section("history")}
    for hit, reason in left_out:
        section: Section = "facts" if hit.memory.kind == "semantic" else "memories"
        numbers[section] += 1
        item = memory_of(section, numbers[section], hit).item
        events = hit.memory.source_event_ids if hit.memory.kind == "episodic" else ()
        if shown_turn := next((turns[one] for one in events if one in turns), None):
            reason = f"duplicate of {shown_turn}"
        yield DroppedItem(item=item, reason=reason)
