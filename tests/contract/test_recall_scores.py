"""What recall scores, against the formulas written out over every row: any shape of its statement
must find the same candidates and the same scores."""

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TypeAlias
from uuid import UUID

import numpy as np
import psycopg
import pytest
from numpy.typing import NDArray
from toy_models import ToyModel
from turns import said

from shared_core import Scope, open_memory
from shared_core.core.namespaces import memories_namespace
from shared_core.ports.recall import SearchRequest
from shared_core.recall.matches import Matches
from shared_core.settings import load_settings
from shared_core.storage import open_storage

ANN, BOB = Scope("app", "ann"), Scope("app", "bob")
Vectors: TypeAlias = NDArray[np.float32]

WORDS = [f"word{number}" for number in range(40)]
DIMENSIONS = 16
CANDIDATES = 30


class Drawn(ToyModel):
    """An embedder that draws the same vector for the same text."""

    model = "drawn"

    async def embed_passages(self, texts: Sequence[str]) -> Vectors:
        return np.stack([self._vector(text) for text in texts])

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
    thread: str | None
    occurred_at: datetime


@pytest.fixture
async def storage(dsn):
    """Memories of every kind and fate, in both threads and none."""
    chance = random.Random(5)
    texts = [" ".join(chance.choices(WORDS, k=chance.randint(1, 12))) for _ in range(400)]
    async with open_memory(dsn, embedder=Drawn()) as memory:
        await memory.remember(ANN, texts[:200])
        await memory.remember(BOB, texts[:50])
        for thread, first in (("one", 200), ("two", 300)):
            told = range(first, first + 100)
            turns = [said(n, texts[n], role="user" if n % 3 else "agent") for n in told]
            await memory.append_events(ANN, thread, turns)
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
            admin.execute(change.format(ann=ann, tenth=tenth, last=last).encode())
    opened = open_storage(load_settings(dsn), lambda: datetime.now(UTC))
    await opened.open()
    yield opened
    await opened.close()


def living_rows(dsn: str) -> dict[UUID, Row]:
    with psycopg.connect(dsn) as admin:
        admin.execute("SET search_path TO hippocampus, public")
        found = admin.execute(
            "SELECT m.memory_id, m.kind, tsvector_to_array(m.terms), m.term_count, m.updated_at,"
            " (SELECT array_agg(e.embedding::text) FROM embeddings e"
            "  WHERE e.tenant_id = m.tenant_id AND e.memory_id = m.memory_id),"
            " (SELECT e.role FROM memory_sources s JOIN events e USING (tenant_id, thread_id,"
            "  event_id) WHERE s.tenant_id = m.tenant_id AND s.memory_id = m.memory_id),"
            " m.thread_id, m.occurred_at"
            " FROM memories m"
            " WHERE m.tenant_id = '/app/ann/' AND m.namespace = '/memories/'"
            " AND superseded_at IS NULL AND (m.expires_at IS NULL OR m.expires_at > now())"
        ).fetchall()
    return {
        row[0]: Row(
            kind=row[1], terms=frozenset(row[2]), term_count=row[3], updated_at=row[4],
            vectors=[np.array(text[1:-1].split(","), np.float32) for text in row[5] or ()],
            role=row[6] if row[1] == "episodic" else None, thread=row[7], occurred_at=row[8],
        )
        for row in found
    }  # fmt: skip


def in_order(rows: dict[UUID, Row]) -> list[UUID]:
    """Turns by thread as they were said, then all else."""

    def place(key: UUID) -> tuple[bool, bool, str, UUID]:
        row = rows[key]
        return row.kind != "episodic", row.thread is None, row.thread or "", key

    return sorted(rows, key=place)


def opens_session(rows: dict[UUID, Row], order: Sequence[UUID]) -> list[bool]:
    opens = [True]
    for before, key in pairwise(order):
        earlier, row = rows[before], rows[key]
        pause = row.occurred_at - earlier.occurred_at
        goes_on = row.kind == "episodic" and row.thread == earlier.thread
        opens.append(not goes_on or pause > timedelta(hours=6))
    return opens


@dataclass(frozen=True)
class Match:
    similarity: float | None
    bm25: float
    coverage: float


