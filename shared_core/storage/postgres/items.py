"""Key-value items on PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from pgvector import HalfVector

from shared_core.core.domain import JsonValue, MemoryKind, Namespace, Scope
from shared_core.core.namespaces import (
    common_prefix,
    from_path,
    instructions_scope,
    path_end,
    rest_of,
    storable,
    tenant_of,
    to_path,
)
from shared_core.core.retention_policy import Strength
from shared_core.ports.items import (
    Distance,
    Item,
    ItemAddress,
    ItemQuery,
    MemoryRow,
    NamespaceQuery,
    VectorRows,
)
from shared_core.ports.jobs import NewJob
from shared_core.ports.storage import Clock
from shared_core.storage._filters import compile_filter
from shared_core.storage._rows import any_term, initial_of, item_from_row, to_tsvector
from shared_core.storage.postgres.connection.changes import note_steps
from shared_core.storage.postgres.connection.database import PostgresDatabase, by_column
from shared_core.storage.postgres.connection.marks import AnswerLost, Mark
from shared_core.storage.postgres.connection.pipeline import Rows
from shared_core.storage.postgres.connection.statements import Step, step, steps
from shared_core.storage.postgres.indexes import TenantIndexes
from shared_core.storage.postgres.jobs import enqueue_step

TENANT_DEPTH = 2
"""Labels of a namespace that name the tenant: application and user (decision 1)."""
UNLIMITED = 1_000_000_000
_DISTANCE: Final[Mapping[Distance, str]] = {"cosine": "<=>", "l2": "<->", "inner_product": "<#>"}
"""pgvector's operators; the last one returns the negative inner product."""
MOST_NEAREST: Final = 400
"""Deepest page that is searched for among the nearest vectors first."""
_ROW_COLUMNS = (
    "memory_id", "namespace", "key", "kind", "text", "value", "terms", "term_count", "author",
    "importance", "occurred_at", "expires_at", "ttl_s", "thread_id", "run_id", "superseded_at",
    "words_key",
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
        jobs: Sequence[tuple[Scope, NewJob]] = (),
    ) -> None:
        if rows:
            mark = Mark(min(tenant_of(row.namespace) for row in rows))
            sent = [*self.put_steps(rows), *vector_steps(vectors)]
            now = self._clock()
            sent += [enqueue_step(scope, None, job, now) for scope, job in jobs]
            sent += self._database.noted(note_steps([(row.namespace, row.key) for row in rows]))
            with suppress(AnswerLost):
                scope = scope_of((row.namespace, row.key) for row in rows)
                await self._database.run(scope, *sent, mark=mark)

    async def get_items(
        self, addresses: Sequence[ItemAddress], *, with_expired: bool = False
    ) -> Sequence[Item]:
        named = [address for address in addresses if storable(address[1])]
        about = {"now": self._clock(), "with_expired": with_expired}
        sent = [step("get_items", values | about) for values in by_tenant(named)]
        answers = await self._database.run(scope_of(named), *sent)
        return [item_from_row(row) for rows in answers for row in rows]

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
        values["with_expired"] = query.with_expired
        vector = None if query.vector is None else HalfVector(query.vector[0])
        name = "list_items" if vector is None else "search_items"
        if query.terms is not None:
            name = "search_rest"
            values |= {"any_term": any_term(query.terms), "besides": list(query.besides)}
        if name != "list_items":
            model = None if vector is None else query.model
            values |= {"model": model, "embedding": vector}
        if name == "list_items":
            return None, step(name, values, one_tenant=one_tenant, filter_sql=filter_sql)
        distance = f"v.embedding {_DISTANCE[query.distance]} %(embedding)s::halfvec"
        literals = (("similarity", _similarity(query.distance, f"min({distance})")),)
        exact = step(name, values, one_tenant=one_tenant, filter_sql=filter_sql, literals=literals)
        if name != "search_items":
            return None, exact
        has_index = one_tenant and query.distance == "cosine"
        if has_index and (rows := await self._indexes.search(scope, filter_sql, values)):
            return rows, exact
        return await self._among_nearest(query, scope, one_tenant, filter_sql, values), exact

    async def _among_nearest(
        self,
        query: ItemQuery,
        scope: str,
        one_tenant: bool,
        filter_sql: str,
        values: Mapping[str, object],
    ) -> Rows | None:
        """Return a full page from the nearest vectors, or None. Only for whole tenants."""
        end = query.limit + query.offset
        if len(query.prefix) > TENANT_DEPTH or end > MOST_NEAREST:
            return None
        distance = f"m.embedding {_DISTANCE[query.distance]} %(embedding)s::halfvec"
        sent = step(
            "search_nearest", {**values, "most": 4 * end + 100}, one_tenant=one_tenant,
            filter_sql=filter_sql,
            literals=(
                ("distance", distance), ("similarity", _similarity(query.distance, "n.distance")),
            ),
        )  # fmt: skip
        [rows] = await self._database.run(scope, sent)
        return rows if len(rows) == query.limit else None

    async def list_namespaces(self, query: NamespaceQuery) -> Sequence[Namespace]:
        plain = [_plain_start(prefix) for prefix in query.prefixes]
        scope, one_tenant, values = self._below(max(plain, key=len, default=()))
        values |= {
            "patterns": [f"^/{_labels_pattern(prefix)}" for prefix in query.prefixes]
            + [f"/{_labels_pattern(suffix)}$" for suffix in query.suffixes],
            "max_depth": UNLIMITED if query.max_depth is None else query.max_depth,
            "limit": query.limit,
            "offset": query.offset,
            "with_expired": query.with_expired,
        }
        listing = step("list_namespaces", values, one_tenant=one_tenant)
        [rows] = await self._database.run(scope, listing)
        return [from_path(row[0]) for row in rows]

    async def extend_items(self, addresses: Sequence[ItemAddress]) -> None:
        now = self._clock()
        sent = [step("extend_items", {**values, "now": now}) for values in by_tenant(addresses)]
        sent += self._database.noted(note_steps(addresses))
        await self._database.run(scope_of(addresses), *sent)

    async def expired_tenants(self, prefix: Namespace, limit: int) -> Sequence[str]:
        scope, one_tenant, values = self._below(prefix)
        expired = step("expired_tenants", values | {"limit": limit}, one_tenant=one_tenant)
        [rows] = await self._database.run(scope, expired)
        return [row[0] for row in rows]

    def put_steps(self, rows: Sequence[MemoryRow]) -> list[Step]:
        """Return the steps that write memories by address, and new versions of instructions."""
        if not rows:
            return []
        # One order for all writers: two batches over the same keys then wait and never deadlock.
        in_order = sorted(rows, key=lambda row: (row.namespace, row.key))
        tenants = [*dict.fromkeys(tenant_of(row.namespace) for row in in_order)]
        sent = [step("hold_policies", {"tenants": tenants})]
        for tenant in tenants:
            own = [row for row in in_order if tenant_of(row.namespace) == tenant]
            sent += self._put_steps_of(tenant, own)
        versioned = by_tenant(_versioned((row.namespace, row.key) for row in in_order))
        if versioned:
            # Without it, an instruction deleted at this moment leaves an item without versions.
            locked = step("lock_tenants", {"tenants": [values["tenant"] for values in versioned]})
            return [locked, *sent, *(step("add_versions", values) for values in versioned)]
        return sent

    def _put_steps_of(self, tenant: str, rows: Sequence[MemoryRow]) -> list[Step]:
        written = [
            (row.memory_id, rest_of(row.namespace), row.key,
             row.kind, row.text, row.value_json(), to_tsvector(row.terms), len(row.terms),
             row.author, float(row.importance), row.occurred_at, row.expires_at, row.ttl_s,
             row.thread_id, row.run_id, row.superseded_at, row.words_key)
            for row in rows
        ]  # fmt: skip
        about = by_column(("namespaces", "keys"), [one[1:3] for one in written])
        about |= self._strength_columns(rows) | {"tenant": tenant, "now": self._clock()}
        if len(rows) == 1:
            put = step("put_memory", dict(zip(_ROW_COLUMNS, written[0], strict=True)) | about)
        else:
            put = step("put_memories", by_column(_ROW_COLUMNS, written) | about)
        return [put, *steps(about, "time_written", "clear_derived")]

    def initial_strength(
        self, kind: MemoryKind, text: str, importance: float, value: Mapping[str, JsonValue]
    ) -> float | None:
        """Return what the caller's own function gives a new memory, None without a function."""
        if self._strength is None:
            return None
        return initial_of(self._strength, kind, text, importance, value)

    def _strength_columns(self, rows: Sequence[MemoryRow]) -> dict[str, object]:
        initials = [
            (rest_of(row.namespace), row.key, initial)
            for row in rows
            if (initial := self.initial_strength(row.kind, row.text, row.importance, row.value))
            is not None
        ]
        names = ("strong_namespaces", "strong_keys", "strengths")
        return by_column(names, initials)

    def _below(self, prefix: Namespace) -> tuple[str, bool, dict[str, object]]:
        """Return the scope to bind, whether it is one tenant, and the values of {below}."""
        tenant = tenant_of(prefix)
        values = below(prefix) | {"tenant": tenant, "now": self._clock()}
        one_tenant = len(prefix) >= TENANT_DEPTH
        if not one_tenant:
            values["tenant_end"] = path_end(tenant)
        return tenant, one_tenant, values


