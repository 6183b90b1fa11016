"""PostgresStorage: the storage port on PostgreSQL with pgvector, composed of its parts."""

from __future__ import annotations

from contextlib import suppress

from shared_core.core.namespaces import ROOT
from shared_core.core.retention_policy import Strength
from shared_core.errors import EmbeddingMismatch, PermissionDenied, StorageReadOnly
from shared_core.ports.storage import Clock, StorageReport
from shared_core.settings import Settings, redacted
from shared_core.storage._rows import check_dimensions, scope_of
from shared_core.storage.postgres.connection.database import PostgresDatabase
from shared_core.storage.postgres.connection.policies import PostgresPolicies
from shared_core.storage.postgres.connection.statements import Step, step, steps
from shared_core.storage.postgres.conversations import PostgresConversations
from shared_core.storage.postgres.events import PostgresErasures, PostgresEvents
from shared_core.storage.postgres.graph import PostgresGraph
from shared_core.storage.postgres.indexes import PostgresIndexes, TenantIndexes
from shared_core.storage.postgres.items import PostgresItems, vector_steps
from shared_core.storage.postgres.jobs import PostgresJobs, enqueue_step
from shared_core.storage.postgres.recall import PostgresAccesses, PostgresRecall
from shared_core.storage.postgres.reembed import PostgresReembed
from shared_core.storage.postgres.resident import ResidentIndexes
from shared_core.storage.postgres.retention import PostgresRetention
from shared_core.storage.postgres.runs import PostgresRuns
from shared_core.storage.postgres.sessions import PostgresSessions
from shared_core.storage.postgres.tokens import PostgresTokens
from shared_core.storage.postgres.transfer import PostgresTransfer


class PostgresStorage:
    """The storage port on PostgreSQL 15 or newer with pgvector 0.8 or newer."""

    def __init__(self, settings: Settings, clock: Clock, strength: Strength | None = None) -> None:
        database = PostgresDatabase(settings)
        indexes = TenantIndexes(database, settings.ann_threshold)
        items = PostgresItems(database, clock, indexes, strength)
        events = PostgresEvents(database, clock, items)
        self.items = items
        self.events = events
        self.resident = ResidentIndexes(database, clock, settings.resident_mb * 1_000_000)
        self.recall = PostgresRecall(database, clock, self.resident)
        self.accesses = PostgresAccesses(database)
        self.session_logs = PostgresSessions(database, clock)
        self.conversations = PostgresConversations(database, clock)
        self.jobs = PostgresJobs(database, clock)
        self.runs = PostgresRuns(database, clock)
        self.graph = PostgresGraph(database, clock)
        self.retention = PostgresRetention(database, clock)
        self.erasures = PostgresErasures(database)
        self.indexes = PostgresIndexes(database, indexes)
        self.reembedding = PostgresReembed(database, clock)
        self.transfer = PostgresTransfer(database)
        self.tokens = PostgresTokens(database)
        policies = PostgresPolicies(
            database,
            {
                "append_turns": lambda tenant, thread_id, rows: events.append_steps(
                    scope_of(tenant), thread_id, rows, clock()
                ),
                "exclude_appends": lambda tenant: [step("exclude_appends", {"tenant": tenant})],
                "put_items": lambda _, rows: items.put_steps(rows),
                "add_vectors": lambda _, vectors: vector_steps(vectors),
                "enqueue": lambda tenant, thread_id, job, changed_at=None: [
                    enqueue_step(scope_of(tenant), thread_id, job, clock(), changed_at=changed_at)
                ],
            },
        )
        self.read, self.query = policies.read, policies.query
        self.transact, self.transact_all = policies.transact, policies.transact_all
        self._settings = settings
        self._database = database
        self._clock = clock

    async def open(self) -> None:
        self.resident.open()
        await self._database.open()

    async def close(self) -> None:
        await self.resident.close()
        await self._database.close()

    async def report(self) -> StorageReport:
        prepared = self._database.prepared
        assert prepared is not None
        sizes = Step("sizes", b"SELECT version(), pg_database_size(current_database())", {})
        [(version, size_bytes)], models = await self._database.run(
            ROOT, sizes, step("active_model")
        )
        model, dimensions = models[0] if models else (None, None)
        return StorageReport(
            engine="embedded PostgreSQL" if self._settings.embedded_home else "PostgreSQL server",
            location=str(self._settings.embedded_home or redacted(self._settings.uri)),
            server_version=version.split(" on ")[0].removeprefix("PostgreSQL "),
            extension_version=prepared.extension_version,
            role=prepared.role,
            schema=self._settings.db_schema,
            schema_version=prepared.schema_version,
            model=model,
            dimensions=dimensions,
            size_bytes=size_bytes,
        )

    @property
    def is_embedded(self) -> bool:
        return self._settings.embedded_home is not None

    async def dsn(self) -> str:
        return self._database.conninfo

    async def active_model(self) -> tuple[str, int] | None:
        [rows] = await self._database.run(ROOT, step("active_model"))
        return rows[0] if rows else None

    async def add_model(self, model: str, dimensions: int) -> None:
        values = {"model": model, "dimensions": dimensions, "now": self._clock()}
        known = step("model_in_use", values)
        [rows] = await self._database.run(ROOT, known)
        if not rows or not rows[0][1]:
            *_, rows = await self._database.run(ROOT, step("add_model_beside", values), known)
        check_dimensions(model, dimensions, rows[0][0])

    async def use_model(self, model: str, dimensions: int) -> None:
        active = step("active_model")
        [rows] = await self._database.run(ROOT, active)
        if rows != [(model, dimensions)]:
            # Written once in the life of a schema: opening a memory writes nothing that all share.
            values = {"model": model, "dimensions": dimensions, "now": self._clock()}
            drops = ("drop_unused_model",) if rows else ()
            names = (*drops, "take_beside", "add_model")
            with suppress(StorageReadOnly, PermissionDenied, EmbeddingMismatch):
                *_, rows = await self._database.run(ROOT, *steps(values, *names), active)
        if not rows:  # the database holds no vector, so none can be of another model
            return
        stored, stored_dimensions = rows[0]
        if (stored, stored_dimensions) != (model, dimensions):
            raise EmbeddingMismatch(
                f"the stored vectors were made by {stored!r} ({stored_dimensions} dimensions), the"
                f" embedder in use is {model!r} ({dimensions}): open the memory with the embedder"
                f" that made them, change the model with 'hippocampus reembed', or give another"
                f" schema, e.g. open_memory(schema='other')"
            )
