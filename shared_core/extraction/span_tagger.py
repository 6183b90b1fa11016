"""Tag spans of a clause with slots, by a small trained network in numpy. Pure.

The network: word vectors, hashed character n-grams and shapes of the tokens, two convolutions, and
a maximum over the clause. It gives each token a probability for every tag, "B-slot", "I-slot" or
"O", and the clause one for holding a fact. benchmarks/reader trains it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, Final, TypeAlias
from zlib import crc32

import numpy as np
from threadpoolctl import ThreadpoolController

from shared_core.nlp.text import HAN, Language

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

MAX_TOKENS: Final = 160
"""Maximum number of tokens read of a clause."""
NGRAM_BUCKETS: Final = 8192
OVER: Final = 0.5
"""Least probability of being over at which a word belongs to what no longer holds."""
MAX_NGRAMS: Final = 12
"""Maximum number of hashed character n-grams of a token."""
SHAPES: Final = 15
PROPER: Final = 14
"""The shape of a word that is nearly always written with a capital, however it is typed here."""
MAX_WORD_CHARACTERS: Final = 4
"""Longest Chinese word that is looked up."""
TOKEN: Final = re.compile(rf"[{HAN}]|[^\W\d_{HAN}]+(?:['’][^\W\d_{HAN}]+)*|\d+|[^\w\s]|_")
HAN_TOKEN: Final = re.compile(f"[{HAN}]")
APOSTROPHE: Final = re.compile("['’]")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaggedSpan:
    """A tagged part of a text.

    sure: mean probability of its slot over its tokens, 0 to 1. value: the same of being any value.
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

    gate: the probability that the text holds a fact. ended: words of what no longer holds; their
    slot is the most likely one.
    """

    gate: float
    spans: tuple[TaggedSpan, ...]
    ended: tuple[TaggedSpan, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """The input of the network for one clause, one row a token.

    words: rows of the vector table, -1 for an unknown word; in Chinese of the character and of the
    longest known word around it. ngrams: buckets, -1 for none. shapes: 0 or 1 each.
    """

    words: Array
    ngrams: Array
    shapes: Array


def tokens(text: str) -> list[re.Match[str]]:
    """Return the tokens of a text: words, numbers, Chinese characters and marks."""
    found = TOKEN.finditer(text)
    return [match for match, _ in zip(found, range(MAX_TOKENS), strict=False)]


def word_key(token: str) -> str:
    """Return the form of a token that the vector table holds: "Don't" is "dont"."""
    return APOSTROPHE.sub("", token).lower()


def features(
    words: Sequence[str], known: Mapping[str, int], proper: Collection[int] = ()
) -> Features:
    """Return the features of tokens.

    known: the row of each known word. proper: rows of words that are written with a capital.
    """
    count = len(words)
    rows = np.full((count, 2), -1, dtype=np.int32)
    grams = np.full((count, MAX_NGRAMS), -1, dtype=np.int32)
    shapes = np.zeros((count, SHAPES), dtype=np.float32)
    keys = [word_key(word) for word in words]
    for place, (word, key) in enumerate(zip(words, keys, strict=True)):
        row = known.get(key, -1)
        rows[place, 0] = row
        after = keys[place + 1] if place + 1 < count else "$"
        buckets = token_ngrams(key, after)
        grams[place, : len(buckets)] = buckets
        shapes[place] = token_shape(word, first=place == 0, last=place == count - 1)
        shapes[place, PROPER] = row in proper
    add_words(keys, known, rows, shapes)
    return Features(words=rows, ngrams=grams, shapes=shapes)


@lru_cache(maxsize=8192)
def token_ngrams(key: str, after: str) -> tuple[int, ...]:
    """Return the buckets of a token's character n-grams; of a Chinese character, with the next."""
    if HAN_TOKEN.match(key):
        grams = [key, key + after[:1]]
    else:
        marked = f"<{key[:20]}>"
        grams = [marked, marked[:3], marked[:4], marked[:5], marked[-3:], marked[-4:], marked[-5:]]
        grams += [marked[place : place + 3] for place in range(1, min(6, len(marked) - 3))]
    found = dict.fromkeys(crc32(gram.encode()) % NGRAM_BUCKETS for gram in grams)
    return tuple(found)[:MAX_NGRAMS]


