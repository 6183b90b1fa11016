"""A context window: its items, the dropped items, and the prompt. Pure.

Remembered text is data. The prompt puts it between tags that it cannot close. In a list, each item
starts a line with its label, and its other lines are indented. So is the first line of an unlisted
text that starts like an item. No text can pass for another item or end its section.
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
from shared_core.nlp.uncertainty import uncertain

REMEMBERED: Final[Sequence[Section]] = ("profile", "facts", "memories", "summary", "history")
LISTS: Final[Mapping[Section, str]] = {
    "instructions": "i",
    "facts": "f",
    "memories": "m",
    "history": "h",
}
"""The sections that list numbered items, and the letter before their numbers."""

MAX_AUTHOR_CHARACTERS: Final = 64
_LIKE_AN_ITEM: Final = re.compile(rf"[\W_{FILLERS}]*\[|[\s{FILLERS}]*[-*+\u2022\u2013\u2014]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextItem:
    """One item of a context window, and its source.

    number: its place in its section, from 1; in history the oldest is 1. tokens: its cost with its
    label; 0 if it was dropped without being counted. source: id of the memory, fact or event. kind:
    of the memory or fact. score, score_parts: of the hit; the confidence of a fact. valid_until:
    when it ceased to hold. is_doubtful: a doubtful fact, marked after its text. thread_id: its
    thread. cut: whether text is only the beginning and ends in "[…]".
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
    is_doubtful: bool = False
    importance: float | None = None
    score: float | None = None
    score_parts: Mapping[str, float] = field(default_factory=dict)
    cut: bool = False

    @property
    def ref(self) -> str:
        """Its name in the prompt, e.g. "m3", or the name of a section with a single text."""
        letter = LISTS.get(self.section)
        return f"{letter}{self.number}" if letter else self.section

    @property
    def valid_from(self) -> datetime | None:
        """When a fact began to hold; None for other items."""
        return self.occurred_at if self.section == "facts" else None

    def to_dict(self, *, explain: bool = False) -> dict[str, JsonValue]:
        """Return the item as JSON, without unknown values. explain: add the parts of its score."""
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
            "uncertain": self.is_doubtful or None,
            "importance": self.importance,
            "score": self.score,
            "score_parts": dict(self.score_parts) or None if explain else None,
            "cut": self.cut or None,
        }
        return {name: value for name, value in shown.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedItem:
    """A dropped item. reason: "over budget", "duplicate of m3", "no text", or why it is not worth
    showing: "has ended", "only asks, agrees or repeats", "told by other items", "said again".

    A summary is a duplicate if shown turns say all of it; the reason names the last of them.
    """

    item: ContextItem
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextWindow:
    """The items that fit into the budget, in reading order, and the dropped ones.

    tokens, total_tokens: cost of the whole prompt by its tokenizer, at most max_tokens.
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
        """The used share of max_tokens, 0 to 1."""
        return self.tokens / self.max_tokens

    def section(self, name: Section) -> tuple[ContextItem, ...]:
        """Return the items of one section, in reading order."""
        return tuple(item for item in self.items if item.section == name)

    def to_prompt(self) -> str:
        """Return the text for the model: the system prompt, then each section between its tags."""
        return self.prompt

    def to_dict(self, *, explain: bool = False) -> dict[str, JsonValue]:
        """Return the window as JSON. "sections" holds the tokens of each section's items.

        explain: add the parts of each score.
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
            "items": [item.to_dict(explain=explain) for item in self.items],
            "dropped": [
                {**one.item.to_dict(explain=explain), "reason": one.reason} for one in self.dropped
            ],
            "prompt": self.prompt,
        }


@dataclass(frozen=True, slots=True)
class Layout:
    """How items become a prompt.

    line: text of an item. frame: text of a section around its items. notice: text shown once before
    remembered items. pieces: the prompt of items in reading order, in pieces; each piece starts
    after a line break, and not with white space or "/". may_repeat: whether a summary may repeat
    shown turns while there is room for everything.
    """

    line: Callable[[ContextItem], str]
    frame: Callable[[Section], str]
    notice: str
    pieces: Callable[[Sequence[ContextItem]], list[str]]
    may_repeat: bool

    def shortest_line(self, item: ContextItem) -> str:
        """Return the shortest text that any item of the same section adds."""
        bare = replace(item, text="", number=1, author=None, role=None, kind=None)
        return self.line(replace(bare, is_doubtful=False))


def in_reading_order(items: Iterable[ContextItem]) -> list[ContextItem]:
    """Return the items by section, and by number within a section."""
    return sorted(items, key=reading_place)


def reading_place(item: ContextItem) -> tuple[int, int]:
    """Return the sort key of the reading order."""
    return READING_ORDER.index(item.section), item.number


def pieces(items: Sequence[ContextItem]) -> list[str]:
    """Return the prompt of items in reading order, in pieces (see Layout.pieces).

    A section without a list is one piece, because its text may start with anything.
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


def rendered_item(item: ContextItem) -> str:
    """Return the text of an item in the prompt, with its label.

    It ends with the line break. A token may span a sentence and the break after it, but not the
    break and the next text; so the tokens of the parts add up to those of the whole.
    """
    if item.section == "system":
        return f"{item.text}\n\n"
    text = OUR_TAGS.escaped(item.text)
    if item.is_doubtful:
        text = uncertain(text)
    if item.section == "query":
        return f"{text}\n"
    lines = text if text.isprintable() else "\n  ".join(text.splitlines())
    if item.section in LISTS:
        return f"- [{', '.join(_label(item))}] {lines}\n"
    return f"  {lines}\n" if _LIKE_AN_ITEM.match(lines) else f"{lines}\n"


def frame(section: Section) -> str:
    """Return the text of a section around its items."""
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
    """Return an author in one line that cannot close its label, cut to MAX_AUTHOR_CHARACTERS."""
    if author.isalnum() and len(author) <= MAX_AUTHOR_CHARACTERS:
        return author
    words = " ".join(OUR_TAGS.escaped(author).replace("[", "(").replace("]", ")").split())
    if len(words) <= MAX_AUTHOR_CHARACTERS:
        return words
    return words[: MAX_AUTHOR_CHARACTERS - 1] + "…"


PROMPT: Final = Layout(rendered_item, frame, NOTICE, pieces, may_repeat=True)
"""Each section between tags of its name, in reading order."""
