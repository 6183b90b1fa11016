"""What recall scores, against the formulas written out over every row: any shape of its statement
must find the same candidates and the same scores."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeAlias
from uuid import UUID

import numpy as np
import psycopg
import pytest
from numpy.typing import NDArray

from shared_core import Event, Scope, open_memory
from shared_core.domain import MemoryKind
from shared_core.namespaces import memories_namespace
from shared_core.ports import Candidate, Match, SearchRequest, Spread, Storage
from shared_core.settings import load_settings
from shared_core.storage import open_storage

ANN, BOB = Scope("app", "ann"), Scope("app", "bob")
START = datetime(2026, 3, 1, 9, tzinfo=UTC)
Vectors: TypeAlias = NDArray[np.float32]

WORDS = [f"word{number}" for number in range(40)]
DIMENSIONS = 16
CANDIDATES = 30


class Drawn:
    """An embedder that draws the same vector for the same text."""

    model = "drawn"

    async def embed_passages(self, texts: Sequence[str]) -> Vectors:
        return np.stack([self._vector(text) for text in texts])

    async def embed_query(self, text: str) -> Vectors:
        return await self.embed_passages([text])

    def _vector(self, text: str) -> Vectors:
        drawn = np.random.default_rng(random.Random(text).randrange(2**32)).normal(size=DIMENSIONS)
        return np.asarray(drawn / np.linalg.norm(drawn), dtype=np.float32)


@dataclass(frozen=True)
class Row:
    """A living memory of Ann, as it lies in the tables."""

    kind: str
    terms: frozenset[str]
    term_count: int
    updated_at: datetime
    vectors: list[Vectors]
    role: str | None
    previous: UUID | None


@pytest.fixture
async def storage(dsn: str) -> AsyncIterator[Storage]:
    """Memories of every kind and fate, in both threads and none."""
    chance = random.Random(5)
    texts = [" ".join(chance.choices(WORDS, k=chance.randint(1, 12))) for _ in range(400)]
    async with open_memory(dsn, embedder=Drawn()) as memory:
        await memory.remember(ANN, texts[:200])
        await memory.remember(BOB, texts[:50])
        for thread, first in (("one", 200), ("two", 300)):
            said = [
                Event(
                    event_id=f"e{number}",
                    author="someone",
                    role="agent" if number % 3 == 0 else "user",
                    text=texts[number],
                    occurred_at=START + timedelta(minutes=number),
                )
                for number in range(first, first + 100)
            ]
            await memory.append_events(ANN, thread, said)
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute("SET search_path TO hippocampus, public")
        for change in (
            "UPDATE memories SET superseded_at = now() WHERE {ann} AND memory_id < {tenth}",
            "UPDATE memories SET expires_at = now() WHERE {ann} AND memory_id > {last}",
            "UPDATE memories SET namespace = '/other/' WHERE {ann} AND right(key, 1) = 'a'",
            "UPDATE memories SET kind = 'reflection' WHERE {ann} AND right(key, 2) ~ '^[bc][0-5]$'",
            "DELETE FROM embeddings WHERE {ann} AND right(memory_id::text, 1) = 'd'",
            "INSERT INTO embeddings SELECT e.tenant_id, model, m.memory_id, 'second', e.embedding"
            " FROM (SELECT * FROM embeddings WHERE {ann} LIMIT 1) e JOIN memories m USING"
            " (tenant_id) WHERE right(m.memory_id::text, 1) = 'e'",
        ):
            ann = "tenant_id = '/app/ann/'"
            nth = f"(SELECT memory_id FROM memories WHERE {ann} ORDER BY 1 %s OFFSET 10 LIMIT 1)"
            tenth, last = nth.replace("%s", ""), nth.replace("%s", "DESC")
            text = change.format(ann=ann, tenth=tenth, last=last)
            admin.execute(text.encode())
    opened = open_storage(load_settings(dsn), lambda: datetime.now(UTC))
    await opened.open()
    yield opened
    await opened.close()


def living_rows(dsn: str) -> dict[UUID, Row]:
    with psycopg.connect(dsn) as admin:
        admin.execute("SET search_path TO hippocampus, public")
        found = admin.execute(
            "SELECT m.memory_id, m.kind, tsvector_to_array(terms), term_count, m.updated_at,"
            " (SELECT array_agg(embedding::text) FROM embeddings e WHERE e.tenant_id = m.tenant_id"
            "  AND e.memory_id = m.memory_id), turn.role, before.memory_id"
            " FROM memories m LEFT JOIN (memory_sources s JOIN events turn"
            "  USING (tenant_id, thread_id, event_id)) USING (tenant_id, memory_id)"
            " LEFT JOIN events earlier ON earlier.tenant_id = m.tenant_id"
            "  AND earlier.thread_id = turn.thread_id AND earlier.seq = turn.seq - 1"
            " LEFT JOIN memory_sources before ON before.tenant_id = m.tenant_id"
            "  AND before.thread_id = earlier.thread_id AND before.event_id = earlier.event_id"
            " WHERE m.tenant_id = '/app/ann/' AND m.namespace = '/memories/'"
            " AND superseded_at IS NULL AND (m.expires_at IS NULL OR m.expires_at > now())"
        ).fetchall()
    return {
        row[0]: Row(
            kind=row[1],
            terms=frozenset(row[2]),
            term_count=row[3],
            updated_at=row[4],
            vectors=[np.array(text[1:-1].split(","), np.float32) for text in row[5] or ()],
            role=row[6] if row[1] == "episodic" else None,
            previous=row[7] if row[1] == "episodic" and row[6] != "agent" else None,
        )
        for row in found
    }


class Formula:
    """Cosine and BM25 (k1 = 1.2, b = 0.75, frequency 1), written out."""

    def __init__(self, rows: Sequence[Row], terms: Sequence[str], vector: Vectors | None) -> None:
        self._vector = vector
        self._mean_length = max(1.0, statistics.fmean(row.term_count for row in rows))
        holders = {term: sum(term in row.terms for row in rows) for term in terms}
        self._idf = {
            term: math.log(1 + (len(rows) - n + 0.5) / (n + 0.5)) for term, n in holders.items()
        }

    def match(self, row: Row) -> Match:
        idf = sum(self._idf[term] for term in self._idf if term in row.terms)
        bm25 = idf * 2.2 / (1 + 1.2 * (0.25 + 0.75 * row.term_count / self._mean_length))
        return Match(
            similarity=self._similarity(row), bm25=bm25, coverage=idf / sum(self._idf.values())
        )

    def _similarity(self, row: Row) -> float | None:
        if self._vector is None or not row.vectors:
            return None
        asked = self._vector[0].astype(np.float16).astype(np.float32)
        return max(
            float(vector @ asked / np.linalg.norm(vector) / np.linalg.norm(asked))
            for vector in row.vectors
        )


def assert_same(expected: Match | None, found: Match | None) -> None:
    assert (expected is None) == (found is None)
    if expected is None or found is None:
        return
    assert pytest.approx((expected.bm25, expected.coverage)) == (found.bm25, found.coverage)
    assert pytest.approx(expected.similarity, abs=1e-5) == found.similarity


def assert_spread(matches: Sequence[Match], spread: Spread) -> None:
    near = [match.similarity for match in matches if match.similarity is not None] or [0.0]
    bm25 = [match.bm25 for match in matches]
    expected = (statistics.fmean(near), statistics.pstdev(near), statistics.fmean(bm25))
    found = (spread.similarity_mean, spread.similarity_sd, spread.bm25_mean)
    assert pytest.approx(expected, abs=1e-5) == found
    assert pytest.approx(statistics.pstdev(bm25), abs=1e-9) == spread.bm25_sd


@pytest.mark.parametrize(
    ("kinds", "with_vector", "analysed"),
    [
        pytest.param(None, True, True, id="all"),
        pytest.param(None, True, False, id="all, before any statistics"),
        pytest.param(None, False, True, id="all, by words alone"),
        pytest.param(["episodic"], True, True, id="turns"),
        pytest.param(["reflection"], True, True, id="few of many"),
        pytest.param(["reflection"], True, False, id="few of many, before any statistics"),
    ],
)
async def test_candidates_and_scores_follow_the_formulas(
    storage: Storage,
    dsn: str,
    kinds: list[MemoryKind] | None,
    with_vector: bool,
    analysed: bool,
) -> None:
    if analysed:
        with psycopg.connect(dsn, autocommit=True) as admin:
            admin.execute("ANALYZE")
    everything = living_rows(dsn)
    asked_for = {key: row for key, row in everything.items() if kinds is None or row.kind in kinds}
    assert len(asked_for) > 2
    terms = ["word3", "word17", "word30", "never"]
    vector = await Drawn().embed_query("word3") if with_vector else None
    candidates, spread = await storage.recall(
        SearchRequest(
            scope=ANN,
            namespace=memories_namespace(ANN),
            terms=terms,
            model="drawn",
            vector=vector,
            kinds=kinds,
            candidates=CANDIDATES,
        )
    )
    formula = Formula(list(asked_for.values()), terms, vector)
    matches = {key: formula.match(row) for key, row in asked_for.items()}

    def best(score: str) -> set[UUID]:
        ranked = sorted(
            (key for key in matches if getattr(matches[key], score)),
            key=lambda key: (
                -round(getattr(matches[key], score), 6),
                -asked_for[key].updated_at.timestamp(),
                key,
            ),
        )
        return set(ranked[:CANDIDATES])

    found: dict[UUID, Candidate] = {candidate.memory_id: candidate for candidate in candidates}
    assert len(found) == len(candidates)
    assert best("similarity") | best("bm25") == found.keys()
    assert_spread(list(matches.values()), spread)
    for key, candidate in found.items():
        row = everything[key]
        assert row.role == candidate.role
        assert_same(matches[key], candidate.match)
        before = row.previous and everything.get(row.previous)
        before = before if before and before.kind == "episodic" else None
        assert_same(formula.match(before) if before else None, candidate.previous)
