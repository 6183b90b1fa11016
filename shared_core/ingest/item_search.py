"""Searching items: by meaning, by words or by both, a page at a time in one total order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from shared_core.core.domain import Hit, Scope
from shared_core.core.namespaces import clean_text
from shared_core.errors import CapabilityMissing, InvalidInput
from shared_core.models.embedding import Embedding
from shared_core.nlp.text import has_words
from shared_core.ports.item_operations import FindItems
from shared_core.ports.items import Item, ItemQuery
from shared_core.ports.recall import Asked, SearchRequest
from shared_core.ports.storage import Storage
from shared_core.recall.query import query_terms

MAX_BOUND = 1_000_000_000
"""A limit above this means all there is."""

RANKED = 100
"""So many hits of a hybrid search are ranked by all that is known of them, whatever the page. Those
after them follow by meaning, then those that only share a word, newest first. So a page never
depends on how long the pages before it were."""

RANKED_WORDS = 1_000
"""So many hits of a search by words alone are ranked, also of a hybrid one without an embedder;
those after them follow, newest first."""


async def find_items(
    storage: Storage, embedding: Embedding, op: FindItems, now: datetime
) -> Sequence[Item]:
    """Return a page of items below a namespace: best first for a query, else newest first."""
    limit, offset = page_bounds(op.limit, op.offset)
    if limit == 0:
        return []
    listing = ItemQuery(prefix=op.prefix, limit=limit, offset=offset, filter=op.filter)
    if op.query is not None and not isinstance(op.query, str):
        raise InvalidInput(f"query must be a text, not {type(op.query).__name__}")
    query = clean_text(op.query or "")
    if not has_words(query):
        return await storage.find_items(listing)
    if op.search == "text" or (op.search == "hybrid" and len(op.prefix) > 1):
        return await _ranked(storage, embedding, op, listing, query, now)
    vector = await embedding.query(query)
    if vector is None:  # the query says nothing to the model
        return await storage.find_items(listing)
    return await storage.find_items(replace(listing, model=embedding.model, vector=vector))


async def _ranked(
    storage: Storage,
    embedding: Embedding,
    op: FindItems,
    page: ItemQuery,
    query: str,
    now: datetime,
) -> list[Item]:
    from shared_core.recall.ranking import (
        rank,  # with numpy, which who only imports us does not need
    )

    if len(op.prefix) < 2:
        raise CapabilityMissing(
            "a search by words is for one user: give a namespace of at least two labels, or search"
            " by meaning"
        )
    vector = await embedding.query_or_none(query) if op.search == "hybrid" else None
    most, candidates = (RANKED_WORDS, RANKED_WORDS) if vector is None else (RANKED, 2 * RANKED)
    request = SearchRequest(
        scope=Scope(*op.prefix[:2]),
        namespace=op.prefix,
        terms=query_terms(query),
        model=embedding.model,
        vector=vector,
        kinds=None,
        candidates=candidates,
        filter=op.filter,
    )
    end = page.offset + page.limit
    asked = Asked(text=query, terms=request.terms, now=now)
    hits = rank(await storage.recall(request), asked, limit=min(end, most))
    found = [_item(hit) for hit in hits[page.offset : end]]
    if len(hits) < most or end <= most:
        return found
    return found + await _rest(storage, request, page, hits)


async def _rest(
    storage: Storage, request: SearchRequest, page: ItemQuery, hits: Sequence[Hit]
) -> list[Item]:
    """Return what a page shows of the items after the ranked ones."""
    offset = max(page.offset - len(hits), 0)
    rest = replace(
        page,
        limit=page.offset + page.limit - len(hits) - offset,
        offset=offset,
        model=request.model,
        vector=request.vector,
        terms=request.terms,
        besides=[hit.memory.memory_id for hit in hits],
    )
    return [replace(item, score=None) for item in await storage.find_items(rest)]


def _item(hit: Hit) -> Item:
    return Item(
        namespace=hit.memory.namespace,
        key=hit.memory.key,
        value=hit.memory.value,
        created_at=hit.memory.created_at,
        updated_at=hit.memory.updated_at,
        has_ttl=hit.memory.expires_at is not None,
        similarity=hit.parts.get("similarity"),
        score=hit.score,
        parts=hit.parts,
    )


def page_bounds(limit: int, offset: int, name: str = "limit") -> tuple[int, int]:
    """Return both, cut to what the database can count. Raises InvalidInput for negative ones."""
    for what, number in ((name, limit), ("offset", offset)):
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise InvalidInput(f"{what} must not be negative, and be a whole number: {number!r}")
    return min(limit, MAX_BOUND), min(offset, MAX_BOUND)
