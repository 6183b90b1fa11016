"""What only OpenMemoryService promises: what it takes, refuses and bounds, and a real Runner on it.

What every memory service should do is in test_conformance.py.
"""

import asyncio
import inspect
import logging
import random
from collections.abc import AsyncGenerator, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from emptied_database import lent
from every_case import every_case
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
from google.adk.sessions import InMemorySessionService, Session
from google.adk.tools import load_memory, preload_memory
from google.genai import types
from langchain_core.messages import SystemMessage
from psycopg.conninfo import conninfo_to_dict
from pydantic import Field
from turns import said as core_said

from adk_memory import OpenMemoryService as Service, PgSessionService, invocation_cache
from adk_memory.conformance.samples import WHO, entry, event, session, texts, turns
from adk_memory.events import MAX_TOOL_CHARACTERS, live_events, to_core_events
from langgraph_store import PgHippocampusStore
from langgraph_store.conformance.samples import word_vectors
from langgraph_store.run_identity import RunIdentity
from langgraph_store.turn_feed import TurnFeed
from shared_core import InvalidInput, Scope, StorageUnavailable, open_memory, run_sync
from shared_core.core.retention_policy import RetentionPolicy
from shared_core.recall.service import Recall

Part = types.Part


@pytest.fixture(scope="module")
def open_service(database):
    service = Service(database.dsn, embedder=word_vectors)
    yield service
    run_sync(service.close())


@pytest.fixture(params=["ours", pytest.param("in_memory", marks=pytest.mark.upstream)])
def either(request):
    in_memory = request.param == "in_memory"
    return InMemoryMemoryService() if in_memory else request.getfixturevalue("ours")


@pytest.fixture(scope="module")
def bundled(postgres):
    """A database of the module, and the open memory with the bundled model in it."""
    for database in lent(postgres):
        memory = open_memory(database.dsn)
        yield database, memory
        run_sync(memory.close())


async def search(service: BaseMemoryService, query: str, **who: str) -> list[MemoryEntry]:
    return (await service.search_memory(query=query, **{**WHO, **who})).memories


async def tell(service: BaseMemoryService, *events: Event, **more: Any) -> None:
    await service.add_events_to_memory(**{**WHO, "events": events, "session_id": "s", **more})


def rows(dsn: str) -> int:
    query = "SELECT 1 FROM hippocampus.memories UNION ALL SELECT 1 FROM hippocampus.events"
    with psycopg.connect(dsn) as superuser:
        return superuser.execute(query).rowcount


def test_the_methods_are_those_of_the_base_class_and_the_live_events_those_that_adk_shows():
    bases = inspect.getmembers(BaseMemoryService, inspect.iscoroutinefunction)
    assert 4 <= len(bases) <= 5  # delete_memory is there from google-adk 2.13 on
    for name, base in bases:
        mine = getattr(Service, name)
        assert inspect.iscoroutinefunction(mine)
        assert inspect.signature(mine) == inspect.signature(base)
    dice = random.Random(7)
    names = ["", "i1", "i2", "i3", "i4"]
    for _ in range(300):
        events = [
            event(str(n), "x", invocation_id=dice.choice(names), actions=EventActions(
                rewind_before_invocation_id=dice.choice([None, None, *names])))
            for n in range(dice.randint(0, 12))
        ]  # fmt: skip
        assert live_events(events) == _apply_rewinds(events)
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
    summary = types.Content(role="model", parts=[Part(text="They spoke of tea.")])
    compaction = EventCompaction(start_timestamp=1, end_timestamp=2, compacted_content=summary)
    made = event("e1", "tea", author="bot", actions=EventActions(compaction=compaction))
    assert [] == to_core_events([made, Event(author="bot", actions=made.actions)])


async def test_of_two_events_with_one_id_the_first_counts_until_its_words_change(ours):
    said = event("e1", "tea is what I drink")
    for events in ([said, event("e1", "tea again")], [said]):
        await ours.add_events_to_memory(events=events, **WHO)
        assert await turns(ours, "tea") == ["tea is what I drink"]
    await ours.add_events_to_memory(events=[event("e1", "tea once more")], **WHO)
    assert await turns(ours, "tea") == ["tea once more"]


