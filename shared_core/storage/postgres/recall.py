"""Reads of memories on PostgreSQL: recall, slices of time, and counters of accesses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from typing import Any, Final

from pgvector import HalfVector

from shared_core.core.domain import AsOf, Memory
from shared_core.core.namespaces import common_prefix, scope_path, tenant_of
from shared_core.errors import InvalidInput, PermissionDenied, StorageReadOnly
from shared_core.ports.recall import Candidate, Candidates, Corpus, Recalled, SearchRequest
from shared_core.ports.retention import NewAccesses
from shared_core.ports.storage import Clock
from shared_core.storage._filters import compile_filter
from shared_core.storage._rows import (
    MEMORY_COLUMNS,
    any_term,
    as_known,
    fact_slot,
    is_doubtful,
    memory_from_row,
    moments,
    quoted_term,
)
from shared_core.storage.postgres.connection.database import PostgresDatabase
from shared_core.storage.postgres.connection.marks import AnswerLost, Mark
from shared_core.storage.postgres.connection.statements import Step, step, steps
from shared_core.storage.postgres.graph import edges_about_steps, found_edge
from shared_core.storage.postgres.items import below
from shared_core.storage.postgres.resident import ResidentIndexes

BETWEEN: Final = "m.occurred_at >= %(begin)s::timestamptz AND m.occurred_at < %(end)s::timestamptz"
IMPORTANT: Final = "m.importance >= %(min_importance)s::real"
"""The cast compares at the column's precision: a stored 5.7 then equals 5.7."""
MOST_EDGES: Final = 50
"""Maximum number of edges for each name and direction; the newest are returned."""
ROLE, ENDED, NUMBER, CORPUS = range(MEMORY_COLUMNS, MEMORY_COLUMNS + 4)
"""Columns of a row of recall after those of the memory: the role of a turn, its ended share, its
number in the corpus, and the corpus, which one row carries."""


@dataclass
class PostgresRecall:
    """Recall of one scope, in one round trip (decision 7)."""

    _database: PostgresDatabase
    _clock: Clock
    resident: ResidentIndexes

    async def recall(self, request: SearchRequest) -> Recalled:
        tenant, as_of = scope_path(request.scope), request.as_of
        if request.namespace[:2] != (request.scope.app, request.scope.user):
            raise InvalidInput(f"namespace {request.namespace} is not in scope {request.scope}")
        about: Sequence[Step] = ()
        if request.mentions:
            about = edges_about_steps(
                request.scope, request.mentions, MOST_EDGES, as_of, self._clock()
            )
        if (answer := await self.resident.recall(request, about)) is not None:
            return answer
        queries = [quoted_term(term) for term in dict.fromkeys(request.terms)]
        sent = [self._candidates(request, queries), *about]
        answers = await self._database.run(tenant, *sent)
        self.resident.prepare(request)
        rows = answers.named("recall")
        edges = answers.named("edges_about") if request.mentions else []
        corpus = next((_corpus(row, len(queries)) for row in rows if row[CORPUS] is not None), None)
        return Recalled(
            # In the order of an index: rankings break ties by it.
            candidates=Candidates.of(
                [_candidate(row, as_of) for row in sorted(rows, key=itemgetter(NUMBER))]
            ),
            corpus=corpus,
            edges=[found_edge(row).edge for row in edges],
        )

    def _candidates(self, request: SearchRequest, queries: Sequence[str]) -> Step:
        as_of = request.as_of
        values = below(request.namespace) | {
            "tenant": scope_path(request.scope),
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
            filter_values |= _bounds(request.begin, request.end)
        if request.min_importance:
            filter_sql = f"({filter_sql}) AND {IMPORTANT}"
            filter_values["min_importance"] = request.min_importance
        values |= filter_values | (moments(as_of) if as_of else {})
        return step("recall", values, as_of=as_of is not None, filter_sql=filter_sql)


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
    def memory() -> Memory:
        return as_known(memory_from_row(row), as_of)

    return Candidate(
        memory_id=row[0],
        kind=row[3],
        text=row[4],
        author=row[6],
        occurred_at=row[8],
        number=row[NUMBER] - 1,
        memory=memory,
        role=row[ROLE],
        ended=row[ENDED] or 0.0,
        is_doubtful=is_doubtful(row[5], memory),
        slot=fact_slot(row[3], row[5]),
    )


def _bounds(begin: datetime | None, end: datetime | None) -> dict[str, object]:
    """Return the parameters %(begin)s and %(end)s."""
    return {"begin": begin or "-infinity", "end": end or "infinity"}


@dataclass
class PostgresAccesses:
    """Counters of reads, in a table of their own: rows of memories are expensive to rewrite."""

    _database: PostgresDatabase

    async def add_accesses(self, batch: Sequence[NewAccesses]) -> None:
        of_tenants: dict[str, list[NewAccesses]] = {}
        for one in batch:
            of_tenants.setdefault(scope_path(one.scope), []).append(one)
        sent = [step("commit_without_waiting"), step("hold_policies", {"tenants": [*of_tenants]})]
        for tenant in sorted(of_tenants):  # one order for all
            values = {
                "tenant": tenant,
                "memory_ids": [one.memory_id for one in of_tenants[tenant]],
                "counts": [one.accesses.access_count for one in of_tenants[tenant]],
                "moments": [one.accesses.last_accessed_at for one in of_tenants[tenant]],
            }
            sent += steps(values, "add_accesses", "time_accesses")
        above = tenant_of(common_prefix((one.scope.app, one.scope.user) for one in batch))
        try:
            await self._database.run(above, *sent, mark=Mark(min(of_tenants)))
        except AnswerLost:
            return
        except PermissionDenied as error:
            raise StorageReadOnly(f"reads cannot be counted: {error}") from error
