"""What only OpenMemoryService promises: what it takes out of events, and a real Runner on it.

What every memory service should do is in test_conformance.py.
"""

from __future__ import annotations

import asyncio
import inspect
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from typing import Any

import psycopg
import pytest
from google.adk.agents import LlmAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.apps import App
from google.adk.events import Event, EventActions
from google.adk.events._rewind_events import _apply_rewinds
from google.adk.events.event_actions import EventCompaction
from google.adk.memory import BaseMemoryService, InMemoryMemoryService
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools import load_memory, preload_memory
from google.genai import types
from pydantic import Field

from adk_memory import OpenMemoryService, invocation_cache
from adk_memory.conformance.samples import WHO, entry, event, session, texts, turns
from adk_memory.events import MAX_TOOL_CHARACTERS, live_events, to_core_events
from langgraph_store import PgHippocampusStore
from langgraph_store.conformance.samples import word_vectors
from shared_core import InvalidInput, StorageUnavailable, open_memory
from shared_core.recall.service import Recall

Part = types.Part


@pytest.fixture
async def ours(dsn: str) -> AsyncIterator[OpenMemoryService]:
    async with OpenMemoryService(dsn, embedder=word_vectors) as service:
        yield service


@pytest.fixture(params=["ours", pytest.param("in_memory", marks=pytest.mark.upstream)])
async def service(request: pytest.FixtureRequest, dsn: str) -> AsyncIterator[BaseMemoryService]:
    if request.param == "in_memory":
        yield InMemoryMemoryService()
        return
    async with OpenMemoryService(dsn, embedder=word_vectors) as service:
        yield service


async def search(service: BaseMemoryService, query: str, **who: str) -> list[MemoryEntry]:
    return (await service.search_memory(query=query, **{**WHO, **who})).memories


def rows(dsn: str) -> int:
    query = "SELECT 1 FROM hippocampus.memories UNION ALL SELECT 1 FROM hippocampus.events"
    with psycopg.connect(dsn) as superuser:
        return superuser.execute(query).rowcount


def test_the_methods_have_the_signatures_of_the_base_class() -> None:
    bases = inspect.getmembers(BaseMemoryService, inspect.iscoroutinefunction)
    assert 4 <= len(bases) <= 5  # delete_memory is there from google-adk 2.13 on
    for name, base in bases:
        mine = getattr(OpenMemoryService, name)
        assert inspect.iscoroutinefunction(mine)
        assert inspect.signature(mine) == inspect.signature(base)


async def test_of_two_events_with_one_id_the_first_counts(ours: OpenMemoryService) -> None:
    said = event("e1", "tea is what I drink")
    for events in ([said, event("e1", "tea again")], [event("e1", "tea once more")]):
        await ours.add_events_to_memory(events=events, **WHO)
    assert await turns(ours, "tea") == ["tea is what I drink"]


async def test_a_search_returns_ten_memories_at_most(ours: OpenMemoryService) -> None:
    await ours.add_session_to_memory(session(*(event(f"e{n}", f"tea {n}") for n in range(30))))
    assert len(await search(ours, "tea")) == 10


async def test_a_session_added_by_many_at_once_is_remembered_once(ours: OpenMemoryService) -> None:
    store = PgHippocampusStore(engine=ours.engine)
    for n in range(5):
        said = session(event("e1", f"My name is Ann {n}"), event("e2", "tea"), session_id=str(n))
        await asyncio.gather(*(ours.add_session_to_memory(said) for _ in range(6)))
    assert len(await store.asearch((), filter={"kind": "episodic"}, limit=100)) == 10


async def test_a_turn_that_a_store_rewrote_and_deleted_is_gone_for_good(
    ours: OpenMemoryService, dsn: str
) -> None:
    said = session(event("e1", "My name is Ann and I like tea"))
    await ours.add_session_to_memory(said)
    store = PgHippocampusStore(engine=ours.engine)
    [turn] = await store.asearch((), filter={"kind": "episodic"})
    await store.aput(turn.namespace, turn.key, {"content": "rewritten"})
    await store.adelete(turn.namespace, turn.key)
    await ours.add_session_to_memory(said)
    assert texts(await search(ours, "Ann tea")) == []
    assert rows(dsn) == 0


def test_the_live_events_are_the_ones_adk_shows_its_model() -> None:
    dice = random.Random(7)
    names = ["", "i1", "i2", "i3", "i4"]
    for _ in range(300):
        events = [
            event(str(n), "x", invocation_id=dice.choice(names), actions=EventActions(
                rewind_before_invocation_id=dice.choice([None, None, *names])))
            for n in range(dice.randint(0, 12))
        ]  # fmt: skip
        assert live_events(events) == _apply_rewinds(events)


