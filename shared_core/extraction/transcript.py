"""Turns as a model reads them: numbered, between delimiters they cannot close. Pure.

The text of a turn is data. It cannot close the block or pass for another turn: further lines are
indented and our tags are escaped. No id, name or address of a user is shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from shared_core.core.delimiters import NOTICE, READING_ORDER, Tags, without_memories
from shared_core.core.domain import Event, Role
from shared_core.core.namespaces import clean_text
from shared_core.nlp.text import language
from shared_core.nlp.tokenizer import count_tokens

LABELS: Final[Mapping[Role, str]] = {"user": "user", "agent": "assistant", "tool": "tool"}
"""Shown roles and their labels; system turns are no conversation."""

MAX_TURN_CHARACTERS: Final = 8_000
MAX_TOOL_CHARACTERS: Final = 500
CUT: Final = " […]"
BYTES_PER_TOKEN: Final = 4
"""Rough size of a token, for text that is not shown."""
OUR_TAG: Final = Tags(("known", "facts", "turns", "previous", "memories", "answer"))
OUR_NOTICE: Final = NOTICE.strip()
OUR_SECTIONS: Final = "|".join(name for name in READING_ORDER if name != "query")
OUR_SECTION: Final = re.compile(rf"<({OUR_SECTIONS})>\n.*?(?:</\1>|\Z)|</?query>", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """Turns as text.

    turns: the numbered turns by number, from 1. shortened: ids of turns too long to show whole.
    """

    text: str
    turns: Mapping[int, Event]
    shortened: Sequence[str] = ()
    tokens: int = field(default=0, compare=False)

    @property
    def language_note(self) -> str:
        """The prompt's remark on the language, "" for English."""
        lang = "\n".join(event.text for event in self.turns.values() if event.role == "user")
        return ", which is Chinese (中文)" if language(lang or self.text) == "zh" else ""


def transcripts(events: Sequence[Event], max_tokens: int) -> list[Transcript]:
    """Return the turns in order, split into parts of at most max_tokens or a single turn."""
    parts: list[Transcript] = []
    lines: list[str] = []
    turns: dict[int, Event] = {}
    shortened: list[str] = []
    used = 0

    def close() -> None:
        nonlocal lines, turns, shortened, used
        if turns:
            text = "\n".join(lines)
            parts.append(
                Transcript(text=text, turns=turns, shortened=tuple(shortened), tokens=used)
            )
        lines, turns, shortened, used = [], {}, [], 0

    for event in events:
        text = shown_text(event)
        if not text:
            continue
        cost = count_tokens(line_of(len(turns) + 1, event, text)) + 1
        if turns and used + cost > max_tokens:
            close()
        number = len(turns) + 1
        turns[number] = event
        lines.append(line_of(number, event, text))
        used += cost
        if text.endswith(CUT) and event.role == "user":
            shortened.append(event.event_id)
    close()
    return parts


def context_text(events: Sequence[Event], max_tokens: int, *, least: int = 0) -> str:
    """Return the last turns that fit into max_tokens, unnumbered so that no answer refers to them.

    least: minimum number of turns shown, even beyond max_tokens.
    """
    lines: list[str] = []
    for event in reversed(events):
        if text := shown_text(event):
            line = line_of(None, event, text)
            max_tokens -= count_tokens(line) + 1
            if max_tokens < 0 and len(lines) >= least:
                break
            lines.append(line)
    return "\n".join(reversed(lines))


def shown_whole(events: Sequence[Event], max_tokens: int) -> int:
    """Return how many of the first turns fit into one part and are shown whole.

    Text that is not shown counts too, by its bytes: another extractor may read all of it.
    """
    texts = [shown_text(event) for event in events]
    lines = [
        line_of(number, event, text) if text else ""
        for number, (event, text) in enumerate(zip(events, texts, strict=True), 1)
    ]
    whole = [_bytes(event.text) // BYTES_PER_TOKEN for event in events]
    if sum(_bytes(line) + 1 + size for line, size in zip(lines, whole, strict=True)) <= max_tokens:
        return len(events)  # no token is shorter than a byte
    for place, (line, size) in enumerate(zip(lines, whole, strict=True)):
        max_tokens -= max(count_tokens(line) + 1 if line else 0, size)
        if max_tokens < 0:
            return place
    return len(events)


def shown_text(event: Event) -> str:
    """Return the shown text of a turn, without recalled memories and cut to its maximum length."""
    if event.role not in LABELS:
        return ""
    text = without_recalled(clean_text(event.text)).strip()
    limit = MAX_TOOL_CHARACTERS if event.role == "tool" else MAX_TURN_CHARACTERS
    return text if len(text) <= limit else text[:limit].rstrip() + CUT


def without_recalled(text: str) -> str:
    """Return a text without recalled memory blocks and context windows."""
    text = without_memories(text)
    if OUR_NOTICE not in text:
        return text
    return OUR_SECTION.sub("", text.replace(OUR_NOTICE, ""))


def line_of(number: int | None, event: Event, text: str) -> str:
    """Return a turn as a labelled line; its further lines are indented."""
    label = "-" if number is None else f"[{number}]"
    day = event.occurred_at.date().isoformat()
    return f"{label} {LABELS[event.role]}, {day}: {escaped(text)}"


def escaped(text: str) -> str:
    """Return a text that opens and closes none of our tags, its further lines indented."""
    return "\n    ".join(OUR_TAG.escaped(text).splitlines())


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
