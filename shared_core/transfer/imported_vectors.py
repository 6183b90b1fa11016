"""Vectors of an export: taken as they are, or made anew from the stored texts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from shared_core.core.row_text import fields_of
from shared_core.errors import Conflict
from shared_core.policies.vectors import fields_without_vectors
from shared_core.ports.indexes import EmbeddedField
from shared_core.ports.storage import Storage
from shared_core.ports.tables import tables
from shared_core.ports.transfer import EMBEDDINGS, RowBatch
from shared_core.transfer.lines import read_column
from shared_core.transfer.reembedding import add_vectors

_FIELD = ("tenant_id", "memory_id", "field")


async def import_vectors(storage: Storage, batch: RowBatch, model: str, dimensions: int) -> int:
    """Write the vectors of a batch that are missing; return their number.

    Raises:
        InvalidInput: a row does not fit its table.
        Conflict: a vector does not have these dimensions.
    """
    import numpy as np

    vectors = {(*row[:3],): row[3] for row in _read(batch, (*_FIELD, "embedding"))}
    if any(len(vector) != dimensions for vector in vectors.values()):
        raise Conflict("a vector is not of the dimensions that the first line names")
    missing = await without_vectors(storage, batch, model, must_exist=True)
    if not missing:
        return 0
    found = [vectors[one.tenant, one.memory_id, one.field] for one in missing]
    return await add_vectors(storage, model, missing, np.array(found, dtype=np.float32))


async def without_vectors(
    storage: Storage, batch: RowBatch, model: str, *, must_exist: bool = False
) -> list[EmbeddedField]:
    """Return the fields of a batch that have no vector of a model yet.

    must_exist: whether a memory that does not exist raises InvalidInput, as a bad row does.
    """
    by_tenant: dict[str, list[Any]] = {}
    for tenant, *field in _read(batch, _FIELD):
        by_tenant.setdefault(tenant, []).append(tuple(field))
    found: list[EmbeddedField] = []
    for tenant, fields in by_tenant.items():
        reading = partial(fields_without_vectors, tenant, model, fields, must_exist=must_exist)
        found += await storage.query(tenant, reading)
    return found


def _read(batch: RowBatch, names: Sequence[str]) -> list[list[Any]]:
    """Return columns of the rows of a batch. Raises InvalidInput."""
    columns = [tables()[EMBEDDINGS].columns[name] for name in names]
    rows = map(fields_of, batch.lines)
    return [[read_column(EMBEDDINGS, column, row) for column in columns] for row in rows]