class Formula:
    """Cosine and BM25 (k1 = 1.2, b = 0.75, frequency 1), written out."""

    def __init__(self, rows: Sequence[Row], terms: Sequence[str], vector: Vectors | None) -> None:
        self._vector = vector
        self._mean_length = max(1.0, statistics.fmean(row.term_count for row in rows))
        holders = {term: sum(term in row.terms for row in rows) for term in terms}
        of = len(rows)
        self._idf = {one: math.log(1 + (of - n + 0.5) / (n + 0.5)) for one, n in holders.items()}

    def match(self, row: Row) -> Match:
        idf = sum(self._idf[term] for term in self._idf if term in row.terms)
        bm25 = idf * 2.2 / (1 + 1.2 * (0.25 + 0.75 * row.term_count / self._mean_length))
        coverage = idf / sum(self._idf.values())
        return Match(similarity=self._similarity(row), bm25=bm25, coverage=coverage)

    def _similarity(self, row: Row) -> float | None:
        if self._vector is None or not row.vectors:
            return None
        asked = self._vector[0].astype(np.float16).astype(np.float32)
        return max(
            float(vector @ asked / np.linalg.norm(vector) / np.linalg.norm(asked))
            for vector in row.vectors
        )


def spread(scores: Sequence[float]) -> tuple[float, float]:
    return statistics.fmean(scores), statistics.pstdev(scores)


def in_context(
    matches: dict[UUID, Match], order: Sequence[UUID], opens: Sequence[bool]
) -> dict[UUID, float]:
    """Both standardised scores of a turn, and half of those before and after it in its session."""
    near = [match.similarity for match in matches.values() if match.similarity is not None]
    mean, deviation = spread(near) if near else (0.0, 0.0)
    bm25_mean, bm25_deviation = spread([match.bm25 for match in matches.values()])

    def own(match: Match) -> float:
        meaning = 0.0
        if match.similarity is not None and deviation:
            meaning = (match.similarity - mean) / deviation
        return meaning + ((match.bm25 - bm25_mean) / bm25_deviation if bm25_deviation else 0.0)

    scores = [own(matches[key]) for key in order]
    return {
        key: scores[at]
        + (0 if opens[at] else scores[at - 1] / 2)
        + (0 if at + 1 == len(order) or opens[at + 1] else scores[at + 1] / 2)
        for at, key in enumerate(order)
    }


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
    storage, dsn, kinds, with_vector, analysed
):
    if analysed:
        with psycopg.connect(dsn, autocommit=True) as admin:
            admin.execute("ANALYZE")
    everything = living_rows(dsn)
    asked_for = {key: row for key, row in everything.items() if kinds is None or row.kind in kinds}
    assert len(asked_for) > 2
    terms = ["word3", "word17", "word30", "never"]
    vector = await Drawn().embed_query("word3") if with_vector else None
    request = SearchRequest(scope=ANN, namespace=memories_namespace(ANN), terms=terms, kinds=kinds,
                            model="drawn", vector=vector, candidates=CANDIDATES)  # fmt: skip
    recalled = await storage.recall.recall(request)
    formula = Formula(list(asked_for.values()), terms, vector)
    matches = {key: formula.match(row) for key, row in asked_for.items()}
    order = in_order(asked_for)
    opens = opens_session(asked_for, order)

    def best(scores: dict[UUID, float]) -> set[UUID]:
        def place(key: UUID) -> tuple[float, float, UUID]:
            return -round(scores[key], 6), -asked_for[key].updated_at.timestamp(), key

        return set(sorted(scores, key=place)[:CANDIDATES])

    near = {key: match.similarity for key, match in matches.items() if match.similarity}
    worded = {key: match.bm25 for key, match in matches.items() if match.bm25}
    around = in_context(matches, order, opens)
    around = {key: score for key, score in around.items() if key in near or key in worded}
    found = {candidate.memory_id: candidate for candidate in recalled.candidates}
    assert len(found) == len(recalled.candidates)
    assert best(near) | best(worded) | best(around) == found.keys()
    assert [asked_for[key].term_count for key in order] == recalled.corpus.length.tolist()
    assert opens == recalled.corpus.opens.tolist()
    scores = Matches.of(recalled.corpus)
    coverage = scores.coverage(scores.holds(np.arange(len(order))))
    for at, key in enumerate(order):
        assert scores.bm25[at] == pytest.approx(matches[key].bm25)
        assert coverage[at] == pytest.approx(matches[key].coverage)
        similarity = None if math.isnan(scores.similarity[at]) else scores.similarity[at]
        assert similarity == pytest.approx(matches[key].similarity, abs=1e-5)
    for key, candidate in found.items():
        assert order[candidate.number] == key
        assert asked_for[key].role == candidate.role
