"""Everything that reads what is remembered: recall, search, listings, windows, and its counters."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID

from shared_core.core.domain import AsOf, Hit, Memory, MemoryId, MemoryKind, Scope
from shared_core.core.namespaces import scope_path
from shared_core.core.validation import memory_ids_of
from shared_core.nlp.text import has_words
from shared_core.ports.recall import RecallResult
from shared_core.recall import query as recalls
from shared_core.recall.query import RecallOptions
from shared_core.recall.reranking import resolve_reranker

if TYPE_CHECKING:
    from shared_core.models.embedding import Embedding
    from shared_core.ports.retention import Accesses
    from shared_core.ports.storage import Storage, Vectors
    from shared_core.recall.access_log import AccessLog


class Recalling:
    """Reads of one storage. Every verb opens the memory first.

    accesses: told which memories were returned. reranker: in any form that resolve_reranker knows.
    """

    def __init__(
        self,
        storage: Storage,
        embedding: Embedding,
        open_memory: Callable[[], Awaitable[None]],
        accesses: AccessLog,
        reranker: object = None,
        with_graph: bool = True,
    ) -> None:
        self._storage = storage
        self._embedding = embedding
        self._open = open_memory
        self._accesses = accesses
        self._reranker = resolve_reranker(reranker)
        self._with_graph = with_graph

    async def recall(
        self,
        scope: Scope,
        query: str,
        wanted: RecallOptions,
        reranker: object,
        *,
        counted: bool = True,
    ) -> RecallResult:
        """Return what answers query. reranker: False for none, None for the memory's own.

        counted: False leaves it to the caller to count what is returned in the end.
        """
        if reranker is not False:
            chosen = self._reranker if reranker is None else resolve_reranker(reranker)
            wanted = replace(wanted, reranker=chosen)
        wanted = replace(wanted, with_graph=self._with_graph)
        await self._open()
        found = await recalls.recall(self._storage, self._embedding, scope, query, wanted)
        if counted:
            self.count(scope, found)
        return found

    def count(self, scope: Scope, returned: Iterable[Hit]) -> None:
        """Count memories as returned."""
        self._accesses.record(scope, (hit.memory.memory_id for hit in returned))

    async def embedded(self, query: str) -> tuple[Vectors | None, bool] | None:
        """Return the vector of a query and whether the embedder is down; None for no words."""
        return await self._embedding.query_or_words(query) if has_words(query) else None

    async def search(
        self,
        scope: Scope,
        query: str,
        *,
        limit: int,
        kinds: Sequence[MemoryKind] | None,
        as_of: AsOf | None,
    ) -> list[Hit]:
        """Return what is nearest to query by meaning."""
        await self._open()
        found = await recalls.search(
            self._storage, self._embedding, scope, query, limit=limit, kinds=kinds, as_of=as_of
        )
        self.count(scope, found)
        return found

    async def accesses(
        self, scope: Scope, memory_ids: Sequence[UUID | str]
    ) -> Mapping[MemoryId, Accesses]:
        """Return the counters of memories, those of reads that were not written yet included."""
        scope_path(scope)
        ids = memory_ids_of(memory_ids)
        await self._open()
        await self._accesses.flush()
        return await self._storage.accesses(scope, ids)

    async def list_memories(
        self,
        scope: Scope,
        kinds: Sequence[MemoryKind] | None,
        limit: int,
        offset: int,
        as_of: AsOf | None,
    ) -> Sequence[Memory]:
        """Return a page of what is remembered, newest first, now or as of a moment."""
        await self._open()
        query = recalls.page(scope, kinds, limit, offset, as_of=as_of)
        return await self._storage.list_memories(query)
