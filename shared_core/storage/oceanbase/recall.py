"""OceanBaseStorage: recall, and the timeline of memories within a period.

The choice of memories worth ranking is made over arrays here; it means the same as the statement
recall of PostgreSQL's queries.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from uuid import UUID

import numpy as np

from shared_core.core.domain import AsOf, Memory, MemoryId
from shared_core.core.namespaces import rest_of, scope_path
from shared_core.core.timestamps import soon
from shared_core.errors import InvalidInput
from shared_core.policies.edges import edges_about
from shared_core.ports.graph import Edge
from shared_core.ports.recall import Candidate, Candidates, Corpus, Recalled, SearchRequest
from shared_core.storage._candidates import picked
from shared_core.storage._rows import as_known, fact_slot, is_doubtful
from shared_core.storage.oceanbase.base import OceanBasePart, reading
from shared_core.storage.oceanbase.connection.operations import queried
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction
from shared_core.storage.oceanbase.filters import Matches, matches
from shared_core.storage.oceanbase.rows import MEMORY_COLUMNS, memory_of, sources_of
from shared_core.storage.oceanbase.vectors import models, query_form, table_of
from shared_core.storage.oceanbase.visibility import (
    WhereClause,
    all_of,
    below,
    between,
    current_at,
    of_kinds,
)

FEW = 3
"""Cost of one look-up of a vector by id, in sequential reads."""
MOST_EDGES = 50
"""Maximum number of newest edges for each name and direction."""
PAUSE = timedelta(hours=6)
"""Maximum pause between two turns of one session."""
_ID, _IS_NO_TURN, _THREAD, _OCCURRED, _UPDATED, _LENGTH, _TERMS, _VALUE = range(8)


class OceanBaseRecall(OceanBasePart):
    """Recall within one scope."""

    @reading
    def recall(self, tx: Transaction, request: SearchRequest) -> Recalled:
        if request.namespace[:2] != (request.scope.app, request.scope.user):
            raise InvalidInput(f"namespace {request.namespace} is not in scope {request.scope}")
        tenant, now = scope_path(request.scope), self._clock()
        test = matches(request.filter)
        edges: list[Edge] = []
        if request.mentions:
            about = edges_about(request.mentions, MOST_EDGES, now, request.as_of)
            edges = [one.edge for one in queried(tx, tenant, about)]
        # All memories at any size: rarity and prominence need the whole scope (decision 14).
        rows = _living(tx, request, _there(tx, tenant, now, request), test)
        if not rows:
            return Recalled(edges=edges)
        ids = [row[_ID] for row in rows]
        corpus = _corpus(rows, request, similarities(tx, tenant, request, ids))
        tie = _tie(rows)
        numbers = picked(corpus, request.candidates, lambda tied: tied[np.argsort(tie[tied])])
        number_of = {UUID(bytes=ids[number]): number for number in numbers.tolist()}
        candidates = _candidates(tx, tenant, now, request.as_of, number_of)
        return Recalled(candidates=Candidates.of(candidates), corpus=corpus, edges=edges)


def _there(tx: Transaction, tenant: str, now: datetime, request: SearchRequest) -> WhereClause:
    return all_of(
        WhereClause("m.tenant_id = %s", (tenant,)),
        below(rest_of(request.namespace)),
        current_at(tx, tenant, now, request.as_of),
        of_kinds(request.kinds),
        between(request.begin, request.end),
        WhereClause("m.importance >= %s", (request.min_importance,)),
    )


def _living(
    tx: Transaction, request: SearchRequest, there: WhereClause, test: Matches | None
) -> list[Row]:
    """Return the living memories as plain rows: turns by thread in order, then all others.

    Terms come only with memories that hold a word of the query: sending them is expensive.
    """
    words = [
        # LIKE: the full-text index is slower and refuses long Chinese texts (decision 14).
        WhereClause("m.terms LIKE %s", (_holding(term),))
        for term in dict.fromkeys(request.terms)
    ]
    any_word = " OR ".join(one.sql for one in words) or "FALSE"
    value = ", m.value" if test else ""
    # "AS terms": otherwise the server names the column after the words, cut within a character.
    rows = tx.plain_rows(
        "SELECT m.memory_id, m.kind <> 'episodic', m.thread_id, m.occurred_at, m.updated_at,"
        f" m.term_count, CASE WHEN {any_word} THEN m.terms END AS terms{value}"
        f" FROM memories m WHERE {there.sql}",
        [*all_of(*words).values, *there.values],
    )
    if test:
        rows = [row for row in rows if test(row[_VALUE])]
    rows.sort(
        key=lambda row: (row[_IS_NO_TURN], row[_THREAD] is None, row[_THREAD] or b"", row[_ID])
    )
    return rows


def _holding(term: str) -> str:
    """Return the LIKE pattern for terms that contain a word."""
    return "% " + re.sub(r"[\\\\%_]", r"\\\g<0>", term) + " %"


def _tie(rows: Sequence[Row]) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Return the rank of each row by its last update, the latest first."""
    places = np.empty(len(rows), dtype=np.intp)
    by_id = sorted(range(len(rows)), key=lambda at: rows[at][_ID])
    places[sorted(by_id, key=lambda at: rows[at][_UPDATED], reverse=True)] = range(len(rows))
    return places


