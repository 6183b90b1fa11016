"""Copies items out of another store, page by page; started again, it goes on where it was."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast
from uuid import uuid4

from shared_core.domain import JsonValue, Namespace
from shared_core.errors import (
    BatchError,
    EmbeddingMismatch,
    InvalidInput,
    MemoryCoreError,
    ModelOutputInvalid,
    ModelUnavailable,
    SchemaOutOfDate,
    StorageUnavailable,
)
from shared_core.import_ports import ItemSource, SourceItem
from shared_core.item_ports import Item, ItemAddress, ItemStamp, MemoryRow, VectorRows
from shared_core.items import ItemOp, ItemResult, ReadItem, WriteItem
from shared_core.ports import Embedder, Storage

if TYPE_CHECKING:
    from shared_core.ports import Vectors

MODEL_FAILURES = 3
"""So many items in a row that cannot be embedded mean that the embedder is down."""

FATAL = (StorageUnavailable, EmbeddingMismatch, SchemaOutOfDate)
"""What would fail every other item too."""

WHOLE = "$"
"""PostgresStore's name for the whole value as a field."""


class ItemTarget(Protocol):
    """Where items are written; MemoryEngine is one."""

    async def run_item_ops(self, ops: Sequence[ItemOp]) -> list[ItemResult]: ...
    async def write_stamped(
        self, writes: Sequence[WriteItem], stamps: Sequence[ItemStamp]
    ) -> list[ItemResult]: ...
    async def stamp_items(self, stamps: Sequence[ItemStamp]) -> None: ...


class StampingStorage:
    """A storage whose items have the times of their stamps from the beginning."""

    def __init__(self, storage: Storage, stamps: Sequence[ItemStamp]) -> None:
        self._storage = storage
        self._stamps = {stamp.address: stamp for stamp in stamps}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    async def put_memories(
        self,
        rows: Sequence[MemoryRow],
        vectors: VectorRows | None,
        forgotten: Sequence[ItemAddress] = (),
    ) -> None:
        """Write and stamp in one transaction: nobody writes in between."""
        stamps = [self._stamps[row.namespace, row.key] for row in rows]
        await self._storage.put_memories(rows, vectors, forgotten, stamps)