async def test_top_k_bounds_a_search(ours: OpenMemoryService) -> None:
    await ours.add_memory(memories=[entry(f"tea {n}") for n in range(8)], **WHO)
    three = OpenMemoryService(engine=ours.engine, top_k=3)
    assert len(await search(three, "tea")) == 3
    with pytest.raises(InvalidInput, match="top_k"):
        OpenMemoryService(top_k=0)


@pytest.mark.parametrize(
    "bad", [entry(" "), entry("tea", custom_metadata={"ttl": "soon"}), entry("tea", id="a\x00b"),
            MemoryEntry(content=types.Content(parts=[])), MemoryEntry(content=types.Content()),
            MemoryEntry(content=types.Content(parts=[Part(text="hm", thought=True)])),
            entry("tea", custom_metadata={"hippocampus": {"importance": 11}})],
)  # fmt: skip
async def test_an_entry_that_cannot_be_kept_is_refused_with_its_neighbours(
    ours: OpenMemoryService, dsn: str, bad: MemoryEntry
) -> None:
    with pytest.raises(InvalidInput):
        await ours.add_memory(memories=[entry("good tea"), bad], **WHO)
    assert rows(dsn) == 0


async def test_an_entry_keeps_its_id_and_is_deleted_by_it(ours: OpenMemoryService) -> None:
    given = entry("tea", id="my/id", author="bot", custom_metadata={"tags": ["a"]})
    before = given.model_dump()
    await ours.add_memory(memories=[given, entry("coffee or tea")], **WHO)
    await ours.add_memory(memories=[entry("tea, twice", id="my/id")], **WHO)
    assert given.model_dump() == before
    found = await search(ours, "tea")
    assert set(texts(found)) == {"tea, twice", "coffee or tea"}
    assert "my/id" in [e.id for e in found]
    for e in found:
        assert e.content.role in ("user", "model")
        await ours.delete_memory(memory_id=e.id, **WHO)
    assert await search(ours, "tea") == []


async def test_a_closed_service_opens_again_at_its_next_use(dsn: str) -> None:
    service = OpenMemoryService(dsn, embedder=word_vectors)
    await service.close()
    await service.add_memory(memories=[entry("tea")], **WHO)
    await service.close()
    assert texts(await search(service, "tea")) == ["tea"]
    await service.close()


async def test_closing_a_service_leaves_a_shared_memory_open(dsn: str) -> None:
    async with open_memory(dsn, embedder=word_vectors) as engine:
        async with OpenMemoryService(engine=engine) as service:
            await service.add_memory(memories=[entry("tea")], **WHO)
        connections = engine._storage._database._pool  # type: ignore[attr-defined]
        assert texts(await search(service, "tea")) == ["tea"]
        assert engine._storage._database._pool is connections  # type: ignore[attr-defined]


def answer(name: str, response: dict[str, Any]) -> Part:
    return Part.from_function_response(name=name, response=response)


async def test_what_tools_answered_is_remembered_when_asked_for(ours: OpenMemoryService) -> None:
    said = [event("e1", answer("weather", {"city": "Lisbon", "degrees": 21}), author="bot")]
    for wanted, expected in ((False, []), (True, ['weather: {"city": "Lisbon", "degrees": 21}'])):
        service = OpenMemoryService(engine=ours.engine, include_tool_results=wanted)
        await service.add_events_to_memory(**WHO, events=said, session_id="s")
        assert expected == texts(await search(service, "weather Lisbon degrees"))


def test_a_tool_result_is_bounded_and_never_a_secret() -> None:
    secret = answer("adk_request_credential", {"token": "hunter2"})
    asked = Part.from_function_call(name="adk_request_confirmation", args={"pin": "4711"})
    long = answer("read", {"page": "x" * 10_000})
    odd = answer("odd", {"of": object, "nul": "a\x00b"})
    parts = ([secret], [asked, Part(text="May I?")], [long], [odd])
    given = [event(str(number), *some, author="bot") for number, some in enumerate(parts)]
    [page, strange] = to_core_events(given, tool_results=True)
    assert MAX_TOOL_CHARACTERS == len(page.text)
    assert strange.text.startswith('odd: {"of": "<class')
    assert [] == to_core_events(given)


def test_what_adk_made_to_save_space_is_no_memory() -> None:
    summary = types.Content(role="model", parts=[Part(text="They spoke of tea.")])
    compaction = EventCompaction(start_timestamp=1, end_timestamp=2, compacted_content=summary)
    made = event("e1", "tea", author="bot", actions=EventActions(compaction=compaction))
    assert [] == to_core_events([made, Event(author="bot", actions=made.actions)])


