"""OceanBaseStorage: memories by namespace and key, and the sweep of expired ones."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from shared_core.core.domain import Namespace, Scope
from shared_core.core.namespaces import (
    MEMORIES,
    from_path,
    path_end,
    rest_of,
    scope_path,
    storable,
    to_path,
)
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
from shared_core.storage.oceanbase.base import OceanBasePart, reading, writing
from shared_core.storage.oceanbase.connection.database import OceanBaseDatabase
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction, grouped
from shared_core.storage.oceanbase.filters import matches
from shared_core.storage.oceanbase.forgetting import forget_memories, forget_turns
from shared_core.storage.oceanbase.item_search import find, namespaces, within
from shared_core.storage.oceanbase.item_writes import (
    forget_at,
    marks_of,
    place_of,
    put_rows,
    put_vectors,
    stamp,
    strengths_of,
    tenants_of,
)
from shared_core.storage.oceanbase.rows import ITEM_COLUMNS, ITEM_WIDTH, item_of
from shared_core.storage.oceanbase.vectors import LargeTenants
from shared_core.storage.oceanbase.visibility import all_of, below

_REMEMBERED = to_path([MEMORIES])


class OceanBaseItems(OceanBasePart):
    """Items and other memories, addressed by namespace and key."""

    def __init__(
        self,
        database: OceanBaseDatabase,
        clock: Clock,
        strength: Strength | None = None,
        ann_threshold: int | None = None,
    ) -> None:
        super().__init__(database, clock, strength)
        self._large = LargeTenants(ann_threshold)

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
            put_rows(tx, rows, now, strengths)
            put_vectors(tx, vectors)
            forget_at(tx, forgotten, now)
            stamp(tx, stamps, own=True)

        await self._database.write(work, *tenants_of(named))

    async def forget(self, addresses: Sequence[ItemAddress]) -> int:
        there = [address for address in addresses if storable(address[1])]
        if not there:
            return 0
        now = self._clock()
        return await self._database.write(lambda tx: forget_at(tx, there, now), *tenants_of(there))

    async def resolve_ids(self, scope: Scope, memory_ids: Sequence[UUID]) -> Sequence[ItemAddress]:
        tenant = scope_path(scope)
        rows = await self._database.read(
            lambda tx: tx.select(
                "memories", "tenant_id, namespace, `key`", tenant, memory_id=memory_ids
            )
        )
        return [(from_path(of + path[1:]), key) for of, path, key in rows]

    @reading
    def get_items(self, tx: Transaction, addresses: Sequence[ItemAddress]) -> Sequence[Item]:
        places = [place_of(address) for address in addresses if storable(address[1])]
        now = self._clock()

        return [
            _as_it_was(row)
            for row in tx.rows_in(
                f"SELECT {ITEM_COLUMNS}, m.demoted_at, x.value, x.text, x.is_shown"
                " FROM memories m LEFT JOIN memory_archive x"
                " ON x.tenant_id = m.tenant_id AND x.memory_id = m.memory_id"
                " WHERE (m.tenant_id, m.namespace, m.`key`) IN %s"
                " AND (m.expires_at IS NULL OR m.expires_at > %s)",
                [places, now],
            )
        ]

    async def find_items(self, query: ItemQuery) -> Sequence[Item]:
        wanted = matches(query.filter)
        now = self._clock()
        rows = await self._database.read(lambda tx: find(tx, query, wanted, now, self._large))
        return [item_of(row) for row in rows]

    async def list_namespaces(self, query: NamespaceQuery) -> Sequence[Namespace]:
        now = self._clock()
        return await self._database.read(lambda tx: namespaces(tx, query, now))

    @writing
    def extend_items(self, tx: Transaction, addresses: Sequence[ItemAddress]) -> None:
        now = self._clock()
        tx.lock(*tenants_of(addresses))
        tx.run_in(
            "UPDATE memories SET expires_at ="
            " TIMESTAMPADD(MICROSECOND, ROUND(ttl_s * 1000000), CAST(%s AS DATETIME(6)))"
            " WHERE (tenant_id, namespace, `key`) IN %s"
            " AND ttl_s IS NOT NULL AND expires_at > %s",
            [now, [place_of(address) for address in addresses], now],
        )

    async def sweep_expired(self, prefix: Namespace, limit: int) -> int:
        now = self._clock()
        return await self._database.write(lambda tx: sweep(tx, prefix, limit, now))

    @writing
    def stamp_items(self, tx: Transaction, stamps: Sequence[ItemStamp]) -> None:
        tx.lock(*tenants_of([stamp.address for stamp in stamps]))
        stamp(tx, stamps, own=False)

    async def import_marks(
        self, addresses: Sequence[ItemAddress]
    ) -> Mapping[ItemAddress, ImportMark]:
        return await self._database.read(lambda tx: marks_of(tx, addresses))


def _as_it_was(row: Row) -> Item:
    """Return an item; if it has faded, with its archived value."""
    (demoted_at, value, text, is_shown), item = row[-4:], item_of(row[:ITEM_WIDTH])
    if demoted_at is None or value is None:
        return item
    shown = {"content": text} if is_shown else {}
    return replace(item, value={**json.loads(value), **shown})


def sweep(tx: Transaction, prefix: Namespace, limit: int, now: datetime) -> int:
    """Delete expired memories and turns below a path; return the number of deleted memories.

    limit: maximum number of each. Tenants without expired rows are not locked.
    """
    tenants = {row[0] for row in _memories(tx, prefix, limit, now) + _turns(tx, prefix, limit, now)}
    if not tenants:
        return 0
    tx.lock(*tenants)
    memories = grouped((row[0], row[1]) for row in _memories(tx, prefix, limit, now))
    turns = grouped(((row[0], row[1]), row[2]) for row in _turns(tx, prefix, limit, now))
    gone = sum(
        len(forget_memories(tx, tenant, memories.get(tenant, []), now)) for tenant in tenants
    )
    for (tenant, thread_id), event_ids in turns.items():
        if tenant in tenants:
            gone += len(forget_turns(tx, tenant, thread_id, event_ids, now))
    return gone


def _memories(tx: Transaction, prefix: Namespace, limit: int, now: datetime) -> list[Row]:
    where = all_of(within(prefix), below(rest_of(prefix)))
    return tx.rows(
        f"SELECT m.tenant_id, m.memory_id FROM memories m WHERE {where.sql}"
        " AND m.expires_at <= %s ORDER BY m.tenant_id, m.expires_at LIMIT %s",
        [*where.values, now, limit],
    )


def _turns(tx: Transaction, prefix: Namespace, limit: int, now: datetime) -> list[Row]:
    """Return expired turns without a memory, such as small talk."""
    path = rest_of(prefix)
    if not path <= _REMEMBERED < path_end(path):
        return []
    where = within(prefix)
    return tx.rows(
        f"SELECT m.tenant_id, m.thread_id, m.event_id FROM events m WHERE {where.sql}"
        " AND m.expires_at <= %s AND (m.memory_seq IS NOT NULL OR m.payload IS NULL)"
        " AND NOT EXISTS (SELECT 1 FROM memory_sources s JOIN memories x"
        " ON x.tenant_id = s.tenant_id AND x.memory_id = s.memory_id"
        " WHERE s.tenant_id = m.tenant_id AND s.thread_id = m.thread_id"
        " AND s.event_id = m.event_id AND x.kind = 'episodic')"
        " ORDER BY m.tenant_id, m.expires_at LIMIT %s",
        [*where.values, now, limit],
    )
