"""Real compiled graphs on the store, and make_store as LangGraph's servers call it."""

import asyncio
import inspect
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.config import get_store
from langgraph.func import entrypoint, task
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedStore, ToolNode
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore
from scripted_chat import calls

import langgraph_store
from langgraph_store import PgHippocampusStore, make_store, memories_namespace
from shared_core import Scope

HERE = memories_namespace("graphs", "ana@example.com")
SCOPE = Scope("graphs", "ana@example.com")


@pytest.fixture
def store(dsn):
    with PgHippocampusStore(dsn) as store:
        yield store


class State(TypedDict, total=False):
    said: str
    known: list[str]


def texts(found: Any) -> list[str]:
    return [item.value["content"] for item in found]


def remember(state: State, *, store: BaseStore) -> State:
    store.put(HERE, state["said"], {"content": state["said"]})
    return {}


async def recall(state: State, *, store: BaseStore) -> State:
    return {"known": texts(await store.asearch(HERE, query=state["said"], limit=2))}


def build(*nodes: Any, state: Any = State, **options: Any) -> StateGraph[Any, Any]:
    graph: Any = StateGraph(state, **options).add_sequence(list(nodes))
    return graph.add_edge(START, nodes[0].__name__)  # type: ignore[no-any-return]


async def test_sync_nodes_of_an_async_graph_run_in_threads_on_the_same_store(store):
    graph = build(remember, recall).compile(store=store)
    said = [f"{word} is what she drinks" for word in ("tea", "coffee", "milk", "water", "juice")]
    await asyncio.gather(*(graph.ainvoke({"said": text}) for text in said))
    known = (await graph.ainvoke({"said": "tea is what she drinks"}))["known"]
    assert known[0] == "tea is what she drinks"
    assert set(said) == {item.key for item in await store.asearch(HERE)}


@dataclass
class User:
    user_id: str


async def test_get_store_and_the_runtime_carry_it_in_sync_and_async_nodes(store):
    def put(state: State) -> State:
        get_store().put(HERE, "k", {"content": state["said"]})
        return {}

    async def get(state: State) -> State:
        return {"known": texts(await get_store().asearch(HERE))}

    assert ["tea"] == (await build(put, get).compile(store=store).ainvoke({"said": "tea"}))["known"]

    async def note(state: State, runtime: Runtime[User]) -> State:
        assert runtime.store is store
        place = memories_namespace("graphs", runtime.context.user_id)
        await runtime.store.aput(place, "k", {"content": state["said"]})
        return {}

    graph = build(note, context_schema=User).compile(store=store)
    await graph.ainvoke({"said": "tea"}, context=User("ana@example.com"))
    await graph.ainvoke({"said": "coffee"}, context=User("bob@example.com"))
    assert ["tea"] == texts(await store.asearch(HERE))


@tool
def keep(text: str, store: Annotated[Any, InjectedStore()], config: RunnableConfig) -> str:
    """Keep a text about the user."""
    place = memories_namespace("graphs", config["configurable"]["user_id"])
    store.put(place, text, {"content": text})
    return "kept"


@tool
async def look(query: str, store: Annotated[Any, InjectedStore()]) -> str:
    """Look for what is known."""
    return "; ".join(texts(await store.asearch(HERE, query=query, limit=1)))


async def test_tools_get_the_store_injected(store):
    async def model(state: MessagesState) -> dict[str, list[AnyMessage]]:
        if len(state["messages"]) == 1:
            return {"messages": [calls("keep", text="She likes tea.")]}
        return {"messages": [calls("look", query="What does she like?")]}

    tools, graph = ToolNode([keep, look]), StateGraph(MessagesState)
    graph.add_sequence([("m1", model), ("t1", tools), ("m2", model), ("t2", tools)])
    compiled = graph.add_edge(START, "m1").compile(store=store)
    config = {"configurable": {"user_id": "ana@example.com"}}
    told = (await compiled.ainvoke({"messages": [HumanMessage("hello")]}, config))["messages"]
    told = [message.content for message in told if isinstance(message, ToolMessage)]
    assert ["kept", "She likes tea."] == told


