"""What recall puts before a model: packed like a context, as one block within a budget. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from shared_core.context.candidates import Candidate, same_words
from shared_core.context.packing import packed
from shared_core.context.window import ContextItem, Layout
from shared_core.core.delimiters import Section
from shared_core.core.domain import Memory
from shared_core.core.memory_delimiters import HEAD, TAIL, line
from shared_core.core.namespaces import clean_text
from shared_core.nlp.tokenizer import TokenCounter, count_tokens

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


def _entry(section: Section, number: int, about: str, text: str) -> Candidate:
    item = ContextItem(section=section, number=number, author=about, text=clean_text(text) or " ")
    told = () if section == "summary" else (("said", same_words(item.text)),)
    return Candidate(item, told, told)


def _line(item: ContextItem) -> str:
    return line(item.author or "", item.text)


def _pieces(items: Sequence[ContextItem]) -> list[str]:
    places: Mapping[Section, int] = {"profile": 0, "facts": 1, "memories": 1, "summary": 2}
    best_first = sorted(items, key=lambda item: (places[item.section], item.number))
    return [HEAD, *map(_line, best_first), TAIL] if items else []


BLOCK: Final = Layout(_line, lambda section: "", HEAD + TAIL, _pieces, may_repeat=False)
"""One line for each memory, best first, between the delimiters that no memory can write."""
