"""Builds and drops approximate indexes of large tenants, as the owner of the tables."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import psycopg
from psycopg import sql

from shared_core.core.ids import uuid7
from shared_core.core.namespaces import tenant_of
from shared_core.errors import StorageReadOnly, StorageUnavailable
from shared_core.ports.indexes import IndexBuilder, TenantIndex, TenantVectors
from shared_core.settings import redacted
from shared_core.storage.postgres.connection.database import PostgresDatabase
from shared_core.storage.postgres.connection.pipeline import Connection
from shared_core.storage.postgres.connection.sql_files import statement
from shared_core.storage.postgres.tenant_indexes import TenantIndexes, comment_of, sorted_out

M, EF_CONSTRUCTION = 24, 128
"""Twice the work of pgvector's defaults (16, 64): with those, recall falls to 0.99 and below."""

GRAPH_BYTES = 1_500
"""What a vector takes in the memory of a build, beside itself."""
MOST_MEMORY = 1 << 30
"""A build that needs more memory than this, in bytes, gets slow, not large."""


class PostgresIndexes:
    """The part of PostgresStorage for indexes. Reading them goes through the pool."""

    def __init__(self, database: PostgresDatabase, indexes: TenantIndexes) -> None:
        self._database = database
        self._indexes = indexes

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
        return await self._indexes.large_tenants(threshold, known)

    @asynccontextmanager
    async def index_builder(self) -> AsyncIterator[IndexBuilder | None]:
        """Hold a lock of the session, so not through a pooler that hands out transactions.

        Raises StorageUnavailable when the user may not build, with what is missing.
        """
        prepared = self._database.prepared
        assert prepared is not None
        schema = self._database.schema
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
                    f"an index could not be built: {redacted(str(error).strip())}; what is left of"
                    " it goes with the next build"
                ) from error
            finally:
                self._indexes.forget()


@dataclass(frozen=True, slots=True)
class PostgresIndexBuilder:
    """Builds on one connection, outside of any transaction, so that nobody has to wait."""

    connection: Connection
    schema: str

    async def build(self, tenant: TenantVectors) -> TenantIndex:
        index = _new_index(tenant)
        await self._give_memory(tenant)
        try:
            await self.connection.execute(self._definition(index))
        except (psycopg.errors.DiskFull, psycopg.errors.OutOfMemory):
            # Parallel workers share their memory: /dev/shm of a container may be too small.
            await self.drop(index.name)
            await self.connection.execute("SET max_parallel_maintenance_workers = 0")
            await self.connection.execute(self._definition(index))
        comment = sql.SQL("COMMENT ON INDEX {} IS {}").format(
            self._name(index.name), sql.Literal(comment_of(index))
        )
        await self.connection.execute(comment)
        # The look-ups beside the index go by how many rows the tenant has.
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
    cutoff = uuid7()  # greater than the ids of all memories there are
    told = f"{path}\n{tenant.model}\n{cutoff}"
    return TenantIndex(
        name=f"embeddings_near_{hashlib.sha256(told.encode()).hexdigest()[:16]}",
        tenant=path,
        model=tenant.model,
        dimensions=tenant.dimensions,
        cutoff=cutoff,
    )


def _lock_key(schema: str) -> int:
    digest = hashlib.sha256(f"hippocampus indexes {schema}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
