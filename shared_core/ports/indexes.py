"""Vectors in a storage: approximate indexes of large tenants, and re-embedding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, TypeAlias
from uuid import UUID

from shared_core.core.domain import JsonValue, Namespace

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
    """How many vectors of the active model a tenant has, and how many its index does not hold.

    namespace: its two labels, the application and the user. tail: all of them without an index.
    """

    namespace: Namespace
    model: str
    dimensions: int
    vectors: int
    tail: int
    index: TenantIndex | None = None


class IndexBuilder(Protocol):
    """Builds and drops indexes, as the owner of the tables, while everybody reads and writes."""

    async def build(self, tenant: TenantVectors) -> TenantIndex: ...
    async def drop(self, name: str) -> None: ...

    async def leftovers(self) -> Sequence[str]:
        """Return the names of indexes that an interrupted build left behind."""


class IndexStorage(Protocol):
    """Approximate indexes, for tenants that have earned one."""

    @property
    def index_threshold(self) -> int | None:
        """How many vectors earn a tenant an index; None: no index is built, and none is used."""

    @property
    def builds_indexes(self) -> bool:
        """Whether indexes are built here; False where the engine keeps its own by itself."""

    async def tenant_indexes(self) -> Sequence[TenantIndex]:
        """Return the indexes that can be used."""

    async def large_tenants(
        self, threshold: int, known: Sequence[TenantIndex]
    ) -> Sequence[TenantVectors]:
        """Count the vectors of those tenants that may have so many, and of those of known indexes.

        Which may have so many is seen in a sample of the table: one just above the threshold is
        overlooked once in some thousand times.
        """

    def index_builder(self) -> AbstractAsyncContextManager[IndexBuilder | None]:
        """Return the one builder there is at a time; None while another process has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedField:
    """A field of a memory with a vector of another model. updated_at: of the memory, as read."""

    tenant: str
    memory_id: UUID
    field: str
    text: str
    value: Mapping[str, JsonValue]
    updated_at: datetime


class ReembedStorage(Protocol):
    """Two models side by side; reads go to the active one."""

    async def begin_model(self, model: str, dimensions: int) -> None:
        """Note a model that is to become the active one. Raises EmbeddingMismatch if it is known
        with other dimensions."""

    async def embedded_otherwise(
        self, model: str, after: tuple[str, UUID] | None, limit: int
    ) -> Sequence[EmbeddedField]:
        """Return fields without a vector of a model, of memories after one, in a fixed order."""

    async def add_reembedded(
        self, model: str, fields: Sequence[EmbeddedField], vectors: Matrix
    ) -> int:
        """Add vectors, (fields, dimensions), of memories that are as they were read; return how
        many."""

    async def activate_model(self, model: str, dimensions: int) -> None:
        """Let reads and writes go to a model from now on."""

    async def drop_old_vectors(self, model: str, limit: int) -> int:
        """Delete some vectors of others than a model, where it has one; return how many."""
