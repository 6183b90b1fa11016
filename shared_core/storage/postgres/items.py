"""Key-value items and instructions on PostgreSQL, and the marks of imported items."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID

from pgvector import HalfVector

from shared_core.core.domain import JsonValue, MemoryKind, Namespace, Scope
from shared_core.core.json_text import to_json
from shared_core.core.namespaces import (
    common_prefix,
    from_path,
    instructions_namespace,
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
    Instruction,
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
from shared_core.storage._rows import any_term, initial_of, item_from_row, record, to_tsvector
from shared_core.storage.postgres.connection.database import PostgresDatabase, by_column
from shared_core.storage.postgres.connection.marks import AnswerLost, Mark
from shared_core.storage.postgres.connection.pipeline import Rows
from shared_core.storage.postgres.connection.statements import Step, step, steps
from shared_core.storage.postgres.indexes import TenantIndexes

TENANT_DEPTH = 2
"""Labels of a namespace that name the tenant: application and user (decision 1)."""
UNLIMITED = 1_000_000_000
EVERY_ITEM = b""
"""The hash in import_marks that stands for every item of a tenant."""
_ROW_COLUMNS = (
    "tenants", "memory_ids", "namespaces", "keys", "kinds", "texts", "values", "terms",
    "term_counts", "authors", "importances", "occurred_at", "expires_at", "ttl_s", "thread_ids",
    "run_ids", "superseded_at", "words_keys",
)  # fmt: skip


@dataclass
class PostgresItems:
    """Memories by address. Every method binds the narrowest scope that holds its addresses.

    strength: the caller's function for the initial strength of new memories, if there is one.
    """

    _database: PostgresDatabase
    _clock: Clock
    _indexes: TenantIndexes
    _strength: Strength | None = None

    async def put_memories(
        self,
        rows: Sequence[MemoryRow],
        vectors: VectorRows | None,
        forgotten: Sequence[ItemAddress] = (),
        stamps: Sequence[ItemStamp] = (),
    ) -> None:
        sent = [*self.put_steps(rows), *vector_steps(vectors), *self.forget_steps(forgotten)]
        sent += _stamp_steps("stamp_written", stamps)
        if sent:
            written = [(row.namespace, row.key) for row in rows]
            scope = scope_of([*written, *forgotten])
            mark = Mark(min(tenant_of(namespace) for namespace, _ in [*written, *forgotten]))
            with suppress(AnswerLost):
                await self._database.run(scope, *sent, mark=mark)

    async def forget(self, addresses: Sequence[ItemAddress]) -> int:
        sent = self.forget_steps(addresses)
        if not sent:
            return 0
        return len((await self._database.run(scope_of(addresses), *sent)).named("forget"))

    async def resolve_ids(self, scope: Scope, memory_ids: Sequence[UUID]) -> Sequence[ItemAddress]:
        rows = await self._database.rows(
            scope_path(scope), "resolve_ids", memory_ids=list(memory_ids)
        )
        return [(from_path(namespace), key) for namespace, key, *_ in rows]

    async def get_items(self, addresses: Sequence[ItemAddress]) -> Sequence[Item]:
        named = [address for address in addresses if storable(address[1])]
        values = {**address_columns(named), "now": self._clock()}
        [rows] = await self._database.run(scope_of(named), step("get_items", values))
        return [item_from_row(row) for row in rows]

    async def find_items(self, queries: Sequence[ItemQuery]) -> Sequence[Sequence[Item]]:
        found: dict[int, Rows] = {}
        exact: dict[int, Step] = {}
        for place, query in enumerate(queries):
            rows, search = await self._by_index(query)
            if rows is None:
                exact[place] = search
            else:
                found[place] = rows
        if exact:
            scope = scope_of((query.prefix[:TENANT_DEPTH], "") for query in queries)
            answers = await self._database.run(scope, *exact.values())
            found |= dict(zip(exact, answers, strict=True))
        return [[item_from_row(row) for row in found[place]] for place in range(len(queries))]

    async def _by_index(self, query: ItemQuery) -> tuple[Rows | None, Step]:
        """Return what the index of a large tenant finds, and the statement of the exact search.

        The first is None if the search must be exact.
        """
        scope, one_tenant, values = self._below(query.prefix)
        filter_sql, filter_values = compile_filter(query.filter)
        values |= {"limit": query.limit, "offset": query.offset, **filter_values}
        vector = None if query.vector is None else HalfVector(query.vector[0])
        name = "list_items" if vector is None else "search_items"
        if query.terms is not None:
            name = "search_rest"
            values |= {"any_term": any_term(query.terms), "besides": list(query.besides)}
        if name != "list_items":
            model = None if vector is None else query.model
            values |= {"model": model, "embedding": vector}
        exact = step(name, values, one_tenant=one_tenant, filter_sql=filter_sql)
        if name == "search_items" and one_tenant:
            return await self._indexes.search(scope, filter_sql, values), exact
        return None, exact

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
        listing = step("list_namespaces", values, one_tenant=one_tenant)
        [rows] = await self._database.run(scope, listing)
        return [from_path(row[0]) for row in rows]

    async def extend_items(self, addresses: Sequence[ItemAddress]) -> None:
        values = {**address_columns(addresses), "now": self._clock()}
        await self._database.run(scope_of(addresses), step("extend_items", values))

    async def sweep_expired(self, prefix: Namespace, limit: int) -> int:
        scope, one_tenant, values = self._below(prefix)
        sweep = step("sweep_expired", values | {"limit": limit}, one_tenant=one_tenant)
        [rows] = await self._database.run(scope, sweep)
        return len(rows)

    async def stamp_items(self, stamps: Sequence[ItemStamp]) -> None:
        addresses = [stamp.address for stamp in stamps]
        await self._database.run(scope_of(addresses), *_stamp_steps("stamp_items", stamps))

    async def import_marks(
        self, addresses: Sequence[ItemAddress]
    ) -> Mapping[ItemAddress, ImportMark]:
        reading = step("import_marks", _mark_columns(addresses))
        [rows] = await self._database.run(scope_of(addresses), reading)
        return _marks_by_address(addresses, rows)

    def put_steps(self, rows: Sequence[MemoryRow]) -> list[Step]:
        """Return the steps that write memories by address, and new versions of instructions."""
        if not rows:
            return []
        # One order for all writers: two batches over the same keys then wait and never deadlock.
        in_order = sorted(rows, key=lambda row: (row.namespace, row.key))
        values = by_column(
            _ROW_COLUMNS,
            [
                (tenant_of(row.namespace), row.memory_id, rest_of(row.namespace), row.key,
                 row.kind, row.text, to_json(row.value), to_tsvector(row.terms), len(row.terms),
                 row.author, float(row.importance), row.occurred_at, row.expires_at, row.ttl_s,
                 row.thread_id, row.run_id, row.superseded_at, row.words_key)
                for row in in_order
            ],
        )  # fmt: skip
        values |= self._strength_columns(in_order) | {"now": self._clock()}
        sent = steps(values, "hold_policies", "put_memories", "clear_derived")
        if versioned := _versioned((row.namespace, row.key) for row in in_order):
            named = address_columns(versioned)
            # Without it, an instruction deleted at this moment leaves an item without versions.
            return [step("lock_tenants", named), *sent, step("add_versions", named)]
        return sent

    def forget_steps(self, addresses: Sequence[ItemAddress]) -> list[Step]:
        """Return the steps that delete memories, with the versions of instructions."""
        named = [address for address in addresses if storable(address[1])]
        if not named:
            return []
        now = self._clock()
        values = {**address_columns(named), "now": now}
        sent = [
            step("lock_tenants", values),
            step("mark_deleted", {**_mark_columns(named), "now": now}),
        ]
        if versioned := _versioned(named):
            sent.append(step("drop_versions", address_columns(versioned)))
        return [*sent, step("forget", values)]

    def initial_strength(
        self, kind: MemoryKind, text: str, importance: float, value: Mapping[str, JsonValue]
    ) -> float | None:
        """Return what the caller's own function gives a new memory, None without a function."""
        if self._strength is None:
            return None
        return initial_of(self._strength, kind, text, importance, value)

    def _strength_columns(self, rows: Sequence[MemoryRow]) -> dict[str, object]:
        initials = [
            (tenant_of(row.namespace), rest_of(row.namespace), row.key, initial)
            for row in rows
            if (initial := self.initial_strength(row.kind, row.text, row.importance, row.value))
            is not None
        ]
        names = ("strong_tenants", "strong_namespaces", "strong_keys", "strengths")
        return by_column(names, initials)

    def _below(self, prefix: Namespace) -> tuple[str, bool, dict[str, object]]:
        """Return the scope to bind, whether it is one tenant, and the values of {below}."""
        tenant = tenant_of(prefix)
        values = below(prefix) | {"tenant": tenant, "now": self._clock()}
        one_tenant = len(prefix) >= TENANT_DEPTH
        if not one_tenant:
            values["tenant_end"] = path_end(tenant)
        return tenant, one_tenant, values