async def test_an_entrypoint_and_its_tasks_have_it(store):
    @task
    async def note(text: str) -> None:
        await get_store().aput(HERE, text, {"content": text})

    @entrypoint(store=store)
    async def workflow(said: list[str], *, store: BaseStore) -> list[str]:
        await asyncio.gather(*(note(text) for text in said))
        return sorted(texts(await store.asearch(HERE)))

    assert ["coffee", "tea"] == await workflow.ainvoke(["tea", "coffee"])


async def test_what_a_graph_puts_an_agent_recalls(store):
    await build(remember).compile(store=store).ainvoke({"said": "She keeps a parrot."})
    [hit] = await store.engine.recall(SCOPE, "Which pet does she keep?")
    assert "She keeps a parrot." == hit.memory.text


SERVED = ("server", "alice")


@pytest.fixture(autouse=True)
def _database(dsn, monkeypatch):
    monkeypatch.setenv("HIPPOCAMPUS_URI", dsn)


async def test_a_server_can_load_it_by_its_path():
    """A server loads "FILE.py:NAME" and takes a store, a context manager, or what makes one."""
    file = Path(inspect.getfile(langgraph_store)).with_name("server.py")
    spec = spec_from_file_location("user_store_module", file)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    made = module.make_store()
    assert isinstance(made, AbstractAsyncContextManager)
    async with made as store:
        assert isinstance(store, BaseStore)
        await store.aput(SERVED, "k", {"text": "tea"})
        [item] = await store.asearch(SERVED, query="tea", filter={"$and": [{"text": "tea"}]})
        assert item.dict()["value"] == {"text": "tea"}


async def test_threads_and_loops_share_one_store_until_the_last_has_left():
    opened: list[Any] = []

    async def serve(name: str) -> None:
        async with make_store() as store:
            opened.append(store)
            await asyncio.gather(*(store.aput(SERVED, f"{name}{n}", {"n": n}) for n in range(20)))
            assert (await store.aget(SERVED, f"{name}0")) is not None

    async with make_store() as outer:
        with ThreadPoolExecutor(4) as threads:
            jobs = [threads.submit(asyncio.run, serve(name)) for name in "abcd"]
            await asyncio.gather(*map(asyncio.wrap_future, jobs))
        assert {id(outer)} == {id(store) for store in opened}
        assert 80 == len(await outer.asearch(SERVED, limit=100))
    async with make_store() as later:
        assert later is not outer and 80 == len(await later.asearch(SERVED, limit=100))


async def test_variables_are_options(monkeypatch):
    for name, value in {"SCHEMA": "other", "DEFAULT_TTL_MINUTES": "2.5", "SEARCH": "hybrid",
                        "SWEEP_INTERVAL_MINUTES": "7", "INDEX_FIELDS": "text, tags[*]",
                        "EMBEDDER": "use", "POOL_SIZE": "3"}.items():  # fmt: skip
        monkeypatch.setenv(f"HIPPOCAMPUS_{name}", value)
    async with make_store() as store:
        ttl = {"omit_expired": True, "default_ttl": 2.5, "sweep_interval_minutes": 7.0}
        assert ttl == store.ttl_config
        assert ("hybrid", {"text", "tags[*]"}) == (store._search, set(store._fields or ()))
        assert "other" == (await store.engine.report()).schema


async def test_what_a_request_leaves_out_takes_the_default_time_to_live(monkeypatch):
    """A server hands put() None for a ttl that its client did not give."""
    monkeypatch.setenv("HIPPOCAMPUS_DEFAULT_TTL_MINUTES", "0.0005")
    async with make_store() as store:
        await store.aput(SERVED, "left out", {"n": 1}, index=None, ttl=None)
        await store.aput(SERVED, "given", {"n": 1}, ttl=60)
        await asyncio.sleep(0.05)
        assert ["given"] == [item.key for item in await store.asearch(SERVED)]