def _similarity(distance: Distance, nearest: str) -> str:
    """Return the SQL for the similarity of an item: that of the nearest of its vectors."""
    return f"1 - {nearest}" if distance == "cosine" else f"-{nearest}"


def vector_steps(vectors: VectorRows | None) -> list[Step]:
    """Return the steps that write the vectors of memories, one for each tenant."""
    if vectors is None:
        return []
    of_tenants: dict[str, list[tuple[object, ...]]] = {}
    rows = zip(vectors.addresses, vectors.fields, vectors.vectors, strict=True)
    for (namespace, key), name, vector in rows:
        row = (rest_of(namespace), key, name, HalfVector(vector))
        of_tenants.setdefault(tenant_of(namespace), []).append(row)
    names = ("namespaces", "keys", "fields", "embeddings")
    return [
        step("add_embeddings", by_column(names, own) | {"tenant": tenant, "model": vectors.model})
        for tenant, own in of_tenants.items()
    ]


def by_tenant(addresses: Iterable[ItemAddress]) -> list[dict[str, object]]:
    """Return the values that name memories, one entry for each tenant of theirs."""
    of_tenants: dict[str, list[tuple[str, str]]] = {}
    for namespace, key in addresses:
        of_tenants.setdefault(tenant_of(namespace), []).append((rest_of(namespace), key))
    names = ("namespaces", "keys")
    return [by_column(names, rows) | {"tenant": tenant} for tenant, rows in of_tenants.items()]


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
