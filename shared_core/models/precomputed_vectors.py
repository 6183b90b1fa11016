"""Vectors that were made elsewhere, given back by an embedder as if it had made them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import uuid4

from shared_core.ports.storage import Embedder

if TYPE_CHECKING:
    from shared_core.ports.storage import Vectors


class KnownVectors:
    """An embedder that gives back vectors which are known, and asks another one for the rest."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._known: dict[str, Vectors] = {}

    @property
    def model(self) -> str:
        return self._embedder.model

    def text_for(self, vector: Sequence[float]) -> str | None:
        """Return a text that will be embedded as this vector; None for one without direction."""
        import numpy as np

        row = np.asarray(vector, dtype=np.float32)
        length = float(np.linalg.norm(row))
        if not np.isfinite(length) or not length:
            return None
        text = f"vector {uuid4().hex}"
        self._known[text] = row / length
        return text

    def clear(self) -> None:
        """Forget all vectors."""
        self._known.clear()

    async def embed_passages(self, texts: Sequence[str]) -> Vectors:
        import numpy as np

        unknown = [text for text in texts if text not in self._known]
        fresh = dict(
            zip(unknown, await self._embedder.embed_passages(unknown), strict=True)
            if unknown
            else ()
        )
        return np.stack(
            [self._known[text] if text in self._known else fresh[text] for text in texts]
        )

    async def embed_query(self, text: str) -> Vectors:
        return await self._embedder.embed_query(text)
