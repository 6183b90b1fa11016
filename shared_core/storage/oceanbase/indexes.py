"""OceanBaseStorage: approximate indexes.

Here each table of vectors has one of all its tenants, which the engine keeps up to date; who is
large enough to be searched with it is all there is to know.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from uuid import UUID

from shared_core.core.namespaces import from_path
from shared_core.errors import CapabilityMissing
from shared_core.ports.indexes import IndexBuilder, TenantIndex, TenantVectors
from shared_core.storage.oceanbase.base import OceanBasePart
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction
from shared_core.storage.oceanbase.vectors import active_model, table_of

LOOK_EVERY_S = 60.0
"""So long a process goes by what it last counted of a tenant."""

MOST_KNOWN = 10_000
"""Tenants whose size a process remembers."""


class LargeTenants:
    """Which tenants have so many vectors that their search is approximate."""

    def __init__(self, threshold: int | None) -> None:
        self._threshold = threshold
        self._known: dict[tuple[str, str], tuple[float, bool]] = {}

    def has(self, tx: Transaction, tenant: str, model: str, table: str) -> bool:
        """Tell whether a tenant has more vectors of a model than the threshold."""
        if self._threshold is None:
            return False
        at = time.monotonic()
        counted_at, is_large = self._known.get((tenant, model), (-LOOK_EVERY_S, False))
        if at - counted_at < LOOK_EVERY_S:
            return is_large
        row = tx.one(
            f"SELECT count(*) FROM (SELECT 1 FROM {table} WHERE tenant_id = %s AND model = %s"
            " LIMIT %s) n",
            tenant,
            model,
            self._threshold + 1,
        )
        is_large = row is not None and row[0] > self._threshold
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        self._known[tenant, model] = at, is_large
        return is_large


class OceanBaseIndexes(OceanBasePart):
    """See the port."""

    @property
    def index_threshold(self) -> int | None:
        return self._settings.ann_threshold

    @property
    def builds_indexes(self) -> bool:
        return False

    async def tenant_indexes(self) -> Sequence[TenantIndex]:
        """Return none: those there are belong to no tenant."""
        return []

    async def large_tenants(
        self, threshold: int, known: Sequence[TenantIndex]
    ) -> Sequence[TenantVectors]:
        """Return the tenants that are searched by the index, each as one that has it.

        All are counted: for `hippocampus index --dry-run`, never in the background.
        """

        def work(tx: Transaction) -> tuple[tuple[str, int], list[Row]] | None:
            active = active_model(tx)
            return active and (
                active,
                tx.rows(
                    f"SELECT tenant_id, count(*) FROM {table_of(active[1])} WHERE model = %s"
                    " GROUP BY tenant_id HAVING count(*) > %s ORDER BY count(*) DESC, tenant_id",
                    active[0],
                    threshold,
                ),
            )

        found = await self._database.read(work)
        return [_searched(*found[0], *row) for row in found[1]] if found else []

    @asynccontextmanager
    async def index_builder(self) -> AsyncIterator[IndexBuilder | None]:
        yield _KeptByTheEngine()


class _KeptByTheEngine:
    """A builder that has nothing to build."""

    async def build(self, tenant: TenantVectors) -> TenantIndex:
        raise CapabilityMissing(_NOTHING_TO_BUILD)

    async def drop(self, name: str) -> None:
        raise CapabilityMissing(_NOTHING_TO_BUILD)

    async def leftovers(self) -> Sequence[str]:
        return []


_NOTHING_TO_BUILD = (
    "OceanBase keeps one index of the vectors of all tenants, and keeps it up to date: there is"
    " none of a tenant to build or to drop"
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
