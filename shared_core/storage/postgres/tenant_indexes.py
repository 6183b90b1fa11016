"""Approximate indexes of large tenants: which there are, and how a search uses one.

The catalog of PostgreSQL is the only record of them: each is a partial HNSW index on `embeddings`
whose comment names tenant, model and cutoff.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias
from uuid import UUID

from psycopg import sql

from shared_core.core.namespaces import ROOT, from_path
from shared_core.ports.indexes import TenantIndex, TenantVectors
from shared_core.storage.postgres.connection.database import PostgresDatabase
from shared_core.storage.postgres.connection.pipeline import Rows, Statement
from shared_core.storage.postgres.connection.sql_files import statement

LOOK_EVERY_S = 60.0
"""So long a process goes by what it last read of the catalog."""

DEEPEST = 100
"""Pages that end further down are exact."""

EF_SEARCH = 400
MAX_SCAN = 20_000
"""So many vectors of an index are looked at before a search turns exact, for want of results."""

FEW = 5_000
"""A path with fewer memories below it is read whole."""

SAMPLE_PAGES = 20
"""So many pages of the smallest tenant that may earn an index are met in a sample on average."""
DENSE = 50.0
"""Vectors in a page, where nothing is known of it."""

_Known: TypeAlias = Mapping[tuple[str, str], TenantIndex]


class TenantIndexes:
    """The indexes of one schema, and the searches that use them."""

    def __init__(self, database: PostgresDatabase, threshold: int | None) -> None:
        self._database = database
        self.threshold = threshold
        self._known: _Known = {}
        self._look_at = 0.0

    def forget(self) -> None:
        """Read the catalog again at the next search."""
        self._look_at = 0.0

    async def read(self) -> Sequence[TenantIndex]:
        """Return the indexes that can be used."""
        [rows] = await self._database.run(ROOT, (statement("tenant_indexes"), {}))
        return sorted_out(rows)[0]

    async def search(self, scope: str, filter_sql: str, values: Mapping[str, Any]) -> Rows | None:
        """Return rows as search_items does, or None where that must be asked: for most tenants.

        values: those of search_items. A page that is not full is no answer either.
        """
        index = await self._index_of(str(values["tenant"]), str(values["model"]))
        if index is None or values["limit"] + values["offset"] > DEEPEST:
            return None
        *_, rows = await self._database.run(
            scope, *self._steps(index, filter_sql, values), keep_plans=False
        )
        return rows if len(rows) == values["limit"] else None

    def _steps(
        self, index: TenantIndex, filter_sql: str, values: Mapping[str, Any]
    ) -> list[Statement]:
        assert self.threshold is not None
        end = values["limit"] + values["offset"]
        tuning = {"ef_search": str(EF_SEARCH), "max_scan": str(MAX_SCAN)}
        own = {"few": min(FEW, self.threshold), "candidates": 2 * end + 20}
        return [
            (statement("tune_index_search"), tuning),
            (search_text(index, filter_sql), {**values, **own}),
        ]

    async def _index_of(self, tenant: str, model: str) -> TenantIndex | None:
        if self.threshold is None:
            return None
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + LOOK_EVERY_S  # who comes meanwhile goes by the last look
            try:
                self._known = _newest(await self.read())
            except BaseException:
                self.forget()
                raise
        return self._known.get((tenant, model))

    async def large_tenants(
        self, threshold: int, known: Sequence[TenantIndex]
    ) -> Sequence[TenantVectors]:
        """See IndexStorage."""
        [[(density,)]] = await self._database.run(ROOT, (statement("vectors_per_page"), {}))
        share = min(1.0, SAMPLE_PAGES * (density or DENSE) / threshold)
        newest = _newest(known)
        values = {
            "percent": 100 * share,
            "seen": threshold * share / 4,
            "tenants": [index.tenant for index in newest.values()],
            "models": [index.model for index in newest.values()],
            "cutoffs": [index.cutoff for index in newest.values()],
        }
        [rows] = await self._database.run(ROOT, (statement("large_tenants"), values))
        return [
            TenantVectors(
                namespace=from_path(tenant),
                model=model,
                dimensions=dimensions,
                vectors=vectors,
                tail=tail,
                index=newest.get((tenant, model)),
            )
            for tenant, model, dimensions, vectors, tail in rows
        ]


def sorted_out(rows: Rows) -> tuple[list[TenantIndex], list[str]]:
    """Return the indexes that can be used, and the names of those left by interrupted builds."""
    usable, leftovers = [], []
    for name, is_valid, comment in rows:
        index = _from_comment(name, comment) if is_valid else None
        if index is None:
            leftovers.append(name)
        else:
            usable.append(index)
    return usable, leftovers


def search_text(index: TenantIndex, filter_sql: str = "true") -> bytes:
    """Return the search of a tenant by its index; filter_sql as in statement()."""
    literals = (
        ("tenant_literal", _literal(index.tenant)),
        ("model_literal", _literal(index.model)),
        ("cutoff_literal", _literal(index.cutoff)),
        ("dimensions", str(index.dimensions)),
    )
    return statement("search_items_indexed", filter_sql=filter_sql, literals=literals)


def comment_of(index: TenantIndex) -> str:
    """Return what an index says of itself in the catalog."""
    facts = {
        "tenant": index.tenant,
        "model": index.model,
        "dimensions": index.dimensions,
        "cutoff": str(index.cutoff),
    }
    return json.dumps(facts, ensure_ascii=False)


def _from_comment(name: str, comment: str | None) -> TenantIndex | None:
    """Return the index; None for one whose build was interrupted before it had its comment."""
    try:
        facts = json.loads(comment or "")
        return TenantIndex(
            name=name,
            tenant=facts["tenant"],
            model=facts["model"],
            dimensions=facts["dimensions"],
            cutoff=UUID(facts["cutoff"]),
        )
    except (ValueError, KeyError, TypeError):
        return None


def _newest(indexes: Sequence[TenantIndex]) -> _Known:
    """Return the index of each tenant and model: while one is replaced there are two."""
    in_order = sorted(indexes, key=lambda index: index.cutoff)
    return {(index.tenant, index.model): index for index in in_order}


def _literal(value: object) -> str:
    return sql.Literal(value).as_string(None).replace("%", "%%")
