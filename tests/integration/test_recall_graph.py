"""Recall brings the edges of what a question names, in the same round trip."""

from __future__ import annotations

from datetime import UTC, datetime

from shared_core import Event, MemoryEngine, Scope, open_memory

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
    for question in ("What does Mia play?", "米娅会什么乐器？"):
        found = await memory.recall(ANN, question)
        assert ("Mia", "plays", "oboe") in triples(found.graph_results)
        assert all("Mia" in (edge.subject, edge.object) for edge in found.graph_results)
    assert (await memory.recall(ANN, "Is Bob tall?")).graph_results == ()


async def test_what_no_longer_holds_does_not_come(memory: MemoryEngine) -> None:
    await memory.graph.add(ANN, "Mia", "lives_in", "Leeds")
    await memory.graph.add(ANN, "Mia", "lives_in", "York")
    found = await memory.recall(ANN, "Where does Mia live?")
    assert {("Mia", "lives_in", "York")} == triples(found.graph_results)


async def test_without_the_graph_nothing_comes(dsn: str) -> None:
    async with open_memory(dsn, graph_enabled=False) as memory:
        await told(memory, "I work at Acme.")
        found = await memory.recall(ANN, "Where do I work?")
        assert found and found.graph_results == ()
