"""Vectors of an export: taken as they are, or made anew from the stored texts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from shared_core.core.namespaces import storable
from shared_core.errors import Conflict, InvalidInput
from shared_core.policies.vectors import fields_without_vectors
from shared_core.ports.indexes import EmbeddedField
from shared_core.ports.storage import Storage
from shared_core.ports.transfer import EMBEDDINGS, RowBatch
from shared_core.transfer.reembedding import add_vectors

if TYPE_CHECKING:
    from shared_core.ports.indexes import Matrix

_NO_FIT = "it does not fit its table"


async def import_vectors(storage: Storage, batch: RowBatch, model: str, dimensions: int) -> int:
    """Write the vectors of a batch that are missing; return their number.

    Raises:
        InvalidInput: a row does not fit its table.
        Conflict: a vector does not have these dimensions.
    """
    import numpy as np

    rows = [json.loads(line)["row"] for line in batch.lines]
    vectors = [_vector(row.get("embedding"), dimensions) for row in rows]
    row_of = {(row["tenant_id"], *_field(row)): place for place, row in enumerate(rows)}
    missing = await without_vectors(storage, batch, model, must_exist=True)
    if not missing:
        return 0
    places = [row_of[one.tenant, one.memory_id, one.field] for one in missing]
    return await add_vectors(storage, model, missing, np.array([vectors[one] for one in places]))


async def without_vectors(
    storage: Storage, batch: RowBatch, model: str, *, must_exist: bool = False
) -> list[EmbeddedField]:
    """Return the fields of a batch that have no vector of a model yet.

    must_exist: whether a memory that does not exist raises InvalidInput, as a bad row does.
    """
    by_tenant: dict[str, list[tuple[UUID, str]]] = {}
    for line in batch.lines:
        row = json.loads(line)["row"]
        by_tenant.setdefault(row["tenant_id"], []).append(_field(row))
    found: list[EmbeddedField] = []
    for tenant, fields in by_tenant.items():
        reading = partial(fields_without_vectors, tenant, model, fields, must_exist=must_exist)
        found += await storage.query(tenant, reading)
    return found


def _field(row: dict[str, Any]) -> tuple[UUID, str]:
    """Return memory and field of a row. Raises InvalidInput."""
    for name in ("memory_id", "field"):
        if row.get(name) is None:
            raise InvalidInput(f'{_NO_FIT}: null value in column "{name}" of {EMBEDDINGS}')
    memory_id, field = str(row["memory_id"]), str(row["field"])
    try:
        if not storable(field):
            raise ValueError("a NUL byte or a lone surrogate cannot be stored")
        return UUID(memory_id), field
    except ValueError as error:
        raise InvalidInput(f"{_NO_FIT}: {memory_id!r:.80}, {field!r:.80}: {error}") from error


def _vector(text: object, dimensions: int) -> Matrix:
    """Return a vector from its text. Raises InvalidInput, and Conflict for other dimensions."""
    import numpy as np

    try:
        numbers: Sequence[float] = json.loads(text) if isinstance(text, str) else []
        vector = np.asarray(numbers, dtype=np.float32)
        with np.errstate(over="ignore"):
            is_finite = np.isfinite(vector.astype(np.float16)).all()  # as PostgreSQL stores it
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidInput(f"{_NO_FIT}: {text!r:.80} is no vector: {error}") from error
    if vector.shape != (dimensions,):
        raise Conflict("a vector is not of the dimensions that the first line names")
    if not is_finite:
        raise InvalidInput(f"{_NO_FIT}: {text!r:.80} holds numbers that a vector cannot hold")
    return vector
