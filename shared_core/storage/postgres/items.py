"""The key-value side of PostgresStorage: memories by namespace and key."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from pgvector import HalfVector

from shared_core.core.domain import JsonValue, MemoryKind, Namespace, Scope
from shared_core.core.json_text import to_json
from shared_core.core.namespaces import (
    common_prefix,
    from_path,
    instructions_scope,
    path_end,
    rest_of,
    scope_path,
    storable,
    tenant_of,
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
from shared_core.storage._filters import compile_filter
from shared_core.storage._retention_columns import initial_of
from shared_core.storage._rows import any_term, item_from_row, to_tsvector
from shared_core.storage.postgres.connection.database import PostgresDatabase, by_column
from shared_core.storage.postgres.connection.pipeline import Statement
from shared_core.storage.postgres.connection.sql_files import statement
from shared_core.storage.postgres.import_marks import (
    mark_deleted,
    mark_imported,
    marks_by_address,
    read_marks,
)
from shared_core.storage.postgres.tenant_indexes import TenantIndexes

TENANT_DEPTH = 2
UNLIMITED = 1_000_000_000
_ROW_COLUMNS = (
    "tenants", "memory_ids", "namespaces", "keys", "kinds", "texts", "values", "terms",
    "term_counts", "authors", "importances", "occurred_at", "expires_at", "ttl_s", "thread_ids",
    "run_ids", "superseded_at", "words_keys",
)  # fmt: skip


class PostgresItems:
    """Reads and writes memories by address. Every method binds the narrowest scope it needs."""

    def __init__(
        self,
        database: PostgresDatabase,
        clock: Clock,
        indexes: TenantIndexes,
        strength: Strength | None = None,
    ) -> None:
        self._database = database
        self._clock = clock
        self._indexes = indexes
        self._strength = strength

    async def put_memories(
        self,
        rows: Sequence[MemoryRow],
        vectors: VectorRows | None,
        forgotten: Sequence[ItemAddress] = (),
        stamps: Sequence[ItemStamp] = (),
    ) -> None:
        touched = [(row.namespace, row.key) for row in rows]
        steps = [*self._put_steps(rows), *self._vector_steps(vectors)]
        steps += self._forget_steps(forgotten)
        steps += _stamp_steps("stamp_written", stamps)
        if steps:
            await self._database.run(scope_of([*touched, *forgotten]), *steps)

    async def forget(self, addresses: Sequence[ItemAddress]) -> int:
        steps = self._forget_steps(addresses)
        if not steps:
            return 0
        *_, rows = await self._database.run(scope_of(addresses), *steps)
        return len(rows)

    async def resolve_ids(self, scope: Scope, memory_ids: Sequence[UUID]) -> Sequence[ItemAddress]:
        tenant = scope_path(scope)
        values = {"tenant": tenant, "memory_ids": list(memory_ids)}
        [rows] = await self._database.run(tenant, (statement("resolve_ids"), values))
        return [(from_path(row[0]), row[1]) for row in rows]

    async def get_items(self, addresses: Sequence[ItemAddress]) -> Sequence[Item]:
        there = [address for address in addresses if storable(address[1])]
        values = {**address_columns(there), "now": self._clock()}
        [rows] = await self._database.run(scope_of(there), (statement("get_items"), values))
        return [item_from_row(row) for row in rows]

    async def find_items(self, query: ItemQuery) -> Sequence[Item]:
        scope, one_tenant, values = self._below(query.prefix)
        filter_sql, filter_values = compile_filter(query.filter)
        values |= {"limit": query.limit, "offset": query.offset, **filter_values}
        name = "list_items"
        if query.vector is not None:
            name = "search_items"
            values |= {"model": query.model, "embedding": HalfVector(query.vector[0])}
        if query.terms is not None:
            name = "search_rest"
            values |= {"any_term": any_term(query.terms), "besides": list(query.besides)}
            if query.vector is None:
                values |= {"model": None, "embedding": None}
        elif query.vector is not None and one_tenant:
            found = await self._indexes.search(scope, filter_sql, values)
            if found is not None:
                return [item_from_row(row) for row in found]
        text = statement(name, one_tenant=one_tenant, filter_sql=filter_sql)
        [rows] = await self._database.run(scope, (text, values))
        return [item_from_row(row) for row in rows]

    async def list_namespaces(self, query: NamespaceQuery) -> Sequence[Namespace]:
        plain = [_plain_start(prefix) for prefix in query.prefixes]
        scope, one_tenant, values = self._below(max(plain, key=len, default=()))
        values |= {
            "patterns": [f"^/{_labels_pattern(prefix)}" for prefix in query.prefixes]
            + [f"/{_labels_pattern(suffix)}$" for suffix in query.suffixes],
            "max_depth": UNLIMITED if query.max_depth is None else query.max_depth,
            "limit": query.limit,
            "offset": query.offset,
        }
        text = statement("list_namespaces", one_tenant=one_tenant)
        [rows] = await self._database.run(scope, (text, values))
        return [from_path(row[0]) for row in rows]

    async def extend_items(self, addresses: Sequence[ItemAddress]) -> None:
        values = {**address_columns(addresses), "now": self._clock()}
        await self._database.run(scope_of(addresses), (statement("extend_items"), values))

    async def sweep_expired(self, prefix: Namespace, limit: int) -> int:
        scope, one_tenant, values = self._below(prefix)
        text = statement("sweep_expired", one_tenant=one_tenant)
        [rows] = await self._database.run(scope, (text, values | {"limit": limit}))
        return len(rows)

    async def stamp_items(self, stamps: Sequence[ItemStamp]) -> None:
        addresses = [stamp.address for stamp in stamps]
        await self._database.run(scope_of(addresses), *_stamp_steps("stamp_items", stamps))

    async def import_marks(
        self, addresses: Sequence[ItemAddress]
    ) -> Mapping[ItemAddress, ImportMark]:
        [rows] = await self._database.run(scope_of(addresses), read_marks(addresses))
        return marks_by_address(addresses, rows)

    def _forget_steps(self, addresses: Sequence[ItemAddress]) -> list[Statement]:
        there = [address for address in addresses if storable(address[1])]
        if not there:
            return []
        now = self._clock()
        values = {**address_columns(there), "now": now}
        steps: list[Statement] = [(statement("lock_tenants"), values), mark_deleted(there, now)]
        if versioned := _versioned(there):
            steps.append((statement("drop_versions"), address_columns(versioned)))
        return [*steps, (statement("forget"), values)]

    def _put_steps(self, rows: Sequence[MemoryRow]) -> list[Statement]:
        if not rows:
            return []
        # One order for all writers: two batches over the same keys then wait, and never deadlock.
        in_order = sorted(rows, key=lambda row: (row.namespace, row.key))
        columns = by_column(
            [
                (tenant_of(row.namespace), row.memory_id, rest_of(row.namespace), row.key,
                 row.kind, row.text, to_json(row.value), to_tsvector(row.terms), len(row.terms),
                 row.author, float(row.importance), row.occurred_at, row.expires_at, row.ttl_s,
                 row.thread_id, row.run_id, row.superseded_at, row.words_key)
                for row in in_order
            ],
            len(_ROW_COLUMNS),
        )  # fmt: skip
        values = dict(zip(_ROW_COLUMNS, columns, strict=True)) | {"now": self._clock()}
        values |= self._strong_columns(in_order)
        steps: list[Statement] = [
            (statement("hold_policies"), values),
            (statement("put_memories"), values),
            (statement("clear_derived"), values),
        ]
        if versioned := _versioned((row.namespace, row.key) for row in in_order):
            named = address_columns(versioned)
            # Who deletes an instruction at this moment must not leave its item without versions.
            locked: Statement = (statement("lock_tenants"), named)
            return [locked, *steps, (statement("add_versions"), named)]
        return steps

    def _initial(
        self, kind: MemoryKind, text: str, importance: float, value: Mapping[str, JsonValue]
    ) -> float | None:
        if self._strength is None:
            return None
        return initial_of(self._strength, kind, text, importance, value)

    def _strong_columns(self, rows: Sequence[MemoryRow]) -> dict[str, list[object]]:
        """Return the columns of those that a caller's own function gives a strength."""
        given = [
            (tenant_of(row.namespace), rest_of(row.namespace), row.key, initial)
            for row in rows
            if (initial := self._initial(row.kind, row.text, row.importance, row.value)) is not None
        ]
        names = ("strong_tenants", "strong_namespaces", "strong_keys", "strengths")
        return dict(zip(names, by_column(given, len(names)), strict=True))

    def _vector_steps(self, vectors: VectorRows | None) -> list[Statement]:
        if vectors is None or not vectors.addresses:
            return []
        values = {
            **address_columns(vectors.addresses),
            "model": vectors.model,
            "fields": list(vectors.fields),
            "embeddings": [HalfVector(vector) for vector in vectors.vectors],
        }
        return [(statement("add_embeddings"), values)]

    def _below(self, prefix: Namespace) -> tuple[str, bool, dict[str, object]]:
        """Return the scope to bind, whether it is one tenant, and the values of {below}."""
        path = rest_of(prefix)
        tenant = tenant_of(prefix)
        values: dict[str, object] = {
            "tenant": tenant,
            "path": path,
            "path_end": path_end(path),
            "now": self._clock(),
        }
        one_tenant = len(prefix) >= TENANT_DEPTH
        if not one_tenant:
            values["tenant_end"] = path_end(tenant)
        return tenant, one_tenant, values


