"""Notes which memories of a user a transaction writes (decision 20)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias
from uuid import UUID

from shared_core.core.ids import uuid7
from shared_core.core.namespaces import MEMORIES, from_path, rest_of, tenant_of, to_path
from shared_core.ports.items import ItemAddress
from shared_core.ports.operations import Delete, Insert, Operation, Select, Update, UpdateEach, Verb
from shared_core.storage.postgres.connection.statements import Step, step

MOST_NOTED: Final = 50
"""Maximum number of noted changes of a user: two lists of them fit into a row of 2 KB."""
FACTS: Final = UUID(int=0)
"""Stands for all facts of a user with their sources, and the names in the graph: an index reads all
of them again."""
ANY: Final = None
"""Stands for any memory of a user: all are read again."""
_TABLES: Final = ("memories", "embeddings", "facts", "memory_sources")
_NAMING: Final = ("edges", "entity_aliases")
"""Tables whose new rows may bring new names into the graph."""
MEMORIES_PATH: Final = to_path((MEMORIES,))
"""The path, within a tenant, below which all memories lie that are noted."""

Changed: TypeAlias = UUID | None
Written: TypeAlias = Insert | Update | UpdateEach | Delete


def changed_ids(operations: Iterable[Operation]) -> Iterator[Changed]:
    """Yield the ids of the memories that operations write, FACTS, or ANY where they name none."""
    for one in operations:
        if isinstance(one, Verb) and one.name == "append_turns":
            yield from (row.memory_id for row in one.arguments[1] if row.memory_id)
        if isinstance(one, Insert) and one.table in _NAMING:
            yield FACTS
        if isinstance(one, Select | Verb) or one.table not in _TABLES:
            continue
        if one.table in ("facts", "memory_sources") or isinstance(one, Delete):
            yield FACTS
        yield from _named(one)


def _named(one: Written) -> Iterator[Changed]:
    if isinstance(one, Insert | UpdateEach):
        columns = one.columns if isinstance(one, Insert) else (*one.key, *one.columns)
        if "memory_id" not in columns:
            yield ANY
            return
        at = columns.index("memory_id")
        yield from (row[at] for row in one.rows)  # type: ignore[misc] # a UUID, by its column
        return
    if isinstance(one, Update) and "memory_id" in one.values:
        yield one.values["memory_id"]  # type: ignore[misc] # a UUID, by its column
    for condition in one.where:
        if condition.columns == ("memory_id",) and condition.comparison in ("=", "in"):
            yield from [condition.value] if condition.comparison == "=" else condition.value
            return
    yield ANY


def changed_addresses(operations: Iterable[Operation]) -> Iterator[ItemAddress]:
    """Yield the addresses of the memories that verbs write."""
    for one in operations:
        if isinstance(one, Verb) and one.name == "put_items":
            yield from ((row.namespace, row.key) for row in one.arguments[0])
        elif isinstance(one, Verb) and one.name == "add_vectors" and one.arguments[0] is not None:
            yield from one.arguments[0].addresses


def note_step(
    tenant: str, memory_ids: Iterable[Changed], addresses: Iterable[ItemAddress] = ()
) -> list[Step]:
    """Return the step that notes changes of a user, the last one of its transaction.

    No step for a tenant that is no user, and where no memory is written. Addresses of other
    namespaces than that of memories are not noted.
    """
    ids = dict.fromkeys(memory_ids)
    named = [(rest_of(one), key) for one, key in dict.fromkeys(addresses)]
    named = [one for one in named if one[0].startswith(MEMORIES_PATH)]
    if len(from_path(tenant)) != 2 or not (ids or named):
        return []
    if len(ids) + len(named) >= MOST_NOTED or ANY in ids:
        ids, named = {ANY: None}, []
    elif named:
        ids[FACTS] = None  # a memory that is written over loses its facts
    values = {
        "tenant": tenant,
        "write_id": uuid7(),
        "memory_ids": list(ids),
        "namespaces": [namespace for namespace, _ in named],
        "keys": [key for _, key in named],
        "most": MOST_NOTED,
    }
    return [step("note_changes", values)]


def note_steps(addresses: Sequence[ItemAddress]) -> list[Step]:
    """Return the steps that note changes by address, in the order of the tenants."""
    of_tenants: dict[str, list[ItemAddress]] = {}
    for address in addresses:
        of_tenants.setdefault(tenant_of(address[0]), []).append(address)
    return [
        one for tenant in sorted(of_tenants) for one in note_step(tenant, (), of_tenants[tenant])
    ]
