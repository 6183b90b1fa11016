"""Recalling: from a question to ranked memories, in one round trip to the storage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from shared_core.domain import Hit, MemoryKind, Namespace, Scope
from shared_core.embedding import Embedding
from shared_core.errors import InvalidInput
from shared_core.namespaces import clean_text, memories_namespace
from shared_core.ports import MemoryQuery, SearchRequest, Storage
from shared_core.ranking import rank
from shared_core.text import has_words, search_terms

MAX_QUERY_TERMS = 64
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
) -> list[Hit]:
    """Return what the scope remembers about query, best first, at most limit hits.

    A query without a letter or digit finds nothing. While the embedder is down, words alone find.
    """
    _check_bounds(limit)
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
    return await ranked(storage, request, limit)


def query_terms(query: str) -> list[str]:
    """Return the words of a query that are searched for, each once."""
    return list(dict.fromkeys(search_terms(query)))[:MAX_QUERY_TERMS]


async def ranked(storage: Storage, request: SearchRequest, limit: int) -> list[Hit]:
    """Return the best hits of a search, best first."""
    candidates, spread = await storage.recall(request)
    return rank(candidates, spread, asked=request.terms, limit=limit)


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
