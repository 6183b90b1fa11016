"""The vectors of memories, in a table for each number of dimensions, and the models they are of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

import numpy as np
import pymysql
from numpy.typing import NDArray

from shared_core.errors import EmbeddingMismatch, InvalidInput, StorageUnavailable
from shared_core.storage.oceanbase.base import OceanBasePart
from shared_core.storage.oceanbase.connection.errors import code_of
from shared_core.storage.oceanbase.connection.transactions import Transaction

MOST_DIMENSIONS = 4096
"""Of a vector with an index."""
HAS_VECTORS = (1451, 4016)
"""What a deletion of a model ends with; the second while several store vectors."""

_TAKEN_OVER = (
    "another embedder took over this memory before any vector was stored: open it with that one,"
    " or give another schema, e.g. open_memory(schema='other')"
)

_TABLE = """CREATE TABLE IF NOT EXISTS {name} (
    tenant_id VARBINARY(1500) NOT NULL,
    model VARBINARY(1500) NOT NULL,
    memory_id BINARY(16) NOT NULL,
    field VARBINARY(1500) NOT NULL,
    embedding VECTOR({dimensions}) NOT NULL,
    PRIMARY KEY (tenant_id, memory_id, model, field),
    FOREIGN KEY (tenant_id, memory_id) REFERENCES memories (tenant_id, memory_id) ON DELETE CASCADE,
    FOREIGN KEY (model) REFERENCES embedding_models (model),
    VECTOR INDEX nearest (embedding) WITH (distance=cosine, type=hnsw_sq, lib=vsag, m=16,
                                           ef_construction=200, ef_search=64)
) {table}"""

"""The key begins with what a memory is deleted by: of a table with a vector index, a deletion that
goes along by another index fails (4016, internal error)."""


def table_of(dimensions: int) -> str:
    """Return the table that holds vectors of so many dimensions."""
    return f"embeddings_{dimensions:d}"


def active_model(tx: Transaction) -> tuple[str, int] | None:
    """Return the model whose vectors are searched, and their dimensions; None before the first."""
    row = tx.one("SELECT model, dimensions FROM embedding_models WHERE active = 1")
    return (row[0], row[1]) if row else None


def models(tx: Transaction) -> dict[str, int]:
    """Return all models whose vectors may be here, and their dimensions."""
    return dict(tx.rows("SELECT model, dimensions FROM embedding_models"))


def stored_form(vector: Sequence[float] | NDArray[Any]) -> bytes:
    """Return a vector as it is inserted: float32, finite and not zero, or it would be near to all.

    Raises InvalidInput for another one.
    """
    array = np.asarray(vector, dtype="<f4")
    if not np.isfinite(array).all() or not array.any():
        raise InvalidInput("an embedding must hold finite numbers, and not only zeros")
    return array.tobytes()


def asked_form(vector: Sequence[float] | NDArray[Any]) -> str:
    """Return a vector as a distance is asked for: text, which alone the functions take."""
    array = np.asarray(vector, dtype="<f4")
    if not np.isfinite(array).all() or not array.any():
        raise InvalidInput("the embedding of a query must hold finite numbers, and not only zeros")
    return "[" + ",".join(map(str, array.tolist())) + "]"


def add_vectors(
    tx: Transaction,
    model: str,
    rows: Iterable[tuple[str, UUID, str, Sequence[float] | NDArray[Any]]],
) -> None:
    """Insert vectors as (tenant, memory, field, vector); those that are there stay.

    Raises EmbeddingMismatch where the model is not known here (any more).
    """
    held = models(tx)
    if model not in held:
        raise EmbeddingMismatch(_TAKEN_OVER)
    try:
        tx.insert(
            table_of(held[model]),
            ("tenant_id", "model", "memory_id", "field", "embedding"),
            ((tenant, model, memory, field, stored_form(v)) for tenant, memory, field, v in rows),
            ignore=True,
        )
    except pymysql.IntegrityError:
        if model in models(tx):
            raise
        raise EmbeddingMismatch(_TAKEN_OVER) from None  # in this very moment


def _drop_model(tx: Transaction, model: str) -> None:
    """Drop a model without vectors; it stays where somebody stores one in this very moment.

    Whoever inserts a vector holds the row of its model, by the foreign key, until the commit.
    """
    try:
        tx.run("DELETE FROM embedding_models WHERE model = %s", model)
    except pymysql.MySQLError as error:
        if code_of(error) not in HAS_VECTORS:
            raise


class OceanBaseVectors(OceanBasePart):
    """The model in use."""

    async def use_model(self, model: str, dimensions: int) -> None:
        await self._make_table(dimensions)
        if await self._database.read(active_model) == (model, dimensions):
            return  # nothing to write: whoever may only read can recall
        now = self._clock()

        def work(tx: Transaction) -> tuple[str, int]:
            tx.lock("")  # one process at a time
            for old, size in tx.rows(
                "SELECT model, dimensions FROM embedding_models WHERE active = 1 AND model <> %s",
                model,
            ):
                if not tx.rows(f"SELECT 1 FROM {table_of(size)} WHERE model = %s LIMIT 1", old):
                    _drop_model(tx, old)
            if active_model(tx) is None:
                tx.insert(
                    "embedding_models",
                    ("model", "dimensions", "active", "created_at"),
                    [(model, dimensions, 1, now)],
                    update=("active",),
                )
            return active_model(tx) or (model, dimensions)

        stored, stored_dimensions = await self._database.write(work)
        if (stored, stored_dimensions) != (model, dimensions):
            raise EmbeddingMismatch(
                f"the stored vectors were made by {stored!r} ({stored_dimensions} dimensions), the"
                f" embedder in use is {model!r} ({dimensions}): open the memory with the embedder"
                f" that made them, change the model with 'hippocampus reembed', or give another"
                f" schema, e.g. open_memory(schema='other')"
            )

    async def _make_table(self, dimensions: int) -> None:
        if not 0 < dimensions <= MOST_DIMENSIONS:
            raise InvalidInput(
                f"OceanBase indexes vectors of up to {MOST_DIMENSIONS:,} dimensions, not"
                f" {dimensions:,}: take an embedder with fewer"
            )
        name = table_of(dimensions)
        there = await self._database.read(lambda tx: tx.rows("SHOW TABLES LIKE %s", name))
        if there:
            return
        ending = self._database.table_ending()
        try:
            await self._database.define(
                _TABLE.format(name=name, dimensions=dimensions, table=ending)
            )
        except StorageUnavailable as error:
            said = error.__cause__
            if not isinstance(said, pymysql.MySQLError) or "memory" not in str(said):
                raise  # the message names the place too, often one that is called "memory"
            raise StorageUnavailable(
                f"{error} A cluster older than 4.3.5 BP3 gives vectors no memory until an"
                " administrator runs ALTER SYSTEM SET ob_vector_memory_limit_percentage = 30"
            ) from error
