"""Copy the items of another store, page by page; a repeated run continues where it stopped."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, TypeAlias

from shared_core.core.domain import JsonValue, Namespace
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
from shared_core.ingest.item_text import text_of
from shared_core.ingest.items import ImportedItems
from shared_core.models.embedders import PrecomputedVectors
from shared_core.ports.items import ImportMark, Item, ItemAddress, ItemStamp, WriteItem
from shared_core.ports.transfer import ItemSource, SourceItem

MODEL_FAILURES = 3
"""Number of embedding failures in a row after which the embedder counts as down."""

STEP = 50
"""Maximum number of items to embed between two reports of progress."""

FATAL = (StorageUnavailable, EmbeddingMismatch, SchemaOutOfDate)
"""Errors that would fail every other item too."""

WHOLE = "$"
"""PostgresStore's name for the whole value as a field."""


@dataclass(slots=True, kw_only=True)
class ImportReport:
    """The number of items by outcome.

    here: the target already has the same value. newer: the target has another, later value.
    deleted: imported before and deleted in the target since. elsewhere: the options map their
    namespace to none. in_source: items in the source at the end.
    """

    in_source: int = 0
    copied: int = 0
    here: int = 0
    newer: int = 0
    deleted: int = 0
    expired: int = 0
    elsewhere: int = 0
    failed: int = 0

    @property
    def seen(self) -> int:
        """Number of items read."""
        skipped = self.newer + self.deleted + self.expired + self.elsewhere + self.failed
        return self.copied + self.here + skipped

    @property
    def complete(self) -> bool:
        """Whether every item of the source was read, and none failed."""
        return self.seen == self.in_source and not self.failed


