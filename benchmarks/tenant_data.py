"""Makes tenants of several sizes, with vectors, questions and exact answers. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.dataset import Matrix

TOPICS = 200
CLOUD_DIMS = 24
"""Dimensions in which the texts of one topic differ."""
CLOUD = 0.8
"""Mean distance from the middle of a topic, which has length 1, in the topic's dimensions."""
NOISE = 0.25
"""Mean length of the noise in all dimensions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """One user: vectors of shape (size, dims), and questions with other vectors."""

    size: int
    vectors: Matrix
    questions: Sequence[str]
    question_vectors: Matrix

    @property
    def namespace(self) -> tuple[str, str]:
        # Padded, so that no name is a prefix of another: PostgresStore compares texts.
        return ("bench", f"user_{self.size:09}")

    def queries(self) -> Iterator[tuple[str, Matrix]]:
        """Yield every question with its vector."""
        return zip(self.questions, self.question_vectors, strict=True)

    def nearest(self, limit: int) -> list[set[str]]:
        """Return the keys of the true nearest items to each question, in float32."""
        scores = self.question_vectors @ self.vectors.T
        best = np.argsort(-scores, axis=1, kind="stable")[:, :limit]
        return [{key(place) for place in row} for row in best]


def key(place: int) -> str:
    """Return the key of an item, by its row among the tenant's vectors."""
    return f"item_{place}"


def make_tenants(sizes: Sequence[int], *, questions: int, dims: int, seed: int) -> list[Tenant]:
    """Return tenants that depend on the arguments alone and share their topics."""
    random = np.random.default_rng(seed)
    middles = _unit(random.standard_normal((TOPICS, dims), dtype=np.float32))
    clouds = random.standard_normal((TOPICS, CLOUD_DIMS, dims), dtype=np.float32)
    tenants = []
    for size in sizes:
        vectors = _vectors(random, size + questions, middles, clouds / np.float32(dims**0.5))
        tenants.append(
            Tenant(
                size=size,
                vectors=vectors[:size],
                questions=[f"question {number} to {size}" for number in range(questions)],
                question_vectors=vectors[size:],
            )
        )
    return tenants


def _vectors(random: np.random.Generator, count: int, middles: Matrix, clouds: Matrix) -> Matrix:
    topics, dims = middles.shape
    shares = 1 / np.arange(1, topics + 1)
    which = random.choice(topics, size=count, p=shares / shares.sum())
    rows = random.standard_normal((count, dims), dtype=np.float32) * np.float32(NOISE / dims**0.5)
    for topic in range(topics):
        places = np.flatnonzero(which == topic)
        within = random.standard_normal((len(places), CLOUD_DIMS), dtype=np.float32)
        within *= np.float32(CLOUD / CLOUD_DIMS**0.5)
        rows[places] += middles[topic] + within @ clouds[topic]
    return _unit(rows)


def _unit(rows: Matrix) -> Matrix:
    normalised: Matrix = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return normalised
