"""The promise: what one framework stores, the other reads in its next statement."""

import time
from datetime import UTC, datetime, timedelta

import pytest
from google.adk.events.event import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session
from google.genai import types

from adk_memory import OpenMemoryService
from langgraph_store import PgHippocampusStore, memories_namespace
from shared_core import open_memory

pytestmark = pytest.mark.both_engines

WHO = {"app_name": "support.bot", "user_id": "alice@example.com"}
NAMESPACE = memories_namespace(**WHO)


def said(text: str, event_id: str = "", author: str = "user") -> Event:
    content = types.Content(role="user", parts=[types.Part(text=text)])
    given = {"id": event_id, "author": author, "invocation_id": "i"}
    return Event(timestamp=time.time(), content=content, **given)


def words(response: object) -> list[str]:
    return [entry.content.parts[0].text for entry in response.memories]  # type: ignore[attr-defined]


@pytest.fixture
def faces(memory):
    return OpenMemoryService(engine=memory), PgHippocampusStore(engine=memory)


@pytest.mark.parametrize(
    ("told", "asked"),
    [
        ("I am allergic to peanuts.", "Which food is dangerous for her?"),
        ("我对花生过敏。", "她不能吃什么？"),
        ("我对花生过敏。", "What food is she allergic to?"),
    ],
)
async def test_a_store_finds_what_an_adk_session_said(faces, told, asked):
    service, store = faces
    session = Session(id="s1", events=[said(told), said("Noted.", author="bot")], **WHO)
    await service.add_session_to_memory(session)
    found = await store.asearch(NAMESPACE, query=asked)
    assert told in [item.value["content"] for item in found[:3]]


async def test_an_adk_search_finds_what_a_store_put(faces):
    service, store = faces
    await store.aput(NAMESPACE, "food", {"content": "Alice eats no meat."})
    await store.aput(NAMESPACE, "旅行", {"text": "她四月去里斯本"})
    [first, *_] = (await service.search_memory(query="Is she vegetarian?", **WHO)).memories
    assert first.id == "food"
    assert words(await service.search_memory(query="里斯本", **WHO))[0] == "她四月去里斯本"


async def test_the_same_id_names_a_memory_on_both_sides(faces):
    service, store = faces
    entry = MemoryEntry(content=types.Content(parts=[types.Part(text="Alice owns a parrot.")]))
    await service.add_memory(memories=[entry], **WHO)
    [found] = (await service.search_memory(query="parrot", **WHO)).memories
    item = await store.aget(NAMESPACE, found.id or "")
    assert item is not None
    assert item.value["content"] == "Alice owns a parrot."


async def test_what_one_side_deletes_is_gone_on_the_other(faces):
    service, store = faces
    await store.aput(NAMESPACE, "a", {"content": "Alice plays the oboe."})
    session = Session(id="s1", events=[said("I play chess every Sunday.", "e1")], **WHO)
    await service.add_session_to_memory(session)
    await service.delete_memory(memory_id="a", **WHO)
    [chess] = [item for item in await store.asearch(NAMESPACE, filter={"kind": "episodic"})]
    await store.adelete(NAMESPACE, chess.key)
    await service.add_session_to_memory(session)
    assert await store.asearch(NAMESPACE) == []
    assert words(await service.search_memory(query="oboe or chess?", **WHO)) == []


async def test_what_expires_is_gone_on_both_sides(dsn):
    now = [datetime(2026, 3, 1, tzinfo=UTC)]
    async with open_memory(dsn, clock=lambda: now[0]) as memory:
        store, service = PgHippocampusStore(engine=memory), OpenMemoryService(engine=memory)
        await store.aput(NAMESPACE, "soon", {"content": "The code is 4711."}, ttl=1.5)
        now[0] += timedelta(seconds=89)
        assert words(await service.search_memory(query="code", **WHO)) == ["The code is 4711."]
        now[0] += timedelta(seconds=2)
        assert words(await service.search_memory(query="code", **WHO)) == []
        assert await store.aget(NAMESPACE, "soon") is None
