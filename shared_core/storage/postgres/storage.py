"""PostgresStorage: recall on PostgreSQL with pgvector; the rest in its siblings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pgvector import HalfVector

from shared_core.core.domain import AsOf
from shared_core.core.namespaces import ROOT, path_end, rest_of, scope_path
from shared_core.core.retention_policy import Strength
from shared_core.errors import EmbeddingMismatch, InvalidInput, StorageReadOnly
from shared_core.ports.recall import Candidate, Corpus, Recalled, SearchRequest
from shared_core.ports.storage import Clock, StorageReport
from shared_core.settings import Settings, redacted
from shared_core.storage._filters import compile_filter
from shared_core.storage._rows import (
    MEMORY_COLUMNS,
    any_term,
    as_known,
    memory_from_row,
    moments,
    quoted_term,
)
from shared_core.storage.postgres.accesses import PostgresAccesses
from shared_core.storage.postgres.connection.database import PostgresDatabase
from shared_core.storage.postgres.connection.pipeline import Statement
from shared_core.storage.postgres.connection.sql_files import statement
from shared_core.storage.postgres.conversations import PostgresConversations
from shared_core.storage.postgres.erasures import PostgresErasures
from shared_core.storage.postgres.facts import PostgresFacts
from shared_core.storage.postgres.graph import PostgresGraph, found_edge
from shared_core.storage.postgres.indexes import PostgresIndexes
from shared_core.storage.postgres.instructions import PostgresInstructions
from shared_core.storage.postgres.profiles import PostgresProfiles
from shared_core.storage.postgres.reembed import PostgresReembed
from shared_core.storage.postgres.retention import PostgresRetention
from shared_core.storage.postgres.sessions import PostgresSessions
from shared_core.storage.postgres.slices import BETWEEN, PostgresSlices, bounds_of
from shared_core.storage.postgres.tenant_indexes import TenantIndexes
from shared_core.storage.postgres.tokens import PostgresTokens
from shared_core.storage.postgres.transfer import PostgresTransfer


class PostgresStorage(
    PostgresSessions,
    PostgresFacts,
    PostgresInstructions,
    PostgresProfiles,
    PostgresGraph,
    PostgresIndexes,
    PostgresAccesses,
    PostgresSlices,
    PostgresRetention,
    PostgresTokens,
    PostgresTransfer,
    PostgresReembed,
    PostgresConversations,
    PostgresErasures,
):
    """The storage port on PostgreSQL 15 or newer with pgvector 0.8 or newer."""

    def __init__(self, settings: Settings, clock: Clock, strength: Strength | None = None) -> None:
        database = PostgresDatabase(settings)
        super().__init__(database, clock, TenantIndexes(database, settings.ann_threshold), strength)
        self._settings = settings

    async def open(self) -> None:
        await self._database.open()

    async def close(self) -> None:
        await self._database.close()

    async def report(self) -> StorageReport:
        prepared = self._database.prepared
        assert prepared is not None
        (_, sizes, models) = await self._database.run(
            ROOT,
            (b"SELECT 1", {}),
            (b"SELECT version(), pg_database_size(current_database())", {}),
            (statement("active_model"), {}),
        )
        model, dimensions = models[0] if models else (None, None)
        return StorageReport(
            engine="embedded PostgreSQL" if self._settings.embedded_home else "PostgreSQL server",
            location=str(self._settings.embedded_home or redacted(self._settings.uri)),
            server_version=sizes[0][0].split(" on ")[0].removeprefix("PostgreSQL "),
            extension_version=prepared.extension_version,
            role=prepared.role,
            schema=self._settings.db_schema,
            schema_version=prepared.schema_version,
            model=model,
            dimensions=dimensions,
            size_bytes=sizes[0][1],
        )

    @property
    def is_embedded(self) -> bool:
        return self._settings.embedded_home is not None

    async def dsn(self) -> str:
        return self._database.conninfo

    async def use_model(self, model: str, dimensions: int) -> None:
        values = {"model": model, "dimensions": dimensions, "now": self._clock()}
        active: Statement = (statement("active_model"), {})
        try:
            *_, rows = await self._database.run(
                ROOT,
                (statement("drop_unused_model"), values),
                (statement("add_model"), values),
                active,
            )
        except StorageReadOnly:
            [rows] = await self._database.run(ROOT, active)
            if not rows:  # no vector is there, so none can be of another model
                return
        stored, stored_dimensions = rows[0]
        if (stored, stored_dimensions) != (model, dimensions):
            raise EmbeddingMismatch(
                f"the stored vectors were made by {stored!r} ({stored_dimensions} dimensions), the"
                f" embedder in use is {model!r} ({dimensions}): open the memory with the embedder"
                f" that made them, change the model with 'hippocampus reembed', or give another"
                f" schema, e.g. open_memory(schema='other')"
            )

    async def recall(self, request: SearchRequest) -> Recalled:
        tenant = scope_path(request.scope)
        path = rest_of(request.namespace)
        if request.namespace[:2] != (request.scope.app, request.scope.user):
            raise InvalidInput(f"namespace {request.namespace} is not in scope {request.scope}")
        queries = [quoted_term(term) for term in dict.fromkeys(request.terms)]
        values = {
            "tenant": tenant,
            "path": path,
            "path_end": path_end(path),
            "now": self._clock(),
            "kinds": None if request.kinds is None else list(request.kinds),
            "term_queries": queries,
            "any_term": any_term(request.terms),
            "model": request.model,
            "embedding": None if request.vector is None else HalfVector(request.vector[0]),
            "candidates": request.candidates,
        }
        filter_sql, filter_values = compile_filter(request.filter)
        if request.begin is not None or request.end is not None:
            filter_sql = f"({filter_sql}) AND {BETWEEN}"
            filter_values |= bounds_of(request.begin, request.end)
        if request.min_importance:
            filter_sql = f"({filter_sql}) AND {IMPORTANT}"
            filter_values["min_importance"] = request.min_importance
        as_of = request.as_of
        text = statement("recall", as_of=as_of is not None, filter_sql=filter_sql)
        values |= moments(as_of) if as_of else {}
        steps: list[Statement] = [(text, values | filter_values)]
        if request.mentions:
            steps += self._edges_about(request.scope, request.mentions, MOST_EDGES, as_of)
        rows, *others = await self._database.run(tenant, *steps)
        corpus = next((_corpus(row, len(queries)) for row in rows if row[CORPUS] is not None), None)
        return Recalled(
            candidates=[_candidate(row, as_of) for row in rows],
            corpus=corpus,
            edges=[found_edge(row).edge for row in others[-1]] if others else (),
        )


IMPORTANT = "m.importance >= %(min_importance)s::real"
"""As exact as importance is kept: 5.7 is 5.7."""

MOST_EDGES = 50
"""Of each name and direction, the newest."""


ROLE, ENDED, NUMBER, CORPUS = range(MEMORY_COLUMNS, MEMORY_COLUMNS + 4)
"""Where the role of a turn, how much of it has ended, its place in the corpus and the corpus stand
in a row of recall."""


def _corpus(row: Sequence[Any], terms: int) -> Corpus:
    similarity, length, opens, holders, words = row[CORPUS:]
    return Corpus.of(
        similarity=similarity,
        length=length,
        opens=opens,
        holders=[number - 1 for number in holders or ()],
        words=[place - 1 for place in words or ()],
        terms=terms,
    )


def _candidate(row: Sequence[Any], as_of: AsOf | None) -> Candidate:
    return Candidate(
        memory_id=row[0],
        kind=row[3],
        text=row[4],
        author=row[6],
        occurred_at=row[8],
        number=row[NUMBER] - 1,
        memory=lambda: as_known(memory_from_row(row), as_of),
        role=row[ROLE],
        ended=row[ENDED] or 0.0,
    )
