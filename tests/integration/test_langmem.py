"""langmem's tools, managers and reflection run on our store, and on what an ADK agent wrote.

`hippocampus import DSN --from langmem`: what langmem keeps elsewhere becomes memories of its users.
"""

import asyncio
import json
import signal
import subprocess
import time
from concurrent.futures import CancelledError, Future
from typing import Any

import langmem
import pytest
from commands import run
from every_case import every_case
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.postgres import PostgresStore
from postgres_admin import column, execute, rows
from warm_python import warm_python

from adk_memory import OpenMemoryService
from langgraph_store import DurableReflectionExecutor, PgHippocampusStore, memories_namespace
from shared_core import InvalidInput, NewMemory, Scope, open_memory, run_sync
from shared_core.cli import StoreImport, import_store
from shared_core.storage.postgres.langgraph_tables import PostgresStoreSource
from shared_core.transfer.importing import ImportOptions, import_items
from tests.integration.scripted_chat import ScriptedChatModel, calls

ANN = Scope("app", "ann")
CONFIG: Any = {"configurable": {"thread_id": "t", "langgraph_user_id": "ann"}}
TEMPLATE = ("app", "{langgraph_user_id}", "memories")
MEMORIES = memories_namespace("app", "ann")


@pytest.fixture
def store(dsn):
    with PgHippocampusStore(dsn) as open_store:
        yield open_store


def tell_adk(store: PgHippocampusStore) -> None:
    """Let an ADK agent's memory service remember something of Ann."""
    adk = OpenMemoryService(engine=store.engine)
    said = types.Content(role="user", parts=[types.Part(text="Ann is allergic to peanuts.")])
    entry = MemoryEntry(content=said, author="user")
    run_sync(adk.add_memory(app_name="app", user_id="ann", memories=[entry]))
    vet = NewMemory(text="Ann is a vet.", kind="reflection", key="vet")
    run_sync(store.engine.remember(ANN, vet))


async def adk_finds(store: PgHippocampusStore, query: str) -> list[str]:
    adk = OpenMemoryService(engine=store.engine)
    found = await adk.search_memory(app_name="app", user_id="ann", query=query)
    return [str(entry.content.parts[0].text) for entry in found.memories if entry.content.parts]


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_its_tools_manage_and_search_memories(store, how):
    await asyncio.to_thread(tell_adk, store)
    manage = langmem.create_manage_memory_tool(namespace=TEMPLATE, store=store)
    search = langmem.create_search_memory_tool(namespace=TEMPLATE, store=store)

    async def use(tool: Any, **arguments: Any) -> str:
        if how == "async":
            return str(await tool.ainvoke(arguments, CONFIG))
        return str(await asyncio.to_thread(tool.invoke, arguments, CONFIG))

    key = (await use(manage, content="Ann plays the cello.", action="create")).split()[-1]
    assert "peanuts" in await use(search, query="Which allergies?")
    assert "cello" in await use(search, query="Which instrument?")
    await use(manage, content="Ann plays the viola.", action="update", id=key)
    assert {"content": "Ann plays the viola."} == (await store.aget(MEMORIES, key)).value
    assert any("viola" in text for text in await adk_finds(store, "Which instrument?"))
    await use(manage, action="delete", id=key)
    assert await store.aget(MEMORIES, key) is None


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_its_manager_works_on_memories_that_adk_wrote(store, how):
    await asyncio.to_thread(tell_adk, store)
    model = ScriptedChatModel(answers=[calls("Memory", content="Ann moved to Lisbon.")])
    manager = langmem.create_memory_store_manager(model, namespace=TEMPLATE, store=store)
    said = {"messages": [{"role": "user", "content": "I moved to Lisbon, peanuts and all."}]}
    if how == "async":
        await manager.ainvoke(said, CONFIG)
    else:
        await asyncio.to_thread(manager.invoke, said, CONFIG)
    assert "Ann is allergic to peanuts." in str(model.asked)  # it read what ADK wrote
    values = [item.value for item in await store.asearch(MEMORIES)]
    assert {"kind": "Memory", "content": {"content": "Ann moved to Lisbon."}} in values
    assert any("Lisbon" in text for text in await adk_finds(store, "Where does Ann live?"))


def test_its_manager_in_a_graph_takes_the_store_of_the_graph(store):
    model = ScriptedChatModel(answers=[calls("Memory", content="Ann moved to Lisbon.")])
    manager = langmem.create_memory_store_manager(model, namespace=TEMPLATE)

    def reflect(state: MessagesState) -> dict[str, Any]:
        manager.invoke({"messages": state["messages"]})
        return {}

    builder = StateGraph(MessagesState).add_node("reflect", reflect).add_edge(START, "reflect")
    builder.compile(store=store).invoke({"messages": [HumanMessage("I moved.")]}, CONFIG)
    [item] = store.search(MEMORIES)
    assert "Memory" == item.value["kind"]