class KnownVectors:
    """An embedder that gives back vectors which are known, and asks another one for the rest."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._known: dict[str, Vectors] = {}

    @property
    def model(self) -> str:
        return self._embedder.model

    def text_for(self, vector: Sequence[float]) -> str | None:
        """Return a text that will be embedded as this vector; None for one without direction."""
        import numpy as np

        row = np.asarray(vector, dtype=np.float32)
        length = float(np.linalg.norm(row))
        if not np.isfinite(length) or not length:
            return None
        text = f"vector {uuid4().hex}"
        self._known[text] = row / length
        return text

    def clear(self) -> None:
        """Forget all vectors."""
        self._known.clear()

    async def embed_passages(self, texts: Sequence[str]) -> Vectors:
        import numpy as np

        unknown = [text for text in texts if text not in self._known]
        fresh = dict(
            zip(unknown, await self._embedder.embed_passages(unknown), strict=True)
            if unknown
            else ()
        )
        return np.stack(
            [self._known[text] if text in self._known else fresh[text] for text in texts]
        )

    async def embed_query(self, text: str) -> Vectors:
        return await self._embedder.embed_query(text)


@dataclass(slots=True, kw_only=True)
class ImportReport:
    """What became of the items of a source.

    here: were here already with the same value. newer: are here with another value, written
    later than the source's. in_source: how many the source held at the end.
    """

    in_source: int = 0
    copied: int = 0
    here: int = 0
    newer: int = 0
    expired: int = 0
    failed: int = 0

    @property
    def seen(self) -> int:
        """How many items were looked at."""
        return self.copied + self.here + self.newer + self.expired + self.failed

    @property
    def complete(self) -> bool:
        """Whether every item of the source was seen, and none failed."""
        return self.seen == self.in_source and not self.failed


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """How to import.

    to_namespace: from the source's labels to a namespace. known: the embedder of the target, when
    the source's vectors are to be kept. embedded_only: what has no vectors in the source stays out
    of search by meaning. reembed: write what is here with the same value as well.
    """

    to_namespace: Callable[[Sequence[str]], Namespace]
    batch: int = 500
    known: KnownVectors | None = None
    embedded_only: bool = False
    reembed: bool = False


Failed: TypeAlias = Callable[[SourceItem, str], None]
Advanced: TypeAlias = Callable[[int], None]


async def import_items(
    target: ItemTarget,
    source: ItemSource,
    options: ImportOptions,
    *,
    failed: Failed,
    advanced: Advanced,
) -> ImportReport:
    """Copy every item that is not here, and return what became of them.

    Idempotent; what cannot be stored is told to failed and stops nothing. Times stay: created_at,
    updated_at and the rest of a time to live. Raises StorageUnavailable, EmbeddingMismatch or
    ModelUnavailable when it cannot go on; started again, it copies the rest.
    """
    run = _Import(target, options, failed)
    async for page in source.pages(options.batch, vectors=options.known is not None):
        await run.copy(page)
        advanced(len(page))
    run.report.in_source = (await source.tally()).items
    return run.report


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    item: SourceItem
    write: WriteItem
    stamp: ItemStamp


class _Import:
    def __init__(self, target: ItemTarget, options: ImportOptions, failed: Failed) -> None:
        self._target = target
        self._options = options
        self._failed = failed
        self._model_failures = 0
        self.report = ImportReport()

    async def copy(self, page: Sequence[SourceItem]) -> None:
        drafts = self._drafts(page)
        reads = [ReadItem(address=draft.write.address, refresh=False) for draft in drafts]
        there = await self._target.run_item_ops(reads) if reads else []
        new, late = [], []
        for draft, found in zip(drafts, cast("list[Item | None]", there), strict=True):
            if found is None:
                new.append(draft)
            elif not _same(found.value, draft.write.value):
                if found.updated_at > draft.item.updated_at:
                    self.report.newer += 1
                else:
                    new.append(draft)
            elif self._options.reembed and found.updated_at <= draft.item.updated_at:
                new.append(draft)
            else:
                self.report.here += 1
                if _lives_otherwise(found, draft.item):
                    late.append(draft.stamp)
        if new:
            await self._write(new)
        if late:
            await self._target.stamp_items(late)
        if self._options.known:
            self._options.known.clear()

    def _drafts(self, page: Sequence[SourceItem]) -> list[_Draft]:
        now = datetime.now(UTC)
        drafts = []
        for item in page:
            if item.expires_at is not None and item.expires_at <= now:
                self.report.expired += 1
                continue
            try:
                drafts.append(self._draft(item, now))
            except InvalidInput as error:
                self._fail(item, error)
        return drafts

    async def _write(self, drafts: Sequence[_Draft]) -> None:
        errors: Mapping[int, Exception] = {}
        try:
            await self._target.write_stamped(
                [draft.write for draft in drafts], [draft.stamp for draft in drafts]
            )
        except BatchError as failed:
            errors = failed.errors
        except FATAL:
            raise
        except MemoryCoreError as error:
            errors = dict.fromkeys(range(len(drafts)), error)
        written = [draft for place, draft in enumerate(drafts) if place not in errors]
        if written:
            self._model_failures = 0
            self.report.copied += len(written)
        _stop_if_all_would_fail(list(errors.values()))
        for place, reason in errors.items():
            self._fail(drafts[place].item, reason)

    def _fail(self, item: SourceItem, error: Exception) -> None:
        if _no_model(error):
            self._model_failures += 1
            if self._model_failures == MODEL_FAILURES:
                raise error
        self.report.failed += 1
        self._failed(item, str(error))

    def _draft(self, item: SourceItem, now: datetime) -> _Draft:
        labels = item.prefix.split(".")
        if not all(labels):
            raise InvalidInput("a label of its namespace is empty")
        if not item.key:
            raise InvalidInput("its key is empty")
        address: ItemAddress = (self._options.to_namespace(labels), item.key)
        value = _value(item.value_json)
        left_s = full_s = None
        if item.expires_at is not None:
            left_s = (item.expires_at - now).total_seconds()
            full_s = 60.0 * item.ttl_minutes if item.ttl_minutes else left_s
        return _Draft(
            item=item,
            write=WriteItem(
                address=address, value=value, texts=self._texts(item, value), ttl_s=left_s
            ),
            stamp=ItemStamp(
                address=address,
                created_at=item.created_at,
                updated_at=item.updated_at,
                expires_at=item.expires_at,
                ttl_s=full_s,
            ),
        )

    def _texts(self, item: SourceItem, value: Mapping[str, JsonValue]) -> Mapping[str, str] | None:
        known = self._options.known
        if not item.vectors:
            return {} if self._options.embedded_only else None
        if known:
            kept = {
                field: known.text_for(vector)
                for field, vector in item.vectors.items()
                if vector is not None
            }
            texts = {field: text for field, text in kept.items() if text}
            if texts:
                return texts
        return texts_of_fields(value, item.vectors)


def texts_of_fields(
    value: Mapping[str, JsonValue], fields: Mapping[str, object]
) -> Mapping[str, str] | None:
    """Return the texts behind PostgresStore's fields that are plain paths, "a.b".

    None, for all that the value says in words, when there is any other field, or no text.
    """
    texts: dict[str, str] = {}
    for name in fields:
        if name == WHOLE or "[" in name or "{" in name or "*" in name:
            return None
        part: JsonValue = dict(value)
        for step in name.split("."):
            part = part.get(step) if isinstance(part, dict) else None
        if isinstance(part, str):
            texts[name] = part
    return texts or None


def _lives_otherwise(here: Item, there: SourceItem) -> bool:
    """Tell whether an item that was not written here since may have other times there."""
    lives = here.has_ttl or there.expires_at is not None
    return here.updated_at < there.updated_at or (here.updated_at == there.updated_at and lives)


def _stop_if_all_would_fail(errors: Sequence[Exception]) -> None:
    """Raise what the items to come would fail with as well."""
    for place, error in enumerate(errors):
        # A batch gives its items one and the same error when the embedder is down.
        down = _no_model(error) and any(error is other for other in errors[:place])
        if down or isinstance(error, FATAL):
            raise error


def _no_model(error: Exception) -> bool:
    return isinstance(error, ModelUnavailable) and not isinstance(error, ModelOutputInvalid)


def _value(text: str) -> Mapping[str, JsonValue]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"its value cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise InvalidInput(f"its value is no JSON object but a {type(value).__name__}")
    return value


def _same(one: object, other: object) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
