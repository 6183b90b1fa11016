"""OceanBaseStorage: one embedding model in the place of another; for a while both are here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from shared_core.errors import EmbeddingMismatch
from shared_core.ports.reembedding import EmbeddedField
from shared_core.storage.oceanbase.connection.batching import pages
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction
from shared_core.storage.oceanbase.vectors import (
    OceanBaseVectors,
    add_vectors,
    models,
    table_of,
)

if TYPE_CHECKING:
    from shared_core.ports.reembedding import Matrix

_FIRST = ("", UUID(int=0))


class OceanBaseReembed(OceanBaseVectors):
    """Of all users alike: a schema has one active model."""

    async def begin_model(self, model: str, dimensions: int) -> None:
        await self._make_table(dimensions)
        now = self._clock()

        def work(tx: Transaction) -> int:
            tx.lock("")
            _note(tx, model, dimensions, now)
            return models(tx)[model]

        known = await self._database.write(work)
        if known != dimensions:
            raise EmbeddingMismatch(
                f"{model!r} made vectors of {known} dimensions here before, and makes {dimensions}"
                " now: one name must stand for one model"
            )

    async def embedded_otherwise(
        self, model: str, after: tuple[str, UUID] | None, limit: int
    ) -> Sequence[EmbeddedField]:
        tenant, memory = after or _FIRST

        def work(tx: Transaction) -> list[EmbeddedField]:
            known = models(tx)
            new = f"{table_of(known[model])} n" if model in known else None
            found = []
            for table in {table_of(size) for size in known.values()}:
                unmade = "" if new is None else (
                    f" AND NOT EXISTS (SELECT 1 FROM {new} WHERE n.tenant_id = e.tenant_id"
                    " AND n.model = %s AND n.memory_id = e.memory_id AND n.field = e.field)"
                )  # fmt: skip
                found += tx.rows(
                    "SELECT e.tenant_id, e.memory_id, e.field, m.text, m.value, m.updated_at"
                    f" FROM {table} e JOIN memories m ON m.tenant_id = e.tenant_id"
                    " AND m.memory_id = e.memory_id"
                    f" WHERE (e.tenant_id, e.memory_id) > (%s, %s) AND e.model <> %s{unmade}"
                    " ORDER BY e.tenant_id, e.memory_id LIMIT %s",
                    tenant, memory, model, *([] if new is None else [model]), limit,
                )  # fmt: skip
            found.sort(key=lambda row: (row[0].encode(), row[1]))
            return [
                EmbeddedField(
                    tenant=row[0],
                    memory_id=row[1],
                    field=row[2],
                    text=row[3],
                    value=json.loads(row[4]),
                    updated_at=row[5],
                )
                for row in found[:limit]
            ]

        return await self._database.read(work)

    async def add_reembedded(
        self, model: str, fields: Sequence[EmbeddedField], vectors: Matrix
    ) -> int:
        await self._make_table(vectors.shape[1])
        now = self._clock()
        given = {
            (one.tenant, one.memory_id, one.field): (one.updated_at, vector)
            for one, vector in zip(fields, vectors, strict=True)
        }

        def work(tx: Transaction) -> int:
            tx.lock("", *(one.tenant for one in fields))
            # A model without a vector may have been taken for one that nobody uses.
            _note(tx, model, vectors.shape[1], now)
            updated = _updated(tx, fields)
            made = _made(tx, model, fields)
            rows = [
                (*key, vector)
                for key, (updated_at, vector) in given.items()
                if key not in made and updated.get(key[:2]) == updated_at
            ]
            add_vectors(tx, model, rows)
            return len(rows)

        return await self._database.write(work)

    async def activate_model(self, model: str, dimensions: int) -> None:
        await self._make_table(dimensions)
        now = self._clock()

        def work(tx: Transaction) -> None:
            tx.lock("")
            _note(tx, model, dimensions, now)
            tx.run("UPDATE embedding_models SET active = 0 WHERE active = 1 AND model <> %s", model)
            tx.run("UPDATE embedding_models SET active = 1 WHERE model = %s", model)

        await self._database.write(work)

    async def drop_old_vectors(self, model: str, limit: int) -> int:
        def work(tx: Transaction) -> tuple[int, int]:
            known = models(tx)
            if model not in known:
                return 0, 0
            new = table_of(known[model])
            tables = sorted({table_of(size) for size in known.values()})
            found = [key for table in tables for key in _old(tx, table, new, model, limit)]
            tenants = sorted({tenant for tenant, *_ in found[:limit]})
            tx.lock(*tenants)
            gone = 0
            for table in tables:  # as it is now that nobody writes there
                for page in pages(_old(tx, table, new, model, limit - gone, tenants)):
                    gone += tx.run(
                        f"DELETE FROM {table} WHERE (tenant_id, memory_id, model, field) IN %s",
                        page,
                    )
            return len(found), gone

        while True:
            found, gone = await self._database.write(work)
            if gone or not found:
                return gone


def _old(
    tx: Transaction,
    table: str,
    new: str,
    model: str,
    limit: int,
    tenants: Sequence[str] | None = None,
) -> list[Row]:
    """Return the keys of vectors of other models, of what a model has embedded, of some tenants."""
    return tx.rows(
        f"SELECT e.tenant_id, e.memory_id, e.model, e.field FROM {table} e"
        f" JOIN {new} n ON n.tenant_id = e.tenant_id AND n.model = %s"
        " AND n.memory_id = e.memory_id AND n.field = e.field"
        f" WHERE e.model <> %s{'' if tenants is None else ' AND e.tenant_id IN %s'} LIMIT %s",
        model,
        model,
        *([] if tenants is None else [list(tenants)]),
        limit,
    )


def _note(tx: Transaction, model: str, dimensions: int, now: datetime) -> None:
    """Note a model that is not active yet, if it is not known."""
    tx.insert(
        "embedding_models",
        ("model", "dimensions", "active", "created_at"),
        [(model, dimensions, 0, now)],
        ignore=True,
    )


def _updated(tx: Transaction, fields: Sequence[EmbeddedField]) -> dict[tuple[str, UUID], datetime]:
    """Return when memories were written last."""
    named = sorted({(one.tenant, one.memory_id) for one in fields})
    return {
        (tenant, memory_id): updated_at
        for page in pages(named)
        for tenant, memory_id, updated_at in tx.rows(
            "SELECT tenant_id, memory_id, updated_at FROM memories"
            " WHERE (tenant_id, memory_id) IN %s",
            page,
        )
    }


def _made(
    tx: Transaction, model: str, fields: Sequence[EmbeddedField]
) -> set[tuple[str, UUID, str]]:
    """Return those fields that have a vector of a model."""
    table = table_of(models(tx)[model])
    named = [(one.tenant, one.memory_id, one.field) for one in fields]
    return {
        (tenant, memory_id, field)
        for page in pages(named)
        for tenant, memory_id, field in tx.rows(
            f"SELECT tenant_id, memory_id, field FROM {table}"
            " WHERE model = %s AND (tenant_id, memory_id, field) IN %s",
            model,
            page,
        )
    }