TextOfField: TypeAlias = Callable[[Mapping[str, JsonValue], str], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """The options of an import.

    to_namespace: maps the source's labels to a namespace, or to None for no import. known: the
    embedder of the target, to keep the source's vectors. embedded_only: an item without vectors in
    the source gets none. reembed: also write items whose value is equal. restore: write items again
    that were deleted since their import. mask: mask their texts, as those of memories.
    text_of_field: the text that PostgresStore embedded under a name, or None.
    """

    to_namespace: Callable[[Sequence[str]], Namespace | None]
    text_of_field: TextOfField
    batch: int = 500
    known: PrecomputedVectors | None = None
    embedded_only: bool = False
    reembed: bool = False
    restore: bool = False
    mask: bool = False


Failed: TypeAlias = Callable[[SourceItem, str], None]
Advanced: TypeAlias = Callable[[int], None]


async def import_items(
    target: ImportedItems,
    source: ItemSource,
    options: ImportOptions,
    *,
    failed: Failed,
    advanced: Advanced,
) -> ImportReport:
    """Copy every item that the target lacks, and return the counts by outcome.

    Idempotent. An imported item that was deleted since stays deleted. created_at, updated_at and
    the remaining time to live are kept. An item that cannot be stored is passed to failed.

    Raises:
        StorageUnavailable, EmbeddingMismatch, ModelUnavailable: The import cannot continue. A
            repeated run copies the rest.
    """
    run = _ItemImport(target, options, failed)
    step = options.batch if options.known else min(options.batch, STEP)
    async for page in source.pages(options.batch, vectors=options.known is not None):
        for start in range(0, len(page), step):
            part = page[start : start + step]
            await run.copy(part)
            advanced(len(part))
    run.report.in_source = (await source.tally()).items
    return run.report


_Texts: TypeAlias = tuple[Mapping[str, str] | None, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _ImportDraft:
    item: SourceItem
    write: WriteItem
    stamp: ItemStamp


class _ItemImport:
    def __init__(self, target: ImportedItems, options: ImportOptions, failed: Failed) -> None:
        self._target = target
        self._options = options
        self._failed = failed
        self._model_failures = 0
        self.report = ImportReport()

    async def copy(self, page: Sequence[SourceItem]) -> None:
        drafts = self._drafts(page)
        if drafts:
            await self._copy(drafts)
        if self._options.known:
            self._options.known.clear()

    async def _copy(self, drafts: Sequence[_ImportDraft]) -> None:
        addresses = [draft.write.address for draft in drafts]
        marks = await self._target.marks(addresses)
        new, late = [], []
        for draft, found in zip(drafts, await self._target.read(addresses), strict=True):
            mark = marks.get(draft.write.address)
            fate = self._fate(draft, found, mark)
            if fate == "new":
                new.append(draft)
                continue
            setattr(self.report, fate, getattr(self.report, fate) + 1)
            unmarked = mark is None or mark.deleted_at is not None
            if found and (unmarked or _lives_otherwise(found, draft.item)):
                late.append(draft.stamp)
        if new:
            await self._write(new)
        if late:
            await self._target.stamp(late)

    def _fate(
        self, draft: _ImportDraft, found: Item | None, mark: ImportMark | None
    ) -> Literal["new", "here", "newer", "deleted"]:
        """Return "new" for an item to write, or the field of the report that counts it."""
        if found is None:
            gone = mark is not None and _stays_deleted(draft.item, mark)
            return "deleted" if gone and not self._options.restore else "new"
        older = found.updated_at <= draft.item.updated_at
        if not _same(found.value, draft.write.value):
            return "new" if older else "newer"
        return "new" if older and self._options.reembed else "here"

    def _drafts(self, page: Sequence[SourceItem]) -> list[_ImportDraft]:
        now = datetime.now(UTC)
        drafts = []
        for item in page:
            if item.expires_at is not None and item.expires_at <= now:
                self.report.expired += 1
                continue
            try:
                draft = self._draft(item, now)
            except InvalidInput as error:
                self._fail(item, error)
                continue
            if draft is None:
                self.report.elsewhere += 1
            else:
                drafts.append(draft)
        return drafts

    async def _write(self, drafts: Sequence[_ImportDraft]) -> None:
        errors: Mapping[int, Exception] = {}
        try:
            await self._target.write(
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

    def _draft(self, item: SourceItem, now: datetime) -> _ImportDraft | None:
        labels = item.prefix.split(".")
        if not all(labels):
            raise InvalidInput("a label of its namespace is empty")
        if not item.key:
            raise InvalidInput("its key is empty")
        namespace = self._options.to_namespace(labels)
        if namespace is None:
            return None
        address: ItemAddress = (namespace, item.key)
        value = _value(item.value_json)
        try:
            value = self._target.masked(value) if self._options.mask else value
            texts, words = self._texts(item, value)
        except RecursionError as error:
            raise InvalidInput("its value is nested too deeply") from error
        left_s = full_s = None
        if item.expires_at is not None:
            left_s = (item.expires_at - now).total_seconds()
            full_s = 60.0 * item.ttl_minutes if item.ttl_minutes else left_s
        return _ImportDraft(
            item=item,
            write=WriteItem(address=address, value=value, texts=texts, words=words, ttl_s=left_s),
            stamp=ItemStamp(
                address=address,
                created_at=item.created_at,
                updated_at=item.updated_at,
                expires_at=item.expires_at,
                ttl_s=full_s,
            ),
        )

    def _texts(self, item: SourceItem, value: Mapping[str, JsonValue]) -> _Texts:
        """Return the texts to embed, by field, and the words to index if they differ."""
        known = self._options.known
        if not item.vectors:
            return ({} if self._options.embedded_only else None), None
        own = texts_of_fields(value, item.vectors, self._options.text_of_field)
        if known:
            kept = {
                field: known.text_for(vector)
                for field, vector in item.vectors.items()
                if vector is not None
            }
            texts = {field: text for field, text in kept.items() if text}
            if texts:
                words = own.values() if own else [text_of(value)]
                return texts, "\n".join(dict.fromkeys(words))
        return own, None


def texts_of_fields(
    value: Mapping[str, JsonValue], fields: Iterable[str], text_of_field: TextOfField
) -> Mapping[str, str] | None:
    """Return the texts of PostgresStore's fields, "a.b" or "a[*].b.1", by name.

    "$", the whole value, has the text of the value. None means only that field, or no text.
    """
    texts: dict[str, str] = {}
    for name in fields:
        text = text_of(value) if name == WHOLE else text_of_field(value, name)
        if text:
            texts[name] = text
    return None if texts.keys() <= {WHOLE} else texts


def _stays_deleted(item: SourceItem, mark: ImportMark) -> bool:
    """Tell whether a missing item was deleted after its import, and was not changed since.

    Without a deletion mark it may have been replaced by an item that expired. An item with a time
    to live may just have expired here, and have a later expiry in the source.
    """
    if mark.deleted_at is not None:
        return item.updated_at <= mark.deleted_at
    return item.expires_at is None and item.updated_at <= mark.updated_at


def _lives_otherwise(here: Item, there: SourceItem) -> bool:
    """Tell whether the source may have other times for an item that was not written here since."""
    lives = here.has_ttl or there.expires_at is not None
    return here.updated_at < there.updated_at or (here.updated_at == there.updated_at and lives)


def _stop_if_all_would_fail(errors: Sequence[Exception]) -> None:
    """Raise an error that the remaining items would fail with too."""
    for place, error in enumerate(errors):
        # If the embedder is down, all items of a batch have the same error object.
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
        raise InvalidInput(f"its value must be a JSON object, got {type(value).__name__}")
    return value


def _same(one: object, other: object) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
