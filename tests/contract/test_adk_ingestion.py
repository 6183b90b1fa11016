"""What OpenMemoryService takes out of ADK events, and what an invocation asks it twice."""

from __future__ import annotations

from typing import Any

import pytest
from google.adk.events import Event, EventActions
from google.genai import types

from adk_memory import OpenMemoryService, invocation_cache
from adk_memory.events import MAX_TOOL_CHARACTERS, to_core_events
from shared_core import MemoryEngine
from shared_core.recall.service import Recall

pytestmark = pytest.mark.both_engines

WHO = {"app_name": "app", "user_id": "ann"}
Part = types.Part


def event(*parts: Part, **fields: Any) -> Event:
    content = types.Content(role="model", parts=list(parts))
    return Event(**{"author": "bot", "invocation_id": "i", "content": content, **fields})


def answer(name: str, response: dict[str, Any]) -> Part:
    return Part.from_function_response(name=name, response=response)


@pytest.fixture
def service(memory: MemoryEngine) -> OpenMemoryService:
    return OpenMemoryService(engine=memory)


async def found(service: OpenMemoryService, query: str) -> list[str]:
    entries = (await service.search_memory(**WHO, query=query)).memories
    return [part.text or "" for entry in entries for part in entry.content.parts or []]


async def test_what_tools_answered_is_remembered_when_asked_for(memory: MemoryEngine) -> None:
    said = [event(answer("weather", {"city": "Lisbon", "degrees": 21}), id="e1")]
    for wanted, expected in ((False, []), (True, ['weather: {"city": "Lisbon", "degrees": 21}'])):
        service = OpenMemoryService(engine=memory, include_tool_results=wanted)
        await service.add_events_to_memory(**WHO, events=said, session_id="s")
        assert expected == await found(service, "weather Lisbon degrees")


def test_a_tool_result_is_bounded_and_never_a_secret() -> None:
    secret = answer("adk_request_credential", {"token": "hunter2"})
    asked = Part.from_function_call(name="adk_request_confirmation", args={"pin": "4711"})
    long = answer("read", {"page": "x" * 10_000})
    odd = answer("odd", {"of": object, "nul": "a\x00b"})
    given = [event(secret), event(asked, Part(text="May I?")), event(long), event(odd)]
    [page, strange] = to_core_events(given, tool_results=True)
    assert MAX_TOOL_CHARACTERS == len(page.text)
    assert strange.text.startswith('odd: {"of": "<class')
    assert [] == to_core_events(given)


def test_what_adk_made_to_save_space_is_no_memory() -> None:
    from google.adk.events.event_actions import EventCompaction

    summary = types.Content(role="model", parts=[Part(text="They spoke of tea.")])
    compaction = EventCompaction(start_timestamp=1, end_timestamp=2, compacted_content=summary)
    made = event(Part(text="tea"), actions=EventActions(compaction=compaction))
    assert [] == to_core_events([made, Event(author="bot", actions=made.actions)])


async def test_an_invocation_asks_the_same_once_until_something_is_written(
    service: OpenMemoryService, memory: MemoryEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    recall = Recall.__call__

    async def counted(self: Recall, scope: Any, query: str, **options: Any) -> Any:
        asked.append(query)
        return await recall(self, scope, query, **options)

    monkeypatch.setattr(Recall, "__call__", counted)
    tea, more = event(Part(text="tea")), event(Part(text="more tea"))
    await service.add_events_to_memory(**WHO, events=[tea], session_id="s")
    for _ in range(2):
        await found(service, "tea")
    assert ["tea", "tea"] == asked
    invocation_cache.begin("i1")
    for _ in range(3):
        assert ["tea"] == await found(service, "tea")
    assert 3 == len(asked)
    await service.add_events_to_memory(**WHO, events=[more], session_id="s")
    assert {"tea", "more tea"} <= set(await found(service, "tea"))
    entries = (await service.search_memory(**WHO, query="tea")).memories
    [first] = [entry for entry in entries if entry.content == tea.content]
    await service.delete_memory(**WHO, memory_id=first.id)
    assert ["more tea"] == await found(service, "tea")
    invocation_cache.end("i1")
    assert 5 == len(asked)


async def test_a_failed_search_is_asked_again(
    memory: MemoryEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    from shared_core import StorageUnavailable

    service = OpenMemoryService(engine=memory)
    await service.add_events_to_memory(**WHO, events=[event(Part(text="tea"))], session_id="s")
    invocation_cache.begin("i2")
    with monkeypatch.context() as patched:

        async def away(*_: Any, **__: Any) -> Any:
            raise StorageUnavailable("away")

        patched.setattr(memory, "recall", away)
        assert [] == await found(service, "tea")
    assert ["tea"] == await found(service, "tea")
    invocation_cache.end("i2")
