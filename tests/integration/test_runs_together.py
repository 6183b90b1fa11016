"""Runs that finish together: what both of them read anew is written once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from shared_core import Event, MemoryEngine, Scope, open_memory
from shared_core.core.domain import (
    NO_USAGE,
    Extraction,
    InsightDraft,
    Memory,
    ModelUsage,
    StatementDraft,
    TripleDraft,
)
from shared_core.extraction.rule_based import RuleExtractor
from tests.integration.two_at_once import meeting, while_reading

ANN = Scope("app", "ann")
START = datetime(2026, 3, 1, 9, tzinfo=UTC)
TOLD = {
    "en": ("Bruno the dog is afraid of thunder.", "Bruno, the dog, is afraid of thunder!"),
    "zh": ("安的狗布鲁诺害怕打雷。", "安的狗布鲁诺害怕打雷！"),
}


def said(event_id: str, text: str) -> Event:
    return Event(
        event_id=event_id,
        author="user",
        role="user",
        text=text,
        occurred_at=START + timedelta(minutes=len(event_id)),
    )


class Counting(RuleExtractor):
    """The rules; counts how often they are asked, also as a copy that knows somebody."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    @property
    def asked(self) -> int:
        return len(self.calls)

    async def extract(self, events: Sequence[Event], context: Sequence[Event]) -> Extraction:
        self.calls.append("extract")
        return await super().extract(events, context)


class Telling(Counting):
    """A fake: makes one statement and one insight of every thread, or of all memories."""

    name = "fake-v1"

    def __init__(self, statement: str) -> None:
        super().__init__()
        self.statement = statement

    async def extract(self, events: Sequence[Event], context: Sequence[Event]) -> Extraction:
        self.calls.append("extract")
        ids = (events[0].event_id,)
        return Extraction(
            statements=[StatementDraft(text=self.statement, event_ids=ids)],
            insights=[InsightDraft(text="Ann likes dogs.", event_ids=ids)],
        )

    async def reflect(
        self, memories: Sequence[Memory]
    ) -> tuple[Sequence[InsightDraft], ModelUsage]:
        self.calls.append("reflect")
        ids = tuple(one.memory_id for one in memories)
        return [InsightDraft(text=self.statement, memory_ids=ids)], NO_USAGE


async def texts(memory: MemoryEngine, kind: Any) -> list[str]:
    return sorted(one.text for one in await memory.list_memories(ANN, kinds=[kind], limit=1000))


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_two_threads_that_finish_together_write_one_statement(
    dsn: str, language: str
) -> None:
    readers = [Telling(text) for text in TOLD[language]]
    async with (
        open_memory(dsn, extractor=readers[0], worker=False) as one,
        open_memory(dsn, extractor=readers[1], worker=False) as other,
    ):
        barrier = asyncio.Barrier(2)
        for memory, thread in ((one, "t"), (other, "u")):
            await memory.append_events(ANN, thread, [said(thread, "It thundered in the night.")])
            meeting(memory, "like_texts", barrier)
        await asyncio.gather(one.consolidate(ANN, "t"), other.consolidate(ANN, "u"))
        [statement] = await texts(one, "semantic")
        assert statement in TOLD[language]
        assert ["Ann likes dogs."] == await texts(one, "reflection")
        assert [1, 1] == [reader.asked for reader in readers]  # none twice for the same turns
        assert 2 == len(await one.runs(ANN))


async def test_two_reflections_that_finish_together_write_one_insight(dsn: str) -> None:
    readers = [Telling(text) for text in TOLD["en"]]
    async with (
        open_memory(dsn, extractor=readers[0], worker=False) as one,
        open_memory(dsn, extractor=readers[1], worker=False) as other,
    ):
        await one.remember(ANN, ["Bruno hid under the bed.", "It thundered."])
        barrier = asyncio.Barrier(2)
        for memory in (one, other):
            meeting(memory, "like_texts", barrier)
        await asyncio.gather(one.reflect(ANN), other.reflect(ANN))
        [insight] = await texts(one, "reflection")
        assert insight in TOLD["en"]