async def test_a_deleted_event_leaves_the_memory_and_a_search_returns_ten_memories(ours):
    events = [event(f"e{number}", f"tea {number}") for number in range(4)]
    for kept in ([0, 1, 2, 3], [2, 3], [0, 2, 3]):
        await ours.add_session_to_memory(session(*(events[number] for number in kept)))
    assert {*await turns(ours, "tea")} == {"tea 0", "tea 2", "tea 3"}
    await ours.add_session_to_memory(session(*(event(f"e{n}", f"tea {n}") for n in range(30))))
    assert len(await search(ours, "tea")) == 10


async def test_a_session_added_by_many_at_once_is_remembered_once(ours):
    store = PgHippocampusStore(engine=ours.engine)
    for n in range(5):
        said = session(event("e1", f"My name is Ann {n}"), event("e2", "tea"), session_id=str(n))
        await asyncio.gather(*(ours.add_session_to_memory(said) for _ in range(6)))
    assert len(await store.asearch((), filter={"kind": "episodic"}, limit=100)) == 10


async def test_a_turn_that_a_store_rewrote_and_deleted_is_gone_for_good(ours, database):
    said = session(event("e1", "My name is Ann and I like tea"))
    await ours.add_session_to_memory(said)
    store = PgHippocampusStore(engine=ours.engine)
    [turn] = await store.asearch((), filter={"kind": "episodic"})
    await store.aput(turn.namespace, turn.key, {"content": "rewritten"})
    await store.adelete(turn.namespace, turn.key)
    await ours.add_session_to_memory(said)
    assert texts(await search(ours, "Ann tea")) == []
    assert rows(database.dsn) == 0


async def test_top_k_bounds_a_search(ours):
    await ours.add_memory(memories=[entry(f"tea {n}") for n in range(8)], **WHO)
    assert len(await search(Service(engine=ours.engine, top_k=3), "tea")) == 3
    with pytest.raises(InvalidInput, match="top_k"):
        Service(top_k=0)


@every_case(
    entry(" "), entry("tea", custom_metadata={"ttl": "soon"}), entry("tea", id="a\x00b"),
            MemoryEntry(content=types.Content(parts=[])), MemoryEntry(content=types.Content()),
            MemoryEntry(content=types.Content(parts=[Part(text="hm", thought=True)])),
            entry("tea", custom_metadata={"hippocampus": {"importance": 11}})
)  # fmt: skip
async def test_an_entry_that_cannot_be_kept_is_refused_with_its_neighbours(bad, ours, database):
    with pytest.raises(InvalidInput):
        await ours.add_memory(memories=[entry("good tea"), bad], **WHO)
    assert rows(database.dsn) == 0


async def test_an_entry_keeps_its_id_and_is_deleted_by_it(ours):
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


async def test_a_closed_service_opens_again_and_leaves_a_shared_memory_open(dsn):
    service = Service(dsn, embedder=word_vectors)
    await service.close()
    await service.add_memory(memories=[entry("tea")], **WHO)
    await service.close()
    assert texts(await search(service, "tea")) == ["tea"]
    await service.close()
    async with open_memory(dsn, embedder=word_vectors) as engine:
        async with Service(engine=engine) as service:
            await service.add_memory(memories=[entry("tea")], **WHO)
        connections = engine._storage._database._pool  # type: ignore[attr-defined]
        assert texts(await search(service, "tea")) == ["tea"]
        assert engine._storage._database._pool is connections  # type: ignore[attr-defined]


def answer(name: str, response: dict[str, Any]) -> Part:
    return Part.from_function_response(name=name, response=response)


async def test_what_tools_answered_is_remembered_when_asked_for(ours):
    said = [event("e1", answer("weather", {"city": "Lisbon", "degrees": 21}), author="bot")]
    for wanted, expected in ((False, []), (True, ['weather: {"city": "Lisbon", "degrees": 21}'])):
        service = Service(engine=ours.engine, include_tool_results=wanted)
        await tell(service, *said)
        assert expected == texts(await search(service, "weather Lisbon degrees"))


