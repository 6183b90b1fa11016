"""The whole loop of the product in steps, so that each can be told to run or to fail."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, TypeAlias

from google.adk.events.event import Event as AdkEvent
from google.genai import types
from langgraph.store.base import GetOp, ListNamespacesOp, PutOp, SearchOp

from adk_memory import OpenMemoryService, PgSessionService
from langgraph_store import PgHippocampusStore, memories_namespace
from shared_core import AsOf, Event, MemoryEngine, Scope

Step: TypeAlias = Callable[[], Awaitable[Any]]
APP = "loop"
ANA, CLEO = Scope(APP, "ana"), Scope(APP, "cleo")


def said(number: int, text: str, role: str = "user") -> Event:
    return Event(
        event_id=f"e{number}",
        author=role,
        role=role,  # type: ignore[arg-type] # a literal of roles
        text=text,
        occurred_at=datetime.now(UTC),
    )


def of_sessions(memory: MemoryEngine) -> dict[str, Step]:
    sessions, service = PgSessionService(engine=memory), OpenMemoryService(engine=memory)
    its: dict[str, str] = {"app_name": APP, "user_id": "ana", "session_id": "s1"}

    async def append() -> None:
        session = await sessions.get_session(**its)
        assert session is not None
        for text in ("My name is Ana.", "I live in Oslo."):
            content = types.Content(role="user", parts=[types.Part(text=text)])
            await sessions.append_event(
                session, AdkEvent(author="user", invocation_id="i", content=content)
            )

    async def remember() -> None:
        session = await sessions.get_session(**its)
        assert session is not None and len(session.events) == 2
        await service.add_session_to_memory(session)

    async def search() -> None:
        found = await service.search_memory(app_name=APP, user_id="ana", query="Where is home?")
        assert found.memories

    return {
        "session is created": lambda: sessions.create_session(
            **its, state={"k": 1, "user:u": 2, "app:a": 3}
        ),
        "session events are appended": append,
        "sessions are listed": lambda: sessions.list_sessions(app_name=APP, user_id="ana"),
        "session is remembered": remember,
        "memory of sessions is searched": search,
    }


def of_turns(memory: MemoryEngine) -> dict[str, Step]:
    later = [said(1, "I moved to Bergen."), said(2, "I love green tea."), said(3, "Eva is kind.")]

    async def flush() -> None:
        assert await memory.flush(45)

    async def recall() -> None:
        assert "Bergen" in str([hit.memory.text for hit in await memory.recall(ANA, "Bergen")])

    async def state() -> None:
        stated = await memory.state_fact(ANA, "residence", "Trondheim")
        await memory.retract(ANA, stated.key)

    async def undo() -> None:
        [run, *_] = await memory.runs(ANA)
        await memory.undo_run(ANA, run.run_id)

    return {
        "turns are appended for later": lambda: memory.append_events(ANA, "t1", later, later=True),
        "the queue is worked off": flush,
        "jobs are counted": memory.jobs.stats,
        "turns are appended": lambda: memory.append_events(ANA, "t2", [said(4, "I sail.")]),
        "a thread is consolidated": lambda: memory.consolidate(ANA, "t2"),
        "facts are listed": lambda: memory.facts(ANA),
        "memories are recalled": recall,
        "memories are recalled as of a moment": lambda: memory.recall(
            ANA, "Where?", as_of=AsOf(valid=datetime.now(UTC))
        ),
        "memories are searched": lambda: memory.search(ANA, "tea"),
        "memories are listed": lambda: memory.list_memories(ANA),
        "memories of a day are read": lambda: memory.slice(ANA, "today"),
        "a context is made": lambda: memory.context_window(ANA, "t1", "Where do I live?"),
        "texts are remembered": lambda: memory.remember(ANA, ["Ana plays the oboe."]),
        "a fact is stated and retracted": state,
        "memories are reflected on": lambda: memory.reflect(ANA),
        "a run is undone": undo,
    }


def of_the_store(memory: MemoryEngine) -> dict[str, Step]:
    store = PgHippocampusStore(engine=memory)
    own, other = memories_namespace(APP, "ana"), (APP, "ana", "notes")
    of_two = [PutOp((APP, user, "n"), "a", {"content": user}) for user in ("x", "y")]
    of_many = [PutOp((APP, f"u{n}", "n"), "a", {"content": "text"}) for n in range(20)]
    reads = [GetOp(own, "food"), SearchOp(own, query="oboe"), ListNamespacesOp()]

    async def get() -> None:
        item = await store.aget(own, "food")
        assert item is not None and item.value == {"content": "Ana eats no meat."}

    async def count(prefix: tuple[str, ...]) -> None:
        assert len(await store.asearch(prefix, limit=100)) >= 20

    return {
        "an item is put": lambda: store.aput(own, "food", {"content": "Ana eats no meat."}),
        "an item is read": get,
        "an item is put for a while": lambda: store.aput(other, "n", {"v": 3}, ttl=5),
        "items are searched": lambda: store.asearch(own, query="vegetarian"),
        "items are filtered": lambda: store.asearch(other, filter={"v": {"$gt": 2}}),
        "items of two tenants are written and read": lambda: store.abatch([*of_two, *reads]),
        "items of twenty tenants are written": lambda: store.abatch(of_many),
        "items of an application are searched": lambda: count((APP,)),
        "all items are searched": lambda: store.asearch((), query="text"),
        "all namespaces are listed": store.alist_namespaces,
        "an item is deleted": lambda: store.adelete(own, "food"),
        "expired items are swept": store._sweep,
    }


def of_knowledge(memory: MemoryEngine) -> dict[str, Step]:
    graph = memory.graph

    async def profile() -> None:
        repository = memory.profiles.repository(ANA)
        known = await repository.load_or_create("school")
        talk = {"role": "user", "content": "I am 34 and I work as a nurse in Oslo."}
        conversation = {"conversation_id": "conv1", "messages": [talk]}
        await repository.update_with_pipeline(known, conversation)

    return {
        "entities are listed": lambda: graph.entities(ANA),
        "an edge is added": lambda: graph.add(ANA, "Eva", "lives_in", "Paris"),
        "the graph is walked": lambda: graph.neighbourhood(ANA, "Eva"),
        "the history of an entity is read": lambda: graph.history(ANA, "Eva"),
        "names are merged": lambda: graph.merge_aliases(ANA, "Eva", ["Evie"]),
        "a profile is updated": profile,
        "profiles are shown": lambda: memory.profiles.shown(ANA),
        "inputs are heard": lambda: memory.process_memory("My dog is Rex.", "cleo", app=APP),
        "the session of a user is ended": lambda: memory.end_session(user_id="cleo", app=APP),
        "an instruction is written": lambda: memory.instructions.write(
            ANA, "greet", {"content": "Be kind."}
        ),
    }


def of_keeping(memory: MemoryEngine) -> dict[str, Step]:
    retention = memory.retention

    async def pin() -> None:
        keys = [one.key for one in await memory.list_memories(ANA)][:2]
        await retention.pin(ANA, keys)
        await retention.unpin(ANA, keys)

    async def move() -> None:
        lines = [line async for line in memory.export(ANA, vectors=True)]
        await memory.erase(ANA)
        await memory.import_lines(lines, restore=True)
        assert await memory.list_memories(ANA)

    async def erase() -> None:
        await memory.erase(ANA)
        assert await memory.list_memories(ANA) == []

    return {
        "memories are pinned": pin,
        "a policy is set": lambda: retention.set_policy("knowledge", app=APP),
        "what is left is counted": lambda: retention.stats(ANA),
        "faded memories are forgotten": lambda: retention.forget_faded(ANA),
        "weak memories are cleaned up": lambda: retention.cleanup(ANA, "default"),
        "turns are forgotten": lambda: memory.forget_turns(ANA, "t1", ["e1"]),
        "a thread is forgotten": lambda: memory.forget_thread(ANA, "t2"),
        "a user is exported, erased and imported": move,
        "a user is erased": erase,
        "a user is forgotten": lambda: memory.forget_scope(CLEO),
    }


PARTS = (of_sessions, of_turns, of_the_store, of_knowledge, of_keeping)
