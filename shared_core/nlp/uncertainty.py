"""The mark that people and models read beside what perhaps no longer holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from shared_core.core.domain import Memory
from shared_core.nlp.text import language

MARKS: Final[Mapping[str, str]] = {"en": " (perhaps no longer)", "zh": "（可能已不再如此）"}
"""The mark after a text, by the language of the text."""


def uncertain(text: str) -> str:
    """Return a text with the mark in its language."""
    return text + MARKS[language(text)]


def shown_text(memory: Memory) -> str:
    """Return the text of a memory, marked if it is a doubtful fact."""
    return memory.text if memory.doubted_at is None else uncertain(memory.text)