async def test_words_are_found_where_no_vector_is_near(dsn: str) -> None:
    """Three others are nearer than what says the same."""

    def embed(given: Sequence[str]) -> list[list[float]]:
        return [[0.9, 0.1] if text == texts_told[0] else [1.0, 0.0] for text in given]

    texts_told = ["Bruno fears thunder.", *(f"Bruno met dog {n}." for n in range(6))]
    reader = Telling("")
    async with open_memory(dsn, embedder=embed, extractor=reader, worker=False) as memory:
        for number, text in enumerate([*texts_told, "Bruno fears thunder!"]):
            reader.statement = text
            await memory.append_events(ANN, f"t{number}", [said(f"e{number}", "Hello, my friend.")])
            await memory.consolidate(ANN, f"t{number}")
        assert sorted(texts_told) == await texts(memory, "semantic")


class Relating(RuleExtractor):
    """A fake: reads one edge of the user out of every turn, its relation being the turn's id."""

    name = "fake-v1"

    async def extract(self, events: Sequence[Event], context: Sequence[Event]) -> Extraction:
        return Extraction(
            triples=[
                TripleDraft(
                    subject="user", relation=one.event_id, object="Acme", event_id=one.event_id
                )
                for one in events
            ]
        )


async def tries_of_two_at_once(dsn: str, extractor: RuleExtractor, *turns: Event) -> int:
    """Consolidate two turns, each before it knows of the other; return how often they looked."""
    barrier, looks = asyncio.Barrier(2), 0
    async with open_memory(dsn, extractor=extractor, worker=False) as memory:

        async def counted() -> None:
            nonlocal looks
            looks += 1
            if looks <= 2:
                await barrier.wait()

        while_reading(memory, after=counted)
        for thread, turn in zip("tu", turns, strict=True):
            await memory.append_events(ANN, thread, [turn])
        await asyncio.gather(*(memory.consolidate(ANN, thread) for thread in "tu"))
    return looks


async def test_runs_on_different_relations_of_the_user_do_not_meet(dsn: str) -> None:
    turns = [said(relation, "A long story.") for relation in ("works_at", "lives_in")]
    assert 2 == await tries_of_two_at_once(dsn, Relating(), *turns)


async def test_runs_on_one_relation_meet(dsn: str) -> None:
    turns = [said("works_at", "A long story.") for _ in "tu"]
    assert 3 == await tries_of_two_at_once(dsn, Relating(), *turns)


async def test_many_runs_on_one_matter_all_come_through(dsn: str) -> None:
    """Each of 32 threads tells a value of one slot; a text is embedded once for all its tries."""
    embedded: list[str] = []

    def embed(given: Sequence[str]) -> list[list[float]]:
        embedded.extend(given)
        return [[1.0, 0.0] for _ in given]

    names = [f"{first}{second}" for first in ("Re", "Bo", "Mi", "Ta") for second in "adegklmn"]
    reader = Counting()
    async with open_memory(dsn, embedder=embed, extractor=reader, worker=False) as memory:
        for name in names:
            await memory.append_events(ANN, name, [said(name, f"I have a dog named {name}.")])
        embedded.clear()
        await asyncio.gather(*(memory.consolidate(ANN, name) for name in names))
        assert sorted(names) == sorted(one.value for one in await memory.facts(ANN))
        assert 32 == reader.asked  # none again for a name that its turn does not have
        told = [text for text in embedded if any(name in text for name in names)]
        assert sorted(set(told)) == sorted(told)


async def test_a_turn_is_read_again_if_another_run_named_somebody_in_it(dsn: str) -> None:
    reader = Counting()
    turns = [
        said("t", "I have a dog named Rex. Bo is older."),
        said("u", "I have a dog named Bo. Rex is older."),
    ]
    assert 3 == await tries_of_two_at_once(dsn, reader, *turns)
    assert 3 == reader.asked
