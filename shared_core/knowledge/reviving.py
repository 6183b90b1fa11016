"""Brings faded memories back into recall: a caller asks for them, or a run states them again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from shared_core.core.domain import MemoryId, Scope
from shared_core.core.namespaces import scope_path
from shared_core.errors import Conflict
from shared_core.nlp.text import search_terms
from shared_core.policies import reviving as policies
from shared_core.policies.vectors import TEXT_FIELD
from shared_core.ports.retention import Archived, Revival

if TYPE_CHECKING:
    from shared_core.knowledge.fact_planning import FactPlan
    from shared_core.models.embedding import Embedding
    from shared_core.ports.runs import KnownFact
    from shared_core.ports.storage import Clock, Storage, Vectors

MAX_TRIES = 5


async def revive(
    storage: Storage, embedding: Embedding, scope: Scope, ids: Sequence[UUID], clock: Clock
) -> Sequence[MemoryId]:
    """Bring back those of some memories that are demoted or archived; return their ids.

    An archived memory is embedded anew. Raises ModelUnavailable while the embedder is down.
    """
    tenant, embedded = scope_path(scope), dict[str, "Vectors"]()
    for tries in range(1, MAX_TRIES + 1):
        revival = await plan_revival(storage, embedding, scope, ids, embedded)
        if revival is None:
            return []
        try:
            return await storage.transact(
                tenant, partial(policies.bring_back, tenant, revival, clock())
            )
        except Conflict:  # another writer moved, revived or wrote one of them: read them again
            if tries == MAX_TRIES:
                raise
    raise AssertionError("unreachable")


async def plan_revival(
    storage: Storage,
    embedding: Embedding,
    scope: Scope,
    ids: Sequence[UUID],
    embedded: dict[str, Vectors],
) -> Revival | None:
    """Return what brings some memories back, or None if none of them has faded. Writes nothing.

    embedded: vectors of earlier tries, by text; new ones are added.
    """
    faded = await read_faded(storage, scope, ids) if ids else []
    if not faded:
        return None
    texts = [(one, one.text) for one in faded if one.is_wordless and one.text is not None]
    return Revival(
        faded=faded,
        terms={one.memory_id: search_terms(text) for one, text in texts},
        vectors=await embedding.rows(
            [((one.namespace, one.key), TEXT_FIELD, text) for one, text in texts], embedded
        ),
    )


async def read_faded(storage: Storage, scope: Scope, ids: Sequence[UUID]) -> list[Archived]:
    """Return those of some memories that are demoted or archived."""
    tenant = scope_path(scope)
    [rows] = await storage.read(tenant, [policies.select_away(ids)])
    return [policies.away_of(row, tenant) for row in rows]


def faded_stated_again(known: Iterable[KnownFact], plan: FactPlan) -> list[MemoryId]:
    """Return the ids of facts that have faded and that a run states again."""
    faded = {one.memory_id for one in known if one.has_faded}
    return list(dict.fromkeys(one for one, _ in plan.seen_again if one in faded))
