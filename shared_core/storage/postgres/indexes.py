"""Approximate indexes of large tenants (decision 9): which exist, how a search uses one, how the
owner of the tables builds and drops them.

The catalog of PostgreSQL is their only record: each is a partial HNSW index on `embeddings` whose
comment names tenant, model and cutoff.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias
from uuid import UUID

import psycopg
from psycopg import sql

from shared_core.core.ids import uuid7
from shared_core.core.namespaces import ROOT, from_path, tenant_of
from shared_core.errors import CapabilityMissing, StorageReadOnly, StorageUnavailable
from shared_core.ports.indexes import IndexBuilder, TenantIndex, TenantVectors
from shared_core.settings import redacted
from shared_core.storage._rows import record
from shared_core.storage.postgres.connection.database import PostgresDatabase
from shared_core.storage.postgres.connection.pipeline import Connection, Rows
from shared_core.storage.postgres.connection.statements import Step, statement, step

M, EF_CONSTRUCTION = 24, 128
"""More than pgvector's defaults (16, 64), with which recall falls to 0.99 and below."""
GRAPH_BYTES = 1_500
"""Bytes of memory that a build needs for each vector, in addition to the vector itself."""
MOST_MEMORY = 1 << 30
"""Maximum bytes of memory for a build; a build that needs more becomes slow."""
LOOK_EVERY_S = 60.0
"""Seconds for which a process uses what it last read of the catalog."""
DEEPEST = 100
"""Deepest result that an index answers; a page that ends further down is searched exactly."""
EF_SEARCH = 400
MAX_SCAN = 20_000
"""Maximum number of vectors that a search reads from an index before it turns exact."""
FEW = 5_000
"""A path with fewer memories below it is searched exactly."""
SAMPLE_PAGES = 20
"""Pages that a sample meets, on average, of the smallest tenant that may earn an index."""
DENSE = 50.0
"""Assumed vectors in a page of the table without statistics."""

_Known: TypeAlias = Mapping[tuple[str, str], TenantIndex]


class TenantIndexes:
    """The indexes of one schema, and the searches that use them."""

    def __init__(self, database: PostgresDatabase, threshold: int | None) -> None:
        self._database = database
        self.threshold = threshold
        self._known: _Known = {}
        self._look_at = 0.0

    def forget(self) -> None:
        """Read the catalog again at the next search."""
        self._look_at = 0.0

    async def read(self) -> Sequence[TenantIndex]:
        """Return the indexes that can be used."""
        return sorted_out(await self._database.rows(ROOT, "tenant_indexes"))[0]

    async def search(self, scope: str, filter_sql: str, values: Mapping[str, Any]) -> Rows | None:
        """Return rows as search_items does, or None if the search must be exact.

        That is so for most tenants, and for a page that the index cannot fill. values: those of
        search_items.
        """
        index = await self._index_of(str(values["tenant"]), str(values["model"]))
        if index is None or values["limit"] + values["offset"] > DEEPEST:
            return None
        assert self.threshold is not None
        end = values["limit"] + values["offset"]
        own = {"few": min(FEW, self.threshold), "candidates": 2 * end + 20}
        _, rows = await self._database.run(
            scope,
            step("tune_index_search", {"ef_search": str(EF_SEARCH), "max_scan": str(MAX_SCAN)}),
            Step("search_items_indexed", search_text(index, filter_sql), {**values, **own}),
            keep_plans=False,  # the text holds the index's condition as literals
        )
        return rows if len(rows) == values["limit"] else None

    async def _index_of(self, tenant: str, model: str) -> TenantIndex | None:
        if self.threshold is None:
            return None
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + LOOK_EVERY_S  # concurrent searches use the last result
            try:
                self._known = _newest(await self.read())
            except BaseException:
                self.forget()
                raise
        return self._known.get((tenant, model))


def sorted_out(rows: Rows) -> tuple[list[TenantIndex], list[str]]:
    """Return the usable indexes, and the names of those that interrupted builds left behind."""
    usable, leftovers = [], []
    for name, is_valid, comment in rows:
        index = _from_comment(name, comment) if is_valid else None
        if index is None:
            leftovers.append(name)
        else:
            usable.append(index)
    return usable, leftovers


