"""Runs batches of key-value operations: read, search, list and write items by address."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import TypeAlias, cast

from shared_core.core.domain import Hit, JsonValue, MemoryId, Namespace, Scope
from shared_core.core.ids import uuid7
from shared_core.core.json_text import to_json
from shared_core.core.namespaces import (
    check_label,
    clean_text,
    instructions_scope,
    scope_path,
    shows_profile,
    tenant_of,
)
from shared_core.core.shown import shown
from shared_core.core.telemetry import measured
from shared_core.core.validation import listed
from shared_core.errors import (
    BatchError,
    CapabilityMissing,
    EmbeddingMismatch,
    InvalidInput,
    MemoryCoreError,
    ModelUnavailable,
    StorageReadOnly,
    StorageUnavailable,
)
from shared_core.ingest.item_text import CONTENT_FIELDS, text_of
from shared_core.lifecycle import Handle
from shared_core.models.embedding import Embedding
from shared_core.nlp.passages import without_data
from shared_core.nlp.text import has_words, search_terms
from shared_core.policies.items import marks_of, put_items, select_marks, stamp_items
from shared_core.policies.vectors import TEXT_FIELD
from shared_core.ports.items import (
    FindItems,
    ImportMark,
    Item,
    ItemAddress,
    ItemOp,
    ItemQuery,
    ItemResult,
    ItemStamp,
    MemoryRow,
    NamespaceQuery,
    ReadItem,
    VectorRows,
    WriteItem,
)
from shared_core.ports.jobs import JobType, NewJob
from shared_core.ports.recall import RankingQuery, SearchRequest
from shared_core.ports.storage import Clock, Storage
from shared_core.privacy.redaction import KINDS
from shared_core.recall.query import query_terms, read_best

MAX_TTL_S = 100 * 366 * 86_400.0
"""Maximum time to live in seconds, 100 years; an item without one never expires."""

LATER_CHARACTERS = 10_000
"""Characters of an item that is embedded later which are kept as its text: what recall shows."""
LATER_WORDS = 1_000
"""Characters of it whose words are searched at once: it takes a second to cut 1 MB into words. The
job adds the words of the rest. An item without words is never embedded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A row to write and its texts to embed, by field. size: characters of its value.

    later: a job embeds it, if it has words. The row has no expiry yet, because its time to live
    starts when it is written.
    """

    address: ItemAddress
    row: MemoryRow
    texts: Mapping[str, str]
    size: int
    later: bool = False

    def written_at(self, now: datetime) -> MemoryRow:
        """Return the row with its expiry, if it is written now."""
        if self.row.ttl_s is None:
            return self.row
        return replace(self.row, expires_at=now + timedelta(seconds=self.row.ttl_s))


Drafts: TypeAlias = "dict[int, Draft | None]"
"""The drafts of a batch, by place; None deletes the item."""


LATER_REST_S = 1.0
"""Seconds without a write before items are embedded: a burst of writes is embedded when it is
over, and those who write do not share the processor with the model."""


def may_wait(namespace: Namespace) -> bool:
    """Tell whether a job can embed an item of a namespace: jobs belong to users.

    Instructions are embedded at once: they are few, and their versions are written by verbs.
    """
    if len(namespace) < 2 or instructions_scope(namespace):
        return False
    return all(label.strip() for label in namespace[:2])


def embedding_job(now: datetime) -> NewJob:
    """Return the job that embeds what waits of a user."""
    due = now + timedelta(seconds=LATER_REST_S)
    return NewJob(job_id=uuid7(), job_type=JobType.ITEM_VECTORS, run_after=due)


def check_write(op: WriteItem) -> str:
    """Return the value of a write as JSON text. Raises InvalidInput, which names the key."""
    namespace, key = op.address
    check_label(key, f"the key of an item in {namespace}")
    if shows_profile(namespace):
        raise InvalidInput(
            f"{namespace} shows a profile, so {key!r} cannot be put there: update the profile with"
            " engine.profiles.repository(scope), or use another namespace; deleting an item there"
            " removes it from the profile"
        )
    if not isinstance(op.value, Mapping):
        raise InvalidInput(f"the value of {key!r} must be a dict, got {type(op.value).__name__}")
    _check_ttl(op)
    return to_json(op.value, f"the value of {key!r} in {namespace}")


def draft(op: WriteItem, now: datetime) -> Draft:
    """Return the draft of a write with a value. Raises as check_write() does."""
    json = check_write(op)
    assert op.value is not None
    namespace, key = op.address
    text = text_of(op.value)
    later = op.later and op.texts is None and may_wait(namespace)
    at_once = first_words(text) if later else text
    if later:
        text = text[:LATER_CHARACTERS]
    texts = {TEXT_FIELD: at_once} if op.texts is None else op.texts
    texts = {name: words for name, words in texts.items() if has_words(words)}
    words = "\n".join(dict.fromkeys(texts.values())) if op.words is None else op.words
    row = MemoryRow(
        memory_id=MemoryId(uuid7()),
        namespace=namespace,
        key=key,
        kind="item",
        text=text,
        value=op.value,
        terms=search_terms(words),
        occurred_at=now,
        ttl_s=op.ttl_s,
        json=json,
    )
    if later:
        return Draft(address=op.address, row=row, texts={}, size=len(json), later=bool(texts))
    return Draft(address=op.address, row=row, texts=texts, size=len(json))


def _check_ttl(op: WriteItem) -> None:
    ttl_s: object = op.ttl_s
    namespace, key = op.address
    if ttl_s is None:
        return
    if instructions_scope(namespace):
        raise InvalidInput(
            f"the instruction {key!r} in {namespace} cannot have a time to live, because its"
            " versions stay until it is deleted: put it without one, or in another namespace"
        )
    if isinstance(ttl_s, bool) or not isinstance(ttl_s, int | float) or not 0 < ttl_s <= MAX_TTL_S:
        raise InvalidInput(
            f"the time to live of {key!r} must be above 0 and at most 100 years, got"
            f" {_in_minutes(ttl_s)}"
        )


def _in_minutes(ttl_s: object) -> str:
    """Return a time to live in minutes, the unit of LangGraph callers, and in seconds."""
    if isinstance(ttl_s, bool) or not isinstance(ttl_s, int | float):
        return f"{ttl_s!r}"
    return f"{ttl_s / 60:g} minutes ({ttl_s:g} s)"


def first_words(text: str) -> str:
    """Return the first LATER_WORDS characters of a text that have words, counted in such steps."""
    for begin in range(0, len(text), LATER_WORDS):
        part = without_data(text[begin : begin + LATER_WORDS])
        if has_words(part):
            return part
    return ""


MAX_BOUND = 1_000_000_000
"""Largest limit or offset; a greater one is cut to it."""

RANKED = 100
"""Number of hits of a hybrid search that are ranked by all features, on every page. The others
follow by meaning, then those that only share a word, newest first. So the order does not depend on
the size of a page."""

RANKED_WORDS = 1_000
"""Number of ranked hits of a search by words alone, or of a hybrid one without an embedder. The
others follow, newest first."""


def page_of(op: FindItems) -> tuple[ItemQuery, str]:
    """Return the page that a search asks for, and its words; a search without words is a listing.

    Raises InvalidInput for an invalid limit, offset or query.
    """
    limit, offset = page_bounds(op.limit, op.offset)
    if op.query is not None and not isinstance(op.query, str):
        raise InvalidInput(f"query must be a text, got {type(op.query).__name__}")
    query = clean_text(op.query or "")
    page = ItemQuery(
        prefix=op.prefix,
        limit=limit,
        offset=offset,
        filter=op.filter,
        distance=op.distance,
        with_expired=op.with_expired,
    )
    return page, query if has_words(query) else ""


async def search_items(
    storage: Storage,
    embedding: Embedding,
    op: FindItems,
    page: ItemQuery,
    query: str,
    now: datetime,
) -> Sequence[Item]:
    """Return a page of items below a namespace, best first. page, query: those of page_of(op)."""
    if page.limit == 0:
        return []
    if op.search == "text" or (op.search == "hybrid" and len(op.prefix) > 1):
        return await _ranked(storage, embedding, op, page, query, now)
    vector = await embedding.query(query)
    if vector is not None:  # else the model finds no meaning in the query, and the page is a list
        page = replace(page, model=await embedding.model(), vector=vector)
    [found] = await storage.items.find_items([page])
    return found


async def _ranked(
    storage: Storage,
    embedding: Embedding,
    op: FindItems,
    page: ItemQuery,
    query: str,
    now: datetime,
) -> list[Item]:
    from shared_core.recall.ranking import ranked  # deferred: it imports numpy

    if len(op.prefix) < 2:
        raise CapabilityMissing(
            "a search by words covers one user: pass a namespace of at least two labels, or search"
            " by meaning"
        )
    vector, _ = await embedding.query_or_words(query) if op.search == "hybrid" else (None, True)
    most, candidates = (RANKED_WORDS, RANKED_WORDS) if vector is None else (RANKED, 2 * RANKED)
    request = SearchRequest(
        scope=Scope(*op.prefix[:2]),
        namespace=op.prefix,
        terms=query_terms(query),
        model=await embedding.known_model(),
        vector=vector,
        kinds=None,
        candidates=candidates,
        filter=op.filter,
        may_be_resident=True,
    )
    end = page.offset + page.limit
    ranking = RankingQuery(text=query, terms=request.terms, now=now)
    best = await read_best(
        storage, request, lambda found: islice(ranked(found, ranking), min(end, most))
    )
    hits = [one.hit() for one in best]
    found = [_item(hit) for hit in hits[page.offset : end]]
    is_all = vector is None and len(hits) < most  # else what no query finds fills the page
    if is_all or end <= min(most, len(hits)):
        return found
    return found + await _rest(storage, request, page, hits)


async def _rest(
    storage: Storage, request: SearchRequest, page: ItemQuery, hits: Sequence[Hit]
) -> list[Item]:
    """Return the part of a page after the ranked items."""
    offset = max(page.offset - len(hits), 0)
    rest = replace(
        page,
        limit=page.offset + page.limit - len(hits) - offset,
        offset=offset,
        model=request.model,
        vector=request.vector,
        terms=request.terms,
        besides=[hit.memory.memory_id for hit in hits],
        with_expired=False,
    )
    [found] = await storage.items.find_items([rest])
    return [replace(item, score=None) for item in found]


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
    """Return limit and offset, at most MAX_BOUND. Raises InvalidInput for negative ones."""
    for what, number in ((name, limit), ("offset", offset)):
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise InvalidInput(f"{what} must be a whole number from 0, got {shown(number)}")
    return min(limit, MAX_BOUND), min(offset, MAX_BOUND)


log = logging.getLogger("hippocampus")

MAX_CHUNK_CHARACTERS = 50_000_000
"""Maximum characters of values in one statement; PostgreSQL limits a message to 1 GB."""

LISTINGS_TOGETHER = 10
"""Maximum number of searches without words in one message: more share less with other cores, and
wait longer for a slow one among them."""

Work: TypeAlias = Callable[[Sequence[int]], Awaitable[None]]


@measured("item_ops")
async def run_item_ops(
    storage: Storage,
    embedding_of: Callable[[Namespace], Embedding],
    clock: Clock,
    ops: Sequence[ItemOp],
    enqueued: Callable[[Scope], None] = lambda scope: None,
    stamps: Sequence[ItemStamp] = (),
) -> list[ItemResult]:
    """Run a batch and return a result for each operation, in order.

    embedding_of: returns what embeds the items below a namespace.

    Reads run first, then searches, lists, writes; so reads see the state before the batch. The last
    valid write to an address wins. Each operation fails alone (decision 8): BatchError with every
    result is raised after all others are done. If a single cause failed all of them, or there is
    only one operation, the plain error is raised. stamps: of imported items, one for each write.
    enqueued: called for a user whose items a job will embed.
    """
    given = listed(ops, "ops", "[ReadItem(...)]")
    if unknown := [op for op in given if not isinstance(op, ItemOp)]:
        raise InvalidInput(f"ops must be operations on items, got {shown(unknown[0])}")
    return await _Batch(storage, embedding_of, clock, given, stamps, enqueued).run()


class _Batch:
    """The state of one batch: results and errors by the place of their operation."""

    def __init__(
        self,
        storage: Storage,
        embedding_of: Callable[[Namespace], Embedding],
        clock: Clock,
        ops: Sequence[ItemOp],
        stamps: Sequence[ItemStamp],
        enqueued: Callable[[Scope], None],
    ) -> None:
        self._enqueued = enqueued
        self._storage = storage
        self._embedding_of = embedding_of
        self._clock = clock
        self._ops = ops
        self._stamps = {stamp.address: stamp for stamp in stamps}
        self._results: list[ItemResult] = [None] * len(ops)
        self._errors: dict[int, Exception] = {}
        self._touched: dict[ItemAddress, None] = {}

    async def run(self) -> list[ItemResult]:
        await self._each_alone(self._read, self._places(ReadItem))
        await self._find()
        for place in self._places(NamespaceQuery):
            await self._each_alone(self._list, [place])
        await self._refresh()
        writes = self._places(WriteItem)
        if writes:
            await self._write(writes)
        if self._errors:
            raise one_error(self._errors, self._results)
        return self._results

    def _places(self, kind: type[ItemOp]) -> list[int]:
        return [place for place, op in enumerate(self._ops) if isinstance(op, kind)]

    async def _each_alone(self, work: Work, places: Sequence[int]) -> None:
        """Do the work for all places together; on InvalidInput, bisect to find the faulty ones."""
        if not places:
            return
        try:
            await work(places)
        except InvalidInput as error:
            if len(places) == 1:
                self._errors[places[0]] = error
                return
            middle = len(places) // 2
            await self._each_alone(work, places[:middle])
            await self._each_alone(work, places[middle:])
        except MemoryCoreError as error:
            self._errors |= dict.fromkeys(places, error)

    async def _read(self, places: Sequence[int]) -> None:
        reads = {place: cast(ReadItem, self._ops[place]) for place in places}
        found: dict[tuple[ItemAddress, bool], Item] = {}
        for with_expired in sorted({op.with_expired for op in reads.values()}):
            asked = [op.address for op in reads.values() if op.with_expired == with_expired]
            items = await self._storage.items.get_items(
                list(dict.fromkeys(asked)), with_expired=with_expired
            )
            found |= {((item.namespace, item.key), with_expired): item for item in items}
        for place, op in reads.items():
            item = self._results[place] = found.get((op.address, op.with_expired))
            if item and item.has_ttl and op.refresh:
                self._touched[op.address] = None

    async def _find(self) -> None:
        """Search: listings share round trips, each other search is on its own."""
        listings: dict[int, ItemQuery] = {}
        for place in self._places(FindItems):
            try:
                page, query = page_of(cast(FindItems, self._ops[place]))
            except InvalidInput as error:
                self._errors[place] = error
                continue
            if query:
                await self._each_alone(partial(self._search, page, query), [place])
            else:
                listings[place] = page
        await self._list_all(listings, LISTINGS_TOGETHER)

    async def _search(self, page: ItemQuery, query: str, places: Sequence[int]) -> None:
        [place] = places
        op, now = cast(FindItems, self._ops[place]), self._clock()
        embedding = self._embedding_of(op.prefix)
        found = await search_items(self._storage, embedding, op, page, query, now)
        self._found(place, found)

    async def _list_all(self, listings: Mapping[int, ItemQuery], together: int) -> None:
        """List in messages of this many listings, several at a time."""
        places, list_some = list(listings), partial(self._list_some, listings)
        await asyncio.gather(
            *(
                self._each_alone(list_some, places[begin : begin + together])
                for begin in range(0, len(places), together)
            )
        )

    async def _list_some(self, listings: Mapping[int, ItemQuery], places: Sequence[int]) -> None:
        queries = {place: listings[place] for place in places}
        try:
            pages = await self._storage.items.find_items(list(queries.values()))
        except StorageUnavailable:  # perhaps one of them takes too long
            if len(places) == 1:
                raise
            await self._list_all(queries, 1)
            return
        for place, page in zip(places, pages, strict=True):
            self._found(place, page)

    def _found(self, place: int, items: Sequence[Item]) -> None:
        self._results[place] = items
        if cast(FindItems, self._ops[place]).refresh:
            self._touched |= {(item.namespace, item.key): None for item in items if item.has_ttl}

    async def _list(self, places: Sequence[int]) -> None:
        op = cast(NamespaceQuery, self._ops[places[0]])
        limit, offset = page_bounds(op.limit, op.offset)
        depth = None if op.max_depth is None else page_bounds(op.max_depth, 0, "max_depth")[0]
        query = replace(op, limit=limit, offset=offset, max_depth=depth)
        self._results[places[0]] = await self._storage.items.list_namespaces(query)

    async def _refresh(self) -> None:
        """Restart the time to live of the items read. A failure does not fail the reads."""
        if not self._touched:
            return
        try:
            await self._storage.items.extend_items(list(self._touched))
        except StorageReadOnly as error:
            log.debug("times to live were not refreshed: %s", error)
        except MemoryCoreError as error:
            log.warning("times to live were not refreshed: %s", error)

    async def _write(self, places: Sequence[int]) -> None:
        """Do the last write to each address; if it fails, try the one before it."""
        waiting: dict[ItemAddress, list[int]] = {}
        for place in places:
            address = self._address(place)
            try:
                waiting.setdefault(address, []).append(place)
            except TypeError:  # it cannot be hashed
                self._errors[place] = InvalidInput(
                    f"an item needs a namespace of labels and a key, got {shown(address)}"
                )
        for superseded in waiting.values():
            superseded[:-1] = [place for place in superseded[:-1] if self._may_write(place)]
        while waiting:
            last = [of_one.pop() for of_one in waiting.values()]
            for chunk in _chunks(self._drafted(last)):
                for group, vectors in await self._all_embedded(chunk):
                    await self._each_alone(partial(self._put, group, vectors), list(group))
            failed = {self._address(place): self._errors.get(place) for place in last}
            waiting = {at: rest for at, rest in waiting.items() if rest and failed[at]}
            await self._give_up(waiting, failed)

    async def _give_up(
        self, waiting: dict[ItemAddress, list[int]], failed: Mapping[ItemAddress, Exception | None]
    ) -> None:
        """Fail the waiting writes that would fail for the same reason as the one after them."""
        unfit = (EmbeddingMismatch, ModelUnavailable)
        down: MemoryCoreError | None = None
        for address in waiting:
            if isinstance(error := failed[address], unfit):
                embedding = self._embedding_of(address[0])
                down = None if await _works(embedding, error) else error
                break
        for address in list(waiting):
            rest, error = waiting[address], failed[address]
            if isinstance(error, unfit):
                while down and rest and self._needs_a_vector(rest[-1]):
                    self._errors[rest.pop()] = error
            elif error is not None and not isinstance(error, InvalidInput):  # the storage is down
                self._errors |= dict.fromkeys(rest, error)
                rest.clear()
            if not rest:
                del waiting[address]

    def _drafted(self, places: Sequence[int]) -> Drafts:
        now = self._clock()
        writes: Drafts = {}
        for place in places:
            op = cast(WriteItem, self._ops[place])
            try:
                writes[place] = None if op.value is None else draft(op, now)
            except InvalidInput as error:
                self._errors[place] = error
        return writes

    def _may_write(self, place: int) -> bool:
        """Tell whether a write is valid, which a later one to its address supersedes."""
        op = cast(WriteItem, self._ops[place])
        try:
            if op.value is not None:
                check_write(op)
        except InvalidInput as error:
            self._errors[place] = error
            return False
        return True

    def _needs_a_vector(self, place: int) -> bool:
        entry = self._drafted([place]).get(place)
        return entry is not None and bool(entry.texts)

    def _address(self, place: int) -> ItemAddress:
        return cast(WriteItem, self._ops[place]).address

    async def _all_embedded(self, drafts: Drafts) -> list[tuple[Drafts, VectorRows | None]]:
        """Return groups of drafts with their vectors: one group for each embedding."""
        of_embeddings: dict[Embedding, Drafts] = {}
        for place, entry in drafts.items():
            embedding = self._embedding_of(self._address(place)[0])
            of_embeddings.setdefault(embedding, {})[place] = entry
        groups: list[tuple[Drafts, VectorRows | None]] = []
        for embedding, some in of_embeddings.items():
            groups += await self._embedded(embedding, some)
        return groups

    async def _embedded(
        self, embedding: Embedding, drafts: Drafts
    ) -> list[tuple[Drafts, VectorRows | None]]:
        """Return groups of drafts with their vectors: one group, unless the embedder fails.

        After a failure, a harmless text tells whether the embedder is down, and all fail, or
        rejects some of the texts, which bisection then finds.
        """
        texts = [
            (entry.address, name, text)
            for entry in drafts.values()
            if entry
            for name, text in entry.texts.items()
        ]
        try:
            return [(drafts, await embedding.rows(texts))]
        except MemoryCoreError as error:
            needing = [place for place, entry in drafts.items() if entry and entry.texts]
            plain = {place: entry for place, entry in drafts.items() if place not in needing}
            done: list[tuple[Drafts, VectorRows | None]] = [(plain, None)] if plain else []
            if len(needing) == 1 or not await _works(embedding, error):
                self._errors |= dict.fromkeys(needing, error)
                return done
            middle = len(needing) // 2
            for half in (needing[:middle], needing[middle:]):
                done += await self._embedded(embedding, {at: drafts[at] for at in half})
            return done

    async def _put(self, drafts: Drafts, vectors: VectorRows | None, places: Sequence[int]) -> None:
        chosen = {place: drafts[place] for place in places}
        if vectors is not None and len(chosen) < len(drafts):
            vectors = vectors.only({entry.address for entry in chosen.values() if entry})
        gone = [self._address(place) for place, entry in chosen.items() if not entry]
        now = self._clock()
        rows = [entry.written_at(now) for entry in chosen.values() if entry]
        stamps = [self._stamps[row.namespace, row.key] for row in rows] if self._stamps else ()
        scopes = {Scope(*one.address[0][:2]) for one in chosen.values() if one and one.later}
        if gone or stamps:
            later = set(map(scope_path, scopes))
            await write_items(self._storage, rows, vectors, gone, stamps, now, later)
        else:
            jobs = [(scope, embedding_job(now)) for scope in sorted(scopes, key=scope_path)]
            await self._storage.items.put_memories(rows, vectors, jobs)
        for scope in scopes:
            self._enqueued(scope)


async def _works(embedding: Embedding, error: MemoryCoreError) -> bool:
    """Tell whether an embedder that failed takes a harmless text."""
    if not isinstance(error, ModelUnavailable):
        return False
    try:
        await embedding.query("memory")
    except MemoryCoreError:
        return False
    return True


def by_tenant(addresses: Iterable[ItemAddress]) -> dict[str, list[ItemAddress]]:
    """Return addresses by the tenant that owns them."""
    found: defaultdict[str, list[ItemAddress]] = defaultdict(list)
    for address in addresses:
        found[tenant_of(address[0])].append(address)
    return found


async def write_items(
    storage: Storage,
    rows: Sequence[MemoryRow],
    vectors: VectorRows | None,
    forgotten: Sequence[ItemAddress],
    stamps: Sequence[ItemStamp],
    now: datetime,
    later: Collection[str] = (),
) -> None:
    """Write items and delete others in one transaction.

    stamps: original times of written ones. later: tenants whose items a job embeds.
    """
    row_of = {(row.namespace, row.key): row for row in rows}
    stamp_of = {stamp.address: stamp for stamp in stamps}
    gone = set(forgotten)
    await storage.transact_all(
        {
            tenant: partial(
                put_items,
                [row_of[one] for one in some if one in row_of],
                vectors.only(some) if vectors else None,
                [one for one in some if one in gone],
                [stamp_of[one] for one in some if one in stamp_of],
                now,
                embedding_job(now) if tenant in later else None,
            )
            for tenant, some in by_tenant([*row_of, *forgotten]).items()
        }
    )


def one_error(errors: Mapping[int, Exception], results: Sequence[object]) -> Exception:
    """Return the error of a batch: the plain one if all operations failed by it, or BatchError."""
    first, *others = errors.values()
    same = all((type(other), str(other)) == (type(first), str(first)) for other in others)
    return first if same and len(errors) == len(results) else BatchError(errors, results)


def _chunks(drafts: Drafts) -> Iterator[Drafts]:
    """Yield the drafts in chunks that each fit one message to the server."""
    chunk: Drafts = {}
    size = 0
    for place, entry in drafts.items():
        chunk[place] = entry
        size += entry.size if entry else 0
        if size > MAX_CHUNK_CHARACTERS:
            yield chunk
            chunk, size = {}, 0
    if chunk:
        yield chunk


class ImportedItems:
    """Reads and writes items of another store, with their times: engine.imported_items."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    async def read(self, addresses: Sequence[ItemAddress]) -> list[Item | None]:
        """Return the item at each address, without a refresh of its time to live."""
        reads = [ReadItem(address=address, refresh=False) for address in addresses]
        return cast("list[Item | None]", await self._run(reads))

    def masked(self, value: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """Return a value with the text of a memory masked; without such a field all are texts."""
        redact = self._handle.sanitizer.privacy.redact_value
        texts = [name for name in CONTENT_FIELDS if name in value] or list(value)
        return {
            name: redact(part, KINDS) if name in texts else redact(part)
            for name, part in value.items()
        }

    async def marks(self, addresses: Sequence[ItemAddress]) -> Mapping[ItemAddress, ImportMark]:
        """Return what was imported to these addresses before, and deleted there since."""
        storage = await self._handle.storage()
        marks: dict[ItemAddress, ImportMark] = {}
        for tenant, some in by_tenant(addresses).items():
            [rows] = await storage.read(tenant, [select_marks(some)])
            marks |= marks_of(some, rows)
        return marks

    async def write(
        self, writes: Sequence[WriteItem], stamps: Sequence[ItemStamp]
    ) -> list[ItemResult]:
        """Write items with the times of their stamps, and mark them as imported.

        An item and its stamp are written in one transaction, so no other write comes between.
        """
        return await self._run(writes, stamps)

    async def stamp(self, stamps: Sequence[ItemStamp]) -> None:
        """Mark items as imported, and set the times of their stamps where these are older."""
        storage = await self._handle.storage()
        await storage.transact_all(
            {
                tenant: partial(stamp_items, [one for one in stamps if one.address in some])
                for tenant, some in by_tenant(one.address for one in stamps).items()
            }
        )

    async def _run(
        self, ops: Sequence[ItemOp], stamps: Sequence[ItemStamp] = ()
    ) -> list[ItemResult]:
        handle = self._handle
        return await run_item_ops(
            await handle.storage(), handle.embedding_of, handle.clock, ops, stamps=stamps
        )
