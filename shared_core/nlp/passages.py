"""Cuts long texts into passages, each short enough to have a meaning of its own. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from math import fsum
from typing import Final

from shared_core.nlp.text import has_words

PASSAGE: Final = 1_200
"""Maximum characters of a passage: about 300 tokens of English."""
PASSAGE_UNSPACED: Final = 400
"""The same where words have no spaces between them: a character is about a token there."""
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_ENDS: Final = (
    re.compile(r"\n\s*\n"),
    re.compile(r"\n|(?<=[.!?;])\s|(?<=[。！？；])"),
    re.compile(r"\s"),
)
"""Where a passage may end, best first: between paragraphs, lines or sentences, words."""
_DATA = re.compile(r"[A-Za-z0-9+/=_-]{200,}")
"""A run that is no language: base64, a key, a hash."""


def without_data(text: str) -> str:
    """Return a text with spaces for runs of 200 letters and digits or more, as long as before."""
    return _DATA.sub(lambda found: " " * len(found[0]), text)


def passages(text: str) -> Iterator[tuple[int, int]]:
    """Yield the bounds of passages that cover a text, without those that have no words."""
    begin = 0
    while begin < len(text):
        end = _end(text, begin)
        if has_words(text[begin:end]):
            yield begin, end
        begin = end


def _end(text: str, begin: int) -> int:
    """Return where the passage from begin on ends: at the last good place in its second half."""
    window = text[begin : begin + PASSAGE]
    if len(_UNSPACED.findall(window)) > len(window) // 4:
        window = window[:PASSAGE_UNSPACED]
    if begin + len(window) == len(text):
        return len(text)
    for place in _ENDS:
        ends = [found.end() for found in place.finditer(window, len(window) // 2)]
        if ends:
            return begin + ends[-1]
    return begin + len(window)


def rarest_first(texts: Sequence[str]) -> list[int]:
    """Return the places of passages. The first ones have the words that the fewest others have.

    What stands in one place of a log or a book is then read before what stands everywhere. Each
    word counts by the inverse of the number of its passages.
    """
    words = [set(text.split()) for text in texts]
    holders = Counter(chain.from_iterable(words))
    rarity = [fsum(1 / holders[word] for word in some) for some in words]
    return sorted(range(len(texts)), key=rarity.__getitem__, reverse=True)
