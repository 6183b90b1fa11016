"""The memory loop of one agent on a real SeekDB, from its public face."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from seekdb_databases import SeekdbDatabases

from shared_core import (
    ExtractionStrategy,
    InvalidInput,
    MemoryCoreError,
    MemoryManager,
    NewMemory,
    OceanBaseMemoryProvider,
    Scope,
)


@pytest.fixture
async def memory(seekdb: SeekdbDatabases) -> AsyncIterator[OceanBaseMemoryProvider]:
    lent = seekdb.lend()
    async with OceanBaseMemoryProvider(next(lent), agent_id="concierge", worker=False) as memory:
        yield memory
    next(lent, None)


def told(hits: object) -> list[str]:
    return [hit.memory.text for hit in hits]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "question", "said"),
    [
        ("Alice", "What is the user's name?", "My name is Alice."),
        ("朱莉", "用户叫什么名字？", "我叫朱莉。"),
    ],
)
async def test_a_name_that_was_told_is_used_later(
    memory: OceanBaseMemoryProvider, name: str, question: str, said: str
) -> None:
    assert isinstance(memory, MemoryManager)
    await memory.append_event("monday", said)
    report = await memory.consolidate("monday")
    assert report.facts_opened == 1
    window = await memory.context("friday", question, system_prompt="Be kind.", max_tokens=500)
    assert name in window.to_prompt()
    assert name in told(await memory.recall(question))[0]


async def test_an_event_is_there_in_the_next_statement(memory: OceanBaseMemoryProvider) -> None:
    missed = 0
    for number in range(100):
        await memory.append_event("s", f"The code of room {number} is {number * 7919}.")
        hits = await memory.recall(f"code of room {number}", limit=3)
        missed += not any(f"room {number} " in text for text in told(hits))
    assert missed == 0


async def test_an_event_is_appended_once(memory: OceanBaseMemoryProvider) -> None:
    again = [memory.append_event("s", "I like tea.", event_id="e1") for _ in range(5)]
    assert set(await asyncio.gather(*again)) == {"e1"}
    assert told(await memory.recall("tea")) == ["I like tea."]


async def test_thoughts_and_tools_are_events_as_well(memory: OceanBaseMemoryProvider) -> None:
    await memory.append_event("s", "The user seems to be in a hurry.", event_type="agent_thought")
    await memory.append_event("s", {"tool": "weather", "city": "Oslo"}, event_type="tool_call")
    await memory.append_event("s", {"text": "It rains in Oslo."}, event_type="agent_msg")
    assert any("rains" in text for text in told(await memory.recall("rain in Oslo")))


HOSTILE = ("'; DROP TABLE memories; --", '+"(*', "%s %(x)s 100%", "\\", "u1' OR '1'='1", "🙂")


@pytest.mark.parametrize("text", HOSTILE)
async def test_no_text_is_read_as_a_statement(memory: OceanBaseMemoryProvider, text: str) -> None:
    await memory.append_event("s", "I like tea.")
    await memory.append_event(f"s {text}", f"My code is {text} today.", event_id=f"e {text}")
    found = told(await memory.recall(f"code {text}", limit=2))
    assert any(found_text.startswith("My code is") for found_text in found)
    await memory.consolidate(f"s {text}")
    assert told(await memory.recall("tea", limit=1)) == ["I like tea."]


LOOK_ALIKE = (
    "alice", "Alicé", "Alice ", "ALICE", "u1' OR '1'='1", "alice\u00a0", "ａｌｉｃｅ",
    "alice\u200b", "alice\u0301", "🙂", "👩\u200d👧", "ali/ce", "ali%2Fce", "ali_ce", "ali%",
    "a\\", "ﬁ", "fi", "*",
)  # fmt: skip


async def test_agents_whose_names_look_alike_share_nothing(seekdb: SeekdbDatabases) -> None:
    lent = seekdb.lend()
    uri, names = next(lent), LOOK_ALIKE
    for place, name in enumerate(names):
        async with OceanBaseMemoryProvider(uri, agent_id=name, worker=False) as memory:
            await memory.append_event("s", f"The secret number is {place}.")
    for place, name in enumerate(names):
        async with OceanBaseMemoryProvider(uri, agent_id=name, worker=False) as memory:
            assert told(await memory.recall("secret number")) == [f"The secret number is {place}."]
    next(lent, None)


async def test_a_large_message_is_kept_whole(memory: OceanBaseMemoryProvider) -> None:
    said = "I like tea. 我喜欢茶。 " * 400_000  # of more than 10 MB
    await memory.append_event("s", said)
    [turn] = await memory.engine.list_memories(memory.scope)
    assert turn.text == said.strip()


async def test_a_session_that_could_never_be_consolidated_is_refused_at_once(
    memory: OceanBaseMemoryProvider,
) -> None:
    with pytest.raises(InvalidInput, match="session, is too long: it takes at most 1,492 bytes"):
        await memory.append_event("s" * 1493, "My name is Ann.")
    await memory.append_event("s" * 1492, "My name is Ann.")
    assert (await memory.consolidate("s" * 1492)).facts_opened == 1


class Odd:
    """An embedder whose vectors hold what no distance can be told of."""

    model = "odd"

    def __init__(self, value: float) -> None:
        self._value = value

    async def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.full((len(texts), 8), self._value, dtype=np.float32)

    async def embed_query(self, text: str) -> NDArray[np.float32]:
        return await self.embed_passages([text])


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
async def test_a_vector_that_is_none_is_refused_and_nothing_is_stored(
    seekdb: SeekdbDatabases, value: float
) -> None:
    lent = seekdb.lend()
    options = {"embedder": Odd(value), "worker": False}
    async with OceanBaseMemoryProvider(next(lent), agent_id="a", **options) as memory:
        with pytest.raises(MemoryCoreError):
            await memory.append_event("s", "I like tea.")
        assert await memory.engine.list_memories(memory.scope) == []
    next(lent, None)


async def test_what_has_no_direction_is_found_by_its_words(seekdb: SeekdbDatabases) -> None:
    lent = seekdb.lend()
    options = {"embedder": Odd(0.0), "worker": False}
    async with OceanBaseMemoryProvider(next(lent), agent_id="a", **options) as memory:
        await memory.append_event("s", "I like tea.")
        await memory.append_event("s", "It rains.")
        assert told(await memory.recall("tea", limit=1)) == ["I like tea."]
    next(lent, None)


async def test_bad_input_is_named(memory: OceanBaseMemoryProvider) -> None:
    with pytest.raises(InvalidInput, match="event_type 'shout'"):
        await memory.append_event("s", "x", event_type="shout")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="min_importance"):
        await memory.recall("x", min_importance=7)
    with pytest.raises(InvalidInput, match="needs OceanBase"):
        OceanBaseMemoryProvider("postgresql://localhost/x", agent_id="a")


async def test_what_an_adk_agent_learns_a_graph_reads(seekdb: SeekdbDatabases) -> None:
    from google.adk.events import Event
    from google.adk.sessions import Session
    from google.genai import types

    from adk_memory import OpenMemoryService
    from langgraph_store import OceanBaseHippocampusStore

    lent = seekdb.lend()
    uri = next(lent)
    content = types.Content(role="user", parts=[types.Part(text="我住在深圳，喜欢火锅。")])
    session = Session(
        id="s1", app_name="app", user_id="朱莉", events=[Event(author="user", content=content)]
    )
    service = OpenMemoryService(uri=uri)
    await service.add_session_to_memory(session)
    async with OceanBaseHippocampusStore(uri) as store:
        found = await store.asearch(("app", "朱莉", "memories"), query="她住在哪里？")
        assert any("深圳" in str(item.value) for item in found)
        await store.aput(("app", "朱莉", "memories"), "k1", {"text": "She plays the cello."})
    answer = await service.search_memory(app_name="app", user_id="朱莉", query="cello")
    assert any("cello" in str(entry.content) for entry in answer.memories)
    await service.close()
    next(lent, None)


def test_the_store_of_another_engine_is_named() -> None:
    from langgraph_store import OceanBaseHippocampusStore

    with pytest.raises(InvalidInput, match="OceanBase, not in 'embedded'"):
        OceanBaseHippocampusStore()


async def test_what_is_important_is_found_among_much_that_is_not(
    memory: OceanBaseMemoryProvider,
) -> None:
    await memory.engine.remember(
        memory.scope,
        [NewMemory(text=f"Tea number {number} is nice.", importance=2.0) for number in range(200)]
        + [
            NewMemory(text="The user once drank some tea.", importance=number)
            for number in (3.0, 5.7)
        ],
    )
    for least, count in ((0.0, 5), (0.3, 2), (0.57, 1), (0.58, 0)):
        hits = await memory.recall("Tea number 7", min_importance=least)
        assert len(hits) == count and all(hit.memory.importance >= 10 * least for hit in hits)


@pytest.mark.parametrize("name", ["", "  ", None, 5, "a\0b"])
def test_a_name_that_cannot_be_is_called_as_it_was_given(name: object) -> None:
    with pytest.raises(InvalidInput, match=r"^agent_id "):
        OceanBaseMemoryProvider("seekdb:///nowhere", agent_id=name)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"^app "):
        OceanBaseMemoryProvider("seekdb:///nowhere", agent_id="a", app=name)  # type: ignore[arg-type]


def test_later_is_true_or_false() -> None:
    with pytest.raises(InvalidInput, match="later must be True or False, got 'yes'"):
        OceanBaseMemoryProvider("seekdb:///nowhere", agent_id="a", later="yes")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="strategy must be an ExtractionStrategy, got 'x'"):
        OceanBaseMemoryProvider("seekdb:///nowhere", agent_id="a", strategy="x")


async def test_errors_name_the_argument_that_was_given(memory: OceanBaseMemoryProvider) -> None:
    given: Any = None
    for given in ("", " ", {}, None, 5, b"x", ["x"], {"a": object()}, {1: 2}, {"x": math.nan}):
        with pytest.raises(InvalidInput, match=r"^content "):
            await memory.append_event("s", given)
    for given in ("", None, 5, "a\0"):
        with pytest.raises(InvalidInput, match=r"^session_id "):
            await memory.append_event(given, "x")
        with pytest.raises(InvalidInput, match=r"^session_id "):
            await memory.consolidate(given)
        with pytest.raises(InvalidInput, match=r"^session_id "):
            await memory.context(given, "x")
    for given in ("", 5, "a\0"):
        with pytest.raises(InvalidInput, match=r"^event_id "):
            await memory.append_event("s", "x", event_id=given)
    for given in (math.nan, -1, 2, None, "0.5", True):
        with pytest.raises(InvalidInput, match=r"^min_importance "):
            await memory.recall("x", min_importance=given)
    for given in (-1, 1.5, None, "5", 100_001):
        with pytest.raises(InvalidInput, match=rf"^limit .* got {given!r}$"):
            await memory.recall("x", limit=given, min_importance=0.5)
    assert await memory.recall("x", limit=100_000, min_importance=0.5) == []


async def test_the_whole_of_an_event_is_kept_beside_its_text(
    memory: OceanBaseMemoryProvider,
) -> None:
    call = {"text": "It rains in Oslo.", "tool": "weather", "millimetres": 3.5}
    await memory.append_event("s", call, event_type="tool_call")
    [turn] = await memory.engine.list_memories(memory.scope)
    assert turn.text == "It rains in Oslo."
    assert turn.value["metadata"] == {"event_type": "tool_call", "content": call}


def test_where_it_is_may_stand_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIPPOCAMPUS_URI", "postgresql://localhost/x")
    with pytest.raises(InvalidInput, match="got 'postgresql://localhost/x'"):
        OceanBaseMemoryProvider(agent_id="a")
    monkeypatch.setenv("HIPPOCAMPUS_URI", "seekdb:///nowhere")
    assert OceanBaseMemoryProvider(agent_id="a").scope == Scope("agents", "a")
    monkeypatch.delenv("HIPPOCAMPUS_URI")
    with pytest.raises(InvalidInput, match="uri or HIPPOCAMPUS_URI must be"):
        OceanBaseMemoryProvider(agent_id="a")


async def test_a_session_that_ended_is_consolidated_by_the_worker(seekdb: SeekdbDatabases) -> None:
    lent = seekdb.lend()
    never = ExtractionStrategy(delay_s=10_000)
    options: Any = {"agent_id": "a", "later": True, "strategy": never}
    async with OceanBaseMemoryProvider(next(lent), **options) as memory:
        await memory.append_event("s", "My name is Ann.")
        assert told(await memory.recall("name")) == ["My name is Ann."]
        assert [] == await memory.engine.facts(memory.scope)
        await memory.end_session("s")
        assert await memory.engine.flush(60)
        assert ["Ann"] == [fact.value for fact in await memory.engine.facts(memory.scope)]
        await memory.end_session("s")
        await memory.end_session("never begun")
    next(lent, None)
