"""Tells what a sentence does: it tells, asks, orders or greets. Pure.

A multinomial logistic regression (Hosmer et al., 2013, ch. 8) over hashed n-grams of words and
Chinese characters (Weinberger et al., 2009). `python -m benchmarks.train_dialogue_acts` fits it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from zlib import crc32

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
_BOUND: Final = "\x00"


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


@lru_cache(TEXTS)
def dialogue_act(sentence: str) -> DialogueAct:
    """Return what a sentence does, English or Chinese. One without words is social."""
    found = buckets(sentence)
    if not found:
        return DialogueAct(0.0, 0.0, 0.0, 0.0, 1.0)
    import numpy as np  # deferred: packing a window needs none

    row_of, weights, constant = _weights()
    rows = [row for one in found if (row := row_of.get(one)) is not None]
    scores = constant + weights[rows].sum(axis=0) / max(1, len(rows)) ** 0.5
    chances = np.exp(scores - scores.max())
    return DialogueAct(*(chances / chances.sum()).tolist())


def dialogue_acts(text: str) -> list[DialogueAct]:
    """Return what each sentence of a text does."""
    return [*map(dialogue_act, sentences(text))]


def buckets(sentence: str) -> list[int]:
    """Return the buckets of a sentence's n-grams, each once, in order; empty without words."""
    return sorted({crc32(one.encode()) % BUCKETS for one in _ngrams(sentence)})


def _ngrams(sentence: str) -> Iterator[str]:
    text = sentence.casefold().replace("’", "'")
    words = ["0" if one.isdigit() else one for one in _WORD.findall(text)[:MAX_WORDS]]
    if not words:
        return
    bounded = [_BOUND, *words, _BOUND]
    for length in range(1, LONGEST_NGRAM + 1):
        for start in range(len(bounded) - length + 1):
            yield " ".join(bounded[start : start + length])
    for one in words[:4]:
        yield f"<{one}"
    for one in words[-3:]:
        yield f"{one}>"
    if "?" in text or "？" in text:
        yield "?"
    if text.rstrip().endswith(("?", "？")):
        yield "??"
    yield f"#{min(6, len(words).bit_length())}"


@cache
def _weights() -> tuple[Mapping[int, int], NDArray[Any], NDArray[Any]]:
    """Return the row of each bucket, the weights, (R, 5), and the constant, (5,)."""
    import numpy as np

    with (files("shared_core.nlp") / "dialogue_acts.v1.npz").open("rb") as file:
        read = np.load(file)
        found, scale = read["buckets"].tolist(), read["scale"]
        row_of = {bucket: row for row, bucket in enumerate(found)}
        return row_of, read["weights"] * scale, read["constant"] * scale
