"""Makes the data of a run: seeded texts, their vectors, and the exact answers. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Matrix: TypeAlias = NDArray[np.float32]

LIMIT = 10
"""Number of items that every search requests."""

_WORDS = (
    "alice", "asked", "about", "the", "spicy", "noodle", "place", "near", "river", "station", "and",
    "said", "that", "she", "prefers", "a", "quiet", "table", "by", "window", "on", "friday",
    "because", "her", "sister", "plays", "oboe", "in", "town", "orchestra", "until", "nine",
)  # fmt: skip

_TOPICS = 64
_SPREAD = 0.9
"""Length of the random part of a vector; the part it shares with its topic has length 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One item to store."""

    namespace: tuple[str, str]
    key: str
    text: str

    @property
    def value(self) -> dict[str, str]:
        return {"text": self.text}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One search: a namespace, and a text with a vector that no item has."""

    namespace: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """entries: loaded in batches. newcomers: put one by one later. vectors: by text."""

    entries: Sequence[Entry]
    newcomers: Sequence[Entry]
    questions: Sequence[Question]
    vectors: dict[str, Matrix]

    def nearest(self, question: Question) -> list[str]:
        """Return the keys of the true nearest entries, nearest first, by brute force in float32."""
        depth = len(question.namespace)
        below = [e for e in self.entries if e.namespace[:depth] == question.namespace]
        matrix = np.stack([self.vectors[entry.text] for entry in below])
        order = np.argsort(-(matrix @ self.vectors[question.text]), kind="stable")
        return [below[position].key for position in order[:LIMIT]]

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the vectors of texts, as LangGraph's embed function does."""
        return [self.vectors[text].tolist() for text in texts]


class LookupEmbedder:
    """The embedder of our store: it looks vectors up on the caller's loop.

    The peer also calls its embed function inline, so neither pays for a thread. Our store runs a
    sync function in a thread; that cost is measured separately ("function_...").
    """

    model = "benchmark-lookup"

    def __init__(self, vectors: dict[str, Matrix]) -> None:
        self.vectors = vectors

    async def embed_passages(self, texts: Sequence[str]) -> Matrix:
        return np.stack([self.vectors[text] for text in texts])

    async def embed_query(self, text: str) -> Matrix:
        return self.vectors[text][np.newaxis]


def make_dataset(
    *, items: int, per_user: int, newcomers: int, questions: int, dims: int, seed: int
) -> Dataset:
    """Return a data set that depends on the arguments alone; the last user may hold fewer items."""
    random = np.random.default_rng(seed)
    entries = [
        Entry(namespace=_user(number // per_user), key=f"item_{number}", text=text)
        for number, text in enumerate(_texts(random, "note", items))
    ]
    # Questions go to users that hold enough items to fill an answer.
    users = random.integers(max(1, items // per_user), size=questions)
    searches = [
        Question(namespace=_user(int(user)), text=text)
        for user, text in zip(users, _texts(random, "question", questions), strict=True)
    ]
    later = [
        Entry(namespace=("bench-writes", "writer"), key=f"new_{number}", text=text)
        for number, text in enumerate(_texts(random, "new", newcomers))
    ]
    texts = [entry.text for entry in (*entries, *later)] + [search.text for search in searches]
    vectors = _vectors(random, len(texts), dims)
    return Dataset(
        entries=entries,
        newcomers=later,
        questions=searches,
        vectors=dict(zip(texts, vectors, strict=True)),
    )


def _user(number: int) -> tuple[str, str]:
    return ("bench", f"user_{number}")


def _texts(random: np.random.Generator, kind: str, count: int) -> list[str]:
    chosen = random.integers(len(_WORDS), size=(count, 14))
    return [
        f"{kind} {number}: {' '.join(_WORDS[word] for word in row)}"
        for number, row in enumerate(chosen)
    ]


def _vectors(random: np.random.Generator, count: int, dims: int) -> Matrix:
    """Return unit vectors around a few topics, so that some are much nearer than others."""
    topics = _unit(random.standard_normal((_TOPICS, dims), dtype=np.float32))
    noise = _unit(random.standard_normal((count, dims), dtype=np.float32))
    return _unit(topics[random.integers(_TOPICS, size=count)] + np.float32(_SPREAD) * noise)


def _unit(rows: Matrix) -> Matrix:
    normalised: Matrix = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return normalised
