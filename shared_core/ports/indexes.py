"""Vectors in a storage: approximate indexes of large tenants, and re-embedding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, TypeAlias
from uuid import UUID

from shared_core.core.domain import JsonValue, Namespace
from shared_core.ports.items import ItemAddress

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantIndex:
    """An approximate index of the vectors of one tenant and model, up to a memory.

    tenant: its path. cutoff: memories with a greater id, younger ones, are not in the index.
    """

    name: str
    tenant: str
    model: str
    dimensions: int
    cutoff: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantVectors:
    """Number of vectors of the active model in a tenant, and number outside its index.

    namespace: the labels of application and user. tail: equals vectors without an index.
    """

    namespace: Namespace
    model: str
    dimensions: int
    vectors: int
    tail: int
    index: TenantIndex | None = None


class IndexBuilder(Protocol):
    """Builds and drops indexes as the owner of the tables, without blocking reads and writes."""

    async def build(self, tenant: TenantVectors) -> TenantIndex: ...
    async def drop(self, name: str) -> None: ...

    async def leftovers(self) -> Sequence[str]:
        """Return the names of indexes that an interrupted build left behind."""


class IndexStorage(Protocol):
    """Approximate indexes of large tenants."""

    @property
    def index_threshold(self) -> int | None:
        """Minimum number of vectors for an index; None neither builds nor uses indexes."""

    @property
    def builds_indexes(self) -> bool:
        """Whether the core builds the indexes; False if the engine maintains its own."""

    async def tenant_indexes(self) -> Sequence[TenantIndex]:
        """Return the usable indexes."""

    async def large_tenants(
        self, threshold: int, known: Sequence[TenantIndex]
    ) -> Sequence[TenantVectors]:
        """Count the vectors of tenants that may exceed the threshold, and of indexed tenants.

        A sample of the table selects the tenants; it misses a tenant just above the threshold about
        once in a thousand calls.
        """

    def index_builder(self) -> AbstractAsyncContextManager[IndexBuilder | None]:
        """Return the only builder, or None while another process holds it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedField:
    """A field of a memory with a vector of another model, or with none.

    updated_at: of the memory.
    """

    tenant: str
    memory_id: UUID
    address: ItemAddress
    field: str
    text: str
    value: Mapping[str, JsonValue]
    updated_at: datetime


class ReembedStorage(Protocol):
    """Re-embedding: two models side by side; one of them is active."""

    async def set_model(self, model: str, dimensions: int, *, active: bool) -> None:
        """Register a model, or make it the active one for reads and writes.

        Raises EmbeddingMismatch if it is known with other dimensions.
        """

    async def embedded_otherwise(
        self, model: str, after: tuple[str, UUID] | None, limit: int
    ) -> Sequence[EmbeddedField]:
        """Return fields without a vector of the model, in a fixed order; after: the last one."""

    async def drop_old_vectors(self, model: str, limit: int) -> int:
        """Delete vectors of other models where this one has a vector; return the number."""