def test_messages_submitted_become_turns_and_facts(store):
    with DurableReflectionExecutor(store, app="app") as executor:
        said = [HumanMessage("I live in Lisbon.", id="1"), AIMessage("Noted.", id="2")]
        first = executor.submit({"messages": said}, config=CONFIG, after_seconds=60)
        more = [*said, HumanMessage("I like tea.", id="3")]
        second = executor.submit({"messages": more}, config=CONFIG, after_seconds=60)
        assert not first.done() and not second.done()
        [job] = run_sync(store.engine.jobs.list())  # the newer one moved it
        assert "pending" == job.status
    assert first.done() and second.done()
    assert 3 == second.result()["events"]
    facts = {fact.statement for fact in run_sync(store.engine.facts(ANN))}
    assert {"User lives in Lisbon.", "User likes tea."} == facts
    found = executor.search(namespace=MEMORIES, query="Where is home?", limit=1)
    assert "Lisbon" in found[0]["value"]["content"]


def test_it_submits_from_a_node_without_a_config(store):
    executor = DurableReflectionExecutor(store, app="app")
    futures: list[Future[Any]] = []
    found: list[dict[str, Any]] = []

    def reflect(state: MessagesState) -> dict[str, Any]:
        futures.append(executor.submit({"messages": state["messages"]}))
        found.extend(executor.search())
        return {}

    builder = StateGraph(MessagesState).add_node("reflect", reflect).add_edge(START, "reflect")
    builder.compile().invoke({"messages": [HumanMessage("I live in Lisbon.")]}, CONFIG)
    assert 1 == futures[0].result(60)["events"]
    assert "I live in Lisbon." in [item["value"]["content"] for item in found]  # facts follow
    with pytest.raises(InvalidInput, match="needs a user_id"):
        executor.submit({"messages": ["Hello."]}, config={"configurable": {"thread_id": "t"}})


def test_a_reflector_of_langmem_is_called_with_the_newest_payload(store):
    model = ScriptedChatModel(answers=[calls("Memory", content="Ann moved to Lisbon.")])
    manager = langmem.create_memory_store_manager(model, namespace=TEMPLATE)
    executor = DurableReflectionExecutor(store, app="app", reflector=manager)
    old = executor.submit({"messages": ["I moved to Porto."]}, config=CONFIG, after_seconds=60)
    new = executor.submit({"messages": ["I moved to Lisbon."]}, config=CONFIG, after_seconds=0.1)
    [written] = new.result(60)
    assert {"content": "Ann moved to Lisbon."} == written["value"]["content"]
    assert old.cancelled()
    with pytest.raises(CancelledError):
        old.result()
    assert "Lisbon" in str(model.asked) and "Porto" not in str(model.asked)
    assert [] == run_sync(store.engine.jobs.list())
    executor.shutdown()


CRASHING = """
import os, signal, sys
from langchain_core.messages import HumanMessage
from langgraph_store import DurableReflectionExecutor, PgHippocampusStore

class Killed:
    def invoke(self, input, config=None):
        os.kill(os.getpid(), signal.SIGKILL)

store = PgHippocampusStore(sys.argv[1])
executor = DurableReflectionExecutor(store, app="app", reflector=Killed())
config = {"configurable": {"thread_id": "t", "langgraph_user_id": "ann"}}
executor.submit({"messages": [HumanMessage("I moved.", id="1")]}, config=config).result()
"""


@pytest.mark.tail
def test_a_reflection_of_a_killed_process_is_done_by_the_next(dsn):
    killed = subprocess.run([*warm_python(), "-c", CRASHING, dsn], check=False)
    assert 128 + signal.SIGKILL == killed.returncode
    execute(dsn, "UPDATE hippocampus.consolidation_jobs SET lease_until = now()")
    seen: list[Any] = []

    class Seeing:
        def invoke(self, input: Any, config: Any = None) -> None:
            seen.append((input, config["configurable"]["langgraph_user_id"]))

    # A worker that does not know the reflector leaves it alone.
    async def ordinary_worker() -> int:
        async with open_memory(dsn) as other:
            return (await other.jobs.serve(once=True)).done

    assert 0 == run_sync(ordinary_worker())
    with PgHippocampusStore(dsn) as store:
        DurableReflectionExecutor(store, app="app", reflector=Seeing())
        # The worker in the background may be faster; both together do it once.
        run_sync(store.engine.jobs.serve(once=True))
        deadline = time.monotonic() + 30
        while run_sync(store.engine.jobs.list()):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    assert [({"messages": [HumanMessage("I moved.", id="1")]}, "ann")] == seen
    assert [None] == column(dsn, "SELECT payload FROM hippocampus.consolidation_jobs")


def test_forgetting_a_user_forgets_what_waits_for_reflection(store, dsn):
    class Never:
        def invoke(self, input: Any, config: Any = None) -> None:
            raise AssertionError

    executor = DurableReflectionExecutor(store, app="app", reflector=Never())
    future = executor.submit({"messages": ["I moved."]}, config=CONFIG, after_seconds=60)
    run_sync(store.engine.forget_scope(ANN))
    assert {} == future.result(30)
    for table in ("consolidation_jobs", "threads"):
        assert [] == rows(dsn, f"SELECT FROM hippocampus.{table}")


