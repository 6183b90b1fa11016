"""Strategies of sessions: the built-in ones, one's own, broken and unknown ones."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from shared_core import (
    Event,
    InvalidInput,
    MemoryRecord,
    MemoryStrategy,
)
from tests.integration.talking import ANN, SCOPE, opened, rows, statements


class Shout(MemoryStrategy):
    """Remembers all that was said, as it was said."""

    @property
    def name(self) -> str:
        return "shout"

    async def extract(self, events: Sequence[Event], user_id: str) -> list[MemoryRecord]:
        text = "Said: " + " ".join(event.text for event in events)
        return [MemoryRecord(user_id=user_id, content=text, strategy_type=self.name)]


class Broken(Shout):
    """Raises while it is broken."""

    broken = True

    async def extract(self, events: Sequence[Event], user_id: str) -> list[MemoryRecord]:
        if self.broken:
            raise RuntimeError("out of order")
        return await super().extract(events, user_id)


async def consolidated(dsn: str, strategies: Sequence[object], *inputs: str) -> list[str]:
    async with opened(dsn, strategies=strategies) as memory:
        for text in inputs:
            await memory.process_memory(text, ANN)
        await memory.end_session(ANN)
        assert await memory.flush(60)
        edges = await memory.graph.neighbourhood(SCOPE, "user")
        return [*sorted(await statements(memory)), f"{len(edges.edges)} edges"]


async def test_a_strategy_of_ones_own_adds_to_what_is_remembered(dsn: str) -> None:
    strategies = ["privacy_filter", "graph_extraction", Shout()]
    assert ["I like tea.", "Said: I like tea", "1 edges"] == await consolidated(
        dsn, strategies, "I like tea"
    )


async def test_without_the_filter_general_knowledge_is_kept(dsn: str) -> None:
    assert ["Paris is the capital of France", "0 edges"] == await consolidated(
        dsn, ["graph_extraction"], "Paris is the capital of France"
    )


async def test_without_graph_extraction_there_are_no_edges(dsn: str) -> None:
    assert ["I like tea.", "0 edges"] == await consolidated(dsn, ["privacy_filter"], "I like tea")


async def test_a_strategy_that_raises_fails_its_job_and_stores_nothing_by_halves(dsn: str) -> None:
    broken = Broken()
    async with opened(dsn, strategies=["privacy_filter", broken]) as memory:
        await memory.process_memory("I like tea", ANN)
        await memory.end_session(ANN)
        assert not await memory.flush(60)
        assert ([("ending", 1)], []) == (rows(dsn), await statements(memory))
        [job] = await memory.jobs.list()
        assert "RuntimeError" in (job.error or "")
        broken.broken = False
        await memory.jobs.retry([job.job_id])
        assert await memory.flush(60)
        assert [("ended", 1)] == rows(dsn)
        assert ["I like tea.", "Said: I like tea"] == sorted(await statements(memory))


async def test_a_strategy_that_is_not_known_is_named_at_the_first_input(dsn: str) -> None:
    async with opened(dsn, strategies=["privacy_filter", "telepathy"]) as memory:
        with pytest.raises(InvalidInput, match="'telepathy' is not known: take one of privacy_f"):
            await memory.process_memory("I like tea", ANN)
        assert [] == rows(dsn)
