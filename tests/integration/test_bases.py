"""What several turns say, together or each alone: it stays as long as one basis is whole."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from shared_core import Event, MemoryEngine, Scope, open_memory
from shared_core.core.domain import Extraction, InsightDraft, StatementDraft, TripleDraft
from shared_core.extraction.llm_extractor import ModelExtractor
from shared_core.extraction.rule_based import RuleExtractor
from shared_core.models.language_model import ModelReply, ModelRequest
from tests.integration.test_runs import Scripted, fact, living, snapshot

ANN = Scope("app", "ann")
START = datetime(2026, 3, 1, 9, tzinfo=UTC)
BRUNO = "Bruno is Ann's dog and fears thunder."


def said(number: int, **more: Any) -> Event:
    return Event(
        event_id=f"e{number}",
        author="user",
        role="user",
        text=f"Turn {number} of the story.",
        occurred_at=START + timedelta(minutes=number),
        **more,
    )


def told(kind: str, *event_ids: str) -> Extraction:
    """Return what some turns say together, as a draft of one kind."""
    last, others = event_ids[-1], event_ids[:-1]
    match kind:
        case "fact":
            return Extraction(facts=[fact(last, "dog", "Bruno", other_event_ids=others)])
        case "statement":
            return Extraction(statements=[StatementDraft(text=BRUNO, event_ids=event_ids)])
        case "insight":
            return Extraction(insights=[InsightDraft(text=BRUNO, event_ids=event_ids)])
    return Extraction(triples=[TripleDraft(subject="Ann", relation="owns", object="Bruno",
                                           event_id=last, other_event_ids=others)])  # fmt: skip


KINDS = ("fact", "statement", "insight", "edge")


async def kept(memory: MemoryEngine, dsn: str, kind: str) -> bool:
    """Tell whether what was told is there, and that nothing is left of it where it is not."""
    with psycopg.connect(dsn) as superuser:
        edges = superuser.execute("SELECT FROM hippocampus.edges").fetchall()
        sources = superuser.execute(
            "SELECT event_id FROM hippocampus.edge_sources UNION ALL"
            " SELECT event_id FROM hippocampus.memory_sources"
            " JOIN hippocampus.memories USING (tenant_id, memory_id)"
            " WHERE kind IN ('semantic', 'reflection')"
        ).fetchall()
    rows = await living(memory, "semantic") | await living(memory, "reflection")
    assert bool(rows or edges) == bool(sources)
    return bool(edges if kind == "edge" else rows)


async def tell(memory: MemoryEngine, reader: Scripted, kind: str, *bases: Sequence[int]) -> None:
    """Let runs read in turn what the turns of each basis say together."""
    for turns in bases:
        ids = [f"e{number}" for number in turns]
        reader.script[ids[-1]] = told(kind, *ids)
        await memory.append_events(ANN, "t", [said(number) for number in turns])
        await memory.consolidate(ANN, "t")
    await memory.forget(ANN, "summary/t")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first", [1, 2])
async def test_a_second_basis_is_an_alternative(dsn: str, kind: str, first: int) -> None:
    reader = Scripted({})
    async with open_memory(dsn, extractor=reader, worker=False) as memory:
        await tell(memory, reader, kind, (1, 2), (3, 4))
        assert await kept(memory, dsn, kind)
        await memory.forget_turns(ANN, "t", [f"e{first}"])
        assert await kept(memory, dsn, kind)
        if kind != "edge":
            [one] = await memory.list_memories(ANN, kinds=["semantic", "reflection"])
            assert ("e3", "e4") == one.source_event_ids
        await memory.forget_turns(ANN, "t", ["e3"])
        assert not await kept(memory, dsn, kind)


@pytest.mark.parametrize("kind", KINDS)
async def test_one_turn_of_each_basis_takes_all(dsn: str, kind: str) -> None:
    reader = Scripted({})
    async with open_memory(dsn, extractor=reader, worker=False) as memory:
        await tell(memory, reader, kind, (1, 2), (3, 4), (5,))
        await memory.forget_turns(ANN, "t", ["e2", "e3"])
        assert await kept(memory, dsn, kind)
        await memory.forget_turns(ANN, "t", ["e5"])
        assert not await kept(memory, dsn, kind)


@pytest.mark.parametrize("kind", KINDS)
async def test_what_only_adds_to_a_basis_is_none(dsn: str, kind: str) -> None:
    """After "Mia loves art" "she loves art" says nothing without it."""
    reader = Scripted({})
    async with open_memory(dsn, extractor=reader, worker=False) as memory:
        await tell(memory, reader, kind, (1,), (1, 2))
        await memory.forget_turns(ANN, "t", ["e1"])
        assert not await kept(memory, dsn, kind)


@pytest.mark.parametrize("kind", KINDS)
async def test_two_bases_may_share_a_turn(dsn: str, kind: str) -> None:
    reader = Scripted({})
    async with open_memory(dsn, extractor=reader, worker=False) as memory:
        await tell(memory, reader, kind, (1, 2), (1, 3))
        if kind != "edge":
            [one] = await memory.list_memories(ANN, kinds=["semantic", "reflection"])
            assert ("e1", "e2", "e3") == one.source_event_ids
        await memory.forget_turns(ANN, "t", ["e2"])
        assert await kept(memory, dsn, kind)
        await memory.forget_turns(ANN, "t", ["e1"])
        assert not await kept(memory, dsn, kind)


@pytest.mark.parametrize("kind", KINDS)
async def test_undo_takes_the_basis_of_its_run_alone(dsn: str, kind: str) -> None:
    reader = Scripted({"e2": told(kind, "e1", "e2"), "e3": told(kind, "e1", "e3")})
    async with open_memory(dsn, extractor=reader, worker=False) as memory:
        await memory.append_events(ANN, "t", [said(1), said(2)])
        await memory.consolidate(ANN, "t")
        await memory.append_events(ANN, "t", [said(3)])
        before = snapshot(dsn)
        run = await memory.consolidate(ANN, "t")
        assert before != snapshot(dsn)
        assert run.run_id
        await memory.undo_run(ANN, run.run_id)
        assert before == snapshot(dsn)
        await memory.forget_turns(ANN, "t", ["e2"])
        assert not await kept(memory, dsn, kind)


@pytest.mark.parametrize("kind", KINDS[:3])
async def test_a_basis_expires_with_the_first_of_its_turns(dsn: str, kind: str) -> None:
    soon, later, last = (datetime.now(UTC) + timedelta(hours=hours) for hours in (1, 2, 3))
    reader = Scripted({"e2": told(kind, "e1", "e2"), "e4": told(kind, "e3", "e4")})
    async with open_memory(dsn, extractor=reader, worker=False) as memory:
        for turns in ({1: soon, 2: last}, {3: later, 4: last}):
            await memory.append_events(
                ANN, "t", [said(number, expires_at=at) for number, at in turns.items()]
            )
            await memory.consolidate(ANN, "t")
        [one] = await memory.list_memories(ANN, kinds=["semantic", "reflection"])
        assert later == one.expires_at


async def test_what_a_user_wrote_does_not_go_with_a_turn_that_says_it(dsn: str) -> None:
    reader = Scripted({"e1": told("statement", "e1")})
    async with open_memory(dsn, extractor=reader, worker=False) as memory:
        await memory.remember(ANN, BRUNO)
        await memory.append_events(ANN, "t", [said(1)])
        assert 0 == (await memory.consolidate(ANN, "t")).statements
        await memory.forget_turns(ANN, "t", ["e1"])
        assert {BRUNO} == await living(memory, "semantic")


async def test_an_edge_outlives_its_fact_by_what_says_it_alone(dsn: str) -> None:
    both = Extraction(
        facts=[fact("e1", "dog", "Bruno")],
        triples=[TripleDraft(subject="Ann", relation="owns", object="Bruno", event_id="e1")],
    )
    reader = Scripted({"e1": both, "e2": told("edge", "e2")})
    async with open_memory(dsn, extractor=reader, worker=False) as memory:
        for number in (1, 2):
            await memory.append_events(ANN, "t", [said(number)])
            await memory.consolidate(ANN, "t")
        await memory.forget_turns(ANN, "t", ["e1"])
        assert [] == await memory.facts(ANN)
        left = "SELECT object FROM hippocampus.edges"
        with psycopg.connect(dsn, autocommit=True) as superuser:
            assert [("Bruno",)] == superuser.execute(left).fetchall()
            await memory.forget_scope(ANN)
            assert [] == superuser.execute(left).fetchall()


class Model:
    """A fake: answers each question for knowledge with the next of some lists of relations."""

    name = "fake"

    def __init__(self, *answers: Sequence[dict[str, object]]) -> None:
        self.answers = [json.dumps({"facts": [], "relations": answer}) for answer in answers]

    async def complete(self, request: ModelRequest) -> ModelReply:
        if "summary so far" in request.prompt:
            return ModelReply(text=json.dumps({"summary": "They talked."}))
        return ModelReply(text=self.answers.pop(0))


NAMED = {
    "en": ("My sister is called Zoraida.", "She works at Acme.", "Zoraida", "Acme"),
    "zh": ("我妹妹叫灿灿。", "她在腾讯上班。", "灿灿", "腾讯"),
}


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("language", ["en", "zh"])
async def test_an_edge_goes_with_the_turn_that_told_whom_she_means(
    dsn: str, language: str, at_once: bool
) -> None:
    *texts, name, company = NAMED[language]
    turns = [replace(said(number), text=text) for number, text in enumerate(texts, 1)]
    edge = {"subject": name, "relation": "works_at", "object": company}
    model = Model([{**edge, "turn": 2}]) if at_once else Model([], [{**edge, "turn": 1}])
    extractor = ModelExtractor(model, RuleExtractor())
    async with open_memory(dsn, extractor=extractor, worker=False) as memory:
        for given in [turns] if at_once else [[turn] for turn in turns]:
            await memory.append_events(ANN, "t", given)
            await memory.consolidate(ANN, "t")
        assert await kept(memory, dsn, "edge")
        await memory.forget_turns(ANN, "t", ["e1"])
        assert not await kept(memory, dsn, "edge")
