"""OceanBaseStorage: vectors, the models that made them, and the index that finds them.

There is a table for each number of dimensions. Its one index serves all tenants, and the engine
keeps it up to date.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import numpy as np
import pymysql
from numpy.typing import NDArray

from shared_core.core.namespaces import from_path
from shared_core.errors import (
    CapabilityMissing,
    EmbeddingMismatch,
    InvalidInput,
    StorageUnavailable,
)
from shared_core.ports.indexes import EmbeddedField, IndexBuilder, TenantIndex, TenantVectors
from shared_core.ports.storage import Clock
from shared_core.storage._rows import check_dimensions
from shared_core.storage.oceanbase.base import OceanBasePart, reading
from shared_core.storage.oceanbase.connection.database import OceanBaseDatabase
from shared_core.storage.oceanbase.connection.errors import code_of
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction, pages

MOST_DIMENSIONS = 4096
"""Maximum number of dimensions of an indexed vector."""
HAS_VECTORS = (1451, 4016)
"""Errors when a model with vectors is deleted; the second while others store vectors."""
_TAKEN_OVER = (
    "another embedder took over this memory before any vector was stored: open it with that one,"
    " or give another schema, e.g. open_memory(schema='other')"
)
ALL = ""
"""The pseudo-tenant to lock before a change of the models."""
_FIRST = ("", UUID(int=0))
LOOK_EVERY_S = 60.0
"""How long a process trusts its last count of a tenant."""
MOST_KNOWN = 10_000
"""Maximum number of tenant sizes that a process remembers."""
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
"""The key begins with the columns a memory is deleted by: on a table with a vector index, a cascade
that uses another index fails (4016, internal error)."""


def table_of(dimensions: int) -> str:
    """Return the table for vectors with this number of dimensions."""
    return f"embeddings_{dimensions:d}"


def active_model(tx: Transaction) -> tuple[str, int] | None:
    """Return the model in use and its dimensions, or None before the first."""
    row = tx.one("SELECT model, dimensions FROM embedding_models WHERE active = 1")
    return (row[0], row[1]) if row else None


def models(tx: Transaction) -> dict[str, int]:
    """Return the known models and their dimensions."""
    return dict(tx.rows("SELECT model, dimensions FROM embedding_models"))


def vector_tables(tx: Transaction) -> list[str]:
    """Return the tables that may hold vectors."""
    return sorted({table_of(dimensions) for dimensions in models(tx).values()})


def stored_form(vector: Sequence[float] | NDArray[Any]) -> bytes:
    """Return a vector as it is inserted, float32. Raises InvalidInput."""
    return _checked(vector, "an embedding").tobytes()


def query_form(vector: Sequence[float] | NDArray[Any]) -> str:
    """Return a vector for a distance function, which accepts only text. Raises InvalidInput."""
    return "[" + ",".join(map(str, _checked(vector, "the embedding of a query").tolist())) + "]"


def _checked(vector: Sequence[float] | NDArray[Any], what: str) -> NDArray[Any]:
    array = np.asarray(vector, dtype="<f4")
    # The server would store NaN, nearest to everything, and turn infinity into 0 (decision 14).
    if not np.isfinite(array).all() or not array.any():
        raise InvalidInput(f"{what} must hold finite numbers, and not only zeros")
    return array


def add_vectors(
    tx: Transaction,
    model: str,
    rows: Iterable[tuple[str, UUID, str, Sequence[float] | NDArray[Any]]],
) -> None:
    """Insert vectors as (tenant, memory, field, vector); existing ones stay.

    Raises EmbeddingMismatch if the model is not known here (any more).
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
        raise EmbeddingMismatch(_TAKEN_OVER) from None  # another process dropped the model just now


def _drop_model(tx: Transaction, model: str) -> None:
    """Drop a model without vectors, unless somebody is just storing one."""
    try:  # an insert of a vector locks the row of its model, by the foreign key, until its commit
        tx.run("DELETE FROM embedding_models WHERE model = %s", [model])
    except pymysql.MySQLError as error:
        if code_of(error) not in HAS_VECTORS:
            raise


