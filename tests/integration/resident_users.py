"""Asks a memory in both ways: its index in the process, and the statement."""

import zlib
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from toy_models import ToyModel
from waiting import until

from shared_core import MemoryEngine, Scope, open_memory
from shared_core.core.namespaces import memories_namespace, scope_path
from shared_core.nlp.text import search_terms
from shared_core.ports.recall import AnswerOutdated, Recalled, SearchRequest
from shared_core.storage.postgres.resident import ResidentIndexes
from shared_core.storage.postgres.storage import PostgresStorage

DIMENSIONS = 8
MODEL = "drawn from the text"
ANN, BOB = Scope("app", "ann"), Scope("app", "bob")
ALL = 100_000
"""As many candidates as there are memories."""


def drawn(dsn: str, **options: Any) -> MemoryEngine:
    """Return a memory with drawn vectors and without a worker."""
    return open_memory(dsn, embedder=DrawnVectors(), worker=False, **options)


class DrawnVectors(ToyModel):
    """Embeds a text as a vector drawn from its words: no model, the same in every process."""

    model = MODEL

    async def embed_passages(self, texts: Sequence[str]) -> Any:
        drawn = [self._drawn(text) for text in texts]
        return np.asarray(drawn, np.float32).reshape(len(texts), DIMENSIONS)

    def _drawn(self, text: str) -> Any:
        words = [zlib.crc32(word.encode()) for word in search_terms(text)] or [0]
        vector = sum(np.random.default_rng(word).normal(size=DIMENSIONS) for word in words)
        return vector / np.linalg.norm(vector)


def indexes(memory: MemoryEngine) -> ResidentIndexes:
    return cast(PostgresStorage, memory._storage).resident


async def make_resident(memory: MemoryEngine, scope: Scope) -> None:
    """Ask until the index of a user answers."""
    await memory.recall(scope, "tea")
    await until(lambda: scope_path(scope) in indexes(memory).users)


def index_of(memory: MemoryEngine, scope: Scope = ANN) -> Any:
    return indexes(memory)._entries[scope_path(scope), MODEL].index


async def differs(memory: MemoryEngine, query: str, scope: Scope = ANN) -> bool | None:
    """Return whether index and statement answer differently; None if no index answered."""
    answer = await by_index(memory, scope, query)
    return None if answer is None else answer != await by_statement(memory, scope, query)


async def request(scope: Scope, query: str, **options: Any) -> SearchRequest:
    given = {"namespace": memories_namespace(scope), "kinds": None, "candidates": ALL, **options}
    vector = await DrawnVectors().embed_query(query)
    terms = search_terms(query)
    return SearchRequest(scope=scope, terms=terms, model=MODEL, vector=vector, **given)


async def by_index(memory: MemoryEngine, scope: Scope, query: str, **options: Any) -> Any:
    """Return all that the index of a user answers; None if the statement answered."""
    for _ in range(50):
        asked = await request(scope, query, may_be_resident=True, **options)
        found = await memory._storage.recall.recall(asked)
        if found.fetch is None:
            return None
        try:
            await found.fetch([one.memory_id for one in found.candidates or ()])
            # Texts are read from the index, which another event loop may bring up to date.
            return told(found)
        except AnswerOutdated:
            continue
    raise AssertionError("something changed each time")


async def by_statement(memory: MemoryEngine, scope: Scope, query: str, **options: Any) -> Any:
    return told(await memory._storage.recall.recall(await request(scope, query, **options)))


class Near:
    """Numbers that equal others within a hundred-thousandth: index and server round differently."""

    def __init__(self, numbers: Any) -> None:
        self.numbers = np.asarray(numbers, float)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Near) or self.numbers.shape != other.numbers.shape:
            return False
        return np.allclose(self.numbers, other.numbers, rtol=0, atol=1e-5, equal_nan=True)

    __hash__ = None  # type: ignore[assignment]


def told(found: Recalled) -> Any:
    """Return an answer in a form that can be compared."""
    corpus = found.corpus
    if corpus is None or found.candidates is None:
        return {}, ()
    candidates = {
        one.memory_id: (one.kind, one.text, one.author, one.role, one.occurred_at, one.number,
                        round(one.ended, 9), one.is_doubtful, one.slot, one.memory())
        for one in found.candidates
    }  # fmt: skip
    words = sorted(zip(corpus.holders.tolist(), corpus.words.tolist(), strict=True))
    numbers = (Near(corpus.similarity), corpus.length.tolist(), corpus.opens.tolist())
    return candidates, (*numbers, words, corpus.terms)
