"""What changing the embedding model asks of a storage; ports.Storage joins it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, TypeAlias
from uuid import UUID

from shared_core.core.domain import JsonValue

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix: TypeAlias = NDArray[np.float32]


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
        ...

    async def embedded_otherwise(
        self, model: str, after: tuple[str, UUID] | None, limit: int
    ) -> Sequence[EmbeddedField]:
        """Return fields without a vector of a model, of memories after one, in a fixed order."""
        ...

    async def add_reembedded(
        self, model: str, fields: Sequence[EmbeddedField], vectors: Matrix
    ) -> int:
        """Add vectors, (fields, dimensions), of memories that are as they were read; return how
        many."""
        ...

    async def activate_model(self, model: str, dimensions: int) -> None:
        """Let reads and writes go to a model from now on."""
        ...

    async def drop_old_vectors(self, model: str, limit: int) -> int:
        """Delete some vectors of others than a model, where it has one; return how many."""
        ...
