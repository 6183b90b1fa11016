"""What is no event, or no thread: refused by its name, on both engines alike."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from shared_core import Event, InvalidInput, MemoryEngine, NewMemory, Scope

pytestmark = pytest.mark.both_engines

ANN = Scope("app", "ann")
SAID = Event(
    event_id="e1",
    author="user",
    role="user",
    text="I like tea.",
    occurred_at=datetime(2026, 3, 2, tzinfo=UTC),
)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"text": None}, "text of event 'e1' must be a text, got None"),
        ({"text": b"x"}, "text of event 'e1' must be a text, got b'x'"),
        ({"author": 5}, "author of event 'e1' must be a text, got 5"),
        ({"metadata": None}, "metadata of event 'e1' must be a mapping, .* got None"),
        ({"metadata": [("a", 1)]}, "metadata of event 'e1' must be a mapping"),
        ({"event_id": ""}, "event_id must not be empty"),
        (
            {"occurred_at": SAID.occurred_at.replace(tzinfo=None)},
            "occurred_at of event 'e1' has no time zone",
        ),
        ({"importance": float("nan")}, "importance must be between 1 and 10, got nan"),
    ],
)
async def test_an_event_says_what_is_wrong_with_it(
    memory: MemoryEngine, changed: Any, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        await memory.append_events(ANN, "s", [SAID, replace(SAID, **changed)])
    assert [] == await memory.list_memories(ANN)


@pytest.mark.parametrize("metadata", [None, "x", 5, ["a"], [("a", 1)]])
async def test_metadata_of_a_memory_must_be_a_mapping(memory: MemoryEngine, metadata: Any) -> None:
    with pytest.raises(InvalidInput, match="metadata of a memory must be a mapping"):
        await memory.remember(ANN, NewMemory(text="I like tea.", metadata=metadata))
    assert [] == await memory.list_memories(ANN)


@pytest.mark.parametrize("number", [1e16, -1e22, 1.5e300, 2.5, 10**30, 10**16])
async def test_a_number_comes_back_with_its_type(memory: MemoryEngine, number: float) -> None:
    await memory.remember(ANN, NewMemory(text="I like tea.", metadata={"n": [number]}))
    [found] = await memory.list_memories(ANN)
    assert repr({"n": [number]}) == repr(found.value["metadata"])


async def test_what_is_no_event_is_shown(memory: MemoryEngine) -> None:
    given: Any = {"text": "I like tea."}
    with pytest.raises(InvalidInput, match="events must be Event objects, got {'text'"):
        await memory.append_events(ANN, "s", [given])


@pytest.mark.parametrize("thread", ["", None, 5, "a\0b", "a\ud800"])
async def test_a_thread_that_cannot_be_is_named(memory: MemoryEngine, thread: Any) -> None:
    with pytest.raises(InvalidInput, match="^thread_id "):
        await memory.append_events(ANN, thread, [SAID])
    with pytest.raises(InvalidInput, match="^thread_id "):
        await memory.consolidate(ANN, thread)
