"""What the core asks of a storage for key-value items; ports.Storage joins it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, TypeAlias

from shared_core.domain import JsonValue, Namespace

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
class ItemQuery:
    """Living items below a namespace, newest first, or nearest first when there is a vector.

    filter: field to value or to {"$operator": value}; all must hold (storage.filters).
    """

    prefix: Namespace
    limit: int
    offset: int = 0
    filter: Mapping[str, JsonValue] = field(default_factory=dict)
    model: str | None = None
    vector: Vectors | None = None


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


class ItemStorage(Protocol):
    """Items by namespace and key."""

    async def get_items(self, addresses: Sequence[ItemAddress]) -> Sequence[Item]: ...
    async def find_items(self, query: ItemQuery) -> Sequence[Item]: ...
    async def list_namespaces(self, query: NamespaceQuery) -> Sequence[Namespace]: ...
    async def extend_items(self, addresses: Sequence[ItemAddress]) -> None: ...
    async def sweep_expired(self, prefix: Namespace, limit: int) -> int: ...

    async def stamp_items(self, stamps: Sequence[ItemStamp]) -> None:
        """Give items the times they had elsewhere; those that are not there are passed over."""
        ...
