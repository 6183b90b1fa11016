"""Recalling: from a question to ranked memories, in one round trip to the storage."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import get_args

from shared_core.domain import Hit, MemoryKind, Namespace, Scope
from shared_core.embedding import Embedding
from shared_core.errors import InvalidInput
from shared_core.moments import check_moment
from shared_core.namespaces import clean_text, memories_namespace
from shared_core.ports import MemoryQuery, Storage
from shared_core.ranking import rank
from shared_core.recall_ports import Asked, Ranking, SearchRequest
from shared_core.text import has_words, search_terms

MAX_QUERY_TERMS = 128
"""Of a longer query the last words count: what was said last."""
LEAST_CANDIDATES = 50
MAX_LIMIT = 100_000


async def recall(
    storage: Storage,
    embedding: Embedding,
    scope: Scope,
    query: str,
    *,
    limit: int = 10,
    kinds: Sequence[MemoryKind] | None = None,
    namespace: Namespace | None = None,
    ranking: Ranking = "linear",
    now: datetime,
) -> list[Hit]:
    """Return what the scope remembers about query, best first, at most limit hits.

    A query without a letter or digit finds nothing. While the embedder is down, words alone find.
    now: when it is asked, for "last week". ranking: as of shared_core.ranking.rank.
    """
    if ranking not in get_args(Ranking):
        raise InvalidInput(
            f"ranking {ranking!r} is not known: take one of {', '.join(get_args(Ranking))}"
        )
    _check_bounds(limit)
    check_moment(now, "asked_at")
    query = clean_text(query)
    if limit == 0 or not has_words(query):
        return []
    request = SearchRequest(
        scope=scope,
        namespace=namespace or memories_namespace(scope),
        terms=query_terms(query),
        model=embedding.model,
        vector=await embedding.query_or_none(query),
        kinds=kinds,
        candidates=max(LEAST_CANDIDATES, 3 * limit),
    )
    asked = Asked(text=query, terms=request.terms, now=now)
    return rank(await storage.recall(request), asked, limit=limit, by=ranking)


def query_terms(query: str) -> list[str]:
    """Return the words of a query that are searched for, each once."""
    return list(dict.fromkeys(search_terms(query)))[-MAX_QUERY_TERMS:]


def page(scope: Scope, kinds: Sequence[MemoryKind] | None, limit: int, offset: int) -> MemoryQuery:
    """Return the question for one page of what a scope remembers."""
    _check_bounds(limit, offset)
    for kind in kinds or ():
        if kind not in get_args(MemoryKind):
            raise InvalidInput(
                f"kind {kind!r} is not known: take one of {', '.join(get_args(MemoryKind))}"
            )
    return MemoryQuery(
        scope=scope, namespace=memories_namespace(scope), kinds=kinds, limit=limit, offset=offset
    )


def _check_bounds(limit: int, offset: int = 0) -> None:
    for name, number in (("limit", limit), ("offset", offset)):
        if not 0 <= number <= MAX_LIMIT:
            raise InvalidInput(f"{name} must be between 0 and {MAX_LIMIT:,}, not {number}")
