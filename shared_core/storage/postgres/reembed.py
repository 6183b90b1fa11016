"""Re-embedding on PostgreSQL: one embedding model takes the place of another."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from pgvector import HalfVector

from shared_core.core.namespaces import ROOT
from shared_core.errors import EmbeddingMismatch
from shared_core.ports.indexes import EmbeddedField
from shared_core.ports.storage import Clock
from shared_core.storage._rows import record
from shared_core.storage.postgres.connection.database import PostgresDatabase
from shared_core.storage.postgres.connection.statements import steps

if TYPE_CHECKING:
    from shared_core.ports.indexes import Matrix

_FIRST = ("", UUID(int=0))


@dataclass
class PostgresReembed:
    """Changes of the model for all users: a schema has one active model."""

    _database: PostgresDatabase
    _clock: Clock

    async def begin_model(self, model: str, dimensions: int) -> None:
        values = {"model": model, "dimensions": dimensions, "now": self._clock()}
        _, [(known,)] = await self._database.run(
            ROOT, *steps(values, "begin_model", "model_dimensions")
        )
        if known != dimensions:
            raise EmbeddingMismatch(
                f"{model!r} made vectors of {known} dimensions here before, and makes {dimensions}"
                " now: one name must stand for one model"
            )

    async def embedded_otherwise(
        self, model: str, after: tuple[str, UUID] | None, limit: int
    ) -> Sequence[EmbeddedField]:
        tenant, memory = after or _FIRST
        rows = await self._database.rows(
            ROOT,
            "embedded_otherwise",
            model=model,
            after_tenant=tenant,
            after_memory=memory,
            limit=limit,
        )
        return [record(EmbeddedField, [*row[:4], row[5]], value=json.loads(row[4])) for row in rows]

    async def add_reembedded(
        self, model: str, fields: Sequence[EmbeddedField], vectors: Matrix
    ) -> int:
        values = {
            "model": model,
            "dimensions": vectors.shape[1],
            "now": self._clock(),
            "tenants": [one.tenant for one in fields],
            "memory_ids": [one.memory_id for one in fields],
            "fields": [one.field for one in fields],
            "updated_at": [one.updated_at for one in fields],
            "embeddings": [HalfVector(vector) for vector in vectors],
        }
        # Another process may have dropped the model as unused while it had no vector.
        sent = steps(values, "begin_model", "add_reembedded")
        [(count,)] = (await self._database.run(ROOT, *sent)).named("add_reembedded")
        return int(count)

    async def activate_model(self, model: str, dimensions: int) -> None:
        values = {"model": model, "dimensions": dimensions, "now": self._clock()}
        sent = steps(values, "begin_model", "retire_model", "activate_model")
        await self._database.run(ROOT, *sent)

    async def drop_old_vectors(self, model: str, limit: int) -> int:
        [(count,)] = await self._database.rows(ROOT, "drop_old_vectors", model=model, limit=limit)
        return int(count)
