"""Re-embedding on PostgreSQL: one embedding model takes the place of another."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from shared_core.core.domain import JsonValue
from shared_core.core.namespaces import ROOT, from_path
from shared_core.ports.indexes import EmbeddedField
from shared_core.ports.storage import Clock
from shared_core.storage._rows import check_dimensions
from shared_core.storage.postgres.connection.changes import ANY, note_step
from shared_core.storage.postgres.connection.database import PostgresDatabase
from shared_core.storage.postgres.connection.statements import steps

_FIRST = ("", UUID(int=0))


@dataclass
class PostgresReembed:
    """Changes of the model for all users: a schema has one active model."""

    _database: PostgresDatabase
    _clock: Clock

    async def set_model(self, model: str, dimensions: int, *, active: bool) -> None:
        values = {"model": model, "dimensions": dimensions, "now": self._clock()}
        _, [(known,)] = await self._database.run(
            ROOT, *steps(values, "begin_model", "model_dimensions")
        )
        check_dimensions(model, dimensions, known)
        if active:
            sent = steps(values, "begin_model", "retire_model", "activate_model")
            await self._database.run(ROOT, *sent)

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
        values: dict[UUID, Mapping[str, JsonValue]] = {}
        found = []
        for tenant, memory_id, namespace, key, field, text, value, updated_at in rows:
            if value is not None:
                values[memory_id] = json.loads(value)
            found.append(
                EmbeddedField(
                    tenant=tenant,
                    memory_id=memory_id,
                    address=(from_path(tenant + namespace[1:]), key),
                    field=field,
                    text=text,
                    value=values[memory_id],
                    updated_at=updated_at,
                )
            )
        return found

    async def drop_old_vectors(self, model: str, limit: int) -> int:
        counts = await self._database.rows(ROOT, "drop_old_vectors", model=model, limit=limit)
        for tenant, _ in counts:  # processes that are open with the old model read anew
            if notes := self._database.noted(note_step(tenant, [ANY])):
                await self._database.run(tenant, *notes)
        return sum(count for _, count in counts)
