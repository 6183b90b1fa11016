"""Compare statements and places by their words. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from hashlib import sha256
from typing import Final
from uuid import UUID

from shared_core.nlp.text import HAN_CHARACTER
from shared_core.ports.runs import LikeText

ARTICLES: Final = frozenset({"a", "an", "the"})
WORD: Final = re.compile(
    r"(?:(?:(?<!\w)|(?<=[぀-ヿ㐀-鿿]))[-+](?=\d))?\w+(?:(?<=\d)\.(?=\d)\w+)*[+#%°]*|[<=>$€£¥]"
)
"""A word with the signs that change its meaning: C++ and C#, -5 and 5, 1.5 and 15, $5 and €5."""
KEY_VERSION: Final = "2"
"""Increment it with every change of words_of(), so that old and new keys never match."""


def same_statement(text: str, near: Sequence[LikeText]) -> LikeText | None:
    """Return the first of near with the same words in the same order, or None.

    Case, width, punctuation and articles are ignored; signs such as those of C++ and -5 count. A
    looser measure, such as vectors, would confuse "Tom owes Bob" with "Bob owes Tom".
    """
    words = words_of(text)
    return next((other for other in near if words and words_of(other.text) == words), None)


def words_key(text: str) -> UUID | None:
    """Return a UUID of the normalised words, or None for a text without words.

    It holds 128 bits of the SHA-256 of KEY_VERSION and the words.
    """
    words = words_of(text)
    if not words:
        return None
    return UUID(bytes=sha256(" ".join([KEY_VERSION, *words]).encode()).digest()[:16])


def words_of(text: str) -> list[str]:
    """Return the normalised words that are compared."""
    folded = unicodedata.normalize("NFKC", text).casefold().replace("\N{MINUS SIGN}", "-")
    return [word for word in WORD.findall(folded) if word not in ARTICLES]


_PART: Final = re.compile(r"^(?:(?:the|central|downtown|greater|inner) )+| city$")


def same_place(one: str, other: str) -> bool:
    """Tell whether two normalised values name the same city.

    北京 and 北京市, "london" and "camden, london", but not "york" and "new york".
    """
    if HAN_CHARACTER.search(one) or HAN_CHARACTER.search(other):
        return bool(one and other) and (one in other or other in one)
    names, others = _names(one), _names(other)
    return bool(names and others) and (names <= others or others <= names)


def _names(place: str) -> set[str]:
    parts = (_PART.sub("", part.strip()) for part in place.split(","))
    return {part for part in parts if part}
