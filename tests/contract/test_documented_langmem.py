"""What langmem's README and documentation do with a store, with only the store changed.

The examples are those of the README, of the two quickstarts, and of the docstrings of its tools,
its searcher and its manager. A script answers in the place of a chat model, and words are counted
in the place of an embedding model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint
from langgraph.prebuilt import create_react_agent
from langgraph.store.base import BaseStore
from langmem import (
    ReflectionExecutor,
    create_manage_memory_tool,
    create_memory_searcher,
    create_memory_store_manager,
    create_search_memory_tool,
)
from pydantic import BaseModel

from langgraph_store import PgHippocampusStore
from langgraph_store.conformance.samples import word_vectors
from tests.integration.scripted_chat import ScriptedChatModel, calls

WORDS: Any = {"dims": 64, "embed": word_vectors}
PER_USER = ("memories", "{langgraph_user_id}")
DARK = "User prefers dark mode."


@pytest.fixture
def store(dsn: str) -> Iterator[PgHippocampusStore]:
    with PgHippocampusStore(dsn, index=WORDS) as store:
        yield store


def said(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def user(name: str, **others: Any) -> Any:
    return {"configurable": {"langgraph_user_id": name, "thread_id": name, **others}}


@pytest.mark.filterwarnings("ignore:create_react_agent has been moved")
@pytest.mark.parametrize("make", [create_agent, create_react_agent])
def test_the_agent_of_the_readme_remembers(store: PgHippocampusStore, make: Any) -> None:
    model = ScriptedChatModel(
        answers=[
            calls("manage_memory", content=DARK, action="create"), AIMessage("Noted."),
            calls("search_memory", query="dark lighting preferences"), AIMessage("Dark mode."),
        ]
    )  # fmt: skip
    tools = [
        create_manage_memory_tool(namespace=("memories",)),
        create_search_memory_tool(namespace=("memories",)),
    ]
    agent = make(model, tools=tools, store=store)
    agent.invoke(said("Remember that I prefer dark mode."))
    response = agent.invoke(said("What are my lighting preferences?"))
    assert "Dark mode." == response["messages"][-1].content
    assert DARK in str(model.asked[3][-1].content)
    [item] = store.search(("memories",))
    assert {"content": DARK} == item.value


@pytest.mark.filterwarnings("ignore:create_react_agent has been moved")
async def test_the_quickstart_in_the_hot_path_shows_memories_to_the_model(
    store: PgHippocampusStore,
) -> None:
    model = ScriptedChatModel(
        answers=[calls("manage_memory", content=DARK, action="create"), AIMessage("Noted.")]
    )

    def prompt(state: Any, *, store: BaseStore) -> list[Any]:
        found = store.search(("memories",), query=str(state["messages"][-1].content))
        known = str([item.value["content"] for item in found])
        return [{"role": "system", "content": known}, *state["messages"]]

    agent = create_react_agent(
        model,
        prompt=prompt,
        tools=[create_manage_memory_tool(namespace=("memories",))],
        store=store,
        checkpointer=InMemorySaver(),
    )
    config_a, config_b = user("thread-a"), user("thread-b")
    await asyncio.to_thread(agent.invoke, said("I prefer dark mode"), config_a)
    await asyncio.to_thread(agent.invoke, said("Do I prefer dark mode?"), config_b)
    assert "[]" == model.asked[0][0].content and DARK in str(model.asked[-1][0].content)


async def test_the_quickstart_in_the_background_extracts_memories(
    store: PgHippocampusStore,
) -> None:
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


def test_reflection_may_run_in_a_thread(store: PgHippocampusStore) -> None:
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
async def test_its_tools_work_in_an_entrypoint(store: PgHippocampusStore, how: str) -> None:
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

    created = await do(content="Team prefers Python for the backend")
    key = str(created).split()[-1]
    assert str(created).startswith("created memory")
    await do(id=key, action="update", content="Team prefers Python and Rust")
    assert "Rust" in str(await do(query="Python preferences", limit=5))
    assert "[]" == str(
        await do(query="Python", filter={"content": "Team prefers Python for the backend"})
    )
    assert f"Deleted memory {key}" == await do(id=key, action="delete")
    assert "[]" == str(await do(query="Python preferences"))


class UserProfile(BaseModel):
    """What is known of a user."""

    name: str
    age: int | None = None
    recent_memories: list[str] = []


def test_a_profile_is_made_and_updated(store: PgHippocampusStore) -> None:
    profile = create_manage_memory_tool(
        namespace=(*PER_USER, "user_profile"),
        schema=UserProfile,
        actions_permitted=("create", "update"),
    )
    model = ScriptedChatModel()
    agent = create_agent(model, tools=[profile], store=store)
    new = UserProfile(name="Ann", age=60).model_dump()
    model.answers = [calls("manage_memory", content=new, action="create"), AIMessage("Hello.")]
    agent.invoke(said("I'm 60 years old."), user("ann"))
    [item] = store.search(("memories", "ann", "user_profile"))
    assert new == item.value["content"]
    model.answers = [
        calls("manage_memory", content={**new, "age": 61}, action="update", id=item.key),
        AIMessage("Happy birthday!"),
    ]
    agent.invoke(said("I just turned 61."), user("ann"))
    [item] = store.search(("memories", "ann", "user_profile"))
    assert 61 == item.value["content"]["age"]


async def test_a_searcher_asks_with_words_of_a_model(store: PgHippocampusStore) -> None:
    store.put(("memories", "abcd1234"), key="preferences", value={"content": "I like sushi"})
    store.put(("memories", "other"), key="preferences", value={"content": "I like pizza"})
    model = ScriptedChatModel(answers=[calls("search_memory", query="like to eat")])
    searcher = create_memory_searcher(model, namespace=PER_USER)

    @entrypoint(store=store)
    async def search_memories(messages: list[Any]) -> Any:
        return await searcher.ainvoke({"messages": messages})

    found = await search_memories.ainvoke(
        said("What do I like to eat?")["messages"], config=user("abcd1234")
    )
    assert ["I like sushi"] == [item.value["content"] for item in found]


class PreferenceMemory(BaseModel):
    """Store preferences about the user."""

    category: str
    preference: str
    context: str


async def test_a_manager_keeps_structured_memories(store: PgHippocampusStore) -> None:
    kept = {"category": "ui", "preference": "dark mode", "context": "all apps"}
    manager = create_memory_store_manager(
        ScriptedChatModel(answers=[calls("PreferenceMemory", **kept)]),
        schemas=[PreferenceMemory],
        namespace=("project", "team_1", "{langgraph_user_id}"),
    )

    @entrypoint(store=store)
    async def my_agent(message: str) -> Any:
        await manager.ainvoke(said(message))
        return await manager.asearch(query="dark mode apps")

    [found] = await my_agent.ainvoke("I prefer dark mode in all my apps", config=user("user123"))
    assert PreferenceMemory(**kept) == found.value
    [item] = await store.asearch(("project", "team_1", "user123"))
    assert {"kind": "PreferenceMemory", "content": kept} == item.value


@pytest.mark.parametrize("how", ["default", "default_factory"])
async def test_a_manager_begins_with_a_default(store: PgHippocampusStore, how: str) -> None:
    tone = "Use a professional tone. The user likes light mode."
    options: dict[str, Any] = {
        "default": {"default": tone},
        "default_factory": {"default_factory": lambda config: config["configurable"]["tone"]},
    }[how]
    model = ScriptedChatModel()
    manager = create_memory_store_manager(model, namespace=PER_USER, **options)

    @entrypoint(store=store)
    async def my_agent(message: str) -> Any:
        await manager.ainvoke(said(message))

    await my_agent.ainvoke("I prefer dark mode", config=user("user124", tone=tone))
    assert tone in str(model.asked)
    item = await store.aget(("memories", "user124"), "default")
    assert item is not None and {"content": tone} == item.value["content"]


async def test_another_model_may_write_the_query(store: PgHippocampusStore) -> None:
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