async def test_an_invocation_asks_the_same_once_until_something_is_written(ours, monkeypatch):
    asked: list[str] = []
    recall = Recall.__call__

    async def counted(self: Recall, scope: Any, query: str, **options: Any) -> Any:
        asked.append(query)
        return await recall(self, scope, query, **options)

    monkeypatch.setattr(Recall, "__call__", counted)
    tea, more = event("e1", "tea", author="bot"), event("e2", "more tea", author="bot")
    await tell(ours, tea)
    for _ in range(2):
        await search(ours, "tea")
    assert ["tea", "tea"] == asked
    invocation_cache.begin("i1")
    for _ in range(3):
        assert ["tea"] == texts(await search(ours, "tea"))
    assert 3 == len(asked)
    await tell(ours, more)
    found = await search(ours, "tea")
    assert {"tea", "more tea"} <= set(texts(found))
    [first] = [entry for entry in found if entry.content == tea.content]
    await ours.delete_memory(**WHO, memory_id=first.id)
    assert ["more tea"] == texts(await search(ours, "tea"))
    invocation_cache.end("i1")
    assert 5 == len(asked)


async def test_a_failed_search_is_asked_again(ours, monkeypatch):
    await tell(ours, event("e1", "tea"))
    invocation_cache.begin("i2")
    with monkeypatch.context() as patched:

        async def away(*_: Any, **__: Any) -> Any:
            raise StorageUnavailable("away")

        patched.setattr(ours.engine, "recall", away)
        assert [] == await search(ours, "tea")
    assert ["tea"] == texts(await search(ours, "tea"))
    invocation_cache.end("i2")


def said(text: str, **fields: Any) -> Event:
    content = types.Content(role="user", parts=[types.Part(text=text)])
    return Event(**{"author": "user", "invocation_id": "i", "content": content, **fields})


@pytest.fixture
def service(bundled):
    """A service with the bundled model, emptied for the test."""
    database, memory = bundled
    database.empty(memory)
    return Service(engine=memory)


@every_case(
    ({"top_k": 0}, "top_k"), ({"max_chars": 0}, "max_chars"),
    ({"min_relevance": 1.5}, "min_relevance"), ({"deadline_s": 0}, "deadline_s"),
    ({"uri": "mysql://host"}, "mysql")
)  # fmt: skip
def test_an_option_that_cannot_be_is_named_at_once(options, complaint):
    with pytest.raises(InvalidInput, match=complaint):
        Service(**options)


@every_case(
    ({"ttl": "soon"}, "ttl"), ({"ttl": -1}, "ttl"), ({"ttl": True}, "ttl"),
    ({"ttl": timedelta(days=99_999)}, "ttl"), ({"hippocampus": {"ttl": "soon"}}, "ttl"),
    ({"hippocampus": {"importance": 11}}, "importance must be a number from 1 to 10, got 11"),
    ({"hippocampus": {"importance": True}}, "importance"),
    ({"hippocampus": {"kind": "dream"}}, "kind must be one of episodic.*dream"),
    ({"hippocampus": {"wait": "yes"}}, "wait must be True or False"),
    ({"hippocampus": {"tags": 3}}, "a dict of importance, kind, strategy, timezone, ttl.*tags"),
    ({"hippocampus": "on"}, "a dict of importance, kind, strategy, timezone, ttl, wait"),
)  # fmt: skip
async def test_an_option_of_no_use_is_named_and_nothing_is_remembered(metadata, complaint, service):
    with pytest.raises(InvalidInput, match=complaint):
        await tell(service, said("tea"), custom_metadata=metadata)
    assert [] == await service.list_memories(**WHO)


async def test_the_words_of_a_caller_come_back_and_serve_where_they_fit(service):
    own = {"kind": "episodic", "importance": 9, "score": 0.5}
    shared = {"tags": "drinks", "importance": 2, "by": "hand"}
    green = entry("green tea", custom_metadata=own)
    await service.add_memory(**WHO, memories=[green], custom_metadata=shared)
    words = {"tags": ["x"], "kind": "preference", "importance": "high", "source": "form"}
    await tell(service, said("black tea"), custom_metadata=words)
    ours = {"kind": "episodic", "importance": 9.0}
    theirs = {"kind": "episodic", "importance": 5.0, "source": "s"}
    listed = await service.list_memories(**WHO, memory_type="episodic")
    assert {
        "green tea": {**shared, **own, "hippocampus": ours},
        "black tea": {**words, "hippocampus": theirs},
    } == {texts([one])[0]: one.custom_metadata for one in listed}
    for one in await service.list_memories(**WHO, memory_type="summary"):
        assert {"hippocampus"} == one.custom_metadata.keys()
    found_words = {
        one.id: {k: v for k, v in one.custom_metadata.items() if k != "hippocampus"}
        for one in (await service.search_memory(**WHO, query="tea")).memories
    }
    assert {**shared, **own} in found_words.values() and words in found_words.values()


