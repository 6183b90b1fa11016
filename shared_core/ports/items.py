"""Key-value items, batch operations on them, and versioned instructions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias
from uuid import UUID

from shared_core.core.domain import JsonValue, MemoryId, MemoryKind, Namespace, Scope, ThreadId
from shared_core.core.json_text import to_json

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from shared_core.ports.jobs import NewJob

    Vectors: TypeAlias = NDArray[np.float32]


ItemAddress: TypeAlias = tuple[Namespace, str]

Distance: TypeAlias = Literal["cosine", "l2", "inner_product"]
"""How far two vectors are apart. The score is the cosine, the negative Euclidean distance, or the
inner product; a higher one is nearer."""


@dataclass(frozen=True, slots=True)
class Item:
    """A stored item.

    similarity: the cosine; None unless meaning found the item. score: None in a listing. parts: the
    parts of the score of a hybrid search, as in domain.Hit.
    """

    namespace: Namespace
    key: str
    value: Mapping[str, JsonValue]
    created_at: datetime
    updated_at: datetime
    has_ttl: bool = False
    similarity: float | None = None
    score: float | None = None
    parts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRow:
    """A memory to write by namespace and key.

    words_key: identifies the words of a run's memory, so that no text is written twice.
    json: the value as JSON text, where a check has made it already.
    """

    memory_id: MemoryId
    namespace: Namespace
    key: str
    kind: MemoryKind
    text: str
    value: Mapping[str, JsonValue]
    terms: Sequence[str]
    occurred_at: datetime
    author: str | None = None
    importance: float = 5.0
    expires_at: datetime | None = None
    ttl_s: float | None = None
    thread_id: ThreadId | None = None
    run_id: UUID | None = None
    superseded_at: datetime | None = None
    words_key: UUID | None = None
    json: str | None = None

    def value_json(self) -> str:
        """Return the value as JSON text."""
        return to_json(self.value) if self.json is None else self.json


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorRows:
    """Vectors to write: row i of vectors is the field fields[i] of the memory at addresses[i]."""

    model: str
    addresses: Sequence[ItemAddress]
    fields: Sequence[str]
    vectors: Vectors

    def only(self, addresses: Collection[ItemAddress]) -> VectorRows | None:
        """Return the rows of some addresses, or None if there are none."""
        kept = [place for place, address in enumerate(self.addresses) if address in addresses]
        if not kept:
            return None
        return VectorRows(
            model=self.model,
            addresses=[self.addresses[place] for place in kept],
            fields=[self.fields[place] for place in kept],
            vectors=self.vectors[kept],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemQuery:
    """Selects living items below a namespace, newest first, or nearest first with a vector.

    With a vector, items without one come last, newest first. terms: without a vector, only items
    that hold any of these words. besides: memories to exclude, only with terms. filter: field to
    value or to {"$operator": value}; all conditions must hold (storage.filters). distance,
    with_expired: as of FindItems.
    """

    prefix: Namespace
    limit: int
    offset: int = 0
    filter: Mapping[str, JsonValue] = field(default_factory=dict)
    model: str | None = None
    vector: Vectors | None = None
    terms: Sequence[str] | None = None
    besides: Sequence[MemoryId] = ()
    distance: Distance = "cosine"
    with_expired: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceQuery:
    """Selects namespaces of living items. "*" in prefixes or suffixes matches any one label.

    with_expired: as of ReadItem.
    """

    prefixes: Sequence[Sequence[str]] = ()
    suffixes: Sequence[Sequence[str]] = ()
    max_depth: int | None = None
    limit: int = 100
    offset: int = 0
    with_expired: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemStamp:
    """The times of an imported item at its origin. ttl_s: renewed by a refreshing read."""

    address: ItemAddress
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None
    ttl_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportMark:
    """An import of an item, as of updated_at at its origin, and its deletion here."""

    updated_at: datetime
    deleted_at: datetime | None = None

    def after(self, other: ImportMark) -> ImportMark:
        """Return this mark with the later deletion of both."""
        deleted = [mark.deleted_at for mark in (self, other) if mark.deleted_at]
        return ImportMark(updated_at=self.updated_at, deleted_at=max(deleted, default=None))


class ItemStorage(Protocol):
    """Items by namespace and key."""

    async def get_items(
        self, addresses: Sequence[ItemAddress], *, with_expired: bool = False
    ) -> Sequence[Item]: ...

    async def find_items(self, queries: Sequence[ItemQuery]) -> Sequence[Sequence[Item]]:
        """Return a page of items for each query; queries without a vector share a round trip."""

    async def list_namespaces(self, query: NamespaceQuery) -> Sequence[Namespace]: ...

    async def extend_items(self, addresses: Sequence[ItemAddress]) -> None:
        """Renew the times to live of items, also of expired ones: the caller has read them."""

    async def expired_tenants(self, prefix: Namespace, limit: int) -> Sequence[str]:
        """Return tenants with expired memories or turns below a namespace, at most `limit`."""

    async def put_memories(
        self,
        rows: Sequence[MemoryRow],
        vectors: VectorRows | None,
        jobs: Sequence[tuple[Scope, NewJob]] = (),
    ) -> None:
        """Write memories by namespace and key, and replace existing ones with their vectors.

        A row in a namespace of instructions adds a version, unless the newest version is equal.
        jobs: on users, enqueued in the same transaction.
        """


Search: TypeAlias = Literal["vector", "hybrid", "text"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadItem:
    """Read one item.

    refresh: renew its time to live, if it has one. with_expired: read it also after it expired,
    until it is deleted; only for items, never for other memories.
    """

    address: ItemAddress
    refresh: bool = True
    with_expired: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FindItems:
    """Find items below a namespace: best first for a query, newest first without one.

    search: by meaning ("vector"), by words ("text"), or by both as recall does ("hybrid").
    distance: of vectors in a search by meaning. with_expired: as of ReadItem; not in a search by
    words.
    """

    prefix: Namespace
    query: str | None = None
    filter: Mapping[str, JsonValue] = field(default_factory=dict)
    limit: int = 10
    offset: int = 0
    refresh: bool = True
    search: Search = "vector"
    distance: Distance = "cosine"
    with_expired: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteItem:
    """Write one item, or delete it when value is None.

    texts: field name to the text to embed and to search by words. None takes the texts within the
    value; an empty mapping excludes the item from every search with a query. words: the text to
    search by words, if it differs from texts. ttl_s: time to live in seconds after the write.
    later: without texts, a job embeds the text of the value, in passages.
    """

    address: ItemAddress
    value: Mapping[str, JsonValue] | None
    texts: Mapping[str, str] | None = None
    words: str | None = None
    ttl_s: float | None = None
    later: bool = False


ItemOp: TypeAlias = ReadItem | FindItems | NamespaceQuery | WriteItem
ItemResult: TypeAlias = "Item | Sequence[Item] | Sequence[Namespace] | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """One version of an instruction. created_at: of its first version; written_at: of this one."""

    scope: Scope
    key: str
    version: int
    value: Mapping[str, JsonValue]
    written_at: datetime
    created_at: datetime