@dataclass
class PostgresInstructions:
    """Instructions: the newest version is an item, a table of their own holds all versions."""

    _database: PostgresDatabase
    _items: PostgresItems

    async def put_instruction(self, row: MemoryRow, vectors: VectorRows | None) -> Instruction:
        scope = instructions_scope(row.namespace)
        if scope is None:
            raise AssertionError(f"{row.namespace} holds no instructions")
        values = {"tenant": scope_path(scope), "key": row.key, "limit": 1}
        answers = await self._database.run(
            scope_path(scope),
            *self._items.put_steps([row]),
            *vector_steps(vectors),
            step("instruction_versions", values),
        )
        return _instructions(scope, answers.named("instruction_versions"))[0]

    async def instruction_versions(
        self, scope: Scope, key: str, limit: int
    ) -> Sequence[Instruction]:
        rows = await self._database.rows(
            scope_path(scope), "instruction_versions", key=key, limit=limit
        )
        return _instructions(scope, rows)

    async def newest_instructions(
        self, scope: Scope, limit: int, offset: int
    ) -> Sequence[Instruction]:
        rows = await self._database.rows(
            scope_path(scope), "newest_instructions", limit=limit, offset=offset
        )
        return _instructions(scope, rows)

    async def drop_instruction(self, scope: Scope, key: str) -> int:
        sent = self._items.forget_steps([(instructions_namespace(scope), key)])
        answers = await self._database.run(scope_path(scope), *sent)
        return len(answers.named("drop_versions"))


