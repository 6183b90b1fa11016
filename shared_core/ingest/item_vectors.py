"""Vectors of items that were stored without waiting for a model: made by a job, in passages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final
from uuid import UUID

from shared_core.core.domain import JsonValue
from shared_core.core.ids import uuid7
from shared_core.core.namespaces import scope_path
from shared_core.ingest.item_text import text_of
from shared_core.ingest.items import LATER_WORDS, first_words
from shared_core.lifecycle import Handle
from shared_core.nlp.passages import passages, rarest_first, without_data
from shared_core.nlp.text import search_terms
from shared_core.policies.vectors import (
    EARLY,
    TEXT_FIELD,
    add_missing_vectors,
    fields_with_vectors,
    fields_without_vectors,
    items_without_vectors,
    passage_field,
    replace_terms,
)
from shared_core.ports.indexes import EmbeddedField
from shared_core.ports.jobs import Job, NewJob
from shared_core.ports.storage import Clock, Storage

if TYPE_CHECKING:
    from shared_core.ports.storage import Vectors

PAGE: Final = 500
"""Number of items that are looked at together for those without a vector."""
READ_TOGETHER: Final = 20
TOGETHER: Final = 64
"""Maximum number of passages that are embedded and written together."""
MOST_PASSAGES: Final = 2_000
"""Maximum number of passages of an item, about 2 MB; the rest of its text is found by words."""
OF_A_JOB: Final = 128
"""Number of passages, 10 s of a core, after which a job leaves the rest to the next one: users take
turns."""
MOST_BYTES: Final = 900_000
"""Bytes of the words of an item: PostgreSQL takes 1 MB in a tsvector, with their places."""


async def embed_items(handle: Handle, job: Job) -> dict[str, JsonValue]:
    """Embed the items of a user that have words and no vector; return the numbers of both.

    The words of all texts come first: they take a second for 1 MB, vectors fifty times as long.
    What is written of a long item is found at once, and a job that dies leaves it to the next one,
    which makes the rest. An item that was written meanwhile is left to its own job.
    """
    storage, tenant = await handle.storage(), scope_path(job.scope)
    items = made = 0
    async for waiting, counts in _waiting(storage, tenant, handle.clock):
        for one in waiting:
            if terms := await asyncio.to_thread(_more_terms, one, counts[one.memory_id]):
                await storage.transact(tenant, partial(replace_terms, one, terms))
    known: dict[str, dict[str, Vectors]] = {}
    async for waiting, _ in _waiting(storage, tenant, handle.clock):
        batches = _together(waiting)
        while fields := await asyncio.to_thread(next, batches, None):
            made += await _embed(handle, storage, fields, known)
            items += len({one.memory_id for one in fields if not one.field.startswith(EARLY)})
            if made >= OF_A_JOB:
                rest = NewJob(job_id=uuid7(), job_type=job.job_type, run_after=handle.clock())
                await storage.jobs.enqueue(job.scope, None, rest)
                return {"items": items, "passages": made}
    return {"items": items, "passages": made}


async def _waiting(
    storage: Storage, tenant: str, clock: Clock
) -> AsyncIterator[tuple[list[EmbeddedField], Mapping[UUID, int]]]:
    """Yield the items of a user without vectors, a few together, because some are large.

    Beside them stands the number of words of each.
    """
    after: UUID | None = None
    while True:
        after, counts = await storage.query(
            tenant, partial(items_without_vectors, after, PAGE, clock())
        )
        ids = sorted(counts)
        for begin in range(0, len(ids), READ_TOGETHER):
            fields = [(one, TEXT_FIELD) for one in ids[begin : begin + READ_TOGETHER]]
            reading = partial(fields_without_vectors, tenant, "", fields, must_exist=False)
            yield await storage.query(tenant, reading), counts
        if after is None:
            return


def _more_terms(one: EmbeddedField, count: int) -> list[str]:
    """Return the words of the whole text of an item, [] where an earlier job has added them.

    count: the number of words that it has.
    """
    text = text_of(one.value)
    has_all = len(text) <= LATER_WORDS or count > len(search_terms(first_words(text)))
    return [] if has_all else _all_terms(one)


def _all_terms(one: EmbeddedField) -> list[str]:
    """Return the words of the whole text of an item, as far as a database holds them."""
    kept: list[str] = []
    left = MOST_BYTES
    known: set[str] = set()
    for term in search_terms(without_data(text_of(one.value))):
        left -= 2 + (0 if term in known else len(term.encode()) + 4)
        if left < 0:
            break
        known.add(term)
        kept.append(term)
    return kept


async def _embed(
    handle: Handle,
    storage: Storage,
    fields: Sequence[EmbeddedField],
    known: dict[str, dict[str, Vectors]],
) -> int:
    """Embed those of some fields without a vector, and write these; return their number.

    known: the vectors that the job has made, by model and text: lines of a log occur again.
    """
    embedding = handle.embedding_of(fields[0].address[0])
    model = await embedding.model()
    ids = sorted({one.memory_id for one in fields})
    [rows] = await storage.read(fields[0].tenant, [fields_with_vectors(model, ids)])
    made = set(rows)  # by a job that died
    fields = [one for one in fields if (one.memory_id, one.field) not in made]
    if not fields:
        return 0
    found = await embedding.passages([one.text for one in fields], known.setdefault(model, {}))
    kept = [place for place, vector in enumerate(found) if vector.any()]
    adding = partial(add_missing_vectors, model, [fields[one] for one in kept], found[kept])
    return await storage.transact(fields[0].tenant, adding) if kept else 0


def _together(waiting: Sequence[EmbeddedField]) -> Iterator[list[EmbeddedField]]:
    """Yield the passages of items in batches of at most TOGETHER, rare words of an item first.

    Only the last batch of an item has plain field names. A plain name shows that the item is done.
    """
    batch: list[EmbeddedField] = []
    for item in waiting:
        text = without_data(text_of(item.value))
        bounds = list(islice(passages(text), MOST_PASSAGES))
        bounds = [bounds[place] for place in rarest_first([text[slice(*one)] for one in bounds])]
        for first in range(0, len(bounds), TOGETHER):
            some = bounds[first : first + TOGETHER]
            is_early = first + TOGETHER < len(bounds)
            if batch and len(batch) + len(some) > TOGETHER:
                yield batch
                batch = []
            batch += [_passage(item, text, *one, is_early=is_early) for one in some]
    if batch:
        yield batch


def _passage(
    item: EmbeddedField, text: str, begin: int, end: int, *, is_early: bool
) -> EmbeddedField:
    is_whole = (begin, end) == (0, len(text))
    field = TEXT_FIELD if is_whole else passage_field(begin, end, is_early=is_early)
    return replace(item, field=field, text=text[begin:end])
