"""What the documentation of LangGraph and of langmem does, with only the store changed.

LangGraph's examples are those of "Add memory", "Stores" and "Long-term memory", and of the
docstrings of get_store, Runtime, InjectedStore, PostgresStore and AsyncPostgresStore; langmem's
those of the README, of the two quickstarts, and of the docstrings of its tools, its searcher and
its manager. A script answers in the place of a chat model, and words are counted in the place of an
embedding model.
"""

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict
from uuid import uuid4

import pytest
from langchain.agents import create_agent
from langchain.tools import InjectedStore, ToolRuntime, tool
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.config import get_store
from langgraph.func import entrypoint, task
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, create_react_agent
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore
from langmem import (
    ReflectionExecutor,
    create_manage_memory_tool,
    create_memory_searcher,
    create_memory_store_manager,
    create_search_memory_tool,
)
from psycopg import Connection
from psycopg.rows import dict_row
from pydantic import BaseModel

from langgraph_store import PgHippocampusStore
from langgraph_store.conformance.samples import word_vectors
from tests.integration.scripted_chat import ScriptedChatModel, calls

WORDS: Any = {"dims": 64, "embed": word_vectors}


@dataclass
class Context:
    user_id: str


class Value(TypedDict):
    foo: int


class Greeting(TypedDict, total=False):
    response: str


