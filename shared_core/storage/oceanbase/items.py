"""OceanBaseStorage: memories by namespace and key."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from shared_core.core.domain import Namespace, Scope
from shared_core.core.namespaces import from_path, scope_path, storable
from shared_core.core.retention_policy import Strength
from shared_core.ports.items import (
    ImportMark,
    Item,
    ItemAddress,
    ItemQuery,
    ItemStamp,
    MemoryRow,
    NamespaceQuery,
    VectorRows,
)
from shared_core.ports.storage import Clock
from shared_core.settings import Settings
from shared_core.storage.oceanbase.base import OceanBasePart
from shared_core.storage.oceanbase.connection.batching import pages
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction
from shared_core.storage.oceanbase.expiry import sweep
from shared_core.storage.oceanbase.filters import matches
from shared_core.storage.oceanbase.imports import marks_of
from shared_core.storage.oceanbase.indexes import LargeTenants
from shared_core.storage.oceanbase.item_search import find, namespaces
from shared_core.storage.oceanbase.item_writes import (
    forget_at,
    place_of,
    put_rows,
    put_vectors,
    stamp,
    stored_terms,
    strengths_of,
    tenants_of,
)
from shared_core.storage.oceanbase.rows import ITEM_COLUMNS, item_columns, item_of

__all__ = ["OceanBaseItems", "put_rows", "put_vectors", "stored_terms", "strengths_of"]


class OceanBaseItems(OceanBasePart):
    """See the port."""

    def __init__(self, settings: Settings, clock: Clock, strength: Strength | None = None) -> None:
        super().__init__(settings, clock, strength)
        self._large = LargeTenants(settings.ann_threshold)

    async def put_memories(
        self,
        rows: Sequence[MemoryRow],
        vectors: VectorRows | None,
        forgotten: Sequence[ItemAddress] = (),
        stamps: Sequence[ItemStamp] = (),
    ) -> None:
        named = [(row.namespace, row.key) for row in rows]
        named += [*(vectors.addresses if vectors else ()), *forgotten]
        named += [stamp.address for stamp in stamps]
        if not named:
            return
        now = self._clock()
        strengths = strengths_of(self._strength, rows)

        def work(tx: Transaction) -> None:
            tx.lock(*tenants_of(named))
            put_rows(tx, rows, now, strengths)
            put_vectors(tx, vectors)
            forget_at(tx, forgotten, now)
            stamp(tx, stamps, own=True)

        await self._database.write(work)

    async def forget(self, addresses: Sequence[ItemAddress]) -> int:
        there = [address for address in addresses if storable(address[1])]
        if not there:
            return 0
        now = self._clock()

        def work(tx: Transaction) -> int:
            tx.lock(*tenants_of(there))
            return forget_at(tx, there, now)

        return await self._database.write(work)

    async def resolve_ids(self, scope: Scope, memory_ids: Sequence[UUID]) -> Sequence[ItemAddress]:
        tenant = scope_path(scope)
        rows = await self._database.read(
            lambda tx: [
                row
                for page in pages(memory_ids)
                for row in tx.rows(
                    "SELECT tenant_id, namespace, `key` FROM memories"
                    " WHERE tenant_id = %s AND memory_id IN %s",
                    tenant,
                    page,
                )
            ]
        )
        return [(from_path(of + path[1:]), key) for of, path, key in rows]

    async def get_items(self, addresses: Sequence[ItemAddress]) -> Sequence[Item]:
        places = [place_of(address) for address in addresses if storable(address[1])]
        now = self._clock()

        def work(tx: Transaction) -> list[Row]:
            return [
                row
                for page in pages(places)
                for row in tx.rows(
                    f"SELECT {item_columns('m')}, m.demoted_at, x.value, x.text, x.is_shown"
                    " FROM memories m LEFT JOIN memory_archive x"
                    " ON x.tenant_id = m.tenant_id AND x.memory_id = m.memory_id"
                    " WHERE (m.tenant_id, m.namespace, m.`key`) IN %s"
                    " AND (m.expires_at IS NULL OR m.expires_at > %s)",
                    page,
                    now,
                )
            ]

        return [_as_it_was(row) for row in await self._database.read(work)]

    async def find_items(self, query: ItemQuery) -> Sequence[Item]:
        wanted = matches(query.filter)
        now = self._clock()
        rows = await self._database.read(lambda tx: find(tx, query, wanted, now, self._large))
        return [item_of(row) for row in rows]

    async def list_namespaces(self, query: NamespaceQuery) -> Sequence[Namespace]:
        now = self._clock()
        return await self._database.read(lambda tx: namespaces(tx, query, now))

    async def extend_items(self, addresses: Sequence[ItemAddress]) -> None:
        now = self._clock()

        def work(tx: Transaction) -> None:
            tx.lock(*tenants_of(addresses))
            for page in pages([place_of(address) for address in addresses]):
                tx.run(
                    "UPDATE memories SET expires_at ="
                    " TIMESTAMPADD(MICROSECOND, ROUND(ttl_s * 1000000), CAST(%s AS DATETIME(6)))"
                    " WHERE (tenant_id, namespace, `key`) IN %s"
                    " AND ttl_s IS NOT NULL AND expires_at > %s",
                    now,
                    page,
                    now,
                )

        await self._database.write(work)

    async def sweep_expired(self, prefix: Namespace, limit: int) -> int:
        now = self._clock()
        return await self._database.write(lambda tx: sweep(tx, prefix, limit, now))

    async def stamp_items(self, stamps: Sequence[ItemStamp]) -> None:
        def work(tx: Transaction) -> None:
            tx.lock(*tenants_of([stamp.address for stamp in stamps]))
            stamp(tx, stamps, own=False)

        await self._database.write(work)

    async def import_marks(
        self, addresses: Sequence[ItemAddress]
    ) -> Mapping[ItemAddress, ImportMark]:
        return await self._database.read(lambda tx: marks_of(tx, addresses))


def _as_it_was(row: Row) -> Item:
    """Return an item with what its archive says of it, if it has faded out of recall."""
    (demoted_at, value, text, is_shown), item = row[-4:], item_of(row[:ITEM_COLUMNS])
    if demoted_at is None or value is None:
        return item
    shown = {"content": text} if is_shown else {}
    return replace(item, value={**json.loads(value), **shown})
