"""The reflection node in real graphs: what was said is remembered, whatever happens meanwhile."""

import asyncio
import os
import signal
import subprocess
from dataclasses import dataclass
from operator import add
from random import Random
from string import ascii_letters
from typing import Annotated, Any, TypedDict

import psycopg
import pytest
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from warm_python import warm_python

from langgraph_store import PgHippocampusStore as Store, create_reflection_node, memories_namespace
from langgraph_store.reflection import ReflectionNode
from shared_core import InvalidInput, Scope, StorageUnavailable, open_memory, run_sync
from shared_core.storage.postgres.connection.database import PostgresDatabase
from shared_core.storage.postgres.connection.statements import Step

ANN = Scope("app", "ann")
CONFIG: Any = {"configurable": {"thread_id": "t", "user_id": "ann"}}


@pytest.fixture
def store(dsn):
    with Store(dsn) as open_store:
        yield open_store


@pytest.fixture
async def astore(dsn):
    async with Store(dsn) as open_store:
        yield open_store


def graph_with(node: ReflectionNode, state: Any = MessagesState) -> CompiledStateGraph[Any]:
    builder = StateGraph(state)
    builder.add_node("answer", lambda _: {"messages": [AIMessage("Noted.")]})
    builder.add_node("reflect", node)
    builder.add_edge(START, "answer").add_edge("answer", "reflect")
    return builder.compile(checkpointer=InMemorySaver())


def turns(dsn: str) -> list[tuple[str, str, str]]:
    with psycopg.connect(dsn) as superuser:
        return superuser.execute(
            "SELECT thread_id, role, text FROM hippocampus.events ORDER BY thread_id, seq"
        ).fetchall()


def statements(store: Store) -> set[str]:
    return {fact.statement for fact in run_sync(store.engine.facts(ANN))}


def test_a_sync_graph_remembers_each_turn_once(store, dsn):
    node = create_reflection_node(store, app="app")
    graph = graph_with(node)
    state = graph.invoke({"messages": [HumanMessage("I live in Lisbon.")]}, CONFIG)
    assert 2 == len(state["messages"])
    graph.invoke({"messages": [HumanMessage("I like tea.")]}, CONFIG)
    assert run_sync(store.engine.flush(60))
    answered = ("t", "agent", "Noted.")
    first, second = ("t", "user", "I live in Lisbon."), ("t", "user", "I like tea.")
    assert [first, answered, second, answered] == turns(dsn)
    assert {"User lives in Lisbon.", "User likes tea."} == statements(store)
    [found] = store.search(memories_namespace("app", "ann"), query="Where is home?", limit=1)
    assert "Lisbon" in found.value["content"]
    assert 0 == node.failures


async def test_an_async_graph_remembers_each_turn_once(astore, dsn):
    graph = graph_with(create_reflection_node(astore, app="app"))
    for text in ("I live in Lisbon.", "I like tea."):
        await graph.ainvoke({"messages": [HumanMessage(text)]}, CONFIG)
    assert await astore.engine.flush(60)
    assert 4 == len(turns(dsn))
    facts = {fact.statement for fact in await astore.engine.facts(ANN)}
    assert {"User lives in Lisbon.", "User likes tea."} == facts


async def test_a_sync_graph_inside_a_running_loop(astore, dsn):
    @dataclass
    class Context:
        user_id: str

    node = create_reflection_node(astore, app="app")
    builder = StateGraph(MessagesState, context_schema=Context).add_node("reflect", node)
    builder.add_edge(START, "reflect")
    config: Any = {"configurable": {"thread_id": "t"}}
    builder.compile().invoke({"messages": ["I like tea."]}, config, context=Context("ann"))
    assert [("t", "user", "I like tea.")] == turns(dsn)


def test_another_process_sends_the_history_again_and_nothing_is_doubled(store, dsn):
    said = [HumanMessage(f"I like tea {n}.", id=f"m{n}") for n in range(40)]
    for _ in range(2):  # a new node knows nothing, as a new process does
        create_reflection_node(store, app="app").invoke({"messages": said}, CONFIG)
        create_reflection_node(store, app="app").invoke({"messages": said[:3]}, CONFIG)
    assert 40 == len(turns(dsn))


def test_messages_without_ids_are_the_same_turns_every_time(store, dsn):
    said = [HumanMessage("yes"), AIMessage("Sure?"), HumanMessage("yes")]
    for length in (1, 2, 3, 3):
        create_reflection_node(store, app="app").invoke({"messages": said[:length]}, CONFIG)
    assert ["yes", "Sure?", "yes"] == [text for _, _, text in turns(dsn)]