# --- the import

THEIRS = ("memories", "{langgraph_user_id}")


@pytest.fixture
def source(empty_dsn):
    """A PostgresStore in which langmem's tool and manager remembered something of Ann."""
    with PostgresStore.from_conn_string(empty_dsn) as store:
        store.setup()
        model = ScriptedChatModel(answers=[calls("Memory", content="安住在上海。")])
        manager = langmem.create_memory_store_manager(model, namespace=THEIRS, store=store)
        manager.invoke({"messages": [{"role": "user", "content": "我住在上海。"}]}, CONFIG)
        tool = langmem.create_manage_memory_tool(namespace=THEIRS, store=store)
        tool.invoke({"content": "Ann plays the cello.", "action": "create"}, CONFIG)
        store.put(("memories", "ben", "work"), "k", {"content": "Ben is a pilot."})
        store.put(("settings",), "theme", {"value": "dark"})
        store.put(("memories",), "all", {"content": "shared"})
    return empty_dsn


def test_memories_of_langmem_are_found_by_recall_adk_and_langmem(source, dsn):
    at = ("import", source, "--from", "langmem", "--app", "app", "--uri", dsn)
    report = json.loads(run(*at, "--json").stdout)
    assert (5, 3, 2) == (report["in_source"], report["copied"], report["elsewhere"])
    assert report["complete"]
    with PgHippocampusStore(dsn) as store:
        found = run_sync(store.engine.recall(ANN, "Which instrument does Ann play?"))
        assert "Ann plays the cello." == found[0].memory.text
        hits = run_sync(store.engine.recall(ANN, "安住在哪里？"))
        assert "安住在上海。" in [hit.memory.text for hit in hits]
        adk = OpenMemoryService(engine=store.engine)
        answer = run_sync(adk.search_memory(app_name="app", user_id="ann", query="instrument"))
        assert any("cello" in str(one.content) for one in answer.memories)
        items = store.search(memories_namespace("app", "ann"))
        assert {"content": "Ann plays the cello."} in [item.value for item in items]
        pilot = store.get((*memories_namespace("app", "ben"), "work"), "k")
        assert pilot is not None and pilot.value == {"content": "Ben is a pilot."}
    assert "0 copied, 3 were here already, 2 are of no user (see --namespace)" in run(*at).stdout


async def test_any_label_can_be_the_user(source, memory, dsn):
    with PostgresStore.from_conn_string(source) as store:
        store.put(("acme", "eva", "facts"), "1", {"content": "Eva is a judge."})
    task = StoreImport(dsn=source, uri=dsn, app="app", namespace="acme.{user}.facts")
    report = await import_store(task)
    assert (1, 5) == (report.copied, report.elsewhere)
    [found] = await memory.recall(Scope("app", "eva"), "judge")
    assert "Eva is a judge." == found.memory.text


async def test_the_texts_of_items_are_masked_and_their_other_values_stay(source, memory, dsn):
    told = "The wifi password is: hunter22"
    value = {
        "kind": "Memory", "content": {"content": told, "notes": [told]}, "card": "4111111111111111",
    }  # fmt: skip
    with PostgresStore.from_conn_string(source) as store:
        store.put(("memories", "eva"), "1", value)
        store.put(("memories", "eva"), "2", {"note": told})
    task = StoreImport(dsn=source, uri=dsn, app="app")
    assert 5 == (await import_store(task)).copied
    written = "".join([line async for line in memory.export(Scope("app", "eva"))])
    assert "hunter22" not in written
    assert "[REDACTED: password]" in written and "4111111111111111" in written
    assert 5 == (await import_store(task)).here


@every_case("memories", "{user}.{user}", "a..{user}", "")
def test_a_namespace_must_name_one_label_of_the_user(namespace):
    with pytest.raises(InvalidInput, match="namespace must name one label {user}"):
        StoreImport(dsn="postgresql://host/db", app="app", namespace=namespace)


async def test_the_progress_of_a_store_moves_within_a_page(empty_dsn, memory):
    with PostgresStore.from_conn_string(empty_dsn) as store:
        store.setup()
        for number in range(120):
            store.put(("app", "ann"), str(number), {"content": f"note {number}"})
    options = ImportOptions(to_namespace=tuple, text_of_field=lambda value, name: None)
    seen: list[int] = []
    async with PostgresStoreSource(empty_dsn) as source:
        await import_items(
            memory.imported_items, source, options,
            failed=lambda item, reason: None, advanced=seen.append,
        )  # fmt: skip
    assert [50, 50, 20] == seen


async def test_the_progress_of_our_own_export_moves(memory, other_dsn):
    await memory.remember(ANN, [f"Ann saw film {number}." for number in range(200)])
    lines = [line async for line in memory.export(ANN)]
    seen: list[int] = []
    async with open_memory(other_dsn) as other:
        await other.import_lines(lines, progress=seen.append)
    assert len(set(seen)) >= 5 and seen == sorted(seen)
