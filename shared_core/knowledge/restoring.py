"""Brings what has faded back into recall: because somebody asks for it, or says it again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from shared_core.core.domain import MemoryId, Scope
from shared_core.errors import Conflict
from shared_core.ingest.events import TEXT_FIELD
from shared_core.nlp.text import search_terms

if TYPE_CHECKING:
    from shared_core.knowledge.fact_planning import FactPlan
    from shared_core.models.embedding import Embedding
    from shared_core.ports.runs import KnownFact
    from shared_core.ports.storage import Storage, Vectors

TRIES = 5


async def restored(
    storage: Storage, embedding: Embedding, scope: Scope, ids: Sequence[UUID]
) -> Sequence[MemoryId]:
    """Bring those of some memories back that are demoted or archived, as if read now; return them.

    What was archived is embedded anew. Raises ModelUnavailable while the embedder is down.
    """
    embedded: dict[str, Vectors] = {}
    for last_try in [False] * (TRIES - 1) + [True]:
        away = await storage.out_of_recall(scope, ids) if ids else []
        if not away:
            return []
        texts = [(one, one.text) for one in away if one.is_wordless and one.text is not None]
        vectors = await embedding.rows(
            [((one.namespace, one.key), TEXT_FIELD, text) for one, text in texts], embedded
        )
        terms = {one.memory_id: search_terms(text) for one, text in texts}
        try:
            return await storage.restore_memories(scope, away, terms, vectors)
        except Conflict:  # somebody moved, restored or wrote one of them: as it is now, then
            if last_try:
                raise
    raise AssertionError("unreachable")


async def restore_said_again(
    storage: Storage,
    embedding: Embedding,
    scope: Scope,
    known: Iterable[KnownFact],
    plan: FactPlan,
) -> None:
    """Bring facts back that had faded and that a run is told once more, before it is applied."""
    faded = {one.memory_id for one in known if one.has_faded}
    again = dict.fromkeys(memory_id for memory_id, _ in plan.seen_again if memory_id in faded)
    await restored(storage, embedding, scope, list(again))
