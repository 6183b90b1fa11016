"""The key-value face of memory: batches that read, search, list and write items by address."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias, cast

from shared_core.errors import (
    BatchError,
    EmbeddingMismatch,
    InvalidInput,
    MemoryCoreError,
    ModelUnavailable,
    StorageReadOnly,
)
from shared_core.ingest.item_drafts import Drafts, draft
from shared_core.ingest.item_search import find_items, page_bounds
from shared_core.models.embedding import Embedding
from shared_core.ports.item_operations import FindItems, ItemOp, ItemResult, ReadItem, WriteItem
from shared_core.ports.items import ItemAddress, NamespaceQuery, VectorRows
from shared_core.ports.storage import Clock, Storage

__all__ = [
    "FindItems",
    "ItemOp",
    "ItemResult",
    "ReadItem",
    "WriteItem",
    "one_error",
    "run_item_ops",
]

log = logging.getLogger("hippocampus")

MAX_CHUNK_CHARACTERS = 50_000_000
"""One message to the server holds at most 1 GB; the values of a piece of a batch stay far below."""

Work: TypeAlias = Callable[[Sequence[int]], Awaitable[None]]


async def run_item_ops(
    storage: Storage, embedding: Embedding, clock: Clock, ops: Sequence[ItemOp]
) -> list[ItemResult]:
    """Run a batch and return a result for each op, in order: reads see the state before it.

    Reads first, then searches, then lists, then writes; the last write to an address that can be
    done wins. Each op fails alone: raises BatchError, with every result, after all others are done;
    the plain error where there is one op, or where one thing failed them all.
    """
    return await _Batch(storage, embedding, clock, ops).run()


class _Batch:
    """One batch on its way: the results so far, and what went wrong where."""

    def __init__(
        self, storage: Storage, embedding: Embedding, clock: Clock, ops: Sequence[ItemOp]
    ) -> None:
        self._storage = storage
        self._embedding = embedding
        self._clock = clock
        self._ops = ops
        self._results: list[ItemResult] = [None] * len(ops)
        self._errors: dict[int, Exception] = {}
        self._touched: dict[ItemAddress, None] = {}

    async def run(self) -> list[ItemResult]:
        await self._each_alone(self._read, self._places(ReadItem))
        for place in self._places(FindItems):
            await self._each_alone(self._find, [place])
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
        """Do the work for all places at once, or in halves where one of them cannot be done."""
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
        items = await self._storage.get_items(
            list(dict.fromkeys(op.address for op in reads.values()))
        )
        found = {(item.namespace, item.key): item for item in items}
        for place, op in reads.items():
            item = self._results[place] = found.get(op.address)
            if item and item.has_ttl and op.refresh:
                self._touched[op.address] = None

    async def _find(self, places: Sequence[int]) -> None:
        op = cast(FindItems, self._ops[places[0]])
        items = await find_items(self._storage, self._embedding, op, self._clock())
        self._results[places[0]] = items
        if op.refresh:
            self._touched |= {(item.namespace, item.key): None for item in items if item.has_ttl}

    async def _list(self, places: Sequence[int]) -> None:
        op = cast(NamespaceQuery, self._ops[places[0]])
        limit, offset = page_bounds(op.limit, op.offset)
        depth = None if op.max_depth is None else page_bounds(op.max_depth, 0, "max_depth")[0]
        query = replace(op, limit=limit, offset=offset, max_depth=depth)
        self._results[places[0]] = await self._storage.list_namespaces(query)

    async def _refresh(self) -> None:
        """Give what was read its full time again; a failure never takes away what was read."""
        if not self._touched:
            return
        try:
            await self._storage.extend_items(list(self._touched))
        except StorageReadOnly as error:
            log.debug("times to live were not refreshed: %s", error)
        except MemoryCoreError as error:
            log.warning("times to live were not refreshed: %s", error)

    async def _write(self, places: Sequence[int]) -> None:
        """Do the last write to each address; where that one fails, the one before it."""
        writes = self._drafted(places)
        waiting: dict[ItemAddress, list[int]] = {}
        for place in writes:
            waiting.setdefault(self._address(place), []).append(place)
        while waiting:
            last = [of_one.pop() for of_one in waiting.values()]
            for chunk in _chunks({place: writes[place] for place in last}):
                for group, vectors in await self._embedded(chunk):
                    await self._each_alone(partial(self._put, group, vectors), list(group))
            failed = {self._address(place): self._errors.get(place) for place in last}
            waiting = {at: left for at, left in waiting.items() if left and failed[at]}
            await self._give_up(writes, waiting, failed)

    async def _give_up(
        self,
        writes: Drafts,
        waiting: dict[ItemAddress, list[int]],
        failed: Mapping[ItemAddress, Exception | None],
    ) -> None:
        """Fail what is waiting without trying it, where it would fail as the write after it did."""
        unfit = (EmbeddingMismatch, ModelUnavailable)
        down = next((e for at in waiting if isinstance(e := failed[at], unfit)), None)
        if down is not None and await self._works(down):
            down = None
        for address in list(waiting):
            left, error = waiting[address], failed[address]
            if isinstance(error, unfit):
                while down and left and (entry := writes[left[-1]]) and entry.texts:
                    self._errors[left.pop()] = error
            elif error is not None and not isinstance(error, InvalidInput):  # no storage
                self._errors |= dict.fromkeys(left, error)
                left.clear()
            if not left:
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

    def _address(self, place: int) -> ItemAddress:
        return cast(WriteItem, self._ops[place]).address

    async def _embedded(self, drafts: Drafts) -> list[tuple[Drafts, VectorRows | None]]:
        """Return groups of drafts with their vectors: one group, unless the embedder fails.

        Then a text that surely can be embedded tells whether it is down, and all that need it
        fail, or whether it stumbles over some of the texts, and only theirs do.
        """
        texts = [
            (entry.address, name, text)
            for entry in drafts.values()
            if entry
            for name, text in entry.texts.items()
        ]
        try:
            return [(drafts, await self._embedding.rows(texts))]
        except MemoryCoreError as error:
            needing = [place for place, entry in drafts.items() if entry and entry.texts]
            plain = {place: entry for place, entry in drafts.items() if place not in needing}
            done: list[tuple[Drafts, VectorRows | None]] = [(plain, None)] if plain else []
            if len(needing) == 1 or not await self._works(error):
                self._errors |= dict.fromkeys(needing, error)
                return done
            middle = len(needing) // 2
            for half in (needing[:middle], needing[middle:]):
                done += await self._embedded({place: drafts[place] for place in half})
            return done

    async def _works(self, error: MemoryCoreError) -> bool:
        if not isinstance(error, ModelUnavailable):
            return False
        try:
            await self._embedding.query("memory")
        except MemoryCoreError:
            return False
        return True

    async def _put(self, drafts: Drafts, vectors: VectorRows | None, places: Sequence[int]) -> None:
        wanted = {place: drafts[place] for place in places}
        if vectors is not None and len(wanted) < len(drafts):
            vectors = vectors.only({entry.address for entry in wanted.values() if entry})
        gone = [self._address(place) for place, entry in wanted.items() if not entry]
        now = self._clock()
        rows = [entry.written_at(now) for entry in wanted.values() if entry]
        await self._storage.put_memories(rows, vectors, gone)


def one_error(errors: Mapping[int, Exception], results: Sequence[object]) -> Exception:
    """Return what a batch raises: the error itself if it is the same for every op, or the only."""
    first, *others = errors.values()
    same = all((type(other), str(other)) == (type(first), str(first)) for other in others)
    return first if same and len(errors) == len(results) else BatchError(errors, results)


def _chunks(drafts: Drafts) -> Iterator[Drafts]:
    """Yield the drafts in pieces that fit one message to the server each."""
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
