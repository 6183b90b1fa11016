"""Tells what a sentence does: it tells, asks, orders or greets. Pure.

A multinomial logistic regression (Hosmer et al., 2013, ch. 8) over hashed n-grams of words and
Chinese characters (Weinberger et al., 2009). `python -m benchmarks.train_dialogue_acts` fits it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from zlib import crc32

from shared_core.core.digest_cache import DigestCache
from shared_core.nlp.text import HAN, sentences

if TYPE_CHECKING:
    from numpy.typing import NDArray

BUCKETS: Final = 65_536
LONGEST_NGRAM: Final = 3
MAX_WORDS: Final = 60
"""Maximum number of words and characters read of a sentence."""
TEXTS: Final = 16_384
"""Size of the cache of judged sentences; the same turns are found again."""
_WORD: Final = re.compile(rf"[{HAN}]|[^\W\d_{HAN}]+(?:['’][^\W\d_{HAN}]+)*|\d+")
_BOUND: Final = b"\x00"


class DialogueAct(NamedTuple):
    """The chance of each thing that a sentence may do; they add up to 1.

    Attributes:
        statement: It tells something, or asks to remember it.
        question: It asks how something is.
        history: It asks how something was, or when it changed.
        request: It asks for something to be done or made.
        social: It greets, thanks or agrees.
    """

    statement: float
    question: float
    history: float
    request: float
    social: float

    @property
    def asks(self) -> float:
        """The chance of a question about the present or the past."""
        return self.question + self.history

    @property
    def name(self) -> str:
        """The most likely act."""
        return max(zip(self, self._fields, strict=True))[1]


def _judged(sentence: str) -> DialogueAct:
    found = buckets(sentence)
    if not found:
        return DialogueAct(0.0, 0.0, 0.0, 0.0, 1.0)
    import numpy as np  # deferred: packing a window needs none

    row_of, weights, constant = _weights()
    rows = row_of[found]
    known = max(1, int(np.count_nonzero(rows)))
    scores = constant + weights[rows].sum(axis=0) / known**0.5
    chances = np.exp(scores - scores.max())
    return DialogueAct(*(chances / chances.sum()).tolist())


_acts: Final = DigestCache("dialogue acts", _judged, TEXTS)


def dialogue_act(sentence: str) -> DialogueAct:
    """Return what a sentence does, English or Chinese. One without words is social."""
    return _acts(sentence)


def dialogue_acts(text: str) -> list[DialogueAct]:
    """Return what each sentence of a text does."""
    return [*map(dialogue_act, sentences(text))]


def knows_words(text: str) -> bool:
    """Return whether all words of a text are known from the training data."""
    row_of = _weights()[0]
    return all(row_of[crc32(word.encode()) % BUCKETS] for word in _WORD.findall(_folded(text)))


def buckets(sentence: str) -> list[int]:
    """Return the buckets of a sentence's n-grams, each once; empty without words."""
    return [*{crc32(one) % BUCKETS for one in _ngrams(sentence)}]


def _folded(text: str) -> str:
    return text.casefold().replace("’", "'")


def _ngrams(sentence: str) -> Iterator[bytes]:
    text = _folded(sentence)
    found = _WORD.findall(text)[:MAX_WORDS]
    if not found:
        return
    words = [b"0" if one.isdigit() else one.encode() for one in found]
    bounded = [_BOUND, *words, _BOUND]
    yield from bounded[:-1]
    for length in range(2, LONGEST_NGRAM + 1):
        yield from map(b" ".join, zip(*(bounded[at:] for at in range(length)), strict=False))
    for one in words[:4]:
        yield b"<" + one
    for one in words[-3:]:
        yield one + b">"
    if "?" in text or "？" in text:
        yield b"?"
    if text.rstrip().endswith(("?", "？")):
        yield b"??"
    yield b"#%d" % min(6, len(words).bit_length())


@cache
def _weights() -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return the row of each bucket, (BUCKETS,), the weights, (R, 5), and the constant, (5,).

    Row 0 is that of unknown n-grams.
    """
    import numpy as np

    with (files("shared_core.nlp") / "dialogue_acts.v1.npz").open("rb") as file:
        read = np.load(file)
        row_of = np.zeros(BUCKETS, np.intp)
        row_of[read["buckets"]] = np.arange(1, len(read["buckets"]) + 1)
        weights = read["weights"] * read["scale"]
        return row_of, np.vstack([0 * weights[:1], weights]), read["constant"] * read["scale"]