def test_a_history_that_a_client_keeps_is_remembered_once(store, dsn):
    def graph() -> CompiledStateGraph[Any]:  # without a checkpointer: new ids in every run
        node = create_reflection_node(store, app="app")
        builder = StateGraph(MessagesState).add_node("reflect", node)
        builder.add_node("answer", lambda state: {"messages": [("ai", "Noted.")]})
        return builder.add_edge(START, "answer").add_edge("answer", "reflect").compile()

    compiled, history, said = graph(), [], []
    for number, text in enumerate(("I live in Lisbon.", "yes", "yes", "我喜欢茶。", "yes")):
        history.append(("user", text))
        answered = (graph() if number == 3 else compiled).invoke({"messages": history}, CONFIG)
        history.append(("ai", answered["messages"][-1].text))
        said += [text, "Noted."]
        assert said == [text for _, _, text in turns(dsn)]
    for text in ("yes", "I like tea."):  # from here on trimmed
        history = [*history[-3:], ("user", text)]
        compiled.invoke({"messages": history}, CONFIG)
        history.append(("ai", "Noted."))
        said += [text, "Noted."]
        assert said == [text for _, _, text in turns(dsn)]


def test_a_turn_alone_is_new_however_often_it_was_said(store, dsn):
    node = create_reflection_node(store, app="app")
    builder = StateGraph(MessagesState).add_node("reflect", node).add_edge(START, "reflect")
    for _ in range(3):
        builder.compile().invoke({"messages": [("user", "yes"), ("ai", "Noted.")]}, CONFIG)
    assert ["yes", "Noted."] * 3 == [text for _, _, text in turns(dsn)]


async def test_ids_that_stay_the_same_cost_no_second_question(astore, dsn, monkeypatch):
    asked: list[int] = []
    run = PostgresDatabase.run

    async def noted(self: PostgresDatabase, scope: str, *steps: Step, **options: Any) -> Any:
        asked.extend(one.values["limit"] for one in steps if one.name == "thread_events")
        return await run(self, scope, *steps, **options)

    monkeypatch.setattr(PostgresDatabase, "run", noted)
    graph = graph_with(create_reflection_node(astore, app="app"))
    for text in ("yes", "yes", "yes"):
        await graph.ainvoke({"messages": [HumanMessage(text)]}, CONFIG)
    assert ["yes", "Noted."] * 3 == [text for _, _, text in turns(dsn)]
    assert [] == asked
    state = await graph.aget_state(CONFIG)
    await create_reflection_node(astore, app="app").ainvoke(state.values, CONFIG)
    assert 1 == len(asked)
    assert 6 == len(turns(dsn))


def test_ids_of_any_length_fail_no_turn(store, dsn):
    random = Random(1)
    ids = ["".join(random.choices(ascii_letters, k=6_000)) for _ in range(2)]
    said = [HumanMessage("One.", id=ids[0]), HumanMessage("Two."), HumanMessage("One.", id=ids[1])]
    node = create_reflection_node(store, app="app")
    for nodes in (node, node, create_reflection_node(store, app="app")):
        nodes.invoke({"messages": said}, CONFIG)
    assert ["One.", "Two.", "One."] == [text for _, _, text in turns(dsn)]
    assert 0 == node.failures


def test_only_what_was_said_is_a_turn(store, dsn):
    call = {"name": "weather", "args": {"city": "Lisbon"}, "id": "c1"}
    image = {"type": "image", "base64": "aGk=", "mime_type": "image/png"}
    thought = {"type": "thinking", "thinking": "A secret thought."}
    said: list[Any] = [
        SystemMessage("You are kind."),
        HumanMessage("A summary.", additional_kwargs={"lc_source": "summarization"}),
        HumanMessage([{"type": "text", "text": "What is this?"}, image]),
        AIMessage([{"type": "reasoning", "reasoning": "A secret thought."}], tool_calls=[call]),
        ToolMessage("It rains.", tool_call_id="c1", name="weather"),
        ToolMessage("I like tea.", tool_call_id="c2", name="recall"),
        ToolMessage("Traceback", tool_call_id="c3", name="weather", status="error"),
        AIMessage([thought, {"type": "text", "text": "A tram."}]),
        AIMessage("<think>A secret thought.</think> It rains, too."), AIMessage(""),
        RemoveMessage(id="gone"), {"role": "user", "content": "Thanks."},
        ("ai", "You are welcome."),
    ]  # fmt: skip
    create_reflection_node(store, app="app").invoke({"messages": said}, CONFIG)
    plain = ["What is this?", "A tram.", "It rains, too.", "Thanks.", "You are welcome."]
    assert plain == [text for _, _, text in turns(dsn)]
    config: Any = {"configurable": {"thread_id": "with-tools", "user_id": "ann"}}
    create_reflection_node(store, app="app", tool_results=True).invoke({"messages": said}, config)
    with_tools = [(role, text) for thread, role, text in turns(dsn) if "with-tools" == thread]
    assert ("tool", "It rains.") == with_tools[1]
    assert 6 == len(with_tools)


