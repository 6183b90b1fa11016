"""Whether two statements say the same, and the key of those that do. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from hashlib import sha256
from typing import Final
from uuid import UUID

from shared_core.run_ports import LikeText

ARTICLES: Final = frozenset({"a", "an", "the"})
WORD: Final = re.compile(r"\w+")


def same_statement(text: str, near: Sequence[LikeText]) -> LikeText | None:
    """Return the first of near that says what text says, or None.

    They must be the same words in the same order; case, width, punctuation and articles do not
    count. Any looser measure takes "Tom owes Bob" for "Bob owes Tom", or Monday for Thursday: their
    vectors are as near as those of true repetitions, in Chinese as in English.
    """
    words = words_of(text)
    return next((other for other in near if words_of(other.text) == words), None)


def words_key(text: str) -> UUID:
    """Return one key for all texts that say the same: of the SHA-256 of their words, 128 bits."""
    return UUID(bytes=sha256(" ".join(words_of(text)).encode()).digest()[:16])


def words_of(text: str) -> list[str]:
    """Return what is compared of a statement."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return [word for word in WORD.findall(folded) if word not in ARTICLES]
