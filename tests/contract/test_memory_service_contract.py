"""OpenMemoryService next to ADK's InMemoryMemoryService, and under a real Runner."""

from __future__ import annotations

import asyncio
import inspect
import random
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from zlib import crc32

import psycopg
import pytest
from google.adk.agents import LlmAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.apps import App
from google.adk.events import Event, EventActions
from google.adk.events._rewind_events import _apply_rewinds
from google.adk.memory import BaseMemoryService, InMemoryMemoryService
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService, Session
from google.adk.tools import load_memory, preload_memory
from google.genai import types
from pydantic import Field

from adk_memory import OpenMemoryService
from adk_memory.events import live_events
from langgraph_store import PgHippocampusStore
from shared_core import InvalidInput, open_memory

WHO = {"app_name": "support.bot", "user_id": "alice@example.com"}
Part = types.Part


def word_vectors(texts: list[str]) -> list[list[float]]:
    """Bags of words: texts that share words are near."""
    bags = [[crc32(word.encode()) % 63 for word in text.lower().split()] for text in texts]
    return [[0.1, *(float(bag.count(n)) for n in range(63))] for bag in bags]


@pytest.fixture
def ours(dsn: str) -> Iterator[OpenMemoryService]:
    service = OpenMemoryService(dsn, embedder=word_vectors)
    yield service
    asyncio.run(service.close())


@pytest.fixture(params=["ours", "in_memory"])
def service(request: pytest.FixtureRequest) -> BaseMemoryService:
    if request.param == "in_memory":
        return InMemoryMemoryService()
    service: BaseMemoryService = request.getfixturevalue("ours")
    return service


def event(event_id: str, *parts: str | Part, author: str = "user", **fields: Any) -> Event:
    written = [Part(text=part) if isinstance(part, str) else part for part in parts]
    content = types.Content(role="user" if author == "user" else "model", parts=written)
    fields = {"invocation_id": "i", "content": content if parts else None, **fields}
    return Event(id=event_id, author=author, **fields)


def session(*events: Event, session_id: str = "s1", **who: str) -> Session:
    return Session(id=session_id, events=list(events), **{**WHO, **who})


def entry(text: str, **fields: Any) -> MemoryEntry:
    return MemoryEntry(content=types.Content(parts=[Part(text=text)]), **fields)


def texts(found: list[MemoryEntry]) -> list[str]:
    return ["".join(part.text or "" for part in entry.content.parts or []) for entry in found]


async def search(service: BaseMemoryService, query: str, **who: str) -> list[MemoryEntry]:
    return (await service.search_memory(query=query, **{**WHO, **who})).memories


async def turns(service: BaseMemoryService, query: str) -> list[str]:
    """Return the turns found, sorted; facts and summaries have no author and are left out."""
    return sorted(texts([entry for entry in await search(service, query) if entry.author]))


def rows(dsn: str) -> int:
    query = "SELECT 1 FROM hippocampus.memories UNION ALL SELECT 1 FROM hippocampus.events"
    with psycopg.connect(dsn) as superuser:
        return superuser.execute(query).rowcount


TEA = event("e1", "tea is what I drink")
COFFEE = event("e2", "coffee and tea are sold here", author="bot")


def test_the_methods_have_the_signatures_of_the_base_class() -> None:
    bases = inspect.getmembers(BaseMemoryService, inspect.iscoroutinefunction)
    assert len(bases) == 5
    for name, base in bases:
        mine = getattr(OpenMemoryService, name)
        assert inspect.iscoroutinefunction(mine)
        assert inspect.signature(mine) == inspect.signature(base)


async def test_what_a_session_said_is_found_with_its_author(service: BaseMemoryService) -> None:
    await service.add_session_to_memory(session(TEA, COFFEE))
    found = await search(service, "coffee tea")
    by_author = {entry.author: entry for entry in found if entry.author}
    assert by_author.keys() == {"user", "bot"}
    assert by_author["bot"].content == COFFEE.content
    assert by_author["user"].content == TEA.content


async def test_what_is_added_again_in_any_way_is_there_once(service: BaseMemoryService) -> None:
    whole = session(TEA, COFFEE)
    await service.add_session_to_memory(session(TEA))
    for _ in range(2):
        await service.add_session_to_memory(whole)
        await service.add_events_to_memory(events=[COFFEE, TEA, TEA], session_id="s1", **WHO)
    assert await turns(service, "tea") == ["coffee and tea are sold here", "tea is what I drink"]


async def test_of_two_events_with_one_id_the_first_counts(service: BaseMemoryService) -> None:
    for events in ([TEA, event("e1", "tea again")], [event("e1", "tea once more")]):
        await service.add_events_to_memory(events=events, **WHO)
    assert await turns(service, "tea") == ["tea is what I drink"]


async def test_the_same_event_id_in_two_sessions_is_two_turns(service: BaseMemoryService) -> None:
    await service.add_session_to_memory(session(TEA))
    await service.add_session_to_memory(session(event("e1", "green tea"), session_id="s2"))
    assert await turns(service, "tea") == ["green tea", "tea is what I drink"]


async def test_a_deleted_turn_does_not_come_back(service: BaseMemoryService) -> None:
    await service.add_session_to_memory(session(TEA, COFFEE))
    for found in await search(service, "drink"):
        if found.author == "user":
            await service.delete_memory(memory_id=found.id, **WHO)
    await service.add_session_to_memory(session(TEA, COFFEE))
    await service.add_events_to_memory(events=[TEA], session_id="s1", **WHO)
    assert await turns(service, "tea") == ["coffee and tea are sold here"]


