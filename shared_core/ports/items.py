"""Key-value items, batch operations on them, and versioned instructions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias
from uuid import UUID

from shared_core.core.domain import JsonValue, MemoryId, MemoryKind, Namespace, Scope, ThreadId

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors: TypeAlias = NDArray[np.float32]


ItemAddress: TypeAlias = tuple[Namespace, str]


@dataclass(frozen=True, slots=True)
class Item:
    """What a key-value face reads.

    similarity: the cosine, None unless the item was found by meaning. score: what ranked it, None
    in a listing. parts: what a score of a hybrid search is made of, as in domain.Hit.
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

    words_key: of what a run writes, so that nothing is written twice; as in likeness.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorRows:
    """Vectors to write: row i of vectors is the field fields[i] of the memory at addresses[i]."""

    model: str
    addresses: Sequence[ItemAddress]
    fields: Sequence[str]
    vectors: Vectors

    def only(self, wanted: Collection[ItemAddress]) -> VectorRows | None:
        """Return the rows of some addresses, None if there are none."""
        kept = [place for place, address in enumerate(self.addresses) if address in wanted]
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
    """Living items below a namespace, newest first, or nearest first when there is a vector.

    terms: with them it is what has a vector, nearest first, and then what only holds one of them,
    newest first. besides: memories to leave out, with terms alone.
    filter: field to value or to {"$operator": value}; all must hold (storage.filters).
    """

    prefix: Namespace
    limit: int
    offset: int = 0
    filter: Mapping[str, JsonValue] = field(default_factory=dict)
    model: str | None = None
    vector: Vectors | None = None
    terms: Sequence[str] | None = None
    besides: Sequence[MemoryId] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceQuery:
    """Namespaces that hold living items. A label "*" in prefixes or suffixes is any one label."""

    prefixes: Sequence[Sequence[str]] = ()
    suffixes: Sequence[Sequence[str]] = ()
    max_depth: int | None = None
    limit: int = 100
    offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemStamp:
    """The times an item had elsewhere. ttl_s: what a refreshing read gives it again."""

    address: ItemAddress
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None
    ttl_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportMark:
    """That an item was imported, as it was at updated_at there, and when it was deleted here."""

    updated_at: datetime
    deleted_at: datetime | None = None

    def after(self, other: ImportMark) -> ImportMark:
        """Return what both marks say together."""
        deleted = [mark.deleted_at for mark in (self, other) if mark.deleted_at]
        return ImportMark(updated_at=self.updated_at, deleted_at=max(deleted, default=None))


class ItemStorage(Protocol):
    """Items by namespace and key."""

    async def get_items(self, addresses: Sequence[ItemAddress]) -> Sequence[Item]: ...
    async def find_items(self, query: ItemQuery) -> Sequence[Item]: ...
    async def list_namespaces(self, query: NamespaceQuery) -> Sequence[Namespace]: ...
    async def extend_items(self, addresses: Sequence[ItemAddress]) -> None: ...
    async def sweep_expired(self, prefix: Namespace, limit: int) -> int: ...

    async def stamp_items(self, stamps: Sequence[ItemStamp]) -> None:
        """Note items as imported, and give them the times they have elsewhere.

        Not to those that were written here since.
        """

    async def import_marks(
        self, addresses: Sequence[ItemAddress]
    ) -> Mapping[ItemAddress, ImportMark]:
        """Return the marks of those items that have one."""

    async def put_memories(
        self,
        rows: Sequence[MemoryRow],
        vectors: VectorRows | None,
        forgotten: Sequence[ItemAddress] = (),
        stamps: Sequence[ItemStamp] = (),
    ) -> None:
        """Write memories by namespace and key, replacing those that exist, vectors included.

        forgotten: what to delete in the same transaction, as forget() does. stamps: times that
        written items had elsewhere, and have here then. What is written in a namespace of
        instructions becomes a version of it, unless the newest says the same.
        """

    async def forget(self, addresses: Sequence[ItemAddress]) -> int:
        """Delete memories and what was drawn only from them; return how many rows went.

        An instruction goes with all its versions.
        """

    async def resolve_ids(
        self, scope: Scope, memory_ids: Sequence[UUID]
    ) -> Sequence[ItemAddress]: ...


Search: TypeAlias = Literal["vector", "hybrid", "text"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadItem:
    """Read one item. refresh: give it its full time to live again, if it has one."""

    address: ItemAddress
    refresh: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class FindItems:
    """Find items below a namespace: best first for a query, newest first without one.

    search: by meaning ("vector"), by words ("text"), or by both ("hybrid", as recall does).
    """

    prefix: Namespace
    query: str | None = None
    filter: Mapping[str, JsonValue] = field(default_factory=dict)
    limit: int = 10
    offset: int = 0
    refresh: bool = True
    search: Search = "vector"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteItem:
    """Write one item, or delete it when value is None.

    texts: field name to the text that is embedded and whose words are searched; None takes what the
    value says in words, an empty mapping keeps the item out of every search with a query. words:
    what is searched by words where that is not the texts. ttl_s: seconds to live, from when it is
    written.
    """

    address: ItemAddress
    value: Mapping[str, JsonValue] | None
    texts: Mapping[str, str] | None = None
    words: str | None = None
    ttl_s: float | None = None


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


class InstructionStorage(Protocol):
    """Instructions with all their versions. Every method is one transaction and one round trip."""

    async def instruction_versions(
        self, scope: Scope, key: str, limit: int
    ) -> Sequence[Instruction]:
        """Return versions, the newest first."""

    async def newest_instructions(
        self, scope: Scope, limit: int, offset: int
    ) -> Sequence[Instruction]:
        """Return the newest version of every instruction, the last that changed first."""

    async def drop_instruction(self, scope: Scope, key: str) -> int:
        """Delete an instruction, its item included; return how many versions went."""

    async def put_instruction(self, row: MemoryRow, vectors: VectorRows | None) -> Instruction:
        """Write one instruction as put_memories() does, and return its newest version."""
