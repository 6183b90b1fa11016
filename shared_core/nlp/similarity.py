"""Whether two statements say the same, and the key of those that do. Pure."""

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
"""A word with what changes its meaning: C++ and C#, -5 and 5, 1.5 and 15, $5 and €5, 5% and 5."""
KEY_VERSION: Final = "2"
"""Grows with whatever changes words_of(): no key of other words may be taken for one of these."""


def same_statement(text: str, near: Sequence[LikeText]) -> LikeText | None:
    """Return the first of near that says what text says, or None.

    They must be the same words in the same order, signs such as those of C++ and -5 included; case,
    width, punctuation and articles do not count. A text without a word says what no other says. Any
    looser measure takes "Tom owes Bob" for "Bob owes Tom", or Monday for Thursday: their vectors
    are as near as those of true repetitions, in Chinese as in English.
    """
    words = words_of(text)
    return next((other for other in near if words and words_of(other.text) == words), None)


def words_key(text: str) -> UUID | None:
    """Return one key for all texts that say the same, None for one without a word.

    It is of the SHA-256 of KEY_VERSION and their words, 128 bits.
    """
    words = words_of(text)
    if not words:
        return None
    return UUID(bytes=sha256(" ".join([KEY_VERSION, *words]).encode()).digest()[:16])


def words_of(text: str) -> list[str]:
    """Return what is compared of a statement."""
    folded = unicodedata.normalize("NFKC", text).casefold().replace("\N{MINUS SIGN}", "-")
    return [word for word in WORD.findall(folded) if word not in ARTICLES]


_PART: Final = re.compile(r"^(?:(?:the|central|downtown|greater|inner) )+| city$")


def same_place(one: str, other: str) -> bool:
    """Tell whether two normalised values name one city.

    北京 and 北京市, "london" and "camden, london", but not "york" and "new york".
    """
    if HAN_CHARACTER.search(one) or HAN_CHARACTER.search(other):
        return bool(one and other) and (one in other or other in one)
    names, others = _names(one), _names(other)
    return bool(names and others) and (names <= others or others <= names)


def _names(place: str) -> set[str]:
    parts = (_PART.sub("", part.strip()) for part in place.split(","))
    return {part for part in parts if part}