def said(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


@pytest.fixture
def store(dsn):
    with PgHippocampusStore(dsn, index=WORDS) as store:
        yield store


def test_memories_of_a_user_are_put_listed_and_searched_by_a_filter_and_a_query(store):
    namespace = ("1", "memories")
    key = str(uuid4())
    store.put(namespace, key, {"food_preference": "I like pizza"})
    shown = store.search(namespace)[-1].dict()
    assert {"namespace", "key", "value", "created_at", "updated_at", "score"} == set(shown)
    assert (["1", "memories"], key) == (list(shown["namespace"]), shown["key"])
    assert {"food_preference": "I like pizza"} == shown["value"]
    namespace = ("my-user", "chitchat")
    rules = ["User likes short, direct language", "User only speaks English & python"]
    store.put(namespace, "a-memory", {"rules": rules, "my-key": "my-value"})
    store.put(namespace, "another", {"rules": rules, "my-key": "other"})
    item = store.get(namespace, "a-memory")
    assert item is not None and rules == item.value["rules"]
    found = store.search(namespace, filter={"my-key": "my-value"}, query="language preferences")
    assert ["a-memory"] == [item.key for item in found]


def test_a_question_in_plain_words_finds_the_memory(dsn):
    with PgHippocampusStore(dsn) as store:  # the model of the database
        store.put(("1", "memories"), "a", {"food_preference": "I like pizza"})
        store.put(("1", "memories"), "b", {"job": "I repair trains in Leeds"})
        found = store.search(("1", "memories"), query="What does the user like to eat?", limit=3)
        assert ["a", "b"] == [item.key for item in found]


def test_an_item_says_what_of_it_is_embedded(dsn):
    index: Any = {**WORDS, "fields": ["food_preference", "$"]}
    with PgHippocampusStore(dsn, index=index) as store:
        space = ("1", "memories")
        store.put(space, "all", {"food_preference": "pizza", "context": "dinner"})
        some = {"food_preference": "I like sushi", "context": "lunch talk"}
        store.put(space, "some", some, index=["context"])
        store.put(space, "none", {"system_info": "updated lunch talk"}, index=False)
        best, *others = store.search(space, query="lunch talk")
        assert "some" == best.key
        assert {"none": None} == {item.key: item.score for item in others if item.key == "none"}


def remembering(model: ScriptedChatModel) -> StateGraph[MessagesState, Context]:
    """Return the graph of "Add memory", which keeps what it is told to remember."""

    def call_model(state: MessagesState, runtime: Runtime[Context]) -> dict[str, Any]:
        namespace = ("memories", runtime.context.user_id)
        said = str(state["messages"][-1].content)
        found = runtime.store.search(namespace, query=said)
        known = "\n".join(item.value["data"] for item in found)
        if "remember" in said.lower():
            runtime.store.put(namespace, str(uuid4()), {"data": "User name is Bob"})
        system = {"role": "system", "content": f"You talk to a user. User info: {known}"}
        return {"messages": [model.invoke([system, *state["messages"]])]}

    builder = StateGraph(MessagesState, context_schema=Context)
    return builder.add_node(call_model).add_edge(START, "call_model")


def test_what_one_thread_hears_another_knows(dsn):
    model = ScriptedChatModel()
    with (
        PgHippocampusStore.from_conn_string(dsn, index=WORDS) as store,
        PostgresSaver.from_conn_string(dsn) as checkpointer,
    ):
        store.setup()
        checkpointer.setup()
        graph = remembering(model).compile(checkpointer=checkpointer, store=store)
        for thread, text in (("1", "Hi! Remember: my name is Bob"), ("2", "What is my name?")):
            config: Any = {"configurable": {"thread_id": thread}}
            for chunk in graph.stream(said(text), config, context=Context("1")):
                assert chunk
        graph.invoke(said("What is my name?"), config, context=Context("2"))
    first, second, stranger = (str(asked[0].content) for asked in model.asked)
    assert "Bob" not in first and "Bob" in second and "Bob" not in stranger


async def test_the_same_graph_runs_async(dsn):
    model = ScriptedChatModel()

    async def call_model(state: MessagesState, runtime: Runtime[Context]) -> dict[str, Any]:
        namespace = ("memories", runtime.context.user_id)
        found = await runtime.store.asearch(namespace, query=str(state["messages"][-1].content))
        if not found:
            await runtime.store.aput(namespace, str(uuid4()), {"data": "User name is Bob"})
        system = {"role": "system", "content": str([item.value["data"] for item in found])}
        return {"messages": [await model.ainvoke([system, *state["messages"]])]}

    async with (
        PgHippocampusStore.from_conn_string(dsn, index=WORDS) as store,
        AsyncPostgresSaver.from_conn_string(dsn) as checkpointer,
    ):
        await store.setup()
        await checkpointer.setup()
        builder = StateGraph(MessagesState, context_schema=Context)
        builder.add_node(call_model).add_edge(START, "call_model")
        graph = builder.compile(checkpointer=checkpointer, store=store)
        for thread in ("1", "2"):
            config: Any = {"configurable": {"thread_id": thread}}
            async for chunk in graph.astream(said("My name?"), config, context=Context("1")):
                assert chunk
    assert "[]" == model.asked[0][0].content and "Bob" in str(model.asked[1][0].content)


async def test_a_node_searches_by_what_the_user_says(dsn):
    model = ScriptedChatModel()

    async def chat(state: MessagesState, runtime: Runtime[None]) -> dict[str, Any]:
        query = state["messages"][-1].text
        items = await runtime.store.asearch(("user_123", "memories"), query=query, limit=1)
        system = "\n".join(item.value["text"] for item in items)
        answer = await model.ainvoke([{"role": "system", "content": system}, *state["messages"]])
        return {"messages": [answer]}

    async with PgHippocampusStore(dsn) as store:  # the model of the database
        await store.aput(("user_123", "memories"), "1", {"text": "I love pizza"})
        await store.aput(("user_123", "memories"), "2", {"text": "I am a plumber"})
        builder = StateGraph(MessagesState).add_node(chat).add_edge(START, "chat")
        await builder.compile(store=store).ainvoke({"messages": [HumanMessage("I'm hungry")]})
    assert "I love pizza" == model.asked[0][0].content


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_tools_of_an_agent_read_and_write_what_is_known_of_a_user(store, how):
    @tool
    def get_user_info(runtime: ToolRuntime[Context]) -> str:
        """Look up user info."""
        item = runtime.store.get(("users",), runtime.context.user_id)
        return str(item.value) if item else "Unknown user"

    @tool
    def save_user_info(full_name: str, runtime: ToolRuntime[Context]) -> str:
        """Save user info."""
        runtime.store.put(("users",), runtime.context.user_id, {"name": full_name})
        return "Saved user info."

    store.put(("users",), "user_123", {"name": "John Smith", "language": "English"})
    model = ScriptedChatModel(answers=[
        calls("get_user_info"), AIMessage("You are John."),
        calls("save_user_info", full_name="John Doe"), AIMessage("Done."),
    ])  # fmt: skip
    tools = [get_user_info, save_user_info]
    agent: Any = create_agent(model, tools=tools, store=store, context_schema=Context)
    for text in ("look up user information", "My name is John Doe"):
        if how == "async":
            await agent.ainvoke(said(text), context=Context("user_123"))
        else:
            await asyncio.to_thread(agent.invoke, said(text), context=Context("user_123"))
    assert "John Smith" in str(model.asked[1][-1].content)
    item = await store.aget(("users",), "user_123")
    assert item is not None and {"name": "John Doe"} == item.value


def test_get_store_finds_it_in_a_graph_and_in_a_task(store):
    store.put(("values",), "foo", {"bar": 2})

    def my_node(state: Value) -> Value:
        item = get_store().get(("values",), "foo")
        return {"foo": item.value["bar"] + 1}

    @task
    def my_task(value: int) -> int:
        item = get_store().get(("values",), "foo")
        return int(item.value["bar"]) + value

    @entrypoint(store=store)
    def workflow(value: int) -> int:
        return my_task(value).result()

    graph = StateGraph(Value).add_node(my_node).add_edge(START, "my_node").compile(store=store)
    assert {"foo": 3} == graph.invoke({"foo": 1})
    assert 3 == workflow.invoke(1)


def test_a_runtime_greets_a_user_by_name(store):
    store.put(("users",), "user_123", {"name": "Alice"})

    def greet(state: Greeting, runtime: Runtime[Context]) -> Greeting:
        item = runtime.store.get(("users",), runtime.context.user_id)
        return {"response": f"Hello {item.value['name'] if item else 'stranger'}!"}

    builder = StateGraph(state_schema=Greeting, context_schema=Context).add_node("greet", greet)
    graph = builder.set_entry_point("greet").set_finish_point("greet").compile(store=store)
    assert {"response": "Hello Alice!"} == graph.invoke({}, context=Context("user_123"))
    assert {"response": "Hello stranger!"} == graph.invoke({}, context=Context("user_7"))


def test_a_tool_node_injects_it(store):
    @tool
    def save_preference(key: str, value: str, store: Annotated[Any, InjectedStore()]) -> str:
        """Save a preference."""
        store.put(("preferences",), key, {"value": value})
        return f"Saved {key} = {value}"

    @tool
    def get_preference(key: str, store: Annotated[Any, InjectedStore()]) -> str:
        """Return a preference."""
        item = store.get(("preferences",), key)
        return str(item.value["value"]) if item else "Not found"

    builder = StateGraph(MessagesState)
    builder.add_node("tools", ToolNode([save_preference, get_preference]))
    graph = builder.add_edge(START, "tools").compile(store=store)
    saving = calls("save_preference", key="colour", value="blue")
    assert "Saved" in graph.invoke({"messages": [saving]})["messages"][-1].content
    reading = calls("get_preference", key="colour")
    assert "blue" == graph.invoke({"messages": [reading]})["messages"][-1].content


def test_it_is_made_as_the_examples_of_postgres_store_are(empty_dsn):
    prefs = {"theme": "dark"}
    with Connection.connect(
        empty_dsn, autocommit=True, prepare_threshold=0, row_factory=dict_row
    ) as connection:
        direct = PgHippocampusStore(connection)
        direct.setup()
        direct.put(("users", "123"), "prefs", prefs)
        direct.close()
    index: Any = {**WORDS, "fields": ["text"]}
    with PgHippocampusStore.from_conn_string(empty_dsn, index=index) as store:
        store.setup()
        item = store.get(("users", "123"), "prefs")
        assert item is not None and prefs == item.value
        store.put(("docs",), "doc1", {"text": "Python tutorial"})
        store.put(("docs",), "doc2", {"text": "TypeScript guide"})
        store.put(("docs",), "doc3", {"text": "Other guide"}, index=False)
        found = store.search(("docs",), query="programming guide", limit=2)
        assert ["doc2", "doc1"] == [item.key for item in found]


async def test_it_is_made_as_the_examples_of_async_postgres_store_are(empty_dsn):
    ttl: Any = {"default_ttl": 60, "refresh_on_read": True, "sweep_interval_minutes": 60}
    async with PgHippocampusStore.from_conn_string(
        empty_dsn, pool_config={"min_size": 1, "max_size": 3}, index=WORDS, ttl=ttl
    ) as store:
        await store.setup()
        await store.start_ttl_sweeper()
        await store.aput(("docs",), "doc1", {"text": "Python tutorial"})
        await store.aput(("docs",), "doc2", {"text": "TypeScript guide"}, ttl=1)
        assert "doc1" == (await store.asearch(("docs",), query="Python programming"))[0].key
        await store.stop_ttl_sweeper()


async def test_short_and_long_memory_serve_one_agent(store):
    model = ScriptedChatModel()

    def prompt(state: MessagesState, runtime: Runtime[Context]) -> dict[str, Any]:
        facts = runtime.store.search((runtime.context.user_id, "facts"))
        system = {"role": "system", "content": str([fact.value["text"] for fact in facts])}
        return {"messages": [model.invoke([system, *state["messages"]])]}

    store.put(("ana", "facts"), "1", {"text": "Ana paints."})
    builder = StateGraph(MessagesState, context_schema=Context).add_node(prompt)
    graph = builder.add_edge(START, "prompt").compile(checkpointer=InMemorySaver(), store=store)
    config: Any = {"configurable": {"thread_id": "1"}}
    for text in ("Hello.", "And?"):
        await graph.ainvoke(said(text), config, context=Context("ana"))
    last = model.asked[-1]
    assert "['Ana paints.']" == last[0].content and 4 == len(last)


# --- langmem

PER_USER = ("memories", "{langgraph_user_id}")
DARK = "User prefers dark mode."


def user(name: str, **others: Any) -> Any:
    return {"configurable": {"langgraph_user_id": name, "thread_id": name, **others}}


@pytest.mark.filterwarnings("ignore:create_react_agent has been moved")
@pytest.mark.parametrize("make", [create_agent, create_react_agent])
def test_the_agent_of_the_readme_remembers(store, make):
    model = ScriptedChatModel(answers=[
        calls("manage_memory", content=DARK, action="create"), AIMessage("Noted."),
        calls("search_memory", query="dark lighting preferences"), AIMessage("Dark mode."),
    ])  # fmt: skip
    makers = (create_manage_memory_tool, create_search_memory_tool)
    agent = make(model, tools=[tool_of(namespace=("memories",)) for tool_of in makers], store=store)
    agent.invoke(said("Remember that I prefer dark mode."))
    response = agent.invoke(said("What are my lighting preferences?"))
    assert "Dark mode." == response["messages"][-1].content
    assert DARK in str(model.asked[3][-1].content)
    [item] = store.search(("memories",))
    assert {"content": DARK} == item.value


@pytest.mark.filterwarnings("ignore:create_react_agent has been moved")
async def test_the_quickstart_in_the_hot_path_shows_memories_to_the_model(store):
    answers = [calls("manage_memory", content=DARK, action="create"), AIMessage("Noted.")]
    model = ScriptedChatModel(answers=answers)

    def prompt(state: Any, *, store: BaseStore) -> list[Any]:
        found = store.search(("memories",), query=str(state["messages"][-1].content))
        known = str([item.value["content"] for item in found])
        return [{"role": "system", "content": known}, *state["messages"]]

    agent = create_react_agent(
        model, prompt=prompt, tools=[create_manage_memory_tool(namespace=("memories",))],
        store=store, checkpointer=InMemorySaver(),
    )  # fmt: skip
    config_a, config_b = user("thread-a"), user("thread-b")
    await asyncio.to_thread(agent.invoke, said("I prefer dark mode"), config_a)
    await asyncio.to_thread(agent.invoke, said("Do I prefer dark mode?"), config_b)
    assert "[]" == model.asked[0][0].content and DARK in str(model.asked[-1][0].content)


async def test_the_quickstart_in_the_background_extracts_memories(store):
    chat = ScriptedChatModel()
    model = ScriptedChatModel(answers=[calls("Memory", content="The user has a dog, Fido.")])
    manager = create_memory_store_manager(model, namespace=("memories",))

    @entrypoint(store=store)
    async def reply(message: str) -> Any:
        response = await chat.ainvoke(message)
        await manager.ainvoke({"messages": [*said(message)["messages"], response]})
        return response.content

    assert "Noted." == await reply.ainvoke("My dog is called Fido")
    [item] = await store.asearch(("memories",), query="dog")
    assert {"kind": "Memory", "content": {"content": "The user has a dog, Fido."}} == item.value


def test_reflection_may_run_in_a_thread(store):
    model = ScriptedChatModel(answers=[calls("Memory", content=DARK)])
    manager = create_memory_store_manager(model, namespace=("memories",))
    with ReflectionExecutor(manager, store=store) as executor:

        @entrypoint(store=store)
        def chat(message: str) -> str:
            executor.submit(said(message), after_seconds=0).result(60)
            return "Noted."

        chat.invoke("I prefer dark mode", user("thread"))
    [item] = store.search(("memories",))
    assert {"content": DARK} == item.value["content"]


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_its_tools_work_in_an_entrypoint(store, how):
    namespace = ("project_memories", "{langgraph_user_id}")
    manage = create_manage_memory_tool(namespace=namespace)
    search = create_search_memory_tool(namespace=namespace)
    config = user("123e4567-e89b-12d3-a456-426614174000")

    @entrypoint(store=store)
    def sync_flow(state: dict[str, Any]) -> Any:
        return (search if "query" in state else manage).invoke(state)

    @entrypoint(store=store)
    async def async_flow(state: dict[str, Any]) -> Any:
        return await (search if "query" in state else manage).ainvoke(state)

    async def do(**state: Any) -> Any:
        if how == "async":
            return await async_flow.ainvoke(state, config)
        return await asyncio.to_thread(sync_flow.invoke, state, config)

    first = "Team prefers Python for the backend"
    created = await do(content=first)
    key = str(created).split()[-1]
    assert str(created).startswith("created memory")
    await do(id=key, action="update", content="Team prefers Python and Rust")
    assert "Rust" in str(await do(query="Python preferences", limit=5))
    assert "[]" == str(await do(query="Python", filter={"content": first}))
    assert f"Deleted memory {key}" == await do(id=key, action="delete")
    assert "[]" == str(await do(query="Python preferences"))


class UserProfile(BaseModel):
    """What is known of a user."""

    name: str
    age: int | None = None
    recent_memories: list[str] = []


def test_a_profile_is_made_and_updated(store):
    namespace, permitted = (*PER_USER, "user_profile"), ("create", "update")
    profile = create_manage_memory_tool(namespace, schema=UserProfile, actions_permitted=permitted)
    model = ScriptedChatModel()
    agent = create_agent(model, tools=[profile], store=store)
    new = UserProfile(name="Ann", age=60).model_dump()
    model.answers = [calls("manage_memory", content=new, action="create"), AIMessage("Hello.")]
    agent.invoke(said("I'm 60 years old."), user("ann"))
    [item] = store.search(("memories", "ann", "user_profile"))
    assert new == item.value["content"]
    update = calls("manage_memory", content={**new, "age": 61}, action="update", id=item.key)
    model.answers = [update, AIMessage("Happy birthday!")]
    agent.invoke(said("I just turned 61."), user("ann"))
    [item] = store.search(("memories", "ann", "user_profile"))
    assert 61 == item.value["content"]["age"]


async def test_a_searcher_asks_with_words_of_a_model(store):
    store.put(("memories", "abcd1234"), key="preferences", value={"content": "I like sushi"})
    store.put(("memories", "other"), key="preferences", value={"content": "I like pizza"})
    model = ScriptedChatModel(answers=[calls("search_memory", query="like to eat")])
    searcher = create_memory_searcher(model, namespace=PER_USER)

    @entrypoint(store=store)
    async def search_memories(messages: list[Any]) -> Any:
        return await searcher.ainvoke({"messages": messages})

    asked = said("What do I like to eat?")["messages"]
    found = await search_memories.ainvoke(asked, config=user("abcd1234"))
    assert ["I like sushi"] == [item.value["content"] for item in found]


class PreferenceMemory(BaseModel):
    """Store preferences about the user."""

    category: str
    preference: str
    context: str


async def test_a_manager_keeps_structured_memories(store):
    kept = {"category": "ui", "preference": "dark mode", "context": "all apps"}
    model = ScriptedChatModel(answers=[calls("PreferenceMemory", **kept)])
    namespace = ("project", "team_1", "{langgraph_user_id}")
    manager = create_memory_store_manager(model, schemas=[PreferenceMemory], namespace=namespace)

    @entrypoint(store=store)
    async def my_agent(message: str) -> Any:
        await manager.ainvoke(said(message))
        return await manager.asearch(query="dark mode apps")

    [found] = await my_agent.ainvoke("I prefer dark mode in all my apps", config=user("user123"))
    assert PreferenceMemory(**kept) == found.value
    [item] = await store.asearch(("project", "team_1", "user123"))
    assert {"kind": "PreferenceMemory", "content": kept} == item.value


@pytest.mark.parametrize("how", ["default", "default_factory"])
async def test_a_manager_begins_with_a_default(store, how):
    tone = "Use a professional tone. The user likes light mode."
    given: Any = tone if how == "default" else lambda config: config["configurable"]["tone"]
    model = ScriptedChatModel()
    manager = create_memory_store_manager(model, namespace=PER_USER, **{how: given})

    @entrypoint(store=store)
    async def my_agent(message: str) -> Any:
        await manager.ainvoke(said(message))

    await my_agent.ainvoke("I prefer dark mode", config=user("user124", tone=tone))
    assert tone in str(model.asked)
    item = await store.aget(("memories", "user124"), "default")
    assert item is not None and {"content": tone} == item.value["content"]


async def test_another_model_may_write_the_query(store):
    old = {"kind": "Memory", "content": {"content": "User prefers light mode."}}
    store.put(("memories", "user123"), "old", old)
    asking = ScriptedChatModel(answers=[calls("search_memory", query="light mode")])
    model = ScriptedChatModel(answers=[calls("Memory", content=DARK)])
    manager = create_memory_store_manager(
        model, query_model=asking, query_limit=10, namespace=PER_USER
    )

    @entrypoint(store=store)
    async def my_agent(message: str) -> Any:
        await manager.ainvoke(said(message))

    await my_agent.ainvoke("I prefer dark mode in all my apps", config=user("user123"))
    assert 1 == len(asking.asked) and "light mode" in str(model.asked)
    found = [item.value["content"]["content"] for item in store.search(("memories", "user123"))]
    assert DARK in found
