"""Vectors of an export: taken as they are, or made anew from the stored texts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from uuid import UUID

from shared_core.errors import Conflict
from shared_core.policies.vectors import fields_without_vectors
from shared_core.ports.indexes import EmbeddedField
from shared_core.ports.storage import Storage
from shared_core.ports.transfer import RowBatch
from shared_core.transfer.lines import Values, read_rows
from shared_core.transfer.reembedding import add_vectors

FIELD = ("tenant_id", "memory_id", "field")
"""Columns that name the field of a vector."""


async def import_vectors(
    storage: Storage, batch: RowBatch, model: str, dimensions: int, now: datetime
) -> int:
    """Write the vectors of a batch that are missing; return their number.

    Raises:
        InvalidInput: a row does not fit its table.
        Conflict: a vector does not have these dimensions.
    """
    import numpy as np

    rows = read_rows(batch, now, (*FIELD, "embedding"))
    vectors = {tuple(row[name] for name in FIELD): row["embedding"] for row in rows}
    if any(len(vector) != dimensions for vector in vectors.values()):
        raise Conflict("a vector is not of the dimensions that the first line names")
    missing = await without_vectors(storage, rows, model, must_exist=True)
    if not missing:
        return 0
    found = [vectors[one.tenant, one.memory_id, one.field] for one in missing]
    return await add_vectors(storage, model, missing, np.array(found))


async def without_vectors(
    storage: Storage, rows: Sequence[Values], model: str, *, must_exist: bool = False
) -> list[EmbeddedField]:
    """Return the fields of some rows that have no vector of a model yet.

    must_exist: whether a memory that does not exist raises InvalidInput, as a bad row does.
    """
    by_tenant: dict[str, list[tuple[UUID, str]]] = {}
    for row in rows:
        by_tenant.setdefault(row["tenant_id"], []).append((row["memory_id"], row["field"]))
    found: list[EmbeddedField] = []
    for tenant, fields in by_tenant.items():
        reading = partial(fields_without_vectors, tenant, model, fields, must_exist=must_exist)
        found += await storage.query(tenant, reading)
    return found
