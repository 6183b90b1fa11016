"""Searching items: by meaning, by words or by both, a page at a time in one total order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shared_core.domain import Hit, Scope
from shared_core.embedding import Embedding
from shared_core.errors import CapabilityMissing, InvalidInput
from shared_core.item_ops import FindItems
from shared_core.item_ports import Item, ItemQuery
from shared_core.namespaces import clean_text
from shared_core.ports import SearchRequest, Storage
from shared_core.ranking import rank
from shared_core.text import has_words, search_terms

MAX_BOUND = 1_000_000_000
"""A limit above this means all there is."""

MAX_QUERY_TERMS = 64

RANKED = 100
"""So many hits of a hybrid search are ranked by all that is known of them, whatever the page; those
after them follow by meaning. So a page never depends on how long the pages before it were."""

RANKED_WORDS = 1_000
"""What a search by words alone finds at most."""


async def find_items(storage: Storage, embedding: Embedding, op: FindItems) -> Sequence[Item]:
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
        return await _ranked(storage, embedding, op, listing, query)
    vector = await embedding.query(query)
    if vector is None:  # the query says nothing to the model
        return await storage.find_items(listing)
    return await storage.find_items(replace(listing, model=embedding.model, vector=vector))


async def _ranked(
    storage: Storage, embedding: Embedding, op: FindItems, page: ItemQuery, query: str
) -> list[Item]:
    if len(op.prefix) < 2:
        raise CapabilityMissing(
            "a search by words is for one user: give a namespace of at least two labels, or search"
            " by meaning"
        )
    by_both = op.search == "hybrid"
    request = SearchRequest(
        scope=Scope(*op.prefix[:2]),
        namespace=op.prefix,
        terms=list(dict.fromkeys(search_terms(query)))[:MAX_QUERY_TERMS],
        model=embedding.model,
        vector=await embedding.query_or_none(query) if by_both else None,
        kinds=None,
        candidates=2 * RANKED if by_both else RANKED_WORDS,
        filter=op.filter,
    )
    end = page.offset + page.limit
    most = RANKED if by_both else RANKED_WORDS
    candidates, spread = await storage.recall(request)
    hits = rank(candidates, spread, asked=request.terms, limit=min(end, most))
    found = [_item(hit) for hit in hits]
    if request.vector is not None and len(found) == most < end:
        shown = {(item.namespace, item.key) for item in found}
        rest = replace(page, limit=end, offset=0, model=request.model, vector=request.vector)
        found += [
            replace(item, score=None)
            for item in await storage.find_items(rest)
            if (item.namespace, item.key) not in shown
        ]
    return found[page.offset : end]


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
