"""What the faces store has the time of the memory's own clock, not that of a wrong machine."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo

import pytest
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types
from langchain_core.messages import HumanMessage

from adk_memory import OpenMemoryService
from langgraph_store.turn_feed import RunIdentity, TurnFeed
from shared_core import MemoryEngine, OceanBaseMemoryProvider, Scope, open_memory
from shared_core.core import timestamps

ANN = Scope("app", "ann")
AHEAD = timedelta(days=400)
NEAR = timedelta(hours=1)
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


class AnyDatetime(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, datetime)


class Fast(datetime, metaclass=AnyDatetime):
    """The time of a machine whose clock is ahead."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Fast:
        ahead = datetime.now(tz) + AHEAD
        return cls.combine(ahead.date(), ahead.timetz())


@pytest.fixture(autouse=True)
def wrong_machine(monkeypatch):
    monkeypatch.setattr(timestamps, "datetime", Fast)


@pytest.fixture
async def old(dsn):
    async with open_memory(dsn, worker=False, clock=lambda: LONG_AGO) as memory:
        yield memory


async def said_at(memory: MemoryEngine, scope: Scope) -> datetime:
    [turn] = await memory.list_memories(scope, kinds=["episodic"])
    return turn.occurred_at


@pytest.mark.parametrize("clock", [None, lambda: LONG_AGO], ids=["server", "argument"])
async def test_an_event_of_an_agent_on_seekdb_has_the_time_of_server_or_clock(seekdb_dsn, clock):
    options = {"clock": clock, "worker": False}
    async with OceanBaseMemoryProvider(seekdb_dsn, agent_id="ann", **options) as memory:
        await memory.append_event("s", "I like tea.")
        expected = clock() if clock else datetime.now(UTC)
        assert abs(await said_at(memory.engine, memory.scope) - expected) < NEAR


async def test_a_turn_of_a_graph_has_the_time_of_its_memory(old):
    feed = TurnFeed(old, RunIdentity("app"))
    assert await feed.append(ANN, "t", [HumanMessage("I like tea.", id="m1")])
    assert LONG_AGO == await said_at(old, ANN)


async def test_a_lifetime_begins_by_the_clock_of_the_memory(old):
    content = types.Content(role="user", parts=[types.Part(text="I like tea.")])
    entry = MemoryEntry(content=content, custom_metadata={"ttl": "3600s"})
    await OpenMemoryService(engine=old).add_memory(app_name="app", user_id="ann", memories=[entry])
    [stored] = await old.list_memories(ANN)
    assert LONG_AGO + timedelta(hours=1) == stored.expires_at
