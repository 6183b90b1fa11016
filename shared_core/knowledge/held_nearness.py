"""How near the facts that are held are to turns, by meaning: "the cast is off" to a broken leg."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from shared_core.core.domain import Event, HeldFact, MemoryId, Scope
from shared_core.core.failure_reason import reason
from shared_core.core.namespaces import memories_namespace
from shared_core.errors import ModelUnavailable
from shared_core.extraction.held_listing import fits
from shared_core.nlp.text import has_words, sentences
from shared_core.ports.recall import SearchRequest

if TYPE_CHECKING:
    from shared_core.models.embedding import Embedding
    from shared_core.ports.storage import Storage

log = logging.getLogger("hippocampus")

MOST_TEXTS: Final = 40
"""Maximum number of turns and sentences that are compared with the facts; the last ones count."""
NEAREST: Final = 250
"""Number of nearest memories that are read for each."""


async def with_nearness(
    storage: Storage,
    embedding: Embedding,
    scope: Scope,
    turns: Sequence[Event],
    held: Sequence[HeldFact],
) -> Sequence[HeldFact]:
    """Return the facts, each with its cosine to the nearest sentence of the user's turns.

    Facts that are all shown anyway are returned as they are, and so are all facts while the
    embedder is down.
    """
    if fits(held):
        return held
    # It imports numpy.
    from shared_core.recall.ranking import nearest

    nearness: dict[MemoryId, float] = {}
    texts = [*dict.fromkeys(_texts(turns))][-MOST_TEXTS:]
    try:
        # A turn is no question: as a passage it is nearer to the fact that it ends.
        vectors = await embedding.passages(texts) if texts else ()
    except ModelUnavailable as error:
        log.warning("held facts are chosen by words only: %s", reason(error))
        return held
    for vector in vectors:
        if not vector.any():
            continue
        request = SearchRequest(
            scope=scope,
            namespace=memories_namespace(scope),
            terms=(),
            model=await embedding.model(),
            vector=vector[None],
            kinds=["semantic"],
            candidates=NEAREST,
            may_be_resident=True,
        )
        for one in nearest(await storage.recall.recall(request), NEAREST):
            nearness[one.memory_id] = max(nearness.get(one.memory_id, 0.0), one.score)
    return [replace(one, nearness=nearness.get(one.memory_id, 0.0)) for one in held]


def _texts(turns: Sequence[Event]) -> Iterator[str]:
    """Yield the turns of the user, and each sentence of those that have several."""
    for turn in turns:
        if turn.role == "user" and has_words(turn.text):
            yield turn.text
            yield from (one for one in sentences(turn.text) if has_words(one))