async def test_metadata_of_any_shape_is_kept_as_json(service):
    endless: dict[str, Any] = {}
    endless["self"] = endless
    given = {
        "at": datetime(2026, 1, 1, tzinfo=UTC), "set": {"one"}, "nan": float("nan"),
        "deep": {"list": [1, None, {"x": 2.5}]}, "bytes": b"\xff", "object": object,
        "endless": endless, "nul": "a\x00b",
    }  # fmt: skip
    await service.add_memory(**WHO, memories=[entry("tea", custom_metadata=given)])
    [one] = (await service.search_memory(**WHO, query="tea")).memories
    back = one.custom_metadata
    assert given.keys() | {"hippocampus"} == back.keys()
    assert "2026-01-01T00:00:00Z" == back["at"]
    assert ["one"] == back["set"]
    assert given["deep"] == back["deep"]
    assert ("NaN", "a\ufffdb") == (back["nan"], back["nul"])


async def test_what_has_a_time_to_live_goes_with_all_that_was_drawn_from_it(dsn):
    ahead = timedelta(0)
    async with open_memory(dsn, clock=lambda: datetime.now(UTC) + ahead) as memory:
        service = Service(engine=memory)
        await tell(service, said("I live in Lisbon."), custom_metadata={"ttl": 3600})
        hour = {"ttl": "3600s"}
        await service.add_memory(**WHO, memories=[entry("Lisbon tram")], custom_metadata=hour)
        found = texts(await search(service, "Lisbon"))
        assert {"I live in Lisbon.", "User lives in Lisbon.", "Lisbon tram"} == set(found)
        ahead = timedelta(hours=2)
        assert [] == await search(service, "Lisbon")
        assert [] == await memory.facts(Scope(*WHO.values()))
        await memory.sweep_expired()
        await tell(service, said("I live in Lisbon."), session_id="s2")
        assert "User lives in Lisbon." in texts(await search(service, "Lisbon"))


async def test_a_fact_said_again_for_good_outlives_the_turn_that_expires(dsn):
    ahead = timedelta(0)
    async with open_memory(dsn, clock=lambda: datetime.now(UTC) + ahead) as memory:
        service = Service(engine=memory)
        for ttl in ({"ttl": 3600}, {}):
            await tell(service, said("I live in Lisbon."), custom_metadata=ttl)
        ahead = timedelta(hours=2)
        found = texts(await search(service, "Lisbon"))
        assert ["I live in Lisbon.", "User lives in Lisbon."] == sorted(found)


@pytest.mark.parametrize("given", ["yesterday", "in March 2026", "2026-13-01"])
async def test_a_time_in_words_is_kept_as_it_was_given(service, given):
    await service.add_memory(**WHO, memories=[entry("tea time", timestamp=given)])
    [back] = await search(service, "tea time")
    assert given == back.custom_metadata["hippocampus"]["timestamp"]
    assert datetime.fromisoformat(back.timestamp).tzinfo is not None


async def test_a_search_is_bounded_by_characters_as_well(service):
    service = Service(engine=service.engine, max_chars=1000)
    for n in range(5):
        await service.add_memory(**WHO, memories=[entry(f"tea {n} " + "leaf " * 60)])
    shown = texts(await search(service, "tea"))
    assert 3 == len(shown)
    assert 1000 >= sum(map(len, shown))
    [cut] = texts(await search(Service(engine=service.engine, max_chars=20), "tea"))
    assert 20 == len(cut)
    assert cut.endswith("…")


async def test_the_same_words_are_shown_once_and_a_not_makes_other_words(service):
    same = ["I drink green tea", "I drink green tea!", "i DRINK  green tea", "我喝绿茶",
            "我喝绿茶。"]  # fmt: skip
    told = [entry(text) for text in (*same, "I do not drink green tea", "我不喝绿茶")]
    await service.add_memory(**WHO, memories=told)
    shown = texts(await search(service, "green tea 绿茶"))
    assert 4 == len(shown)
    assert {"I do not drink green tea", "我不喝绿茶"} < set(shown)


