"""Words of change and of the past in questions and statements: nlp/rules/changes.toml. Pure."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Literal

from shared_core.core.digest_cache import DigestCache
from shared_core.nlp.rules import read_rule_file

READ_CHARACTERS: Final = 2_000
"""Maximum characters of a text that are searched for words of change."""
TEXTS: Final = 16_384
"""Size of the cache of texts that were searched; the same texts are candidates again."""


def tells_change(text: str) -> bool:
    """Return whether a text reports a change."""
    return _changes(text[:READ_CHARACTERS])


def tells_how_it_was(text: str) -> bool:
    """Return whether a text tells what was, and reports no change: "I used to live in Oslo"."""
    return bool(_words("was").search(text[:READ_CHARACTERS])) and not tells_change(text)


def asks_how_it_was(query: str) -> bool:
    """Return whether a question asks about the past or about a change."""
    asks = _words("past").search(query[:READ_CHARACTERS]) is not None
    return asks or asks_how_it_was_before(query)


def asks_how_it_was_before(query: str) -> bool:
    """Return whether a question asks for the state before a change."""
    return _words("before").search(query[:READ_CHARACTERS]) is not None


@lru_cache
def _words(table: Literal["change", "was", "past", "before"]) -> re.Pattern[str]:
    words = read_rule_file("changes.toml")[table]
    either = rf"\b(?:{'|'.join(words['en'])})\b|{'|'.join(words['zh'])}"
    return re.compile(either, re.IGNORECASE)


_changes: Final = DigestCache(
    "changes", lambda text: _words("change").search(text) is not None, TEXTS
)