def search_text(index: TenantIndex, filter_sql: str = "true") -> bytes:
    """Return the text that searches a tenant by its index; filter_sql as in statement()."""
    literals = (
        ("tenant_literal", _literal(index.tenant)),
        ("model_literal", _literal(index.model)),
        ("cutoff_literal", _literal(index.cutoff)),
        ("dimensions", str(index.dimensions)),
    )
    return statement("search_items_indexed", filter_sql=filter_sql, literals=literals)


def comment_of(index: TenantIndex) -> str:
    """Return the comment that describes an index in the catalog."""
    facts = {
        "tenant": index.tenant,
        "model": index.model,
        "dimensions": index.dimensions,
        "cutoff": str(index.cutoff),
    }
    return json.dumps(facts, ensure_ascii=False)


def _from_comment(name: str, comment: str | None) -> TenantIndex | None:
    """Return the index, or None if its build was interrupted before it had its comment."""
    try:
        facts = json.loads(comment or "")
        return TenantIndex(
            name=name,
            tenant=facts["tenant"],
            model=facts["model"],
            dimensions=facts["dimensions"],
            cutoff=UUID(facts["cutoff"]),
        )
    except (ValueError, KeyError, TypeError):
        return None


def _newest(indexes: Sequence[TenantIndex]) -> _Known:
    """Return the newest index of each tenant and model: a replacement coexists with the old one."""
    in_order = sorted(indexes, key=lambda index: index.cutoff)
    return {(index.tenant, index.model): index for index in in_order}


def _literal(value: object) -> str:
    return sql.Literal(value).as_string(None).replace("%", "%%")


@dataclass
class PostgresIndexes:
    """Indexes of large tenants. Reads use the pool, a build has a connection of its own."""

    _database: PostgresDatabase
    _indexes: TenantIndexes

    @property
    def index_threshold(self) -> int | None:
        return self._indexes.threshold

    @property
    def builds_indexes(self) -> bool:
        return True

    async def tenant_indexes(self) -> Sequence[TenantIndex]:
        return await self._indexes.read()

    async def large_tenants(
        self, threshold: int, known: Sequence[TenantIndex]
    ) -> Sequence[TenantVectors]:
        self._require_one_node()
        [(density,)] = await self._database.rows(ROOT, "vectors_per_page")
        share = min(1.0, SAMPLE_PAGES * (density or DENSE) / threshold)
        newest = _newest(known)
        rows = await self._database.rows(
            ROOT,
            "large_tenants",
            percent=100 * share,
            seen=threshold * share / 4,
            tenants=[index.tenant for index in newest.values()],
            models=[index.model for index in newest.values()],
            cutoffs=[index.cutoff for index in newest.values()],
        )
        return [
            record(
                TenantVectors,
                values,
                namespace=from_path(tenant),
                index=newest.get((tenant, values[0])),
            )
            for tenant, *values in rows
        ]

    @asynccontextmanager
    async def index_builder(self) -> AsyncIterator[IndexBuilder | None]:
        """Yield a builder, or None while another process builds.

        Raises StorageUnavailable when the user may not build, with the missing right, and behind a
        transaction pooler, because a build needs a lock of its session. Raises CapabilityMissing on
        a Citus cluster.
        """
        self._require_one_node()
        prepared = self._database.prepared
        assert prepared is not None
        schema = self._database.schema
        if await self._database.shares_sessions():
            raise StorageUnavailable(
                "indexes cannot be built or dropped through a transaction pooler: run 'hippocampus"
                " index --uri ...' with the address of the server itself"
            )
        async with await self._database.connect() as connection:
            try:
                await connection.execute(
                    "SELECT set_config('search_path', %s, false),"
                    " set_config('statement_timeout', '0', false)",
                    [prepared.search_path],
                )
                key = _lock_key(schema)
                cursor = await connection.execute("SELECT pg_try_advisory_lock(%s)", [key])
                is_ours = (await cursor.fetchone()) == (True,)
                connection.silence_s = None  # a build has no deadline
                yield PostgresIndexBuilder(connection, schema) if is_ours else None
            except psycopg.errors.InsufficientPrivilege as error:
                raise StorageUnavailable(
                    f"user {connection.info.user!r} may not build indexes on {schema}.embeddings"
                    f" ({error.diag.message_primary}): run 'hippocampus index --uri ...' as the"
                    " owner of that table, or as a member of its role"
                ) from error
            except psycopg.errors.ReadOnlySqlTransaction as error:
                raise StorageReadOnly(
                    "indexes cannot be built where nothing can be written: run 'hippocampus index'"
                    f" on the primary server ({error.diag.message_primary})"
                ) from error
            except psycopg.Error as error:
                raise StorageUnavailable(
                    f"an index could not be built: {redacted(str(error).strip())}; the next build"
                    " removes its remains"
                ) from error
            finally:
                self._indexes.forget()

    def _require_one_node(self) -> None:
        if self._database.is_spread:
            raise CapabilityMissing(
                "a Citus cluster has no approximate indexes: every user is searched exactly, on the"
                " node of that user; HIPPOCAMPUS_ANN_THRESHOLD has no effect there"
            )