async def test_what_has_nothing_to_do_with_the_question_is_left_out(service):
    told = ["My sister plays the cello.", "我妹妹会拉大提琴。"]
    await service.add_memory(**WHO, memories=[entry(text) for text in told])
    assert set(told) == set(texts(await search(service, "Who plays an instrument? 谁会乐器？")))
    assert [] == await search(service, "boiling point of mercury")
    everything = Service(engine=service.engine, min_relevance=0)
    assert set(told) == set(texts(await search(everything, "boiling point of mercury")))


async def test_memories_are_listed_in_pages_and_by_kind(service):
    for n in range(7):
        await service.add_memory(**WHO, memories=[entry(f"tea {n}", timestamp=f"2026-01-0{n + 1}")])
    await tell(service, *map(said, ("I live in Lisbon.", "The tram is late.", "Thanks!")))
    pages = [await service.list_memories(**WHO, memory_type="semantic", limit=3, offset=start)
             for start in (0, 3, 6, 9)]  # fmt: skip
    assert [3, 3, 2, 0] == [len(page) for page in pages]
    listed = texts([entry for page in pages for entry in page])
    assert ["User lives in Lisbon.", *(f"tea {n}" for n in range(6, -1, -1))] == listed
    summaries = texts(await service.list_memories(**WHO, memory_type="summary"))
    assert ["I live in Lisbon. The tram is late."] == summaries
    for wrong in ({"memory_type": "dream"}, {"limit": -1}, {"offset": -1}):
        with pytest.raises(InvalidInput):
            await service.list_memories(**WHO, **wrong)  # type: ignore[arg-type]


async def test_a_database_that_is_away_fails_open_on_search_and_loudly_else(server, dsn, caplog):
    name = conninfo_to_dict(dsn)["dbname"]
    event = said("I drink tea.")
    async with Service(dsn) as service:
        await tell(service, event)
        strict = Service(engine=service.engine, fail_open=False)
        sessions = PgSessionService(engine=service.engine)
        session = await sessions.create_session(**WHO)
        with psycopg.connect(server, autocommit=True) as admin:
            admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false".encode())
            ending = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
            admin.execute(ending, [name])
            with caplog.at_level(logging.ERROR, "hippocampus"):
                assert [] == await search(service, "tea")
            assert "cannot be used" in caplog.text
            assert 1 == service.failed_searches
            with pytest.raises(StorageUnavailable, match="could not be searched"):
                await search(strict, "tea")
            given = Session(id="s", events=[event, said("And coffee.")], **WHO)
            with pytest.raises(StorageUnavailable):
                await service.add_session_to_memory(given)
            with pytest.raises(StorageUnavailable):
                await sessions.append_event(session, event)
            assert [] == session.events
            admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true".encode())
        await service.add_session_to_memory(given)
        await sessions.append_event(session, event)
        assert {"And coffee.", "I drink tea."} <= set(texts(await search(service, "coffee tea")))
        assert 1 == service.failed_searches


async def test_what_stores_nothing_needs_no_database():
    """Nothing listens at the port, so each statement would raise StorageUnavailable."""
    memory = open_memory("postgresql://nobody@127.0.0.1:1/nothing?connect_timeout=2")
    service = Service(engine=memory)
    await service.add_session_to_memory(Session(id="s", **WHO))
    await service.add_events_to_memory(**WHO, events=[said(" ")], custom_metadata={"ttl": 60})
    entries = [entry("tea"), entry(" ")]
    with pytest.raises(InvalidInput, match="text part"):
        await service.add_memory(**WHO, memories=entries, custom_metadata={"ttl": 60})
    feed = TurnFeed(memory, RunIdentity("app"))
    assert not await feed.append(Scope(*WHO.values()), "t", [SystemMessage("Be brief.")])
    with pytest.raises(StorageUnavailable):
        await service.add_memory(**WHO, memories=[entry("tea")])


