"""What a model gets to read: packed items, what was left out, and the prompt they make. Pure.

Remembered text is data. In the prompt it stands between tags it cannot close, and where a section
lists items, each begins a line with its label. Every further line of what is remembered is
indented, and so is a first line that begins as an item does: no text can pass for another item, or
for the end of its section.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from itertools import groupby
from typing import Final

from shared_core.core.delimiters import FILLERS, NOTICE, OUR_TAGS, READING_ORDER, Section
from shared_core.core.domain import JsonValue, Role

REMEMBERED: Final[Sequence[Section]] = ("profile", "facts", "memories", "summary", "history")
LISTS: Final[Mapping[Section, str]] = {
    "instructions": "i",
    "facts": "f",
    "memories": "m",
    "history": "h",
}
"""The sections that list numbered items, and the letter before the number."""

MAX_AUTHOR_CHARACTERS: Final = 64
_LIKE_AN_ITEM: Final = re.compile(rf"[\W_{FILLERS}]*\[|[\s{FILLERS}]*[-*+\u2022\u2013\u2014]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextItem:
    """One thing a model may read, and where it comes from.

    number: its place among what was given for its section, from 1; in history the oldest is 1.
    tokens: what it takes in the prompt, its label included; 0 for an item that was dropped without
    being counted, because not even its label fitted or it had no text.
    source: the id of the memory, fact or event. kind: of memory or fact. score, score_parts: of
    the hit; for a fact its confidence. valid_until: when it ceased to hold. thread_id: where it was
    said. cut: text is its beginning, and ends in "[…]".
    """

    section: Section
    text: str
    number: int = 1
    tokens: int = 0
    kind: str | None = None
    source: str | None = None
    source_event_ids: tuple[str, ...] = ()
    thread_id: str | None = None
    author: str | None = None
    role: Role | None = None
    occurred_at: datetime | None = None
    valid_until: datetime | None = None
    importance: float | None = None
    score: float | None = None
    score_parts: Mapping[str, float] = field(default_factory=dict)
    cut: bool = False

    @property
    def ref(self) -> str:
        """What the prompt calls it, e.g. "m3"; the name of the section where there is but one."""
        letter = LISTS.get(self.section)
        return f"{letter}{self.number}" if letter else self.section

    @property
    def valid_from(self) -> datetime | None:
        """When it began to hold, for a fact."""
        return self.occurred_at if self.section == "facts" else None

    def to_dict(self) -> dict[str, JsonValue]:
        """Return it as JSON, without what is not known."""
        shown: dict[str, JsonValue] = {
            "ref": self.ref,
            "section": self.section,
            "text": self.text,
            "tokens": self.tokens,
            "kind": self.kind,
            "source": self.source,
            "source_event_ids": list(self.source_event_ids) or None,
            "thread_id": self.thread_id,
            "author": self.author,
            "role": self.role,
            "occurred_at": self.occurred_at.isoformat() if self.occurred_at else None,
            "valid_from": self.valid_from.isoformat() if self.valid_from else None,
            "valid_until": self.valid_until.isoformat() if self.valid_until else None,
            "importance": self.importance,
            "score": self.score,
            "score_parts": dict(self.score_parts) or None,
            "cut": self.cut or None,
        }
        return {name: value for name, value in shown.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedItem:
    """An item that was left out; reason: "over budget", "duplicate of m3" or "no text".

    A summary is a duplicate of history whose turns tell all of it; the last of them is named.
    """

    item: ContextItem
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextWindow:
    """What fits into the budget, in reading order, and everything that was left out.

    tokens, or total_tokens: of the whole prompt, by the tokenizer it was packed with; never above
    max_tokens. budget_used: the share of max_tokens that they are.
    """

    items: tuple[ContextItem, ...]
    dropped: tuple[DroppedItem, ...]
    tokens: int
    max_tokens: int
    prompt: str

    @property
    def total_tokens(self) -> int:
        """The same as tokens."""
        return self.tokens

    @property
    def budget_used(self) -> float:
        """The share of max_tokens that is taken, 0 to 1."""
        return self.tokens / self.max_tokens

    def section(self, name: Section) -> tuple[ContextItem, ...]:
        """Return the items of one section, in reading order."""
        return tuple(item for item in self.items if item.section == name)

    def to_prompt(self) -> str:
        """Return the text for the model: the system prompt, then each section between its tags."""
        return self.prompt

    def to_dict(self) -> dict[str, JsonValue]:
        """Return it as JSON: the prompt, its cost, each item and each dropped one with its reason.

        "sections" tells how many tokens the items of each section take.
        """
        sections: dict[str, JsonValue] = {
            name: sum(item.tokens for item in items)
            for name in READING_ORDER
            if (items := self.section(name))
        }
        return {
            "tokens": self.tokens,
            "total_tokens": self.total_tokens,
            "max_tokens": self.max_tokens,
            "budget_used": self.budget_used,
            "sections": sections,
            "items": [item.to_dict() for item in self.items],
            "dropped": [{**one.item.to_dict(), "reason": one.reason} for one in self.dropped],
            "prompt": self.prompt,
        }


@dataclass(frozen=True, slots=True)
class Layout:
    """How items become a prompt.

    line: what an item adds; frame: what a section adds besides; notice: what is added once as soon
    as anything remembered is shown. pieces: the prompt of items in reading order, in pieces that
    each begin behind a line break and with neither white space nor "/". may_repeat: whether a
    summary may say again what turns say, while there is room for everything.
    """

    line: Callable[[ContextItem], str]
    frame: Callable[[Section], str]
    notice: str
    pieces: Callable[[Sequence[ContextItem]], list[str]]
    may_repeat: bool

    def shortest_line(self, item: ContextItem) -> str:
        """Return the least that any item of the same section adds."""
        return self.line(replace(item, text="", number=1, author=None, role=None, kind=None))


def in_reading_order(items: Iterable[ContextItem]) -> list[ContextItem]:
    """Return the items section by section, by their numbers within one."""
    return sorted(items, key=reading_place)


def reading_place(item: ContextItem) -> tuple[int, int]:
    """Return what puts items in reading order."""
    return READING_ORDER.index(item.section), item.number


def pieces(items: Sequence[ContextItem]) -> list[str]:
    """Return the prompt of items that are in reading order, in pieces.

    Each begins behind a line break, and with neither white space nor "/". What a section holds
    besides items of a list is one piece, for its text may begin with anything.
    """
    parts: list[str] = []
    noticed = False
    for section, shown in groupby(items, key=lambda item: item.section):
        if section in REMEMBERED and not noticed:
            parts.append(NOTICE)
            noticed = True
        lines = [rendered_item(item) for item in shown]
        if section in LISTS:
            parts += [_opening(section), *lines, _closing(section)]
        else:
            parts.append("".join([_opening(section), *lines, _closing(section)]))
    if parts:
        parts[-1] = parts[-1].removesuffix("\n\n")
    return parts


def rendered(items: Sequence[ContextItem]) -> str:
    """Return the prompt of items that are in reading order."""
    return "".join(pieces(items))


def rendered_item(item: ContextItem) -> str:
    """Return what an item adds to the prompt, label included.

    It ends with the line break: tokens reach from a sentence to the break behind it, but not from
    there to what follows, so that the tokens of the parts add up to those of the whole.
    """
    if item.section == "system":
        return f"{item.text}\n\n"
    text = OUR_TAGS.escaped(item.text)
    if item.section == "query":
        return f"{text}\n"
    lines = text if text.isprintable() else "\n  ".join(text.splitlines())
    if item.section in LISTS:
        return f"- [{', '.join(_label(item))}] {lines}\n"
    return f"  {lines}\n" if _LIKE_AN_ITEM.match(lines) else f"{lines}\n"


def frame(section: Section) -> str:
    """Return what a section adds to the prompt besides its items."""
    return _opening(section) + _closing(section)


def _opening(section: Section) -> str:
    return "" if section == "system" else f"<{section}>\n"


def _closing(section: Section | None) -> str:
    return "" if section in (None, "system") else f"</{section}>\n\n"


def _label(item: ContextItem) -> list[str]:
    label = [item.ref]
    if item.section == "facts" and item.kind:
        label.append(item.kind)
    if item.occurred_at:
        label.append(_when(item.occurred_at))
    if item.valid_until:
        label.append(f"until {_when(item.valid_until)}")
    author = _one_line(item.author or "")
    if item.role and item.role != author:
        author = f"{author} ({item.role})" if author else item.role
    return [*label, author] if author else label


@lru_cache(maxsize=8192)
def _when(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(" ", "minutes")[:16]


def _one_line(author: str) -> str:
    """Return an author that cannot end its label, cut to a length that names anyone."""
    if author.isalnum() and len(author) <= MAX_AUTHOR_CHARACTERS:
        return author
    words = " ".join(OUR_TAGS.escaped(author).replace("[", "(").replace("]", ")").split())
    if len(words) <= MAX_AUTHOR_CHARACTERS:
        return words
    return words[: MAX_AUTHOR_CHARACTERS - 1] + "…"


PROMPT: Final = Layout(rendered_item, frame, NOTICE, pieces, may_repeat=True)
"""Each section between tags of its name, in reading order."""
