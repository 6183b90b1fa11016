"""Writes and deletes memories by namespace and key, with their import marks and versions.

The caller has locked the tenants. The newest version of an instruction is an item as well.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias
from uuid import UUID

from shared_core.core.namespaces import instructions_scope, rest_of, tenant_of
from shared_core.core.retention_policy import Strength
from shared_core.core.row_text import jsonb_text
from shared_core.ports.items import ItemAddress, MemoryRow, VectorRows
from shared_core.storage._rows import initial_of
from shared_core.storage.oceanbase.connection.columns import stored_terms
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction, pages
from shared_core.storage.oceanbase.retention_timing import timed
from shared_core.storage.oceanbase.vectors import add_vectors, vector_tables

_VERSION_COLUMNS = ("tenant_id", "instruction_key", "version", "content", "metadata", "created_at")
Place: TypeAlias = tuple[str, str, str]
"""An address as columns: tenant, namespace below it, key."""
_COLUMNS = (
    "tenant_id", "memory_id", "namespace", "`key`", "kind", "text", "value", "terms", "term_count",
    "author", "importance", "occurred_at", "created_at", "updated_at", "expires_at", "ttl_s",
    "thread_id", "run_id", "superseded_at", "words_key", "demoted_at",
)  # fmt: skip
_REPLACED = _COLUMNS[4:]


@dataclass(frozen=True, slots=True)
class _StoredItem:
    """The columns needed of a memory that is stored at an address already."""

    memory_id: UUID
    kind: str
    thread_id: str | None
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None


def place_of(address: ItemAddress) -> Place:
    """Return an address as columns."""
    namespace, key = address
    return tenant_of(namespace), rest_of(namespace), key


def tenants_of(addresses: Iterable[ItemAddress]) -> list[str]:
    """Return the distinct tenants of addresses."""
    return sorted({tenant_of(namespace) for namespace, _ in addresses})


def strengths_of(strength: Strength | None, rows: Iterable[MemoryRow]) -> dict[UUID, float | None]:
    """Return the strengths that a caller's function gives to rows, by id."""
    if strength is None:
        return {}
    return {
        row.memory_id: initial_of(strength, row.kind, row.text, row.importance, row.value)
        for row in rows
    }


def put_rows(
    tx: Transaction,
    rows: Sequence[MemoryRow],
    now: datetime,
    strengths: Mapping[UUID, float | None] | None = None,
) -> dict[ItemAddress, UUID]:
    """Write memories by address, and return their stored ids.

    An existing memory keeps its id and creation time, and its updated_at always rises. An expired
    one counts as gone: the new one starts a new life. A memory of a turn stays one. strengths: by
    the id of the given row.
    """
    in_order = sorted(rows, key=lambda row: (row.namespace, row.key))
    there = _there(tx, ((row.namespace, row.key) for row in in_order))
    pairs = [(row, there.get(place_of((row.namespace, row.key)))) for row in in_order]
    tx.insert("memories", _COLUMNS, (_written(*pair, now) for pair in pairs), update=_REPLACED)
    ids = {
        (row.namespace, row.key): held.memory_id if held else row.memory_id for row, held in pairs
    }
    _time(tx, in_order, ids, now, strengths or {})
    _clear_derived(tx, [(row, held) for row, held in pairs if held])
    add_versions(tx, [at for at in ids if instructions_scope(at[0])])
    return ids


def put_vectors(tx: Transaction, vectors: VectorRows | None) -> None:
    """Write vectors of memories named by address; unknown addresses are skipped."""
    if vectors is None or not vectors.addresses:
        return
    ids = ids_at(tx, vectors.addresses)
    rows = [
        (tenant_of(address[0]), ids[address], field, vector)
        for address, field, vector in zip(
            vectors.addresses, vectors.fields, vectors.vectors, strict=True
        )
        if address in ids
    ]
    if rows:
        add_vectors(tx, vectors.model, rows)


def ids_at(tx: Transaction, addresses: Iterable[ItemAddress]) -> dict[ItemAddress, UUID]:
    """Return the ids of the stored memories among some addresses."""
    named = list(addresses)
    there = _there(tx, named)
    return {at: there[place_of(at)].memory_id for at in named if place_of(at) in there}


def _there(tx: Transaction, addresses: Iterable[ItemAddress]) -> dict[Place, _StoredItem]:
    places = list(dict.fromkeys(map(place_of, addresses)))
    return {
        (tenant, path, key): _StoredItem(*columns)
        for tenant, path, key, *columns in tx.rows_in(
            "SELECT tenant_id, namespace, `key`, memory_id, kind, thread_id, created_at,"
            " updated_at, expires_at FROM memories WHERE (tenant_id, namespace, `key`) IN %s",
            [places],
        )
    }


