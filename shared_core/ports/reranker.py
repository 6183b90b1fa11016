"""What the core asks of a reranker, which open_memory() and recall() may be given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable


@runtime_checkable
class Reranker(Protocol):
    """Reads a query and each text together: slower than vectors, and nearer to the mark.

    A cross-encoder, a service, or a language model. It is awaited on the bridge's one loop.
    """

    async def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Return one finite score for each text, in their order; larger fits better."""
        ...
