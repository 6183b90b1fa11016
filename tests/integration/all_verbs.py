"""Uses each verb of a memory, and lets those things fail that metrics count."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from unittest import mock

import pytest

from adk_memory import OpenMemoryService
from shared_core import Event, MemoryEngine, Scope, open_memory
from shared_core.errors import ModelUnavailable, StorageUnavailable
from shared_core.storage.postgres.connection.pool import ConnectionPool

ANA = Scope("secret_app", "ana_at_home")
TEXTS = {
    "en": ("I live in Lisbon.", "I work as a nurse.", "Where do I live?"),
    "zh": ("我住在上海。", "我是一名护士。", "我住在哪里？"),
}


def turns(*texts: str) -> list[Event]:
    moment = datetime(2026, 3, 1, tzinfo=UTC)
    return [
        Event(event_id=f"turn-number-{n}", author="ana", role="user", text=text, occurred_at=moment)
        for n, text in enumerate(texts)
    ]


async def use(memory: MemoryEngine, texts: Sequence[str]) -> None:
    """Use each verb once."""
    home, work, question = texts
    await memory.append_events(ANA, "thread-one", turns(home, work))
    await memory.consolidate(ANA, "thread-one")
    [key] = await memory.remember(ANA, f"{home} {work}")
    await memory.recall(ANA, question)
    await memory.search(ANA, question)
    await memory.context_window(ANA, "thread-one", question)
    await memory.process_memory(question, "ana_at_home", app="secret_app")
    await memory.reflect(ANA)
    assert 1 == await memory.forget(ANA, key)
    await memory.forget_turns(ANA, "thread-one", ["turn-number-1"])
    await memory.erase(ANA)


async def recall_without_model(dsn: str) -> bool:
    """Return whether a recall is degraded while its embedder is down."""

    async def fail(texts: list[str]) -> Any:
        raise ModelUnavailable("the model is away")

    async with open_memory(dsn, embedder=fail, worker=False) as memory:
        return (await memory.recall(ANA, "Where do I live?")).degraded


async def read_by_a_model(dsn: str) -> None:
    """Have a model answer with an end of what nobody showed it, and skip what tells nothing."""
    wrong = '{"facts": [{"op": "end", "id": "f9", "turns": [1]}], "summary": "They talked."}'
    async with open_memory(dsn, llm=lambda prompt: wrong, worker=False) as memory:
        for thread, text in (("quit", "I quit my job."), ("thanks", "thanks!")):
            await memory.append_events(ANA, thread, turns(text), later=True)
            await memory.consolidate(ANA, thread)


async def search_without_database(memory: MemoryEngine) -> None:
    """Let a search of ADK fail, which goes on without memories."""
    away = mock.AsyncMock(side_effect=StorageUnavailable("away"))
    with mock.patch.object(memory, "recall", new=away):
        service = OpenMemoryService(engine=memory)
        await service.search_memory(app_name="app", user_id="ann", query="tea")


async def wait_for_a_busy_pool() -> None:
    """Let a call get no connection in time."""
    connection = mock.Mock(closed=False)

    async def connect() -> Any:
        return connection

    connection.close = connect
    pool = ConnectionPool(connect, max_size=1, timeout_s=0.01)
    async with pool.connection():
        with pytest.raises(StorageUnavailable, match="were busy"):
            async with pool.connection():
                pass