@lru_cache(maxsize=8192)
def token_shape(word: str, *, first: bool, last: bool) -> tuple[float, ...]:
    """Return what a token looks like: capitals, digits, marks, length, place."""
    upper = word[:1].isupper()
    digits = word.isdigit()
    return (
        float(upper and word[1:].islower()),
        float(len(word) > 1 and word.isupper()),
        float(digits and len(word) == 1),
        float(digits and len(word) == 2),
        float(digits and len(word) == 3),
        float(digits and len(word) >= 4),
        float(not word[:1].isalnum()),
        float(bool(HAN_TOKEN.match(word))),
        float(first),
        float(last),
        *([0.0] * (SHAPES - 10)),
    )


def add_words(keys: Sequence[str], known: Mapping[str, int], rows: Array, shapes: Array) -> None:
    """Add the longest known Chinese words, from the left, and the place of tokens in them."""
    place = 0
    while place < len(keys):
        length = 1
        if HAN_TOKEN.match(keys[place]):
            for size in range(MAX_WORD_CHARACTERS, 1, -1):
                row = known.get("".join(keys[place : place + size]), -1)
                if row >= 0 and place + size <= len(keys):
                    rows[place : place + size, 1] = row
                    length = size
                    break
            shapes[place, 10 if length > 1 else 13] = 1.0
            if length > 1:
                shapes[place + 1 : place + length - 1, 11] = 1.0
                shapes[place + length - 1, 12] = 1.0
        place += length


@dataclass(frozen=True, slots=True, kw_only=True)
class Tagger:
    """The trained network of one language.

    tags: "O" first. known: rows of `vectors` by word. proper: those written with a capital.
    weights: the other arrays. follows: see allowed().
    """

    tags: tuple[str, ...]
    known: Mapping[str, int]
    proper: frozenset[int]
    vectors: Array
    weights: Mapping[str, Array]
    follows: Array

    def words(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield where known Chinese words of a text begin and end, the longest from the left."""
        place = 0
        while place < len(text):
            length = 1
            if HAN_TOKEN.match(text, place):
                sizes = range(MAX_WORD_CHARACTERS, 1, -1)
                known = (size for size in sizes if text[place : place + size] in self.known)
                length = next(known, 1)
            if length > 1:
                yield place, place + length
            place += length

    def tag(self, text: str) -> Tagged:
        """Return the spans of a clause, with the most likely consistent tags."""
        found = tokens(text)
        if not found:
            return Tagged(gate=0.0, spans=())
        given = features([one[0] for one in found], self.known, self.proper)
        with _blas().limit(limits=1, user_api="blas"):  # more threads cost more than they compute
            scores, over, gate = self.scores(given)
        path = best_path(scores, self.follows)
        chances = np.exp(scores)
        return Tagged(
            gate=gate,
            spans=tuple(self._spans(found, path, chances, over)),
            ended=tuple(self._ended(found, chances, over)),
        )

    def scores(self, given: Features) -> tuple[Array, Array, float]:
        """Return the log probabilities of each token's tags, of being over, and the gate."""
        inputs = token_inputs(given, self.vectors, self.weights["ngrams"])
        weights = self.weights
        first = relu(shifted(inputs, 1) @ weights["w1"] + weights["b1"])
        second = relu(shifted(first, 2) @ weights["w2"] + weights["b2"])
        whole = second.max(axis=0)
        context = relu(whole @ weights["w3"] + weights["b3"])
        spread = np.broadcast_to(context, (len(second), len(context)))
        joined = np.concatenate([second, first, spread], axis=1)
        logits = joined @ weights["w4"] + weights["b4"]
        logits -= logits.max(axis=1, keepdims=True)
        gate = float(sigmoid(context @ weights["w5"] + weights["b5"])[0])
        over = sigmoid((joined @ weights["w6"] + weights["b6"])[:, 0])
        return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)), over, gate

    def _ended(
        self, found: Sequence[re.Match[str]], chances: Array, over: Array
    ) -> Iterator[TaggedSpan]:
        begin = 0
        for place, is_over in enumerate([*(over >= OVER), False]):
            if is_over:
                continue
            if place > begin:
                of_tags = chances[begin:place, 1:].sum(axis=0)
                of_slots = of_tags[0::2] + of_tags[1::2]
                best = int(of_slots.argmax())
                yield TaggedSpan(
                    slot=self.tags[1 + 2 * best][2:],
                    start=found[begin].start(),
                    end=found[place - 1].end(),
                    sure=float(of_slots[best] / max(float(of_slots.sum()), 1e-6)),
                    value=1.0 - float(chances[begin:place, 0].mean()),
                    over=float(over[begin:place].mean()),
                )
            begin = place + 1

    def _spans(
        self, found: Sequence[re.Match[str]], path: Sequence[int], chances: Array, over: Array
    ) -> list[TaggedSpan]:
        spans: list[TaggedSpan] = []
        place = 0
        while place < len(path):
            tag = self.tags[path[place]]
            begin, place = place, place + 1
            if tag == "O":
                continue
            slot = tag[2:]
            while place < len(path) and self.tags[path[place]] == f"I-{slot}":
                place += 1
            both = [self.tags.index(f"{part}-{slot}") for part in "BI"]
            sure = float(chances[begin:place, both].sum(axis=1).mean())
            start, end = found[begin].start(), found[place - 1].end()
            spans.append(
                TaggedSpan(
                    slot=slot,
                    start=start,
                    end=end,
                    sure=sure,
                    value=1.0 - float(chances[begin:place, 0].mean()),
                    over=float(over[begin:place].mean()),
                )
            )
        return spans


