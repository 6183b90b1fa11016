"""Recall brings the edges of what a question names, in the same round trip."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from shared_core import AsOf, Event, MemoryEngine, Scope, open_memory

pytestmark = pytest.mark.both_engines

ANN = Scope("app", "ann")
DAY = datetime(2026, 3, 1, tzinfo=UTC)


async def told(memory: MemoryEngine, *texts: str) -> None:
    turns = [
        Event(event_id=f"e{n}", author="user", role="user", text=text, occurred_at=DAY)
        for n, text in enumerate(texts)
    ]
    await memory.append_events(ANN, "monday", turns)
    await memory.consolidate(ANN, "monday")


def triples(memory: object) -> set[tuple[str, str, str]]:
    return {(edge.subject, edge.relation, edge.object) for edge in memory}  # type: ignore[attr-defined]


async def test_what_is_named_comes_with_its_edges(memory: MemoryEngine) -> None:
    await told(memory, "I work at Acme.", "My daughter is called Mia.")
    await memory.graph.add(ANN, "Mia", "plays", "oboe")
    await memory.graph.merge_aliases(ANN, "Mia", ["米娅"])
    found = await memory.recall(ANN, "Where do I work?")
    assert found.graph_results[0].object == "Acme"
    for question in ("What does Mia play?", "What is Mia's instrument?", "米娅会什么乐器？"):
        found = await memory.recall(ANN, question)
        assert ("Mia", "plays", "oboe") in triples(found.graph_results)
        assert all("Mia" in (edge.subject, edge.object) for edge in found.graph_results)
    assert (await memory.recall(ANN, "Is Bob tall?")).graph_results == ()


async def test_what_no_longer_holds_does_not_come(memory: MemoryEngine) -> None:
    await memory.graph.add(ANN, "Mia", "lives_in", "Leeds")
    await memory.graph.add(ANN, "Mia", "lives_in", "York")
    found = await memory.recall(ANN, "Where does Mia live?")
    assert {("Mia", "lives_in", "York")} == triples(found.graph_results)


async def test_edges_come_as_of_the_moment_of_the_question(dsn: str) -> None:
    now = [DAY]
    async with open_memory(dsn, clock=lambda: now[0]) as memory:
        await memory.graph.add(ANN, "Mia", "lives_in", "Leeds")
        now[0] = DAY + timedelta(days=10)
        moved = DAY + timedelta(days=5)
        await memory.graph.add(ANN, "Mia", "lives_in", "York", valid_from=moved)
        for as_of, home in (
            (None, "York"),
            (AsOf(), "York"),
            (AsOf(valid=DAY + timedelta(days=4)), "Leeds"),
            (AsOf(valid=DAY + timedelta(days=6)), "York"),
            (AsOf(known=DAY + timedelta(days=9)), "Leeds"),
        ):
            found = await memory.recall(ANN, "Where does Mia live?", as_of=as_of)
            assert {("Mia", "lives_in", home)} == triples(found.graph_results), as_of


async def test_without_the_graph_nothing_comes(dsn: str) -> None:
    async with open_memory(dsn, graph_enabled=False) as memory:
        await told(memory, "I work at Acme.")
        found = await memory.recall(ANN, "Where do I work?")
        assert found and found.graph_results == ()