class OceanBaseVectors(OceanBasePart):
    """The embedding model in use, and its replacement; for a while both have vectors."""

    async def use_model(self, model: str, dimensions: int) -> None:
        await self._make_table(dimensions)
        if await self._database.read(active_model) == (model, dimensions):
            return  # no write, so that read-only users can recall
        now = self._clock()

        def work(tx: Transaction) -> tuple[str, int]:
            for old, size in tx.rows(
                "SELECT model, dimensions FROM embedding_models WHERE active = 1 AND model <> %s",
                [model],
            ):
                if not tx.rows(f"SELECT 1 FROM {table_of(size)} WHERE model = %s LIMIT 1", [old]):
                    _drop_model(tx, old)
            if active_model(tx) is None:
                tx.insert(
                    "embedding_models",
                    ("model", "dimensions", "active", "beside", "created_at"),
                    [(model, dimensions, 1, 0, now)],
                    update=("active", "beside"),
                )
            return active_model(tx) or (model, dimensions)

        stored, stored_dimensions = await self._database.write(work, ALL)
        if (stored, stored_dimensions) != (model, dimensions):
            raise EmbeddingMismatch(
                f"the stored vectors were made by {stored!r} ({stored_dimensions} dimensions), the"
                f" embedder in use is {model!r} ({dimensions}): open the memory with the embedder"
                f" that made them, change the model with 'hippocampus reembed', or give another"
                f" schema, e.g. open_memory(schema='other')"
            )

    async def add_model(self, model: str, dimensions: int) -> None:
        await self._make_table(dimensions)
        of_model = "SELECT dimensions, active OR beside FROM embedding_models WHERE model = %s"
        known = await self._database.read(lambda tx: tx.one(of_model, [model]))
        if known is None or not known[1]:
            columns, now = ("model", "dimensions", "active", "beside", "created_at"), self._clock()

            def work(tx: Transaction) -> Row | None:
                row = (model, dimensions, 0, 1, now)
                tx.insert("embedding_models", columns, [row], ignore=True)
                marked = "UPDATE embedding_models SET beside = 1 WHERE model = %s AND active = 0"
                tx.run(marked, [model])
                return tx.one(of_model, [model])

            known = await self._database.write(work, ALL)
        assert known is not None
        check_dimensions(model, dimensions, known[0])

    async def _make_table(self, dimensions: int) -> None:
        if not 0 < dimensions <= MOST_DIMENSIONS:
            raise InvalidInput(
                f"OceanBase indexes vectors of up to {MOST_DIMENSIONS:,} dimensions, got"
                f" {dimensions:,}: use an embedder with fewer"
            )
        name = table_of(dimensions)
        if await self._database.read(lambda tx: tx.has("SHOW TABLES LIKE %s", [name])):
            return
        ending = self._database.table_ending()
        try:
            await self._database.define(
                _TABLE.format(name=name, dimensions=dimensions, table=ending)
            )
        except StorageUnavailable as error:
            cause = error.__cause__
            if not isinstance(cause, pymysql.MySQLError) or "memory" not in str(cause):
                raise  # only the driver's text counts: ours may contain a folder named "memory"
            raise StorageUnavailable(
                f"{error} A cluster older than 4.3.5 BP3 gives vectors no memory until an"
                " administrator runs ALTER SYSTEM SET ob_vector_memory_limit_percentage = 30"
            ) from error

    async def set_model(self, model: str, dimensions: int, *, active: bool) -> None:
        await self._make_table(dimensions)
        now = self._clock()

        def work(tx: Transaction) -> int:
            columns = ("model", "dimensions", "active", "created_at")
            tx.insert("embedding_models", columns, [(model, dimensions, 0, now)], ignore=True)
            tx.run("UPDATE embedding_models SET beside = 0 WHERE model = %s", [model])
            known = models(tx)[model]
            if active and known == dimensions:
                tx.run("UPDATE embedding_models SET active = 0 WHERE model <> %s", [model])
                tx.run("UPDATE embedding_models SET active = 1 WHERE model = %s", [model])
            return known

        check_dimensions(model, dimensions, await self._database.write(work, ALL))

    @reading
    def embedded_otherwise(
        self, tx: Transaction, model: str, after: tuple[str, UUID] | None, limit: int
    ) -> Sequence[EmbeddedField]:
        known = models(tx)
        new = f"{table_of(known[model])} n" if model in known else None
        found = []
        for table in vector_tables(tx):
            not_embedded = "" if new is None else (
                f" AND NOT EXISTS (SELECT 1 FROM {new} WHERE n.tenant_id = e.tenant_id"
                " AND n.model = %s AND n.memory_id = e.memory_id AND n.field = e.field)"
            )  # fmt: skip
            found += tx.rows(
                "SELECT e.tenant_id, e.memory_id, m.namespace, m.`key`, e.field, m.text, m.value,"
                " m.updated_at"
                f" FROM {table} e JOIN memories m ON m.tenant_id = e.tenant_id"
                " AND m.memory_id = e.memory_id"
                f" WHERE (e.tenant_id, e.memory_id) > (%s, %s) AND e.model <> %s{not_embedded}"
                " AND e.model NOT IN (SELECT model FROM embedding_models WHERE beside = 1)"
                " ORDER BY e.tenant_id, e.memory_id LIMIT %s",
                [*(after or _FIRST), model, *([] if new is None else [model]), limit],
            )
        found.sort(key=lambda row: (row[0].encode(), row[1]))
        return [
            EmbeddedField(
                tenant=tenant,
                memory_id=memory_id,
                address=(from_path(tenant + namespace[1:]), key),
                field=field,
                text=text,
                value=json.loads(value),
                updated_at=updated_at,
            )
            for tenant, memory_id, namespace, key, field, text, value, updated_at in found[:limit]
        ]

    async def drop_old_vectors(self, model: str, limit: int) -> int:
        def work(tx: Transaction) -> tuple[int, int]:
            known = models(tx)
            if model not in known:
                return 0, 0
            new = table_of(known[model])
            tables = vector_tables(tx)
            found = [key for table in tables for key in _old(tx, table, new, model, limit)]
            tenants = sorted({tenant for tenant, *_ in found[:limit]})
            tx.lock(*tenants)
            gone = 0
            for table in tables:  # read again: the locks now keep writers out
                for page in pages(_old(tx, table, new, model, limit - gone, tenants)):
                    gone += tx.run(
                        f"DELETE FROM {table} WHERE (tenant_id, memory_id, model, field) IN %s",
                        [page],
                    )
            return len(found), gone

        while True:
            found, gone = await self._database.write(work)
            if gone or not found:
                return gone