def token_inputs(given: Features, vectors: Array, ngrams: Array) -> Array:
    """Return the input vectors of tokens: two word vectors, summed n-grams, shapes.

    The last row of each table is zero, for what is unknown.
    """
    words = vectors[given.words].reshape(len(given.words), -1)
    return np.concatenate([words, ngrams[given.ngrams].sum(axis=1), given.shapes], axis=1)


def shifted(rows: Array, reach: int) -> Array:
    """Return each row joined with its neighbours up to `reach` places away, zeros outside."""
    count, width = rows.shape
    padded = np.zeros((count + 2 * reach, width), dtype=rows.dtype)
    padded[reach : reach + count] = rows
    return np.concatenate([padded[at : at + count] for at in range(2 * reach + 1)], axis=1)


def relu(values: Array) -> Array:
    """Return values with negative ones replaced by 0."""
    return np.maximum(values, 0.0)


def sigmoid(values: Array) -> Array:
    """Return the logistic function of values."""
    return np.asarray(1.0 / (1.0 + np.exp(-values)))


def best_path(scores: Array, follows: Array) -> list[int]:
    """Return the best tags (Viterbi). follows: 0 where a tag may follow another, else -inf."""
    alone = scores.argmax(axis=1)
    if np.isfinite(follows[np.concatenate([[0], alone[:-1] + 1]), alone]).all():
        return [int(one) for one in alone]
    best = scores[0] + follows[0]
    back = np.zeros(scores.shape, dtype=np.int32)
    for at in range(1, len(scores)):
        step = best[:, None] + follows[1:]
        back[at] = step.argmax(axis=0)
        best = step.max(axis=0) + scores[at]
    path = [int(best.argmax())]
    for at in range(len(scores) - 1, 0, -1):
        path.append(int(back[at, path[-1]]))
    return path[::-1]


def allowed(tags: Sequence[str]) -> Array:
    """Return which tag may follow which: first row at the start, then one row a tag."""
    follows = np.zeros((len(tags) + 1, len(tags)), dtype=np.float32)
    for column, tag in enumerate(tags):
        if tag.startswith("I-"):
            for row, before in enumerate(("", *tags)):
                if before[2:] != tag[2:]:
                    follows[row, column] = -np.inf
    return follows


@lru_cache
def load_tagger(lang: Language) -> Tagger:
    """Return the trained tagger of a language, read on the first call."""
    with (files(__package__) / f"reader_{lang}.npz").open("rb") as file:
        stored = np.load(file, allow_pickle=False)
        arrays = {name: stored[name] for name in stored.files}
    return tagger_from(arrays)


@lru_cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


def tagger_from(arrays: Mapping[str, Array]) -> Tagger:
    """Return a tagger from its stored arrays; int8 tables have a scale for each column."""
    words = bytes(arrays["words"]).decode().split("\n")
    tags = tuple(bytes(arrays["tags"]).decode().split("\n"))
    weights = {
        name: arrays[name].astype(np.float32)
        for name in arrays
        if name[0] in "wb" and name[1:].isdigit()
    }
    weights["ngrams"] = with_zero_row(arrays["ngrams"].astype(np.float32) * arrays["ngrams_scale"])
    return Tagger(
        tags=tags,
        known={word: row for row, word in enumerate(words)},
        proper=frozenset(np.flatnonzero(arrays["proper"]).tolist()),
        vectors=with_zero_row(arrays["vectors"].astype(np.float32) * arrays["vectors_scale"]),
        weights=weights,
        follows=allowed(tags),
    )


def with_zero_row(table: Array) -> Array:
    """Return a table with a last row of zeros, which index -1 names."""
    return np.concatenate([table, np.zeros((1, table.shape[1]), dtype=table.dtype)])
