"""Facts on PostgreSQL: what held when, as it was known when, and ends that are taken back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import psycopg

from shared_core.core.domain import AsOf, FactType, MemoryId, Scope
from shared_core.core.ids import is_uuid
from shared_core.core.namespaces import memories_namespace, rest_of, scope_path
from shared_core.errors import Conflict
from shared_core.ports.facts import NamedMemory, Restoration
from shared_core.ports.graph import Edge
from shared_core.ports.runs import Fact
from shared_core.storage._rows import moments, utc
from shared_core.storage.postgres.connection.sql_files import statement
from shared_core.storage.postgres.graph import found_edge
from shared_core.storage.postgres.runs import PostgresRuns

RESTORATION = {
    "kind": "restoration",
    "extractor": "caller",
    "counts": '{"restored": 1}',
    **dict.fromkeys(("thread_id", "from_seq", "to_seq", "summed_from", "summed_to")),
}
"""What the record of a run says that restores a fact."""


class PostgresFacts(PostgresRuns):
    """The facts of one scope at a time."""

    async def list_facts(
        self,
        scope: Scope,
        *,
        slot: str | None = None,
        history: bool = False,
        as_of: AsOf | None = None,
    ) -> Sequence[Fact]:
        tenant = scope_path(scope)
        values = {
            "tenant": tenant,
            "slot": slot,
            "history": history,
            "now": self._clock(),
            **moments(as_of),
        }
        of_slot = "true" if slot is None else "f.slot = %(slot)s"
        name = "list_facts" if as_of is None else "facts_as_of"
        text = statement(name, literals=(("of_slot", of_slot),))
        [rows] = await self._database.run(tenant, (text, values))
        return [_fact(row) for row in rows]

    async def named_memory(self, scope: Scope, name: str) -> NamedMemory | None:
        tenant = scope_path(scope)
        values = {
            "tenant": tenant,
            "namespace": rest_of(memories_namespace(scope)),
            "key": name,
            "memory_id": UUID(name) if is_uuid(name) else None,
            "now": self._clock(),
        }
        [rows] = await self._database.run(tenant, (statement("named_memory"), values))
        if not rows:
            return None
        [(kind, *row)] = rows
        if row[0] is None:
            return NamedMemory(kind=kind, fact=None, place="")
        return NamedMemory(kind=kind, fact=_fact(row), place=row[-1])

    async def facts_in_place(
        self, scope: Scope, fact_type: FactType, keys: Sequence[str]
    ) -> Sequence[Fact]:
        tenant = scope_path(scope)
        values = {
            "tenant": tenant,
            "fact_type": fact_type,
            "keys": list(keys),
            "now": self._clock(),
        }
        [rows] = await self._database.run(tenant, (statement("facts_in_place"), values))
        return [_fact(row) for row in rows]

    async def edges_in_place(self, scope: Scope, memory_id: MemoryId) -> Sequence[Edge]:
        values = {
            "tenant": scope_path(scope),
            "memory_id": memory_id,
            "now": self._clock(),
            **moments(None),
        }
        [rows] = await self._database.run(scope_path(scope), (statement("edges_in_place"), values))
        return [found_edge(row).edge for row in rows]

    async def restore_fact(self, restoration: Restoration) -> None:
        tenant, now = scope_path(restoration.scope), self._clock()
        values = RESTORATION | {
            "tenant": tenant,
            "tenants": [tenant],
            "run_id": restoration.run_id,
            "memory_id": restoration.memory_id,
            "closed_at": restoration.closed_at,
            "keys": list(restoration.keys),
            "started_at": now,
            "now": now,
            **moments(None),
        }
        names = ("hold_policies", "lock_tenants", "add_run", "require_free_edges", "reopen_fact",
                 "reopen_told", "reopen_edges", "retime_run")  # fmt: skip
        try:
            await self._database.run(tenant, *[(statement(name), values) for name in names])
        except (Conflict, psycopg.errors.UniqueViolation) as error:
            raise Conflict(
                f"fact {restoration.memory_id}, or one that cannot hold beside it, was changed at"
                " the same time: try again"
            ) from error


def _fact(row: Sequence[Any]) -> Fact:
    return Fact(
        memory_id=MemoryId(row[0]),
        fact_type=row[1],
        slot=row[2],
        value=row[3],
        statement=row[4],
        confidence=row[5],
        extractor=row[6],
        pattern=row[7],
        valid_from=utc(row[8]),
        valid_until=row[9] and utc(row[9]),
        thread_id=row[10],
        source_event_ids=tuple(row[11] or ()),
        recorded_at=utc(row[12]),
        superseded_at=row[13] and utc(row[13]),
    )
