"""The first answer comes in time, however long a server takes to start and a model to load."""

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from scripted_chat import ScriptedChatModel

from adk_memory import OpenMemoryService
from langgraph_store import HippocampusMiddleware, PgHippocampusStore
from shared_core import MemoryEngine, open_memory, run_sync
from shared_core.errors import ModelUnavailable
from shared_core.models.embedders import UseEmbedder


@pytest.fixture
def cold():
    """The class of the bundled model as a new process meets it."""

    class Cold(UseEmbedder):
        _network: Any = None
        is_loaded = False

        def _load(self) -> Any:
            type(self).is_loaded = True
            return super()._load()

    return Cold


def spy_on_recall(engine: MemoryEngine, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return what each recall finds when its deadline begins: whether all is warm."""
    find, found = engine.recall.find, list[bool]()

    async def spied(*arguments: Any, **options: Any) -> Any:
        embedder: Any = engine._handle.embedding._embedder
        found.append(embedder.is_loaded and engine._lifecycle.is_open)
        return await find(*arguments, **options)

    monkeypatch.setattr(engine.recall, "find", spied)
    return found


@pytest.mark.parametrize("place", ["here", "elsewhere"])
async def test_a_search_of_adk_is_timed_once_server_and_model_are_up(
    cold, place, tmp_path, dsn, monkeypatch
):
    at = tmp_path / "home" if place == "here" else dsn
    async with OpenMemoryService(at, embedder=cold()) as service:
        await service.engine.close()
        found = spy_on_recall(service.engine, monkeypatch)
        await service.search_memory(app_name="app", user_id="ann", query="tea")
    assert [True] == found
    assert 0 == service.failed_searches


def test_a_search_of_the_middleware_is_timed_once_they_are_up(cold, tmp_path, monkeypatch):
    with PgHippocampusStore(engine=open_memory(tmp_path / "home", embedder=cold())) as store:
        found = spy_on_recall(store.engine, monkeypatch)
        who = {"app": "app", "user_id": "ann", "thread_id": "one"}
        memory = HippocampusMiddleware(store, **who, deadline_s=60)
        agent = create_agent(ScriptedChatModel(), middleware=[memory])
        agent.invoke({"messages": [HumanMessage("Which tea do I like?")]})
        run_sync(store.engine.close())
    assert [True] == found
    assert 0 == memory.failures


async def test_a_model_that_does_not_load_leaves_the_search_by_words(dsn, cold, monkeypatch):
    def fail(_: object) -> Any:
        raise ModelUnavailable("its file is gone")

    monkeypatch.setattr(cold, "_load", fail)
    async with OpenMemoryService(dsn, embedder=cold()) as service:
        response = await service.search_memory(app_name="app", user_id="ann", query="tea")
    assert [] == response.memories
    assert 0 == service.failed_searches