def _corpus(
    rows: Sequence[Row], request: SearchRequest, similarity: Mapping[bytes, float]
) -> Corpus:
    terms = {term: place for place, term in enumerate(dict.fromkeys(request.terms))}
    held = [
        (terms[word], number)
        for number, row in enumerate(rows)
        if row[_TERMS] is not None
        for word in terms.keys() & set(row[_TERMS].split(" "))
    ]
    return Corpus.of(
        similarity=[similarity.get(row[_ID]) for row in rows],
        length=[row[_LENGTH] for row in rows],
        opens=_opens(rows),
        holders=[number for _, number in held],
        words=[place for place, _ in held],
        terms=len(terms),
    )


def _opens(rows: Sequence[Row]) -> list[bool]:
    moments = [datetime.fromisoformat(row[_OCCURRED]) for row in rows]
    pauses = [after - before > PAUSE for before, after in pairwise(moments)]
    return [True] + [
        bool(row[_IS_NO_TURN]) or row[_THREAD] != before[_THREAD] or paused
        for (before, row), paused in zip(pairwise(rows), pauses, strict=True)
    ]


def _candidates(
    tx: Transaction, tenant: str, now: datetime, as_of: AsOf | None, number_of: Mapping[UUID, int]
) -> list[Candidate]:
    ids = list(number_of)
    sources = sources_of(tx, tenant, ids)
    ended = _ended(tx, tenant, now, as_of, ids)
    rows = tx.rows(
        "SELECT m.memory_id, m.kind, m.text, m.author, m.occurred_at, m.role,"
        f" {MEMORY_COLUMNS} FROM memories m WHERE m.tenant_id = %s AND m.memory_id IN %s",
        [tenant, ids],
    )
    rows.sort(key=lambda row: number_of[row[0]])

    def candidate(row: Row) -> Candidate:
        memory_id, kind, text, author, occurred_at, role, *memory = row
        turns = sources.get(memory_id, ())

        def built() -> Memory:
            return as_known(memory_of(tuple(memory), turns), as_of)

        return Candidate(
            memory_id=MemoryId(memory_id),
            kind=kind,
            text=text,
            author=author,
            occurred_at=occurred_at,
            number=number_of[memory_id],
            memory=built,
            role=role if kind == "episodic" else None,
            ended=ended.get(memory_id, 0.0),
            is_doubtful=is_doubtful(memory[6], built),
            slot=fact_slot(kind, memory[6]),
        )

    return [candidate(row) for row in rows]


def _ended(
    tx: Transaction, tenant: str, now: datetime, as_of: AsOf | None, ids: Sequence[UUID]
) -> dict[UUID, float]:
    """Return the share of ended facts among those derived from a turn or a summary's turns."""
    by = (as_of.valid or now) if as_of else soon(now)
    known = as_of.known if as_of else None

    def has_ended(
        slot: str, recorded_at: datetime, valid_until: datetime | None,
        superseded_at: datetime | None,
    ) -> bool:  # fmt: skip
        if valid_until is None or valid_until > by:
            return False
        # A plan whose end was known when it was recorded has come about.
        if superseded_at == recorded_at and slot.rpartition(".")[2] == "plan":
            return False
        return as_of is None or (
            superseded_at is not None and (known is None or superseded_at <= known)
        )

    if not tx.rows(
        "SELECT 1 FROM facts WHERE tenant_id = %s AND valid_until <= %s LIMIT 1", [tenant, by]
    ):
        return {}
    facts: dict[UUID, dict[UUID, bool]] = defaultdict(dict)
    for memory_id, fact_id, *fact in tx.rows(
        "SELECT s.memory_id, f.memory_id, f.slot, f.recorded_at, f.valid_until, f.superseded_at"
        " FROM memories m"
        " JOIN memory_sources s ON s.tenant_id = m.tenant_id AND s.memory_id = m.memory_id"
        " JOIN memory_sources d ON d.tenant_id = s.tenant_id AND d.thread_id = s.thread_id"
        " AND d.event_id = s.event_id"
        " JOIN facts f ON f.tenant_id = d.tenant_id AND f.memory_id = d.memory_id"
        " WHERE m.tenant_id = %s AND m.memory_id IN %s AND m.kind IN ('episodic', 'summary')",
        [tenant, list(ids)],
    ):
        facts[memory_id][fact_id] = has_ended(*fact)
    return {memory_id: sum(held.values()) / len(held) for memory_id, held in facts.items()}


def similarities(
    tx: Transaction, tenant: str, request: SearchRequest, ids: Sequence[bytes]
) -> dict[bytes, float]:
    """Return the best cosine of each memory with the query; it may contain other memories too."""
    dimensions = models(tx).get(request.model) if request.model else None
    if dimensions is None or request.vector is None:
        return {}
    table = table_of(dimensions)
    owned = WhereClause("tenant_id = %s AND model = %s", (tenant, request.model))
    if _has_many(tx, table, owned, FEW * len(ids)):
        owned = all_of(owned, WhereClause("memory_id IN %s", (ids,)))
    found: dict[bytes, float] = {}
    for memory_id, distance in tx.plain_rows(
        f"SELECT memory_id, cosine_distance(embedding, %s) AS distance FROM {table}"
        f" WHERE {owned.sql}",
        [query_form(request.vector[0]), *owned.values],
    ):
        found[memory_id] = max(1 - distance, found.get(memory_id, -1.0))
    return found


def _has_many(tx: Transaction, table: str, owned: WhereClause, limit: int) -> bool:
    [(count,)] = tx.rows(
        f"SELECT count(*) FROM (SELECT 1 FROM {table} WHERE {owned.sql} LIMIT %s) n",
        [*owned.values, limit],
    )
    return bool(count >= limit)
