"""A fact never stands above the turn that says the same and more."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from shared_core import Event, MemoryEngine, Scope
from shared_core.core.domain import MemoryId
from shared_core.core.ids import uuid7
from shared_core.ports.recall import Candidate, Candidates
from shared_core.recall.supersession import CandidateRoles, Overtaken, raised, told_in_full

ANN = Scope("app", "ann")
START = datetime(2026, 3, 1, 9, tzinfo=UTC)


def candidate(kind: str, text: str, minute: int = 0, ended: float = 0.0) -> Candidate:
    is_turn = kind == "episodic"
    return Candidate(
        memory_id=MemoryId(uuid7()),
        kind=kind,  # type: ignore[arg-type]
        text=text,
        author="ann" if is_turn else None,
        role="user" if is_turn else None,
        occurred_at=START + timedelta(minutes=minute),
        number=0,
        memory=lambda: pytest.fail("no memory is built"),
        ended=ended,
    )


def pairs_of(*candidates: Candidate) -> Overtaken:
    columns = Candidates.of(candidates)
    return told_in_full(columns, CandidateRoles(columns))


FACT = candidate("semantic", "User has two children.")
TURN = "I have two children, Mila and Jan."


def test_a_turn_of_the_same_time_with_the_words_of_a_fact_is_raised_above_it() -> None:
    import numpy as np

    pairs = pairs_of(FACT, candidate("episodic", TURN))
    assert pairs == [(0, 1)]
    scores = np.array([2.0, 0.5])
    assert (scores + raised(scores, pairs)).argmax() == 1


@pytest.mark.parametrize(
    "turn",
    [
        candidate("episodic", TURN, minute=1),
        candidate("episodic", TURN, ended=0.5),
        candidate("episodic", "We went to the zoo."),
        candidate("summary", TURN),
    ],
)
def test_another_turn_stays_where_it_is(turn: Candidate) -> None:
    assert pairs_of(FACT, turn) == []


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("I have two children, Mila and Jan.", "Which children do I have?"),
        ("我有两个孩子，米拉和小杰。", "我有哪几个孩子？"),
    ],
)
async def test_the_turn_comes_before_its_fact(
    memory: MemoryEngine, text: str, question: str
) -> None:
    turn = Event(event_id="1", author="ann", role="user", text=text, occurred_at=START)
    await memory.append_events(ANN, "t", [turn])
    await memory.consolidate(ANN, "t")
    assert await memory.facts(ANN)
    hits = [hit.memory for hit in await memory.recall(ANN, question)]
    places = {one.kind: place for place, one in reversed(list(enumerate(hits)))}
    assert places["episodic"] < places["semantic"]
