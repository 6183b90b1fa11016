"""What is forgotten is gone, with everything that rested on it alone, whoever works meanwhile."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from shared_core import Event, InvalidInput, MemoryEngine, NewMemory, Scope, open_memory
from shared_core.core.domain import Extraction
from shared_core.extraction.rule_based import RuleExtractor
from shared_core.ingest.items import WriteItem
from shared_core.storage.postgres.connection.embedded import describe

ANN = Scope("app", "ann")
START = datetime(2026, 3, 1, 9, tzinfo=UTC)


def said(event_id: str, text: str, role: str = "user") -> Event:
    return Event(
        event_id=event_id,
        author="user",
        role=role,  # type: ignore[arg-type]
        text=text,
        occurred_at=START + timedelta(minutes=len(event_id)),
    )


async def key_of(memory: MemoryEngine, text: str) -> str:
    hits = await memory.recall(ANN, text, kinds=["episodic"], limit=100)
    return next(hit.memory.key for hit in hits if hit.memory.text == text)


async def test_a_fact_goes_with_the_last_of_its_turns(memory: MemoryEngine) -> None:
    turns = ["I live in Leeds.", "Hello again. I live in Leeds."]
    await memory.append_events(ANN, "t", [said("a", turns[0]), said("bb", turns[1])])
    await memory.consolidate(ANN, "t")
    [fact] = await memory.facts(ANN)
    assert ("a", "bb") == fact.source_event_ids
    await memory.forget(ANN, await key_of(memory, turns[0]))
    [fact] = await memory.facts(ANN)
    assert ("bb",) == fact.source_event_ids
    await memory.forget(ANN, await key_of(memory, turns[1]))
    assert [] == await memory.facts(ANN, history=True)
    assert [] == await memory.recall(ANN, "Leeds")


async def test_a_turn_forgotten_while_it_is_read_leaves_no_fact(dsn: str) -> None:
    class Interrupted(RuleExtractor):
        async def extract(self, events: Sequence[Event], context: Sequence[Event]) -> Extraction:
            drafts = await super().extract(events, context)
            if not forgotten:
                forgotten.append(await memory.forget(ANN, await key_of(memory, "I live in Leeds.")))
            return drafts

    forgotten: list[int] = []
    async with open_memory(dsn, extractor=Interrupted()) as memory:
        await memory.append_events(
            ANN, "t", [said("a", "I live in Leeds."), said("bb", "I love tea.")]
        )
        report = await memory.consolidate(ANN, "t")
        assert ["User likes tea."] == [fact.statement for fact in await memory.facts(ANN)]
        assert (1, "Leeds" in report.summary) == (report.events, False)
        assert [] == [
            hit for hit in await memory.recall(ANN, "Leeds") if "Leeds" in hit.memory.text
        ]


async def test_a_sweep_deletes_what_expired_below_its_path_only(dsn: str) -> None:
    now = [START]
    async with open_memory(dsn, clock=lambda: now[0]) as memory:
        places = [("a", "b", "x"), ("a", "b", "y"), ("c", "d", "x")]
        await memory.run_item_ops(
            [WriteItem(address=(place, "k"), value={"text": "tea"}, ttl_s=60) for place in places]
        )
        now[0] += timedelta(minutes=2)
        assert [1, 1, 1] == [await memory.sweep_expired(place) for place in (*places[:2], ())]


async def test_an_embedded_server_that_was_killed_comes_back(tmp_path: Path) -> None:
    async with open_memory(tmp_path) as memory:
        await memory.remember(ANN, "Ann sails.")
        pid = describe(tmp_path).pid
        assert pid
        os.kill(pid, signal.SIGKILL)
        await asyncio.sleep(0.1)
        assert ["Ann sails."] == [hit.memory.text for hit in await memory.recall(ANN, "sails")]
    assert not describe(tmp_path).running


@pytest.mark.parametrize(
    ("memory_fields", "complaint"),
    [
        ({"kind": "nonsense"}, "kind 'nonsense'"),
        ({"importance": 11}, "importance"),
        ({"occurred_at": datetime(2026, 1, 1)}, "occurred_at has no time zone"),  # noqa: DTZ001
        ({"expires_at": datetime(2026, 1, 1)}, "expires_at has no time zone"),  # noqa: DTZ001
        ({"occurred_at": datetime.fromisoformat("0001-01-01T00:00+14:00")}, "out of range"),
    ],
)
async def test_a_memory_that_cannot_be_is_refused(
    memory: MemoryEngine, memory_fields: dict[str, object], complaint: str
) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        await memory.remember(ANN, ["tea", NewMemory(text="tea", **memory_fields)])  # type: ignore[arg-type]
    assert [] == await memory.recall(ANN, "tea")


async def test_odd_turns_and_limits_are_refused(memory: MemoryEngine) -> None:
    with pytest.raises(InvalidInput, match="role 'assistant'"):
        await memory.append_events(ANN, "t", [said("a", "tea", role="assistant")])
    with pytest.raises(InvalidInput, match="limit"):
        await memory.recall(ANN, "tea", limit=10**19)
    mixed = [NewMemory(text="tea", importance=7), NewMemory(text="coffee")]
    assert 2 == len(await memory.remember(ANN, mixed))
