"""Opens our contenders of benchmarks.peers: the engine, ADK's memory service, LangGraph's store."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, ExitStack
from typing import Any, TypeVar, cast

from benchmarks.operations import AwaitedContender, Contender, Operation, Put, Search
from benchmarks.peer_setting import APP, USER, Setting
from shared_core import Hit, Scope, open_memory
from shared_core.ports import Search as SearchMode

T = TypeVar("T")


def open_engine(setting: Setting) -> Contender:
    """Return MemoryEngine: append_events, and recall of turns. Nothing is consolidated."""
    memory = open_memory(setting.dsn, embedder=setting.model.embedder, worker=False)
    engine = _entered(memory, setting.runner, setting.stack)
    scope = Scope(APP, USER)

    class Engine(AwaitedContender):
        async def perform(self, operation: Operation) -> object:
            match operation:
                case Put([entry]):
                    turn = setting.turns[entry.key]
                    return await engine.append_events(scope, turn.session, [turn.event])
                case Search(question, limit):
                    return await engine.recall(
                        scope, question.text, limit=limit, kinds=["episodic"]
                    )
            raise ValueError(f"operation must be Put of one entry or Search, got {operation}")

        def keys_of(self, answer: object) -> list[str]:
            return [hit.memory.source_event_ids[0] for hit in cast("list[Hit]", answer)]

    return Engine("engine", "", setting.runner)


def open_adk(setting: Setting) -> Contender:
    """Return OpenMemoryService with its defaults, which consolidates each turn as it is added.

    Both speakers are users, and an entry stands for the turns that it was derived from.
    """
    from google.adk.events.event import Event
    from google.genai import types

    from adk_memory import OpenMemoryService
    from adk_memory.events import RecalledEntry

    memory = OpenMemoryService(setting.dsn, embedder=setting.model.embedder)
    service = _entered(memory, setting.runner, setting.stack)

    def event_of(key: str) -> Event:
        told = setting.turns[key].event
        assert told.occurred_at is not None
        return Event(
            id=key,
            author="user",
            timestamp=told.occurred_at.timestamp(),
            content=types.Content(role="user", parts=[types.Part(text=told.text)]),
        )

    class Service(AwaitedContender):
        async def perform(self, operation: Operation) -> object:
            match operation:
                case Put([entry]):
                    await service.add_events_to_memory(
                        app_name=APP,
                        user_id=USER,
                        events=[event_of(entry.key)],
                        session_id=setting.turns[entry.key].session,
                    )
                    return None
                case Search(question):
                    found = await service.search_memory(
                        app_name=APP, user_id=USER, query=question.text
                    )
                    return found.memories
            raise ValueError(f"operation must be Put of one entry or Search, got {operation}")

        def keys_of(self, answer: object) -> list[str]:
            entries = cast("list[RecalledEntry]", answer)
            return [key for entry in entries for key in entry.source_event_ids]

    return Service("adk", "", setting.runner)


def open_store(setting: Setting) -> Contender:
    """Return PgHippocampusStore with its default search: by vector."""
    return _store("store", setting, None)


def open_hybrid_store(setting: Setting) -> Contender:
    """Return PgHippocampusStore with search="hybrid": by vector and words."""
    return _store("store_hybrid", setting, "hybrid")


def _store(name: str, setting: Setting, search: SearchMode | None) -> Contender:
    from benchmarks.contenders import AwaitedStore
    from langgraph_store import PgHippocampusStore

    index = {"dims": setting.model.dims, "embed": setting.model.embedder, "fields": ["text"]}
    store = PgHippocampusStore(setting.dsn, index=cast(Any, index), search=search)
    return AwaitedStore(name, "", _entered(store, setting.runner, setting.stack), setting.runner)


def _entered(opened: AbstractAsyncContextManager[T], runner: asyncio.Runner, stack: ExitStack) -> T:
    async def enter() -> T:
        return await opened.__aenter__()

    async def leave() -> None:
        await opened.__aexit__(None, None, None)

    entered = runner.run(enter())
    stack.callback(lambda: runner.run(leave()))
    return entered
