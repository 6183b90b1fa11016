"""Facts on PostgreSQL: what held when, as known when, and ends that are undone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
from shared_core.ports.storage import Clock
from shared_core.storage._rows import moments, record
from shared_core.storage.postgres.connection.database import PostgresDatabase
from shared_core.storage.postgres.connection.statements import step, steps
from shared_core.storage.postgres.graph import found_edge

RESTORATION = {
    "kind": "restoration",
    "extractor": "caller",
    "counts": '{"restored": 1}',
    **dict.fromkeys(("thread_id", "from_seq", "to_seq", "summed_from", "summed_to")),
}
"""Values of the record of a run that restores a fact."""


@dataclass
class PostgresFacts:
    """The facts of one scope at a time."""

    _database: PostgresDatabase
    _clock: Clock

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
        listing = step(name, values, literals=(("of_slot", of_slot),))
        [rows] = await self._database.run(tenant, listing)
        return [_fact(row) for row in rows]

    async def named_memory(self, scope: Scope, name: str) -> NamedMemory | None:
        rows = await self._database.rows(
            scope_path(scope),
            "named_memory",
            namespace=rest_of(memories_namespace(scope)),
            key=name,
            memory_id=UUID(name) if is_uuid(name) else None,
            now=self._clock(),
        )
        if not rows:
            return None
        [(kind, *row)] = rows
        if row[0] is None:
            return NamedMemory(kind=kind, fact=None, place="")
        return NamedMemory(kind=kind, fact=_fact(row), place=row[-1])

    async def facts_in_place(
        self, scope: Scope, fact_type: FactType, keys: Sequence[str]
    ) -> Sequence[Fact]:
        tenant, now = scope_path(scope), self._clock()
        rows = await self._database.rows(
            tenant, "facts_in_place", fact_type=fact_type, keys=list(keys), now=now
        )
        return [_fact(row) for row in rows]

    async def edges_in_place(self, scope: Scope, memory_id: MemoryId) -> Sequence[Edge]:
        values = {"memory_id": memory_id, "now": self._clock(), **moments(None)}
        rows = await self._database.rows(scope_path(scope), "edges_in_place", **values)
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
            await self._database.run(tenant, *steps(values, *names))
        except (Conflict, psycopg.errors.UniqueViolation) as error:
            raise Conflict(
                f"another call changed fact {restoration.memory_id}, or a fact that excludes it, at"
                " the same time: try again"
            ) from error


def _fact(row: Sequence[Any]) -> Fact:
    values = [*row[:11], *row[12:14]]
    return record(Fact, values, source_event_ids=tuple(row[11] or ()))