def _written(row: MemoryRow, old: _StoredItem | None, now: datetime) -> tuple[object, ...]:
    """Return a row in _COLUMNS; old: the memory stored at its address."""
    tenant, path, key = place_of((row.namespace, row.key))
    is_reborn = old is None or (old.expires_at is not None and old.expires_at <= now)
    return (
        tenant, old.memory_id if old else row.memory_id, path, key, _kind_of(row, old), row.text,
        row.value_json(), stored_terms(row.terms), len(row.terms), row.author,
        float(row.importance), row.occurred_at,
        now if old is None or is_reborn else old.created_at,
        max(now, old.updated_at + timedelta(microseconds=1)) if old else now,
        row.expires_at, row.ttl_s, row.thread_id or (old.thread_id if old else None), row.run_id,
        row.superseded_at, row.words_key, None,
    )  # fmt: skip


def _kind_of(row: MemoryRow, old: _StoredItem | None) -> str:
    return old.kind if old and old.kind == "episodic" else row.kind


def _time(
    tx: Transaction,
    rows: Sequence[MemoryRow],
    ids: Mapping[ItemAddress, UUID],
    now: datetime,
    strengths: Mapping[UUID, float | None],
) -> None:
    by_tenant: dict[str, dict[UUID, float | None]] = defaultdict(dict)
    for row in rows:
        memory_id = ids[row.namespace, row.key]
        by_tenant[tenant_of(row.namespace)][memory_id] = strengths.get(row.memory_id)
    for tenant, initial in by_tenant.items():
        timed(tx, tenant, initial, initial)


def _clear_derived(tx: Transaction, replaced: Sequence[tuple[MemoryRow, _StoredItem]]) -> None:
    """Delete what was derived from replaced memories: vectors, facts, archive, sources."""
    old = [(tenant_of(row.namespace), held.memory_id) for row, held in replaced]
    tables = vector_tables(tx) if old else []
    for page in pages(old):
        for table in (*tables, "facts", "memory_archive"):
            tx.run(f"DELETE FROM {table} WHERE (tenant_id, memory_id) IN %s", [page])
        tx.run(
            "UPDATE memory_access SET stage = 0, staged_at = NULL"
            " WHERE (tenant_id, memory_id) IN %s AND stage > 0",
            [page],
        )
    unsourced = [
        (tenant_of(row.namespace), held.memory_id)
        for row, held in replaced
        if _kind_of(row, held) not in ("episodic", "summary")
    ]
    tx.run_in("DELETE FROM memory_sources WHERE (tenant_id, memory_id) IN %s", [unsourced])


def add_versions(tx: Transaction, addresses: Iterable[ItemAddress]) -> None:
    """Add the stored items as versions, unless the newest version is the same to the letter."""
    keys = _version_keys(addresses)
    newest = _newest(tx, keys)
    rows = []
    for tenant, key, text, value, updated_at in _items(tx, addresses):
        version, metadata = newest.get((tenant, key), (0, None))
        if metadata is None or jsonb_text(metadata) != jsonb_text(value):
            rows.append((tenant, key, version + 1, text, value, updated_at))
    tx.insert("instructions", _VERSION_COLUMNS, rows)


def _version_keys(addresses: Iterable[ItemAddress]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((tenant_of(namespace), key) for namespace, key in addresses))


def _items(tx: Transaction, addresses: Iterable[ItemAddress]) -> list[Row]:
    places = [(tenant_of(namespace), rest_of(namespace), key) for namespace, key in addresses]
    return tx.rows_in(
        "SELECT tenant_id, `key`, text, value, updated_at FROM memories"
        " WHERE (tenant_id, namespace, `key`) IN %s",
        [places],
    )


def _newest(
    tx: Transaction, keys: list[tuple[str, str]]
) -> Mapping[tuple[str, str], tuple[int, str]]:
    """Return number and value of the newest version of each key that has one."""
    return {
        (tenant, key): (version, metadata)
        for tenant, key, version, metadata in tx.rows_in(
            "SELECT i.tenant_id, i.instruction_key, i.version, i.metadata FROM instructions i"
            " JOIN (SELECT tenant_id, instruction_key, MAX(version) AS version FROM instructions"
            " WHERE (tenant_id, instruction_key) IN %s GROUP BY tenant_id, instruction_key) n"
            " ON n.tenant_id = i.tenant_id AND n.instruction_key = i.instruction_key"
            " AND n.version = i.version",
            [keys],
        )
    }
