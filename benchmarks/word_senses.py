"""Groups similar words for the network that finds secrets (shared_core.privacy.told_secrets).

    python -m benchmarks.word_senses

Takes English words, Chinese characters and pairs of them from the lines of benchmarks/data/secrets
and of the reader and the dialogue acts, embeds each with "e5", and groups the vectors by k-means
(Lloyd, 1982). Writes the group of each into shared_core/privacy/word_senses.v1.npz. Takes some
minutes; benchmarks.train_told_secrets must run afterwards.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

import shared_core.privacy
from benchmarks.secret_lines import DATA
from benchmarks.train_told_secrets import other_lines, read
from shared_core.models.e5_network import load
from shared_core.nlp.text import HAN
from shared_core.privacy.told_secrets import SENSE_BITS, pair_of, sense_places

SENSES: Final = Path(shared_core.privacy.__file__).parent / "word_senses.v1.npz"
GROUPS: Final = 300
STEPS: Final = 25
LEAST: Final = 4
"""Least number of lines of a pair of characters; a word needs half of it."""
MOST: Final = 12_000
"""Maximum number of words of a language, most frequent first."""


def words() -> tuple[list[str], list[str]]:
    """Return the English words, and the Chinese characters and pairs."""
    lines = other_lines() + [path.read_text("utf-8") for path in sorted(DATA.glob("*.txt"))]
    for path in sorted(DATA.glob("train_*.jsonl")):
        lines += [turn for line in read(path) for turn in line.turns]
    text = "\n".join(lines).lower()
    english = Counter(re.findall(r"[a-z]+(?:'[a-z]+)?", text))
    runs = re.findall(rf"[{HAN}]+", text)
    chinese = Counter(one for run in runs for one in (*run, *map("".join, zip(run, run[1:]))))  # noqa: B905, RUF007
    return (
        [one for one, count in english.most_common(MOST) if count >= LEAST // 2],
        [one for one, count in chinese.most_common(MOST) if count >= LEAST or len(one) == 1],
    )


def grouped(vectors: NDArray[np.float32]) -> NDArray[np.int64]:
    """Return the group of each vector, (n,)."""
    rng = np.random.default_rng(0)
    centres = vectors[rng.permutation(len(vectors))[:GROUPS]]
    for _ in range(STEPS):
        group = (vectors @ centres.T).argmax(axis=1)
        for number in set(group.tolist()):
            centres[number] = vectors[group == number].sum(axis=0)
        centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    return np.asarray((vectors @ centres.T).argmax(axis=1))


def centred(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the vectors of one language without what they have in common, normalised."""
    vectors = vectors - vectors.mean(axis=0)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def hash_of(word: str) -> int:
    """Return the hash by which the network knows a word, or a pair of characters."""
    if len(word) == 2 and not word.isascii():
        return int(pair_of(*(crc32(one.encode()) for one in word)))
    return crc32(word.encode())


def main() -> None:
    model, both = load(), words()
    parts = [centred(model.vectors(told, "query")) for told in both]
    table: NDArray[Any] = np.zeros(1 << SENSE_BITS, np.uint16)
    found = sorted(
        zip([*both[0], *both[1]], grouped(np.concatenate(parts)).tolist(), strict=True),
        key=lambda one: len(one[0]),
    )
    for word, group in found:
        table[sense_places(np.array([hash_of(word)], np.uint32))] = group + 1
    known = np.flatnonzero(table)
    steps = np.diff(known, prepend=0).astype(np.uint16)
    np.savez_compressed(SENSES, steps=steps, senses=table[known])


if __name__ == "__main__":
    main()