@dataclass
class PostgresIndexBuilder:
    """Builds on one connection, outside of any transaction, so that no writer waits."""

    connection: Connection
    schema: str

    async def build(self, tenant: TenantVectors) -> TenantIndex:
        index = _new_index(tenant)
        await self._give_memory(tenant)
        try:
            await self.connection.execute(self._definition(index))
        except (psycopg.errors.DiskFull, psycopg.errors.OutOfMemory):
            # Parallel workers share memory in /dev/shm, which is often too small in a container.
            await self.drop(index.name)
            await self.connection.execute("SET max_parallel_maintenance_workers = 0")
            await self.connection.execute(self._definition(index))
        comment = sql.SQL("COMMENT ON INDEX {} IS {}").format(
            self._name(index.name), sql.Literal(comment_of(index))
        )
        await self.connection.execute(comment)
        # ANALYZE would sample vectors of the user, which outlive their rows.
        await self.connection.execute(
            sql.SQL("ALTER INDEX {} ALTER COLUMN 1 SET STATISTICS 0").format(self._name(index.name))
        )
        # The planner chooses the look-ups that join the index by the number of the tenant's rows.
        for table in ("embeddings", "memories"):
            await self.connection.execute(sql.SQL("ANALYZE {}").format(self._name(table)))
        return index

    async def drop(self, name: str) -> None:
        await self.connection.execute(
            sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}").format(self._name(name))
        )

    async def leftovers(self) -> Sequence[str]:
        cursor = await self.connection.execute(statement("tenant_indexes"))
        return sorted_out(await cursor.fetchall())[1]

    def _definition(self, index: TenantIndex) -> sql.Composed:
        return sql.SQL(
            "CREATE INDEX CONCURRENTLY {name} ON {table}"
            " USING hnsw ((embedding::halfvec({dimensions})) halfvec_cosine_ops)"
            " WITH (m = {m}, ef_construction = {ef})"
            " WHERE tenant_id = {tenant} AND model = {model} AND memory_id <= {cutoff}"
        ).format(
            name=sql.Identifier(index.name),
            table=self._name("embeddings"),
            dimensions=sql.Literal(index.dimensions),
            m=sql.Literal(M),
            ef=sql.Literal(EF_CONSTRUCTION),
            tenant=sql.Literal(index.tenant),
            model=sql.Literal(index.model),
            cutoff=sql.Literal(index.cutoff),
        )

    async def _give_memory(self, tenant: TenantVectors) -> None:
        needed = tenant.vectors * (2 * tenant.dimensions + GRAPH_BYTES)
        await self.connection.execute(
            "SELECT set_config('maintenance_work_mem', greatest(%s,"
            " pg_size_bytes(current_setting('maintenance_work_mem'))) / 1024 || 'kB', false)",
            [min(needed, MOST_MEMORY)],
        )

    def _name(self, name: str) -> sql.Identifier:
        return sql.Identifier(self.schema, name)


def _new_index(tenant: TenantVectors) -> TenantIndex:
    path = tenant_of(tenant.namespace)
    cutoff = uuid7()  # greater than the ids of all existing memories
    identity = f"{path}\n{tenant.model}\n{cutoff}"
    return TenantIndex(
        name=f"embeddings_near_{hashlib.sha256(identity.encode()).hexdigest()[:16]}",
        tenant=path,
        model=tenant.model,
        dimensions=tenant.dimensions,
        cutoff=cutoff,
    )


def _lock_key(schema: str) -> int:
    digest = hashlib.sha256(f"hippocampus indexes {schema}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
