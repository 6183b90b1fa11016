"""Features of a chat with an assistant: questions that come again, what ended, short spans."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from every_case import every_case

from shared_core.core.domain import MemoryId, MemoryKind, Role
from shared_core.core.ids import uuid7
from shared_core.ports.recall import Candidate, Candidates, Corpus, RankingQuery
from shared_core.recall.features import Matched, features

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def found(
    query: str, *candidates: Candidate, similarity: float = 0.5, length: int = 5
) -> dict[str, list[float]]:
    count = len(candidates)
    terms = query.lower().rstrip("?").split()
    corpus = Corpus.of(
        similarity=[similarity] * count, length=[length] * count, opens=[False] * count,
        holders=[], words=[], terms=len(terms),
    )  # fmt: skip
    asked = RankingQuery(text=query, terms=terms, now=NOW)
    known = features(Matched(corpus, Candidates.of(candidates), asked))
    return {name: np.asarray(values).tolist() for name, values in known.items()}


def said(
    number: int, text: str, *, ended: float = 0.0, kind: MemoryKind = "episodic",
    author: str | None = "ana", role: Role | None = "user", day: float = 0.0,
) -> Candidate:  # fmt: skip
    return Candidate(
        memory_id=MemoryId(uuid7()), kind=kind, text=text, author=author,
        occurred_at=NOW - timedelta(days=10 - day), number=number,
        memory=lambda: NotImplemented, role=role, ended=ended,
    )  # fmt: skip


@every_case("Where do I live now?", "我现在住在哪里？")
def test_a_question_that_asks_the_same_is_an_echo(question: str) -> None:
    turns = said(0, question), said(1, "I live in Leeds.")
    assert [1.0, 0.0] == found("Where do I live?", *turns, similarity=0.7)["echo"]
    assert [0.0, 0.0] == found("Where do I live?", *turns, similarity=0.2)["echo"]
    [half, _] = found("Where do I live?", *turns, similarity=0.45)["echo"]
    assert half == pytest.approx(0.5)
    telling = found("Where do I live?", *turns, similarity=0.7, length=16)
    assert [0.0, 0.0] == telling["echo"], "who says so much tells something"


@every_case(("Where do I live?", 0.5), ("Where did I live before?", 0.0), ("我以前住在哪里？", 0.0))
def test_what_ended_counts_where_it_is_asked_how_it_is(query: str, counts: float) -> None:
    turns = said(0, "I live in Leeds and love tea.", ended=0.5), said(1, "I live in York.")
    assert [counts, 0.0] == found(query, *turns)["ended"]


def test_within_a_month_it_tells_little_what_came_later() -> None:
    minutes = said(0, "a", day=0), said(1, "b", day=0.01)
    assert [0.0, pytest.approx(0.01 / 30)] == found("tea", *minutes)["recency"]
    months = said(0, "a", day=-80), said(1, "b", day=10)
    assert [0.0, 1.0] == found("tea", *months)["recency"]


def test_a_fact_without_an_author_is_of_the_user_who_is_named() -> None:
    fact = said(1, "User likes tea.", kind="semantic", author=None, role=None)
    other = said(2, "Bob likes tea.", author="bob", role="agent")
    mine = said(0, "I like tea.")
    assert [1.0, 1.0, 0.0] == found("ana", mine, fact, other)["named_speaker"]
    assert [0.0, 0.0, 1.0] == found("bob", mine, fact, other)["named_speaker"]
