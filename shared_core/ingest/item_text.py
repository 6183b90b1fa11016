"""The text of an item: what a search finds it by. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shared_core.core.domain import JsonValue
from shared_core.core.namespaces import clean_text
from shared_core.nlp.text import has_words

CONTENT_FIELDS = ("content", "text", "memory")
"""Fields of a value that may hold its text; the first one with text counts."""


def text_of(value: Mapping[str, JsonValue]) -> str:
    """Return the text of a value: its content, text or memory field, or all its texts.

    The field may hold an object with a field of the same name.
    """
    for name in CONTENT_FIELDS:
        words = value.get(name)
        if isinstance(words, Mapping):  # langmem: {"kind": "Memory", "content": {"content": ...}}
            words = words.get(name)
        if isinstance(words, str) and words.strip():
            return clean_text(words)
    return clean_text("\n".join(_lines(value)))


def _lines(value: Mapping[str, JsonValue]) -> list[str]:
    """Return "path: text" for each text in a value, in order; entries of a list share a path."""
    lines: list[str] = []
    waiting: list[tuple[str, JsonValue]] = [("", value)]
    while waiting:
        path, part = waiting.pop()
        if isinstance(part, Mapping):
            below = [(f"{path}.{key}" if path else str(key), inner) for key, inner in part.items()]
            waiting += reversed(below)
        elif isinstance(part, Sequence) and not isinstance(part, str):
            waiting += [(path, inner) for inner in reversed(part)]
        elif part is not None and has_words(str(part)):
            lines.append(f"{path}: {part!s}")
    return lines
