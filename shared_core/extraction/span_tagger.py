"""Tag words of a text with slots, by a network on the states of multilingual-e5-small.

The first layers are those of the embedder "e5"; a text whose vector this process made lately costs
only the layers above them. Four heads read their states: each piece gets a probability for every
slot, "begins" and "goes on", or for none, and one for being over; the text gets one for holding a
fact, and one for asking to forget something. benchmarks/reader trains them.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np

from shared_core.core.digest_cache import DigestCache
from shared_core.errors import ModelUnavailable
from shared_core.models.e5_network import load
from shared_core.models.e5_reader import E5Reader
from shared_core.nlp.text import HAN

log = logging.getLogger(__name__)

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

WEIGHTS: Final = "reader.npz"
CERTAIN: Final = 0.95
"""The probability that training aims at for a label, so that it does not call noise certain."""
IS_VALUE: Final = 0.5
"""Least probability of a word of being part of a value."""
IS_OVER: Final = 0.5
"""Least probability of being over at which a value no longer holds."""
MOST_KEPT: Final = 1_024
"""Number of texts whose readings are kept: a run reads each turn of a window four times."""
JOINT: Final = re.compile(rf"(?:[^\W_{HAN}]|['’]){{2}}")
"""Two characters of one word or number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaggedSpan:
    """A tagged part of a text.

    sure: mean probability of its slot over its words, 0 to 1. value: the same of being any value.
    over: the same of no longer holding.
    """

    slot: str
    start: int
    end: int
    sure: float
    value: float
    over: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tagged:
    """The spans of a text, in order.

    gate: the probability that the text holds a fact. asks: that it asks to forget something.
    """

    gate: float
    asks: float
    spans: tuple[TaggedSpan, ...]

    @property
    def ended(self) -> tuple[TaggedSpan, ...]:
        """The spans of what no longer holds."""
        return tuple(one for one in self.spans if one.over >= IS_OVER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A word, a number, a mark, or a piece of Chinese. pieces: first and last of the text."""

    start: int
    end: int
    pieces: slice


class Tagger:
    """The trained network."""

    def __init__(self, reader: E5Reader, arrays: Mapping[str, Array]) -> None:
        self.slots = tuple(bytes(arrays["slots"]).decode().split("\n"))
        self._reader = reader
        self.tag = DigestCache("tagged turns", self._tag, MOST_KEPT)
        self._heads = {
            name: (arrays[f"{name}.w"].astype(np.float32), arrays[f"{name}.b"])
            for name in ("tag", "over", "gate", "asks")
        }

    def _tag(self, text: str) -> Tagged:
        """Return the values of a text."""
        pieces, states, mean = self._reader.states(text)
        gate, asks = (float(sigmoid(self._head(name, mean))[0]) for name in ("gate", "asks"))
        if not pieces:
            return Tagged(gate=gate, asks=asks, spans=())
        chances = np.minimum(softmax(self._head("tag", states)) / CERTAIN, 1.0)
        over = sigmoid(self._head("over", states))[:, 0]
        spans = self._spans(words(text, pieces), chances, over)
        return Tagged(gate=gate, asks=asks, spans=tuple(spans))

    def _head(self, name: str, states: Array) -> Array:
        weights, bias = self._heads[name]
        found: Array = states @ weights + bias
        return found

    def _spans(self, found: Sequence[Word], chances: Array, over: Array) -> list[TaggedSpan]:
        """Return runs of words as spans: a word that goes on belongs to the one before."""
        begins, goes_on = chances[:, 1::2].sum(axis=1), chances[:, 2::2].sum(axis=1)
        runs: list[list[Word]] = []
        last = -1
        for place, word in enumerate(found):
            if 1.0 - float(chances[word.pieces, 0].mean()) < IS_VALUE:
                continue
            first = word.pieces.start
            if runs and last == place - 1 and goes_on[first] >= begins[first]:
                runs[-1].append(word)
            else:
                runs.append([word])
            last = place
        of_slots = np.minimum(chances[:, 1::2] + chances[:, 2::2], 1.0)
        return [self._span(run, of_slots, 1.0 - chances[:, 0], over) for run in runs]

    def _span(self, run: Sequence[Word], of_slots: Array, value: Array, over: Array) -> TaggedSpan:
        pieces = slice(run[0].pieces.start, run[-1].pieces.stop)
        sure = of_slots[pieces].mean(axis=0)
        slot = int(sure.argmax())
        return TaggedSpan(
            slot=self.slots[slot],
            start=run[0].start,
            end=run[-1].end,
            sure=float(sure[slot]),
            value=float(value[pieces].mean()),
            over=float(over[pieces].mean()),
        )


def words(text: str, pieces: Sequence[tuple[int, int]]) -> list[Word]:
    """Return the words that pieces of a text make; Chinese stays in its pieces."""
    found: list[Word] = []
    for place, (start, end) in enumerate(pieces):
        if start == end:
            continue
        last = found[-1] if found else None
        if last and last.end == start and JOINT.match(text, start - 1):
            found[-1] = Word(start=last.start, end=end, pieces=slice(last.pieces.start, place + 1))
        else:
            found.append(Word(start=start, end=end, pieces=slice(place, place + 1)))
    return found


def sigmoid(values: Array) -> Array:
    """Return the logistic function of values."""
    return np.asarray(1.0 / (1.0 + np.exp(-values)))


def softmax(values: Array) -> Array:
    """Return the probabilities of logits, a row each."""
    chances = np.exp(values - values.max(axis=1, keepdims=True))
    return np.asarray(chances / chances.sum(axis=1, keepdims=True))


_loading: Final = threading.RLock()
Trained = TypeVar("Trained")


def load_tagger() -> Tagger | None:
    """Return the trained tagger, loaded at the first call; None where "e5" cannot run."""
    return load_trained(WEIGHTS, Tagger)


def load_trained(
    weights: str, make: Callable[[E5Reader, Mapping[str, Array]], Trained]
) -> Trained | None:
    """Return a network of this package, loaded at the first call; None where "e5" cannot run."""
    with _loading:
        return _loaded(weights, make)


@cache
def _loaded(
    weights: str, make: Callable[[E5Reader, Mapping[str, Array]], Trained]
) -> Trained | None:
    with (files(__package__) / weights).open("rb") as file:
        stored = np.load(file, allow_pickle=False)
        arrays = {name: stored[name] for name in stored.files}
    try:
        return make(E5Reader(load(), arrays), arrays)
    except (ImportError, ModelUnavailable) as error:
        log.warning("rules alone read turns, because 'e5' cannot run: %s", error)
        return None
