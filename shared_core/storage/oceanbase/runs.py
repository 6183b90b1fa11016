"""OceanBaseStorage: what a run reads of a thread, and known texts like its drafts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from shared_core.core.domain import MemoryKind, Scope, ThreadId
from shared_core.core.namespaces import memories_namespace, rest_of, scope_path, summary_key
from shared_core.ports.items import ItemAddress, VectorRows
from shared_core.ports.runs import LikeText, ReadRequest, ThreadWindow
from shared_core.storage.oceanbase.base import OceanBasePart
from shared_core.storage.oceanbase.run_reads import ThreadSource, like_texts, read_thread


class OceanBaseRuns(OceanBasePart):
    """Reads threads and known texts for runs."""

    async def read_thread(
        self, scope: Scope, thread_id: ThreadId, request: ReadRequest
    ) -> ThreadWindow | None:
        now = self._clock()
        source = ThreadSource(
            tenant=scope_path(scope),
            thread_id=thread_id,
            namespace=rest_of(memories_namespace(scope)),
            summary_key=summary_key(thread_id),
        )
        return await self._database.read(lambda tx: read_thread(tx, source, request, now))

    async def like_texts(
        self,
        scope: Scope,
        kinds: Sequence[MemoryKind],
        words_keys: Mapping[ItemAddress, UUID],
        vectors: VectorRows | None,
    ) -> Mapping[ItemAddress, Sequence[LikeText]]:
        tenant, path = scope_path(scope), rest_of(memories_namespace(scope))
        now = self._clock()
        return await self._database.read(
            lambda tx: like_texts(tx, tenant, path, kinds, words_keys, vectors, now)
        )