def _stamp_steps(name: str, stamps: Sequence[ItemStamp]) -> list[Statement]:
    if not stamps:
        return []
    addresses = [stamp.address for stamp in stamps]
    values = {
        **address_columns(addresses),
        "created_at": [stamp.created_at for stamp in stamps],
        "updated_at": [stamp.updated_at for stamp in stamps],
        "expires_at": [stamp.expires_at for stamp in stamps],
        "ttl_s": [stamp.ttl_s for stamp in stamps],
    }
    steps: list[Statement] = [(statement(name), values), mark_imported(stamps)]
    if versioned := _versioned(addresses):
        steps.append((statement("stamp_versions"), address_columns(versioned)))
    return steps


def address_columns(addresses: Iterable[ItemAddress]) -> dict[str, object]:
    """Return the columns that name memories: tenants, namespaces and keys, one entry each."""
    columns = by_column(
        [(tenant_of(namespace), rest_of(namespace), key) for namespace, key in addresses], 3
    )
    return dict(zip(("tenants", "namespaces", "keys"), columns, strict=True))


def scope_of(addresses: Iterable[ItemAddress]) -> str:
    """Return the narrowest scope that holds all addresses: a tenant, or a path above several."""
    return tenant_of(common_prefix(namespace for namespace, _ in addresses))


def _versioned(addresses: Iterable[ItemAddress]) -> list[ItemAddress]:
    return [address for address in addresses if instructions_scope(address[0])]


def _plain_start(labels: Sequence[str]) -> Namespace:
    wild = [position for position, label in enumerate(labels) if label == "*"]
    return tuple(labels[: wild[0]] if wild else labels)


def _labels_pattern(labels: Sequence[str]) -> str:
    parts = ("[^/]*" if label == "*" else re.escape(to_path([label])[1:-1]) for label in labels)
    return "".join(f"{part}/" for part in parts)
