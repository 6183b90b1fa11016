"""engine.recall: from the arguments of a caller to ranked memories, counted as read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from shared_core.core.domain import AsOf, Hit, MemoryKind, Namespace, Scope
from shared_core.nlp.text import has_words
from shared_core.ports.recall import Ranking, RecallResult, ThreeFactor
from shared_core.recall import query as queries
from shared_core.recall.query import RecallOptions
from shared_core.recall.reranking import resolve_reranker

if TYPE_CHECKING:
    from shared_core.lifecycle import Handle
    from shared_core.ports.storage import Vectors
    from shared_core.recall.access_log import AccessLog


class Recall:
    """Recall of one memory. Call it as engine.recall(scope, query).

    Args:
        handle: storage, embedding and clock of the memory.
        accesses: counts the memories that a recall returns.
        reranker: default reranker, in any form that resolve_reranker knows; None for none.
        with_graph: whether edges of the knowledge graph come along.
    """

    def __init__(
        self,
        handle: Handle,
        accesses: AccessLog,
        reranker: object = None,
        *,
        with_graph: bool = True,
    ) -> None:
        self._handle = handle
        self._accesses = accesses
        self._reranker = resolve_reranker(reranker)
        self._with_graph = with_graph

    async def __call__(
        self,
        scope: Scope,
        query: str,
        *,
        limit: int = 10,
        kinds: Sequence[MemoryKind] | None = None,
        namespace: Namespace | None = None,
        ranking: Ranking | ThreeFactor = "linear",
        asked_at: datetime | None = None,
        as_of: AsOf | None = None,
        min_relevance: float = 0.0,
        min_importance: float = 0.0,
        distinct: bool = False,
        diversity: float = 0.0,
        reranker: object = None,
        counted: bool = True,
    ) -> RecallResult:
        """Return the memories of a scope that answer a query, by meaning and by words, best first.

        This is the documented verb `engine.recall(...)`. While the embedder is down, it finds by
        words alone.

        Args:
            scope: application and user.
            query: a question or any text. One without a letter or digit finds nothing.
            limit: maximum number of hits.
            kinds: only these kinds of memory.
            namespace: search below this namespace instead of (app, user, "memories").
            ranking: "linear" (learned weights), "fusion", "rrf", "vector", "bm25", "three_factor",
                or a ThreeFactor with weights.
            asked_at: aware; "last week" is resolved against it. Default: now.
            as_of: return what held at a moment, as it was known at a moment.
            min_relevance: 0 to 1; drops less relevant hits (shared_core.recall). 0 keeps all.
            min_importance: 1 to 10; drops less important memories. 0 keeps all.
            distinct: drop hits that repeat a better hit.
            diversity: 0 to 1; how much likeness to a better hit lowers a hit (MMR).
            reranker: instead of the memory's own; False for none.
            counted: False leaves counting the reads (`count`) to the caller, who returns fewer.

        Returns:
            A sequence of hits that also holds the hits of each way of finding.
        """
        options = RecallOptions(
            now=self._handle.clock() if asked_at is None else asked_at, limit=limit, kinds=kinds,
            namespace=namespace, ranking=ranking, min_relevance=min_relevance, distinct=distinct,
            min_importance=min_importance, diversity=diversity, as_of=as_of,
        )  # fmt: skip
        return await self.find(scope, query, options, reranker=reranker, counted=counted)

    async def find(
        self,
        scope: Scope,
        query: str,
        options: RecallOptions,
        *,
        reranker: object = None,
        counted: bool = True,
    ) -> RecallResult:
        """Return the hits for a query by checked options.

        reranker: None for the memory's own, False for none. counted: False leaves counting the
        reads to the caller, who returns fewer hits.
        """
        if reranker is not False:
            chosen = self._reranker if reranker is None else resolve_reranker(reranker)
            options = replace(options, reranker=chosen)
        options = replace(options, with_graph=self._with_graph)
        storage = await self._handle.storage()
        result = await queries.recall(storage, self._handle.embedding, scope, query, options)
        if counted:
            self.count(scope, result)
        return result

    def count(self, scope: Scope, returned: Iterable[Hit]) -> None:
        """Count memories as read. Returns immediately."""
        self._accesses.record(scope, (hit.memory.memory_id for hit in returned))

    async def embedded(self, query: str) -> tuple[Vectors | None, bool] | None:
        """Return the vector of a query and whether the embedder is down; None without words."""
        return await self._handle.embedding.query_or_words(query) if has_words(query) else None