def _instructions(scope: Scope, rows: Rows) -> list[Instruction]:
    return [record(Instruction, row, scope=scope) for row in rows]


def vector_steps(vectors: VectorRows | None) -> list[Step]:
    """Return the step that writes the vectors of memories, if there are any."""
    if vectors is None or not vectors.addresses:
        return []
    values = {
        **address_columns(vectors.addresses),
        "model": vectors.model,
        "fields": list(vectors.fields),
        "embeddings": [HalfVector(vector) for vector in vectors.vectors],
    }
    return [step("add_embeddings", values)]


def _stamp_steps(name: str, stamps: Sequence[ItemStamp]) -> list[Step]:
    """Return the steps that give imported items their times, and mark them as imported."""
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
    marked = {**_mark_columns(addresses), "updated_at": values["updated_at"]}
    sent = [step(name, values), step("mark_imported", marked)]
    if versioned := _versioned(addresses):
        sent.append(step("stamp_versions", address_columns(versioned)))
    return sent


def _mark_columns(addresses: Iterable[ItemAddress]) -> dict[str, object]:
    named = list(addresses)
    return {
        "tenants": [tenant_of(namespace) for namespace, _ in named],
        "hashes": [_hash(address) for address in named],
    }


def _hash(address: ItemAddress) -> bytes:
    namespace, key = address
    return hashlib.sha256(f"{rest_of(namespace)}\0{key}".encode(errors="surrogatepass")).digest()


def _marks_by_address(
    addresses: Sequence[ItemAddress], rows: Rows
) -> Mapping[ItemAddress, ImportMark]:
    """Return the mark of each marked item: its own, or that of its tenant."""
    found = {
        (tenant, bytes(digest)): ImportMark(updated_at=updated_at, deleted_at=deleted_at)
        for tenant, digest, updated_at, deleted_at in rows
    }
    marks: dict[ItemAddress, ImportMark] = {}
    for address in addresses:
        tenant = tenant_of(address[0])
        own, shared = found.get((tenant, _hash(address))), found.get((tenant, EVERY_ITEM))
        if own and shared:
            marks[address] = own.after(shared)
        elif mark := own or shared:
            marks[address] = mark
    return marks


def address_columns(addresses: Iterable[ItemAddress]) -> dict[str, object]:
    """Return the columns that name memories: tenants, namespaces and keys, one entry each."""
    rows = [(tenant_of(namespace), rest_of(namespace), key) for namespace, key in addresses]
    return by_column(("tenants", "namespaces", "keys"), rows)


def below(namespace: Namespace) -> dict[str, object]:
    """Return the values of {below}: memories of a tenant below a namespace."""
    path = rest_of(namespace)
    return {"path": path, "path_end": path_end(path)}


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