async def test_an_invocation_asks_the_same_once_until_something_is_written(
    ours: OpenMemoryService, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    recall = Recall.__call__

    async def counted(self: Recall, scope: Any, query: str, **options: Any) -> Any:
        asked.append(query)
        return await recall(self, scope, query, **options)

    monkeypatch.setattr(Recall, "__call__", counted)
    tea, more = event("e1", "tea", author="bot"), event("e2", "more tea", author="bot")
    await ours.add_events_to_memory(**WHO, events=[tea], session_id="s")
    for _ in range(2):
        await search(ours, "tea")
    assert ["tea", "tea"] == asked
    invocation_cache.begin("i1")
    for _ in range(3):
        assert ["tea"] == texts(await search(ours, "tea"))
    assert 3 == len(asked)
    await ours.add_events_to_memory(**WHO, events=[more], session_id="s")
    found = await search(ours, "tea")
    assert {"tea", "more tea"} <= set(texts(found))
    [first] = [entry for entry in found if entry.content == tea.content]
    await ours.delete_memory(**WHO, memory_id=first.id)
    assert ["more tea"] == texts(await search(ours, "tea"))
    invocation_cache.end("i1")
    assert 5 == len(asked)


async def test_a_failed_search_is_asked_again(
    ours: OpenMemoryService, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ours.add_events_to_memory(**WHO, events=[event("e1", "tea")], session_id="s")
    invocation_cache.begin("i2")
    with monkeypatch.context() as patched:

        async def away(*_: Any, **__: Any) -> Any:
            raise StorageUnavailable("away")

        patched.setattr(ours.engine, "recall", away)
        assert [] == await search(ours, "tea")
    assert ["tea"] == texts(await search(ours, "tea"))
    invocation_cache.end("i2")


class Model(BaseLlm):
    """Answers by a function of the request; keeps what it was shown."""

    answer: Callable[[LlmRequest], Part] = lambda request: Part(text="noted")
    shown: list[str] = Field(default_factory=list)

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.shown.append(str(llm_request.contents))
        yield LlmResponse(content=types.Content(role="model", parts=[self.answer(llm_request)]))


async def keep(callback_context: CallbackContext) -> None:
    await callback_context.add_session_to_memory()


def runner(service: BaseMemoryService, model: Model, tools: Sequence[Any] = ()) -> Runner:
    agent = LlmAgent(name="bot", model=model, tools=list(tools), after_agent_callback=keep)
    return Runner(
        app=App(name="support", root_agent=agent),
        session_service=InMemorySessionService(),
        memory_service=service,
        auto_create_session=True,
    )


async def ask(runner: Runner, session_id: str, text: str) -> str:
    asked = types.UserContent(text)
    answer = runner.run_async(user_id="ann", session_id=session_id, new_message=asked)
    said = [event.content.parts or [] async for event in answer if event.content]
    return "".join(part.text or "" for part in said[-1])


async def test_a_runner_shows_the_model_an_earlier_session(service: BaseMemoryService) -> None:
    model = Model(model="m")
    bot = runner(service, model, [preload_memory])
    await ask(bot, "s1", "my parrot is called Rio")
    await ask(bot, "s2", "what is my parrot called?")
    assert "<PAST_CONVERSATIONS>" not in model.shown[0]
    assert "user: my parrot is called Rio" in model.shown[1]


async def test_the_model_may_ask_the_memory_itself(service: BaseMemoryService) -> None:
    def answer(request: LlmRequest) -> Part:
        [*_, last] = request.contents[-1].parts or []
        if last.function_response:
            found = last.function_response.response["result"].memories  # type: ignore[index]
            return Part(text=" | ".join(texts(found)))
        if "?" in (last.text or ""):
            return Part.from_function_call(name="load_memory", args={"query": "parrot"})
        return Part(text="noted")

    bot = runner(service, Model(model="m", answer=answer), [load_memory])
    await ask(bot, "s1", "my parrot is called Rio")
    assert "my parrot is called Rio" in await ask(bot, "s2", "what is it called?")


def test_a_service_built_without_a_loop_serves_the_sync_runner_again_and_again(dsn: str) -> None:
    service = OpenMemoryService(dsn, embedder=word_vectors)
    model = Model(model="m")
    bot = runner(service, model, [preload_memory])
    for n in range(3):
        asked = types.UserContent(f"parrot {n}")
        answer = bot.run(user_id="ann", session_id=f"s{n}", new_message=asked)
        assert [e.author for e in answer] == ["bot"]
    assert "user: parrot 0" in model.shown[2] and "user: parrot 1" in model.shown[2]
    asyncio.run(service.close())
