"""Runs that finish together: what both of them read anew is written once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from shared_core import Event, MemoryEngine, Scope, open_memory
from shared_core.domain import (
    NO_USAGE,
    Extraction,
    InsightDraft,
    Memory,
    ModelUsage,
    StatementDraft,
)
from shared_core.extraction import RuleExtractor

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


class Telling(RuleExtractor):
    """A fake: makes one statement and one insight of every thread, or of all memories."""

    name = "fake-v1"

    def __init__(self, statement: str) -> None:
        super().__init__()
        self.statement = statement
        self.asked = 0

    async def extract(self, events: Sequence[Event], context: Sequence[Event]) -> Extraction:
        self.asked += 1
        ids = (events[0].event_id,)
        return Extraction(
            statements=[StatementDraft(text=self.statement, event_ids=ids)],
            insights=[InsightDraft(text="Ann likes dogs.", event_ids=ids)],
        )

    async def reflect(
        self, memories: Sequence[Memory]
    ) -> tuple[Sequence[InsightDraft], ModelUsage]:
        self.asked += 1
        ids = tuple(one.memory_id for one in memories)
        return [InsightDraft(text=self.statement, memory_ids=ids)], NO_USAGE


def meeting(memory: MemoryEngine, barrier: asyncio.Barrier) -> None:
    """Let the first look at what is known wait until the other memory has looked, too."""
    look: Callable[..., Any] = memory._storage.like_texts

    async def looks(*given: Any) -> Any:
        found = await look(*given)
        if waiting:
            waiting.clear()
            await barrier.wait()
        return found

    waiting = [True]
    memory._storage.like_texts = looks  # type: ignore[method-assign]


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
            meeting(memory, barrier)
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
            meeting(memory, barrier)
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
