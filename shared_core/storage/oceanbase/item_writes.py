"""Writes and deletes memories by namespace and key, with their import marks and versions.

The caller has locked the tenants. The newest version of an instruction is an item as well.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias
from uuid import UUID

from shared_core.core.json_text import to_json
from shared_core.core.namespaces import instructions_scope, rest_of, storable, tenant_of
from shared_core.core.retention_policy import Strength
from shared_core.ports.items import ImportMark, ItemAddress, ItemStamp, MemoryRow, VectorRows
from shared_core.storage._rows import initial_of
from shared_core.storage.oceanbase.connection.columns import stored_terms
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction, grouped, pages
from shared_core.storage.oceanbase.forgetting import forget_memories
from shared_core.storage.oceanbase.retention_timing import timed
from shared_core.storage.oceanbase.transfer_format import jsonb_text
from shared_core.storage.oceanbase.vectors import add_vectors, vector_tables

ALL = bytes(32)
"""The hash that stands for all items of a tenant; the column has this length."""
_MARKS = ("tenant_id", "address_hash", "updated_at", "deleted_at")
_VERSION_COLUMNS = ("tenant_id", "instruction_key", "version", "content", "metadata", "created_at")
Place: TypeAlias = tuple[str, str, str]
"""An address as columns: tenant, namespace below it, key."""
_COLUMNS = (
    "tenant_id", "memory_id", "namespace", "`key`", "kind", "text", "value", "terms", "term_count",
    "author", "importance", "occurred_at", "created_at", "updated_at", "expires_at", "ttl_s",
    "thread_id", "run_id", "superseded_at", "words_key", "demoted_at",
)  # fmt: skip
_REPLACED = _COLUMNS[4:]
_STAMPED = (
    "tenant_id", "memory_id", "namespace", "`key`", "kind", "text", "value", "terms", "term_count",
    "created_at", "updated_at", "occurred_at", "expires_at", "ttl_s",
)  # fmt: skip


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


def forget_at(tx: Transaction, addresses: Iterable[ItemAddress], now: datetime) -> int:
    """Delete memories and everything derived from them alone; return the number of both."""
    named = [address for address in addresses if storable(address[1])]
    mark_deleted(tx, named, now)
    drop_versions(tx, [address for address in named if instructions_scope(address[0])])
    by_tenant = grouped((tenant_of(at[0]), one) for at, one in ids_at(tx, named).items())
    return sum(len(forget_memories(tx, tenant, ids, now)) for tenant, ids in by_tenant.items())


def ids_at(tx: Transaction, addresses: Iterable[ItemAddress]) -> dict[ItemAddress, UUID]:
    """Return the ids of the stored memories among some addresses."""
    named = list(addresses)
    there = _there(tx, named)
    return {at: there[place_of(at)].memory_id for at in named if place_of(at) in there}


def stamp(tx: Transaction, stamps: Sequence[ItemStamp], *, own: bool) -> None:
    """Mark items as imported, and give them their times from elsewhere.

    own: this transaction wrote them. Otherwise items written here since keep their times. If
    neither side changed since, the later expiry wins: reads may have extended it.
    """
    if not stamps:
        return
    there = _there(tx, [stamp.address for stamp in stamps])
    rows = [
        (tenant, held.memory_id, path, key, "item", "", "{}", "", 0, stamp.created_at,
         stamp.updated_at, stamp.updated_at, stamp.expires_at, stamp.ttl_s)
        for stamp in stamps
        for tenant, path, key in [place_of(stamp.address)]
        if (held := there.get((tenant, path, key))) and (own or _is_older(held, stamp))
    ]  # fmt: skip
    tx.insert("memories", _STAMPED, rows, update=_STAMPED[9:])  # all exist
    mark_imported(tx, stamps)
    stamp_versions(tx, [stamp.address for stamp in stamps if instructions_scope(stamp.address[0])])


def _is_older(held: _StoredItem, stamp: ItemStamp) -> bool:
    if held.updated_at != stamp.updated_at:
        return held.updated_at < stamp.updated_at
    if held.expires_at is None:
        return False
    return stamp.expires_at is None or stamp.expires_at > held.expires_at


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
        to_json(row.value), stored_terms(row.terms), len(row.terms), row.author,
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


def stamp_versions(tx: Transaction, addresses: Iterable[ItemAddress]) -> None:
    """Give the newest versions the imported times of their items."""
    newest = _newest(tx, _version_keys(addresses))
    rows = [
        (tenant, key, newest[tenant, key][0], "", "{}", updated_at)
        for tenant, key, _, _, updated_at in _items(tx, addresses)
        if (tenant, key) in newest
    ]
    tx.insert("instructions", _VERSION_COLUMNS, rows, update=("created_at",))  # all exist


def drop_versions(tx: Transaction, addresses: Iterable[ItemAddress]) -> int:
    """Delete all versions of items; return their number."""
    sql = "DELETE FROM instructions WHERE (tenant_id, instruction_key) IN %s"
    return tx.run_in(sql, [_version_keys(addresses)])


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


def mark_imported(tx: Transaction, stamps: Sequence[ItemStamp]) -> None:
    """Mark items as imported."""
    newest: dict[tuple[str, bytes], datetime] = {}
    for stamp in stamps:
        at = _mark_key(stamp.address)
        newest[at] = max(stamp.updated_at, newest.get(at, stamp.updated_at))
    rows = ((*at, updated_at, None) for at, updated_at in sorted(newest.items()))
    tx.insert("import_marks", _MARKS, rows, update=("updated_at",))


def mark_deleted(tx: Transaction, addresses: Iterable[ItemAddress], now: datetime) -> None:
    """Mark imported items as deleted."""
    tx.run_in(
        "UPDATE import_marks SET deleted_at = %s WHERE (tenant_id, address_hash) IN %s",
        [now, [_mark_key(address) for address in addresses]],
    )


def mark_all_deleted(tx: Transaction, tenant: str, now: datetime) -> None:
    """Replace the marks of a tenant, if any, by one: all imported items were deleted."""
    if tx.run("DELETE FROM import_marks WHERE tenant_id = %s", [tenant]):
        tx.insert("import_marks", _MARKS, [(tenant, ALL, now, now)])


def marks_of(tx: Transaction, addresses: Sequence[ItemAddress]) -> Mapping[ItemAddress, ImportMark]:
    """Return the marks of items: their own, or that of their tenant."""
    keys = {_mark_key(address) for address in addresses}
    lookups = sorted(keys | {(tenant, ALL) for tenant, _ in keys})
    found = {
        (tenant, digest): ImportMark(updated_at=updated_at, deleted_at=deleted_at)
        for tenant, digest, updated_at, deleted_at in tx.rows_in(
            f"SELECT {', '.join(_MARKS)} FROM import_marks WHERE (tenant_id, address_hash) IN %s",
            [lookups],
        )
    }
    marks: dict[ItemAddress, ImportMark] = {}
    for address in addresses:
        at = _mark_key(address)
        own, shared = found.get(at), found.get((at[0], ALL))
        if own and shared:
            marks[address] = own.after(shared)
        elif mark := own or shared:
            marks[address] = mark
    return marks


def _mark_key(address: ItemAddress) -> tuple[str, bytes]:
    namespace, key = address
    named = f"{rest_of(namespace)}\0{key}".encode(errors="surrogatepass")
    return tenant_of(namespace), hashlib.sha256(named).digest()