@pytest.mark.parametrize(
    "memory_id", [None, "", "e9", "0190a000-0000-7000-8000-000000000000", "a\x00b", "\ud800",
                  "x" * 10_000, "%", "'; --"],
)  # fmt: skip
async def test_deleting_an_unknown_id_changes_nothing(
    service: BaseMemoryService, memory_id: str | None
) -> None:
    await service.add_session_to_memory(session(TEA))
    await service.delete_memory(memory_id=memory_id, **WHO)
    assert await turns(service, "tea") == ["tea is what I drink"]


async def test_nobody_sees_or_deletes_the_memory_of_others(service: BaseMemoryService) -> None:
    await service.add_session_to_memory(session(TEA))
    [mine, *_] = await search(service, "tea")
    for other in ({"user_id": "bob"}, {"app_name": "other"}):
        assert await search(service, "tea", **other) == []
        await service.delete_memory(memory_id=mine.id, **{**WHO, **other})
    assert await turns(service, "tea") == ["tea is what I drink"]


@pytest.mark.parametrize("query", ["", " \n\t", "?!…", "。、！", "\u200b", "👍"])
async def test_a_query_without_words_finds_nothing(service: BaseMemoryService, query: str) -> None:
    await service.add_session_to_memory(session(TEA, event("e3", "👍 ?!…")))
    assert await search(service, query) == []


async def test_a_search_returns_ten_memories_at_most(service: BaseMemoryService) -> None:
    await service.add_session_to_memory(session(*(event(f"e{n}", f"tea {n}") for n in range(30))))
    assert len(await search(service, "tea")) == 10


async def test_the_objects_of_the_caller_stay_as_they_are(service: BaseMemoryService) -> None:
    given = session(event("e1", "tea is what I drink"))
    before = given.model_dump()
    await service.add_session_to_memory(given)
    await service.add_events_to_memory(events=given.events, session_id="s1", **WHO)
    assert given.model_dump() == before
    found = await search(service, "tea")
    for content in (given.events[0].content, found[0].content):
        content.parts[0].text = "tea, changed later"  # type: ignore[union-attr, index]
    assert await turns(service, "tea") == ["tea is what I drink"]


async def test_events_without_words_are_passed_over(service: BaseMemoryService) -> None:
    call = Part.from_function_call(name="tea", args={"tea": "tea"})
    answer = Part.from_function_response(name="tea", response={"tea": "tea"})
    image = Part.from_bytes(data=b"tea", mime_type="image/png")
    events = [event("e1", call), event("e2", answer), event("e3", image), event("e4"),
              event("e5", ""), event("e6", call, "tea in a call", author="bot")]  # fmt: skip
    await service.add_session_to_memory(session(*events))
    assert await turns(service, "tea") == ["tea in a call"]


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


async def test_a_truncated_session_deletes_nothing(ours: OpenMemoryService) -> None:
    await ours.add_session_to_memory(session(TEA, COFFEE))
    await ours.add_session_to_memory(session(event("e3", "tea at last")))
    assert len(await turns(ours, "tea")) == 3


async def test_thoughts_and_partial_events_are_not_remembered(ours: OpenMemoryService) -> None:
    thought = Part(text="a secret thought about tea", thought=True)
    whole = session(event("e1", thought, "tea said aloud"), event("e2", thought),
                    event("e3", "tea in pieces", partial=True))  # fmt: skip
    await ours.add_session_to_memory(whole)
    assert await turns(ours, "secret thought tea") == ["tea said aloud"]


async def test_what_was_spoken_is_remembered_by_its_transcription(ours: OpenMemoryService) -> None:
    heard, spoken = (types.Transcription(text=t, finished=True) for t in ("tea, please", "here"))
    events = [event("e1", input_transcription=heard),
              event("e2", output_transcription=spoken, author="bot")]  # fmt: skip
    await ours.add_session_to_memory(session(*events))
    assert await turns(ours, "tea here") == ["here", "tea, please"]


async def test_a_turn_that_was_rewound_is_not_remembered(ours: OpenMemoryService) -> None:
    back = EventActions(rewind_before_invocation_id="i2")
    said = [event("e1", "tea one", invocation_id="i1"), event("e2", "tea two", invocation_id="i2"),
            event("e3", "tea three", author="bot", invocation_id="i2"),
            event("e4", actions=back), event("e5", "tea four", invocation_id="i4")]  # fmt: skip
    await ours.add_session_to_memory(session(*said))
    assert await turns(ours, "tea") == ["tea four", "tea one"]


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


async def test_times_come_back_in_iso_8601_with_their_offset(ours: OpenMemoryService) -> None:
    at = datetime(2026, 3, 2, 8, 40, 0, 250_000, UTC)
    await ours.add_session_to_memory(session(event("e1", "tea", timestamp=at.timestamp())))
    await ours.add_memory(memories=[entry("coffee", timestamp="2026-03-02T10:40:00+02:00")], **WHO)
    found = await search(ours, "tea coffee")
    stamps = {text: datetime.fromisoformat(entry.timestamp or "") for entry in found
              for text in texts([entry])}  # fmt: skip
    assert {stamp.utcoffset() for stamp in stamps.values()} == {timedelta(0)}
    assert (stamps["tea"], stamps["coffee"]) == (at, at.replace(microsecond=0))


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
            entry("tea", custom_metadata={"at": datetime(2026, 1, 1, tzinfo=UTC)})],
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
