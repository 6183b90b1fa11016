"""Reads the turns that were written and labelled by hand: corpus_<lang>.txt.

A line is a turn, "been in [residence:porto] since may": the words of a value stand in brackets,
after the name of their slot. "-" before the slot says that it no longer holds: "[-employer:got laid
off]". A line without brackets holds no fact.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final

from benchmarks.reader.generate import Generator, Labelled, read
from shared_core.nlp.text import Language

LABEL: Final = re.compile(r"\[(-?[a-z_]+):([^\[\]]+)\]")
SENTENCE: Final = re.compile(r"(?<=[.!?。！？；;])\s*|\n+|(?<=[,，])\s*")
VALUES: Final = {
    "residence": "city", "kin_place": "city", "origin": "city", "kin_origin": "city",
    "employer": "company", "kin_employer": "company", "name": "first", "kin_name": "first",
    "job": "job", "kin_job": "job", "like": "food", "dislike": "food", "allergy": "allergen",
    "activity": "hobby", "tool": "tool", "car": "car", "medication": "med", "health": "disease",
    "language": "language", "kin_school": "school", "diet": "diet",
}  # fmt: skip
"""The word list whose words may stand in the place of a value of a slot."""
SWAPPED: Final = 0.4
"""Share of turns of which values are replaced, and share of these values."""
RETYPED: Final = 0.5
"""Share of turns that are typed another way."""


def parsed(line: str) -> Labelled:
    """Return a line as a labelled turn."""
    text, spans, at = "", [], 0
    for match in LABEL.finditer(line):
        text += line[at : match.start()]
        spans.append((match[1], len(text), len(text) + len(match[2])))
        text, at = text + match[2], match.end()
    return Labelled(text + line[at:], tuple(spans))


@lru_cache
def corpus(lang: Language) -> Sequence[Labelled]:
    """Return the labelled turns of a language."""
    return _turns(f"corpus_{lang}.txt")


@lru_cache
def plain(lang: Language) -> Sequence[Labelled]:
    """Return plain forms that the corpus leaves out, and what is said but does not hold."""
    return _turns(f"plain_{lang}.txt")


def _turns(name: str) -> list[Labelled]:
    return [parsed(line) for line in read(name) if not line.startswith("#")]


def pieces(turn: Labelled) -> Iterator[Labelled]:
    """Yield the sentences and clauses of a turn of several, with their spans."""
    cuts = [0, *(one.end() for one in SENTENCE.finditer(turn.text)), len(turn.text)]
    for start, end in pairwise(cuts):
        if turn.text[start:end].strip() and end - start < len(turn.text):
            inside = [(slot, a - start, b - start) for slot, a, b in turn.spans
                      if start <= a and b <= end]  # fmt: skip
            torn = any(a < end < b or a < start < b for _, a, b in turn.spans)
            if not torn:
                yield Labelled(turn.text[start:end], tuple(inside))


class Varied:
    """Varies turns of the corpus: other values in some places, other habits of typing."""

    def __init__(self, lang: Language, seed: int) -> None:
        self._lang: Language = lang
        self._rng = random.Random(seed)
        self._words = Generator(lang, seed)

    def turn(self, turn: Labelled) -> Labelled:
        """Return a turn with some of its values replaced, as somebody else might type it."""
        if self._rng.random() < SWAPPED:
            turn = self._swapped(turn)
        if self._rng.random() < RETYPED:
            turn = self._words.typed(turn)
        return turn

    def _swapped(self, turn: Labelled) -> Labelled:
        text, spans, at = "", [], 0
        for slot, start, end in turn.spans:
            text += turn.text[at:start]
            words = turn.text[start:end]
            if slot in VALUES and self._rng.random() < SWAPPED:
                words = self._words.value(VALUES[slot])
                if turn.text.islower():
                    words = words.lower()
            spans.append((slot, len(text), len(text) + len(words)))
            text, at = text + words, end
        return Labelled(text + turn.text[at:], tuple(spans))
