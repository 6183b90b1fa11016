"""What every contender of benchmarks.peers gets: a database, the turns, and one embedding model."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import cast

from benchmarks.dataset import Entry
from shared_core import Event, run_sync
from shared_core.models.embedders import BundledEmbedder, model_inputs, resolve_embedder

APP, USER = "bench", "ana"
NAMESPACE = (APP, USER)


class SharedModel:
    """One bundled model for all contenders, without a cache.

    embedder: for our engine, which runs it on a thread of its own. The methods embed in the
    caller's thread, which is the fastest way for a contender with blocking calls.
    """

    def __init__(self, name: str) -> None:
        self.embedder = cast(BundledEmbedder, resolve_embedder(name))
        run_sync(self.embedder.load())
        self.dims = len(self.embed_query("How many dimensions?"))

    def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the vectors of texts that are stored."""
        vectors: list[list[float]] = self.embedder._passages(model_inputs(texts)).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a question."""
        vector: list[float] = self.embedder._queries(model_inputs([text]))[0].tolist()
        return vector


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of the conversation, with the session it belongs to."""

    session: str
    event: Event

    @property
    def entry(self) -> Entry:
        return Entry(namespace=NAMESPACE, key=self.event.event_id, text=self.event.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a contender is opened with.

    dsn: an empty database of its own. turns: by the key of their entry. stack: closes everything.
    """

    dsn: str
    model: SharedModel
    turns: Mapping[str, Turn]
    runner: asyncio.Runner
    stack: ExitStack
