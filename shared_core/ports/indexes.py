"""What the core asks of a storage for the approximate indexes of large tenants."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from shared_core.core.domain import Namespace


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
        ...


class IndexStorage(Protocol):
    """Approximate indexes, for tenants that have earned one."""

    @property
    def index_threshold(self) -> int | None:
        """How many vectors earn a tenant an index; None: no index is built, and none is used."""
        ...

    @property
    def builds_indexes(self) -> bool:
        """Whether indexes are built here; False where the engine keeps its own by itself."""
        ...

    async def tenant_indexes(self) -> Sequence[TenantIndex]:
        """Return the indexes that can be used."""
        ...

    async def large_tenants(
        self, threshold: int, known: Sequence[TenantIndex]
    ) -> Sequence[TenantVectors]:
        """Count the vectors of those tenants that may have so many, and of those of known indexes.

        Which may have so many is seen in a sample of the table: one just above the threshold is
        overlooked once in some thousand times.
        """
        ...

    def index_builder(self) -> AbstractAsyncContextManager[IndexBuilder | None]:
        """Return the one builder there is at a time; None while another process has it."""
        ...
