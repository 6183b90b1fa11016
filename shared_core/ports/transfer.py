"""Export, import, and the import of items from other stores."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from shared_core.core.domain import JsonValue
from shared_core.ports.items import ItemAddress, VectorRows

TABLES = (
    "threads", "conversations", "events", "tombstones", "shared_state", "memories",
    "memory_sources", "memory_bases", "memory_access", "memory_archive", "facts",
    "fact_closures", "edges", "edge_sources", "entity_aliases", "instructions", "profiles",
    "runs", "run_changes", "retractions", "pipeline_log", "extraction_counts", "erasures",
    "import_marks", "retention_policies", "embeddings", "consolidation_jobs",
)  # fmt: skip
"""Tables that are exported, each after those it refers to; work that waits comes last."""

LEFT_OUT = {
    "api_tokens": "keys to one server; whoever runs another one makes new ones",
    "embedding_models": "of the database; the first line of an export names the model",
    "retimings": "work under way in one database",
    "schedules": "of the workers of one database",
    "schema_migrations": "of the database",
}
"""Tables that are not exported, and why."""

EMBEDDINGS = "embeddings"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportScope:
    """What is exported: all below a path, a user's or an application's."""

    app: str
    user: str | None
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedRow:
    """A row of a table as the text of a JSON object, in one line."""

    table: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What an export begins with: version of the schema, the model of its vectors, the rows."""

    schema_version: int
    model: str | None
    dimensions: int | None
    rows: AsyncIterator[ExportedRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowBatch:
    """Lines of an export: rows of one table with the same columns. numbers: of the lines."""

    table: str
    columns: tuple[str, ...]
    lines: Sequence[str]
    numbers: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unembedded:
    """A field of a memory that has no vector of the model in use."""

    address: ItemAddress
    field: str
    text: str
    value: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What became of rows: how many were written, are here with other values, and cannot be."""

    written: int
    differ: int = 0
    left: int = 0


class TransferStorage(Protocol):
    """All rows of a user or an application as text, and back."""

    async def rows_version(self) -> int:
        """Return of which version of PostgreSQL's schema the rows are; later ones are not read."""

    def snapshot(
        self, whose: ExportScope, *, vectors: bool
    ) -> AbstractAsyncContextManager[Snapshot]:
        """Return all rows as of one moment, to be read inside of the context.

        They come table by table, in the order of the keys. vectors: with those of the active model,
        else only with the names of what has some.
        """

    async def applications(self) -> Sequence[str]:
        """Return the names of all applications that have anything here, in order."""

    async def import_rows(self, whose: ExportScope, batch: RowBatch, *, restore: bool) -> Written:
        """Write rows that are not here, in one transaction.

        Threads that are here count on behind what is given; their marks stay.
        Raises InvalidInput for what does not fit its table, Conflict for what something else has
        taken the place of, or was forgotten here. restore: what was forgotten comes back. A session
        that is active in the export has ended if another one of the user is active here.
        """

    async def require_unforgotten(self, whose: ExportScope, batch: RowBatch) -> None:
        """Raise Conflict if a turn of a batch of events was forgotten here."""

    async def ask_for_ends(self, whose: ExportScope) -> None:
        """Have what was said in sessions that have ended consolidated, where nobody did."""

    async def import_vectors(
        self, whose: ExportScope, batch: RowBatch, model: str, dimensions: int
    ) -> Written:
        """Write vectors that are not here. Raises as import_rows()."""

    async def unembedded(
        self, whose: ExportScope, batch: RowBatch, model: str
    ) -> Sequence[Unembedded]:
        """Return what has no vector of a model yet, of what the batch says has vectors."""

    async def add_made_vectors(self, whose: ExportScope, vectors: VectorRows) -> None:
        """Add vectors to memories that are here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceItem:
    """An item as LangGraph's PostgresStore keeps it.

    prefix: its labels, joined by dots. value_json: the text of its value, not parsed yet.
    vectors: by field; None where only the field was asked for.
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
    """How many items a source holds, expired ones included, and how many of them have vectors."""

    items: int
    expired: int
    embedded: int
    dimensions: int | None


class ItemSource(Protocol):
    """A store that is only read."""

    async def tally(self) -> SourceTally: ...

    def pages(self, limit: int, *, vectors: bool) -> AsyncIterator[Sequence[SourceItem]]:
        """Yield all items in a stable order, at most limit at a time."""
