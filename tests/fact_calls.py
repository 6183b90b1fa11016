"""The policies of facts and edges as calls of a storage, for tests of both engines."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from uuid import UUID

from shared_core import AsOf, Scope
from shared_core.core.namespaces import memories_namespace, rest_of, scope_path
from shared_core.policies import aliases as policies, edges, reopening
from shared_core.policies.aliases import aliases_of, select_aliases
from shared_core.policies.facts import FactQuery, NamedMemory, NameQuery
from shared_core.policies.spells import known_spells
from shared_core.ports.graph import Alias, Edge, Entity, FoundEdge, KnownSpells
from shared_core.ports.runs import Fact
from shared_core.ports.storage import Storage


async def list_facts(
    storage: Storage,
    scope: Scope,
    now: datetime,
    *,
    slot: str | None = None,
    history: bool = False,
    as_of: AsOf | None = None,
) -> Sequence[Fact]:
    query = FactQuery(now=now, slot=slot, history=history, as_of=as_of)
    return query.facts(await storage.read(scope_path(scope), query.selects()))


async def named_memory(
    storage: Storage, scope: Scope, now: datetime, name: str
) -> NamedMemory | None:
    query = NameQuery(now=now, namespace=rest_of(memories_namespace(scope)), name=name)
    return query.memory(await storage.read(scope_path(scope), query.selects()))


async def restore_fact(
    storage: Storage, scope: Scope, now: datetime, fact: Fact, run_id: UUID
) -> None:
    tenant = scope_path(scope)
    await storage.transact(tenant, lambda: reopening.restore_fact(tenant, fact, run_id, now))


async def restore_edge(
    storage: Storage, scope: Scope, now: datetime, edge: Edge, run_id: UUID
) -> None:
    tenant = scope_path(scope)
    await storage.transact(tenant, lambda: reopening.restore_edge(tenant, edge, run_id, now))


async def spells(
    storage: Storage,
    scope: Scope,
    now: datetime,
    subject: str,
    relation: str,
    object_key: str,
    *,
    alone: bool,
) -> KnownSpells:
    """Read the spells of a relation."""
    read = partial(known_spells, subject, relation, object_key, alone=alone, now=now)
    return await storage.query(scope_path(scope), read)


async def edges_of(
    storage: Storage, scope: Scope, now: datetime, key: str, limit: int, as_of: AsOf | None
) -> list[FoundEdge]:
    return await storage.query(scope_path(scope), partial(edges.edges_of, key, limit, now, as_of))


async def entities(
    storage: Storage, scope: Scope, now: datetime, matching: str, limit: int, as_of: AsOf | None
) -> list[Entity]:
    reader = partial(edges.entities, matching, limit, now, as_of)
    return await storage.query(scope_path(scope), reader)


async def edge_of(storage: Storage, scope: Scope, now: datetime, edge_id: UUID) -> Edge | None:
    return await storage.query(scope_path(scope), partial(edges.edge_of, edge_id, now))


async def aliases(storage: Storage, scope: Scope, keys: Sequence[str]) -> list[Alias]:
    return aliases_of(await storage.read(scope_path(scope), select_aliases(keys)))


async def change_aliases(
    storage: Storage,
    scope: Scope,
    now: datetime,
    run_id: UUID,
    ended: Sequence[UUID],
    added: Sequence[Alias],
) -> None:
    await storage.transact(
        scope_path(scope), lambda: policies.change_aliases(run_id, ended, added, now)
    )