def test_what_is_removed_from_the_state_stays_remembered(store, dsn):
    graph = graph_with(create_reflection_node(store, app="app"))
    state = graph.invoke({"messages": [HumanMessage("I live in Lisbon.")]}, CONFIG)
    gone = [RemoveMessage(id=message.id) for message in state["messages"]]
    graph.invoke({"messages": [*gone, HumanMessage("I like tea.")]}, CONFIG)
    assert 4 == len(turns(dsn))


def test_as_a_hook_of_an_agent_and_in_a_graph_it_knows_whose_memory_it_is(store, dsn):
    node = create_reflection_node(store, app="app", user_id="ann", thread_id="fixed")
    assert {} == node({"messages": [HumanMessage("I like tea.")]}, Runtime())
    assert [("fixed", "user", "I like tea.")] == turns(dsn)

    class State(TypedDict):
        said: Annotated[list[AnyMessage], add]

    def remembered(user: str) -> int:
        return len(run_sync(store.engine.list_memories(Scope("app", user), kinds=["episodic"])))

    def run(node: ReflectionNode, ids: dict[str, str], context: Any = None) -> None:
        builder = StateGraph(State, context_schema=dict)
        builder.add_node("reflect", node).add_edge(START, "reflect")
        config: Any = {"configurable": {"thread_id": "t"} | ids}
        builder.compile().invoke({"said": [HumanMessage("I like tea.")]}, config, context=context)

    node = create_reflection_node(store, app="app", messages_key="said")
    run(node, {"user_id": "one"})
    run(node, {"langgraph_user_id": "two@example.com", "user_id": "not me"})
    run(node, {}, {"user_id": "three"})
    run(create_reflection_node(store, app="app", messages_key="said", user_id="four"), {})
    by_context = create_reflection_node(
        store, app=lambda config, context: config["configurable"]["application"],
        user_id=lambda config, context: f"{context['tenant']}/5", messages_key="said",
    )  # fmt: skip
    run(by_context, {"application": "app"}, {"tenant": "five"})
    users = ("one", "two@example.com", "three", "four", "five/5")
    assert [1] * 5 == [remembered(user) for user in users]
    with pytest.raises(InvalidInput, match="needs a user_id"):
        run(node, {})
    no_thread = create_reflection_node(store, app="app", user_id="ann")
    with pytest.raises(InvalidInput, match="thread_id"):
        no_thread.invoke({"messages": [HumanMessage("Hello.")]}, {})


def test_a_database_that_is_away_fails_no_turn(store, dsn, monkeypatch):
    node = create_reflection_node(store, app="app")
    graph = graph_with(node)

    async def away(*_: Any, **__: Any) -> None:
        raise StorageUnavailable("away")

    with monkeypatch.context() as patched:
        patched.setattr(store.engine, "append_events", away)
        state = graph.invoke({"messages": [HumanMessage("I live in Lisbon.")]}, CONFIG)
    assert "Noted." == state["messages"][-1].content
    assert 1 == node.failures
    graph.invoke({"messages": [HumanMessage("I like tea.")]}, CONFIG)
    assert 4 == len(turns(dsn))  # the next run makes up for it


CRASHING = """
import os, signal, sys
from langchain_core.messages import HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph_store import PgHippocampusStore, create_reflection_node

with PgHippocampusStore(sys.argv[1]) as store:
    builder = StateGraph(MessagesState)
    builder.add_node("reflect", create_reflection_node(store, app="app", delay_s=0.5))
    builder.add_edge(START, "reflect")
    config = {"configurable": {"thread_id": "t", "user_id": "ann"}}
    builder.compile().invoke({"messages": [HumanMessage("I live in Lisbon.")]}, config)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.tail
async def test_what_a_killed_process_left_for_later_is_done_by_a_worker(dsn):
    killed = subprocess.run([*warm_python(), "-c", CRASHING, dsn], check=False)
    assert 128 + signal.SIGKILL == killed.returncode
    assert [("t", "user", "I live in Lisbon.")] == turns(dsn)
    cli = ("-m", "shared_core.cli.main")
    command = [*warm_python(), *cli, "worker", "--uri", dsn, "--poll", "0.05"]
    worker = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=dict(os.environ))
    try:
        async with open_memory(dsn, worker=False) as memory:
            for _ in range(600):
                if await memory.facts(ANN):
                    break
                await asyncio.sleep(0.1)
            assert {"User lives in Lisbon."} == {f.statement for f in await memory.facts(ANN)}
    finally:
        worker.terminate()
        await asyncio.to_thread(worker.wait)
    assert 0 == worker.returncode
