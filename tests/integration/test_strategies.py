"""Strategies of sessions: the built-in ones, one's own, broken and unknown ones."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tenacity import wait_fixed

from shared_core import Event, InvalidInput, MemoryRecord, MemoryStrategy, open_memory
from shared_core.core.domain import Extraction, ModelUsage, StatementDraft
from tests.integration.talking import ANN, SCOPE, opened, rows, statements

ROOT = Path(__file__).parents[2]


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


class Weighing(Shout):
    """Notes how much it thinks of what it remembers."""

    metadata: Any = {"weight": 3}

    async def extract(self, events: Sequence[Event], user_id: str) -> list[MemoryRecord]:
        [record] = await super().extract(events, user_id)
        return [replace(record, metadata=self.metadata)]


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


async def test_a_strategy_that_raises_fails_its_job_and_stores_nothing_by_halves(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shared_core.jobs.runner.POISON", wait_fixed(0.01))
    broken = Broken()
    async with opened(dsn, strategies=["privacy_filter", broken]) as memory:
        await memory.process_memory("I like tea", ANN)
        await memory.end_session(ANN)
        assert not await memory.flush(60)
        assert ([("ended", 1)], []) == (rows(dsn), await statements(memory))
        [job] = await memory.jobs.list()
        assert "RuntimeError" in (job.error or "")
        broken.broken = False
        await memory.jobs.retry([job.job_id])
        assert await memory.flush(60)
        assert [("ended", 1)] == rows(dsn)
        assert ["I like tea.", "Said: I like tea"] == sorted(await statements(memory))


async def test_a_strategy_that_is_not_known_is_named_at_the_first_input(dsn: str) -> None:
    async with opened(dsn, strategies=["privacy_filter", "telepathy"]) as memory:
        with pytest.raises(InvalidInput, match="'telepathy' is unknown: name one of privacy_f"):
            await memory.process_memory("I like tea", ANN)
        assert [] == rows(dsn)


PACKAGE = """
from shared_core import MemoryRecord, MemoryStrategy


class Promises(MemoryStrategy):
    @property
    def name(self):
        return "promises"

    async def extract(self, events, user_id):
        return [
            MemoryRecord(user_id=user_id, content=one.text, strategy_type=self.name,
                         event_ids=(one.event_id,))
            for one in events if "promise" in one.text
        ]
"""
PROCESS = """
import asyncio, sys
from shared_core import open_memory


async def main():
    async with open_memory(sys.argv[1]) as memory:
        await memory.process_memory("Will you wait? I promise to call", user_id="ann")
        await memory.end_session("ann")
        assert await memory.flush(60)


asyncio.run(main())
"""


async def test_a_package_that_is_installed_is_found_by_its_entry_point(
    dsn: str, tmp_path: Path
) -> None:
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    environment = {
        **os.environ, "MEMORY_STRATEGIES": "privacy_filter,promises", "PYTHONPATH": path
    }  # fmt: skip

    async def remembering() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", PROCESS, dsn]
        return await asyncio.to_thread(
            subprocess.run, command, env=environment, capture_output=True, text=True
        )

    missing = await remembering()
    assert "strategy 'promises' is unknown" in missing.stderr
    (tmp_path / "our_promises.py").write_text(PACKAGE)
    info = tmp_path / "our_promises-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: our-promises\nVersion: 1.0\n")
    points = "[hippocampus.strategies]\npromises = our_promises:Promises\n"
    (info / "entry_points.txt").write_text(points)
    done = await remembering()
    assert 0 == done.returncode, done.stderr
    async with opened(dsn) as memory:
        assert "Will you wait? I promise to call" in {
            one.text for one in await memory.list_memories(SCOPE)
        }


async def test_what_a_strategy_notes_is_stored_with_the_memory(dsn: str) -> None:
    async with opened(dsn, strategies=[Weighing()]) as memory:
        await memory.process_memory("Something about bees", ANN)
        await memory.end_session(ANN)
        assert await memory.flush(60)
        found = [one.value["metadata"] for one in await memory.list_memories(SCOPE)]
        [kept] = [one for one in found if isinstance(one, dict) and one.get("strategy") == "shout"]
        assert {"weight": 3} == kept["strategy_metadata"]


@pytest.mark.parametrize("noted", [7, {"weight": float("nan")}, {"at": object()}])
async def test_what_is_no_json_is_refused_by_the_name_of_the_strategy(
    dsn: str, noted: object
) -> None:
    strategy = Weighing()
    strategy.metadata = noted
    async with opened(dsn, strategies=[strategy]) as memory:
        await memory.process_memory("Something about bees", ANN)
        session = await memory.conversations.end(SCOPE)
        assert session is not None
        with pytest.raises(InvalidInput, match="the metadata of strategy 'shout'"):
            await memory.consolidate(SCOPE, session.session_id)


class Model:
    """An extractor that is no rules: it says what it was told to say of the first turn."""

    name, window_tokens, reread_turns = "model", 10_000, 0

    async def extract(self, events: Sequence[Event], context: Sequence[Event]) -> Extraction:
        told = ["The user keeps bees.", "Paris is the capital of France."]
        ids = (events[0].event_id,)
        return Extraction(
            statements=[
                StatementDraft(text=text, event_ids=ids, privacy=privacy)
                for text, privacy in zip(told, ("private", "public"), strict=True)
            ]
        )

    async def summarise(
        self, events: Sequence[Event], previous: str, max_characters: int
    ) -> tuple[str, ModelUsage]:
        raise AssertionError("of a session no summary is written")


async def test_a_model_makes_its_own_statements_and_the_filter_holds(dsn: str) -> None:
    async with open_memory(dsn, extractor=Model()) as memory:
        await memory.process_memory("Something about bees", ANN)
        await memory.end_session(ANN)
        assert await memory.flush(60)
        assert ["The user keeps bees."] == await statements(memory)


async def test_only_what_is_returned_counts_as_read(dsn: str) -> None:
    async with opened(dsn) as memory:
        for text in ("I live in Lisbon", "I like tea", "I have a cat called Tom"):
            await memory.process_memory(text, ANN)
        await memory.end_session(ANN)
        assert await memory.flush(60)
        answer = await memory.process_memory("Where do I live?", ANN)
        assert ["I live in Lisbon."] == [one["content"] for one in answer["memories"]]
        known = await memory.list_memories(SCOPE)
        read = await memory.accesses(SCOPE, [one.memory_id for one in known])
        assert ["I live in Lisbon."] == [one.text for one in known if one.memory_id in read]