class OceanBaseIndexes(OceanBasePart):
    """Approximate indexes: one for each table of vectors, maintained by the engine."""

    builds_indexes = False

    def __init__(
        self, database: OceanBaseDatabase, clock: Clock, ann_threshold: int | None
    ) -> None:
        super().__init__(database, clock)
        self.index_threshold = ann_threshold

    async def tenant_indexes(self) -> Sequence[TenantIndex]:
        """Return nothing: no index belongs to a tenant."""
        return []

    async def large_tenants(
        self, threshold: int, known: Sequence[TenantIndex]
    ) -> Sequence[TenantVectors]:
        """Return the tenants that are searched by the index, each as if it had its own.

        It counts all vectors: for `hippocampus index --dry-run`, never in the background.
        """

        def work(tx: Transaction) -> tuple[tuple[str, int], list[Row]] | None:
            active = active_model(tx)
            return active and (
                active,
                tx.rows(
                    f"SELECT tenant_id, count(*) FROM {table_of(active[1])} WHERE model = %s"
                    " GROUP BY tenant_id HAVING count(*) > %s ORDER BY count(*) DESC, tenant_id",
                    [active[0], threshold],
                ),
            )

        found = await self._database.read(work)
        return [_searched(*found[0], *row) for row in found[1]] if found else []

    @asynccontextmanager
    async def index_builder(self) -> AsyncIterator[IndexBuilder | None]:
        yield _KeptByTheEngine()


def _old(
    tx: Transaction,
    table: str,
    new: str,
    model: str,
    limit: int,
    tenants: Sequence[str] | None = None,
) -> list[Row]:
    """Return keys of other models' vectors for fields that a model has embedded."""
    return tx.rows(
        f"SELECT e.tenant_id, e.memory_id, e.model, e.field FROM {table} e"
        f" JOIN {new} n ON n.tenant_id = e.tenant_id AND n.model = %s"
        " AND n.memory_id = e.memory_id AND n.field = e.field"
        f" WHERE e.model <> %s{'' if tenants is None else ' AND e.tenant_id IN %s'} LIMIT %s",
        [model, model, *([] if tenants is None else [list(tenants)]), limit],
    )


class LargeTenants:
    """Remembers which tenants have enough vectors for approximate search."""

    def __init__(self, threshold: int | None) -> None:
        self._threshold = threshold
        self._known: dict[tuple[str, str], tuple[float, bool]] = {}

    def has(self, tx: Transaction, tenant: str, model: str, table: str) -> bool:
        """Return whether a tenant has more vectors of a model than the threshold."""
        if self._threshold is None:
            return False
        at = time.monotonic()
        counted_at, is_large = self._known.get((tenant, model), (-LOOK_EVERY_S, False))
        if at - counted_at < LOOK_EVERY_S:
            return is_large
        row = tx.one(
            f"SELECT count(*) FROM (SELECT 1 FROM {table} WHERE tenant_id = %s AND model = %s"
            " LIMIT %s) n",
            [tenant, model, self._threshold + 1],
        )
        is_large = row is not None and row[0] > self._threshold
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        self._known[tenant, model] = at, is_large
        return is_large


class _KeptByTheEngine:
    """An index builder without anything to build."""

    async def build(self, tenant: TenantVectors) -> TenantIndex:
        raise CapabilityMissing(_NOTHING_TO_BUILD)

    async def drop(self, name: str) -> None:
        raise CapabilityMissing(_NOTHING_TO_BUILD)

    async def leftovers(self) -> Sequence[str]:
        return []


_NOTHING_TO_BUILD = (
    "OceanBase maintains one vector index for all tenants: there is no tenant's index to build or"
    " to drop"
)


def _searched(model: str, dimensions: int, tenant: str, vectors: int) -> TenantVectors:
    return TenantVectors(
        namespace=from_path(tenant),
        model=model,
        dimensions=dimensions,
        vectors=vectors,
        tail=0,
        index=TenantIndex(
            name=f"{table_of(dimensions)}.nearest",
            tenant=tenant,
            model=model,
            dimensions=dimensions,
            cutoff=UUID(int=2**128 - 1),
        ),
    )
