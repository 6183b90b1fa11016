"""OceanBaseStorage: what held when, as it was known when, and ends that are taken back."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from shared_core.core.domain import AsOf, FactType, MemoryId, Scope
from shared_core.core.ids import is_uuid
from shared_core.core.namespaces import memories_namespace, rest_of, scope_path
from shared_core.errors import Conflict
from shared_core.ports.facts import NamedMemory, Restoration
from shared_core.ports.graph import Edge
from shared_core.ports.runs import Fact
from shared_core.storage.oceanbase.base import OceanBasePart
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction
from shared_core.storage.oceanbase.edge_rows import Edges
from shared_core.storage.oceanbase.fact_reads import (
    FACT_COLUMNS,
    FACTS,
    fact_of,
    facts_as_of,
    in_order,
    listed,
    not_overtaken,
    rivals_of_edges,
)
from shared_core.storage.oceanbase.fact_restoring import restore
from shared_core.storage.oceanbase.rows import sources_of


class OceanBaseFacts(OceanBasePart):
    """The facts of one scope at a time."""

    async def list_facts(
        self,
        scope: Scope,
        *,
        slot: str | None = None,
        history: bool = False,
        as_of: AsOf | None = None,
    ) -> Sequence[Fact]:
        tenant, now = scope_path(scope), self._clock()

        def work(tx: Transaction) -> list[Fact]:
            if as_of is not None:
                return facts_as_of(tx, tenant, slot, as_of, now, history=history)
            rows = in_order(listed(tx, tenant, slot, now, history=history))
            return _facts(tx, tenant, rows)

        return await self._database.read(work)

    async def named_memory(self, scope: Scope, name: str) -> NamedMemory | None:
        tenant, now = scope_path(scope), self._clock()
        columns = f"m.kind, {FACT_COLUMNS}, m.memory_id"
        source = (
            "memories m LEFT JOIN facts f"
            " ON f.tenant_id = m.tenant_id AND f.memory_id = m.memory_id"
        )
        living = "(m.expires_at IS NULL OR m.expires_at > %s)"

        def work(tx: Transaction) -> NamedMemory | None:
            row = tx.one(
                f"SELECT {columns} FROM {source} WHERE m.tenant_id = %s AND m.namespace = %s"
                f" AND m.`key` = %s AND {living}",
                tenant,
                rest_of(memories_namespace(scope)),
                name,
                now,
            )
            if row is None and is_uuid(name):
                row = tx.one(
                    f"SELECT {columns} FROM {source} WHERE m.tenant_id = %s AND m.memory_id = %s"
                    f" AND {living}",
                    tenant,
                    UUID(name),
                    now,
                )
            if row is None:
                return None
            kind, *fact, _ = row
            if fact[0] is None:
                return NamedMemory(kind=kind, fact=None, place="")
            [found] = _facts(tx, tenant, [tuple(fact)])
            return NamedMemory(kind=kind, fact=found, place=fact[-1])

        return await self._database.read(work)

    async def facts_in_place(
        self, scope: Scope, fact_type: FactType, keys: Sequence[str]
    ) -> Sequence[Fact]:
        tenant, now = scope_path(scope), self._clock()

        def work(tx: Transaction) -> list[Fact]:
            rows = tx.rows(
                f"SELECT {FACT_COLUMNS} FROM {FACTS} WHERE f.tenant_id = %s AND f.fact_type = %s"
                " AND f.`key` IN %s AND (m.expires_at IS NULL OR m.expires_at > %s)"
                " AND (f.valid_until IS NULL AND f.superseded_at IS NULL"
                " OR f.valid_until > %s AND m.superseded_at IS NULL) ORDER BY f.memory_id",
                tenant,
                fact_type,
                list(keys),
                now,
                now,
            )
            return _facts(tx, tenant, not_overtaken(tx, tenant, rows, now))

        return await self._database.read(work)

    async def edges_in_place(self, scope: Scope, memory_id: MemoryId) -> Sequence[Edge]:
        tenant, now = scope_path(scope), self._clock()

        def work(tx: Transaction) -> list[Edge]:
            edges = Edges(tx, tenant, now, None)
            rivals = rivals_of_edges(tx, edges, tenant, memory_id, now)
            return [found.edge for found in edges.found(rivals)]

        return await self._database.read(work)

    async def restore_fact(self, restoration: Restoration) -> None:
        tenant, now = scope_path(restoration.scope), self._clock()

        def work(tx: Transaction) -> None:
            tx.lock(tenant)
            restore(tx, tenant, restoration, now)

        try:
            await self._database.write(work)
        except Conflict as error:
            raise Conflict(
                f"fact {restoration.memory_id}, or one that cannot hold beside it, was changed at"
                " the same time: try again"
            ) from error


def _facts(tx: Transaction, tenant: str, rows: Sequence[Row]) -> list[Fact]:
    sources = sources_of(tx, tenant, [row[0] for row in rows])
    return [fact_of(row, sources.get(row[0], ())) for row in rows]