async def test_a_search_during_a_migration_gives_up_and_the_next_one_works(empty_dsn):
    async with Service(empty_dsn, deadline_s=1) as service:
        with psycopg.connect(empty_dsn) as other:
            other.execute("CREATE SCHEMA hippocampus")  # not committed: whoever migrates waits
            assert [] == await search(service, "tea")
            assert 1 == service.failed_searches
            other.rollback()
        await service.add_memory(**WHO, memories=[entry("tea")])
        assert ["tea"] == texts(await search(service, "tea"))
        assert 1 == service.failed_searches


async def test_a_wrong_schema_is_no_reason_to_answer_with_nothing(dsn):
    with psycopg.connect(dsn) as superuser:
        superuser.execute("UPDATE hippocampus.schema_migrations SET checksum = 'x'")
    async with Service(dsn) as service:
        with pytest.raises(Exception, match="a development version"):
            await search(service, "tea")


async def test_cleanup_takes_what_faded_and_leaves_the_facts(dsn):
    ann, day = Scope(*WHO.values()), timedelta(days=1)
    now = datetime.now(UTC)
    async with open_memory(dsn, clock=lambda: now - 30 * day) as then:
        told = ("I live in Lisbon.", "The tram is late.", "Thanks!")
        turns = [core_said(text, text, now - 30 * day) for text in told]
        await then.append_events(ann, "s", turns)
        await then.consolidate(ann, "s")
    async with Service(dsn) as service:
        fresh = entry("fresh", custom_metadata={"kind": "episodic"})
        await service.add_memory(**WHO, memories=[fresh])
        report = {"total_memories": 4, "cleaned_count": 3}
        for dry_run in (True, False):
            told = await service.cleanup_memories(**WHO, dry_run=dry_run)
            assert 0.2 < told.pop("avg_retention_score") < 0.3
            assert report == told
        assert {"fresh", "User lives in Lisbon."} == set(texts(await service.list_memories(**WHO)))
        await service.engine.append_events(ann, "s", turns)
        assert {"fresh", "User lives in Lisbon."} == set(texts(await service.list_memories(**WHO)))
        kept = await service.engine.cleanup(ann, RetentionPolicy(threshold=0))
        assert () == tuple(kept.forgotten)


# --- a real Runner


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
    return Runner(app=App(name="support", root_agent=agent), memory_service=service,
                  session_service=InMemorySessionService(), auto_create_session=True)  # fmt: skip


async def ask(runner: Runner, session_id: str, text: str) -> str:
    asked = types.UserContent(text)
    answer = runner.run_async(user_id="ann", session_id=session_id, new_message=asked)
    said = [event.content.parts or [] async for event in answer if event.content]
    return "".join(part.text or "" for part in said[-1])


async def test_a_runner_shows_the_model_an_earlier_session(either):
    model = Model(model="m")
    bot = runner(either, model, [preload_memory])
    await ask(bot, "s1", "my parrot is called Rio")
    await ask(bot, "s2", "what is my parrot called?")
    assert "<PAST_CONVERSATIONS>" not in model.shown[0]
    assert "user: my parrot is called Rio" in model.shown[1]


async def test_the_model_may_ask_the_memory_itself(either):
    def answer(request: LlmRequest) -> Part:
        [*_, last] = request.contents[-1].parts or []
        if last.function_response:
            found = last.function_response.response["result"].memories  # type: ignore[index]
            return Part(text=" | ".join(texts(found)))
        if "?" in (last.text or ""):
            return Part.from_function_call(name="load_memory", args={"query": "parrot"})
        return Part(text="noted")

    bot = runner(either, Model(model="m", answer=answer), [load_memory])
    await ask(bot, "s1", "my parrot is called Rio")
    assert "my parrot is called Rio" in await ask(bot, "s2", "what is it called?")


def test_a_service_built_without_a_loop_serves_the_sync_runner_again_and_again(dsn):
    service = Service(dsn, embedder=word_vectors)
    model = Model(model="m")
    bot = runner(service, model, [preload_memory])
    for n in range(3):
        asked = types.UserContent(f"parrot {n}")
        answer = bot.run(user_id="ann", session_id=f"s{n}", new_message=asked)
        assert [e.author for e in answer] == ["bot"]
    assert "user: parrot 0" in model.shown[2] and "user: parrot 1" in model.shown[2]
    asyncio.run(service.close())
