"""Export, import, and the import of items from other stores."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

TABLES = (
    "erasures", "threads", "conversations", "events", "tombstones", "shared_state", "memories",
    "memory_sources", "memory_bases", "memory_access", "memory_archive", "facts",
    "fact_closures", "edges", "edge_sources", "entity_aliases", "instructions", "profiles",
    "runs", "run_changes", "retractions", "pipeline_log", "extraction_counts",
    "import_marks", "retention_policies", "embeddings", "consolidation_jobs",
)  # fmt: skip
"""Exported tables, each after the tables it refers to; pending jobs come last.

Receipts come first: an import asks which erasures the export knows.
"""

WITHOUT_USER = frozenset({
    "shared_state", "memories", "memory_access", "memory_archive", "import_marks",
    "retention_policies", "embeddings",
})  # fmt: skip
"""Exported tables whose rows may also belong to an application, or to a namespace of one label."""

LEFT_OUT = {
    "api_tokens": "keys to one server; another server needs new ones",
    "coordinator_writes": "marks of transactions of one database",
    "embedding_models": "of the database; the first line of an export names the model",
    "memory_changes": "what processes of one database have yet to read again",
    "retimings": "work under way in one database",
    "schedules": "of the workers of one database",
    "schema_migrations": "of the database",
    "writes": "marks of transactions of one database",
}
"""Tables excluded from exports, and the reason."""

EMBEDDINGS = "embeddings"
RECEIPTS = "erasures"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportScope:
    """The path of a user or an application to export."""

    app: str
    user: str | None
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedRow:
    """A row of a table as a JSON object on one line."""

    table: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """An export: the embedding model, and the rows."""

    model: str | None
    dimensions: int | None
    rows: AsyncIterator[ExportedRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowBatch:
    """Rows of one table with the same columns. numbers: line numbers in the export."""

    table: str
    columns: tuple[str, ...]
    lines: Sequence[str]
    numbers: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Number of rows that were written, exist with other values, or cannot be written."""

    written: int
    differ: int = 0
    left: int = 0


class TransferStorage(Protocol):
    """Reads all rows of a user or an application."""

    def snapshot(
        self, export_scope: ExportScope, *, vectors: bool
    ) -> AbstractAsyncContextManager[Snapshot]:
        """Return a consistent snapshot of all rows, readable within the context.

        Rows come table by table, in key order. vectors: include vectors of the active model, else
        only the names of the embedded fields.
        """

    async def applications(self) -> Sequence[str]:
        """Return the names of all applications with data, sorted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceItem:
    """An item of LangGraph's PostgresStore.

    prefix: its labels, joined by dots. value_json: its value as JSON text. vectors: by field; None
    if only the fields were requested.
    """

    prefix: str
    key: str
    value_json: str
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None
    ttl_minutes: int | None
    vectors: Mapping[str, Sequence[float] | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTally:
    """Number of items of a source, of expired ones among them, and of embedded ones."""

    items: int
    expired: int
    embedded: int
    dimensions: int | None


class ItemSource(Protocol):
    """A store to import from."""

    async def tally(self) -> SourceTally: ...

    def pages(self, limit: int, *, vectors: bool) -> AsyncIterator[Sequence[SourceItem]]:
        """Yield pages of up to limit items, in a stable order."""
