"""OceanBaseStorage: the storage port on SeekDB and OceanBase, composed of its parts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import pymysql

from shared_core.core.domain import ThreadId
from shared_core.core.retention_policy import Strength
from shared_core.errors import StorageUnavailable
from shared_core.ports.events import EventRow
from shared_core.ports.items import MemoryRow, VectorRows
from shared_core.ports.jobs import NewJob
from shared_core.ports.storage import Clock, StorageReport
from shared_core.settings import Settings, redacted
from shared_core.storage._rows import scope_of
from shared_core.storage.oceanbase import events, job_steps
from shared_core.storage.oceanbase.connection.database import OceanBaseDatabase
from shared_core.storage.oceanbase.connection.operations import Operations, RunVerb
from shared_core.storage.oceanbase.connection.policies import PolicyRunner
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction
from shared_core.storage.oceanbase.conversations import OceanBaseConversations
from shared_core.storage.oceanbase.erasures import OceanBaseErasures
from shared_core.storage.oceanbase.events import OceanBaseEvents
from shared_core.storage.oceanbase.graph import OceanBaseGraph
from shared_core.storage.oceanbase.item_writes import put_rows, put_vectors, strengths_of
from shared_core.storage.oceanbase.items import OceanBaseItems
from shared_core.storage.oceanbase.jobs import OceanBaseJobs
from shared_core.storage.oceanbase.recall import OceanBaseRecall
from shared_core.storage.oceanbase.retention import OceanBaseAccesses, OceanBaseRetention
from shared_core.storage.oceanbase.runs import OceanBaseRuns
from shared_core.storage.oceanbase.sessions import OceanBaseSessions
from shared_core.storage.oceanbase.tokens import OceanBaseTokens
from shared_core.storage.oceanbase.transfer import OceanBaseTransfer
from shared_core.storage.oceanbase.vectors import (
    OceanBaseIndexes,
    OceanBaseVectors,
    active_model,
    vector_tables,
)

NO_SUCH_TABLE = 1146
DENIED = (1044, 1142, 1143, 1227)


class OceanBaseStorage:
    """The storage port on SeekDB 1.4 or newer, or OceanBase 4.3.5.3 or newer."""

    def __init__(self, settings: Settings, clock: Clock, strength: Strength | None = None) -> None:
        database = OceanBaseDatabase(settings)
        vectors = OceanBaseVectors(database, clock)
        self.items = OceanBaseItems(database, clock, strength, settings.ann_threshold)
        self.events = OceanBaseEvents(database, clock, strength)
        self.recall = OceanBaseRecall(database, clock)
        self.accesses = OceanBaseAccesses(database, clock)
        self.session_logs = OceanBaseSessions(database, clock)
        self.conversations = OceanBaseConversations(database, clock)
        self.jobs = OceanBaseJobs(database, clock)
        self.runs = OceanBaseRuns(database, clock, strength)
        self.graph = OceanBaseGraph(database, clock)
        self.retention = OceanBaseRetention(database, clock)
        self.erasures = OceanBaseErasures(database, clock)
        self.indexes = OceanBaseIndexes(database, clock, settings.ann_threshold)
        self.reembedding = vectors
        self.transfer = OceanBaseTransfer(database, clock)
        self.tokens = OceanBaseTokens(database, clock)
        policies = PolicyRunner(database, Operations(_verbs(clock, strength), vector_tables))
        self.read, self.query = policies.read, policies.query
        self.transact, self.transact_all = policies.transact, policies.transact_all
        self._settings = settings
        self._database = database
        self.use_model = vectors.use_model
        self.add_model = vectors.add_model

    async def open(self) -> None:
        await self._database.open()

    async def close(self) -> None:
        await self._database.close()

    @property
    def is_embedded(self) -> bool:
        return self._database.location.folder is not None

    async def dsn(self) -> str:
        return self._settings.uri

    async def active_model(self) -> tuple[str, int] | None:
        return await self._database.read(active_model)

    async def report(self) -> StorageReport:
        prepared, location = self._database.prepared, self._database.location
        assert prepared is not None
        model = await self.active_model()
        folder = location.folder
        return StorageReport(
            engine=f"embedded {prepared.engine}" if folder else f"{prepared.engine} server",
            location=str(folder or redacted(self._settings.uri)),
            server_version=prepared.version,
            extension_version="built in",
            role=location.user,
            schema=location.database,
            schema_version=prepared.schema_version,
            model=model[0] if model else None,
            dimensions=model[1] if model else None,
            size_bytes=_bytes_in(folder) if folder else await self._bytes_of_tables(),
        )

    async def _bytes_of_tables(self) -> int | None:
        """Return the size of the tables on disk, or None while the server does not know it."""
        # In its first seconds this view is empty; information_schema reports 0 for every table.
        name = self._database.location.database
        try:
            row = await self._database.read(
                lambda tx: tx.one(
                    "SELECT sum(required_size) FROM oceanbase.DBA_OB_TABLE_SPACE_USAGE"
                    " WHERE database_name = %s",
                    [name],
                )
            )
        except StorageUnavailable as error:
            if not isinstance(error.__cause__, pymysql.MySQLError):
                raise
            if error.__cause__.args[0] not in (NO_SUCH_TABLE, *DENIED):
                raise
            return None
        return int(row[0]) or None if row and row[0] is not None else None


def _verbs(clock: Clock, strength: Strength | None) -> Mapping[str, RunVerb]:
    """Return the verbs that a policy may yield, by name."""

    def append_turns(
        tx: Transaction, tenant: str, thread_id: ThreadId, rows: Sequence[EventRow]
    ) -> list[Row]:
        new = events.append_turns(tx, scope_of(tenant), thread_id, rows, None, clock(), strength)
        return [(event_id,) for event_id in sorted(new)]

    def put_items(tx: Transaction, tenant: str, rows: Sequence[MemoryRow]) -> list[Row]:
        put_rows(tx, rows, clock(), strengths_of(strength, rows))
        return []

    def add_vectors(tx: Transaction, tenant: str, vectors: VectorRows | None) -> list[Row]:
        put_vectors(tx, vectors)
        return []

    def exclude_appends(tx: Transaction, tenant: str) -> list[Row]:
        return []  # they wait for the lock of the tenant

    def enqueue(
        tx: Transaction,
        tenant: str,
        thread_id: ThreadId | None,
        job: NewJob,
        changed_at: datetime | None = None,
    ) -> list[Row]:
        job_steps.enqueue(tx, scope_of(tenant), thread_id, job, clock(), changed_at)
        return []

    return {
        "append_turns": append_turns,
        "put_items": put_items,
        "add_vectors": add_vectors,
        "exclude_appends": exclude_appends,
        "enqueue": enqueue,
    }


def _bytes_in(folder: Path) -> int:
    """Return the size of an embedded server's files, including its log of changes."""
    # Its catalogue leaves out everything that is still in memory.
    found = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):  # the server removes files meanwhile
                found += os.lstat(Path(place, name)).st_blocks * 512
    return found
