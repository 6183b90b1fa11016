"""The stored profile as Google ADK, LangGraph and LangChain show it to a model."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from pydantic import Field

from adk_memory import MemoryPlugin, OpenMemoryService
from langgraph_store import PgHippocampusStore, profile_namespace
from langgraph_store.middleware import HippocampusMiddleware
from shared_core import InvalidInput, Scope
from shared_core.profiles.memory import Memory
from tests.integration.scripted_chat import ScriptedChatModel

ANN = Scope("support.bot", "ann@example.com")
SAID = [{"role": "user", "content": "I live in Leeds. My parrot is called Rio."}]
PROFILE = "User lives in Leeds."


class Echo(BaseLlm):
    shown: list[str] = Field(default_factory=list)

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        parts = [part for content in llm_request.contents for part in content.parts or ()]
        self.shown.append("\n".join(part.text or "" for part in parts))
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="Noted.")]))


@pytest.fixture
async def store(dsn):
    async with PgHippocampusStore(dsn) as open_store:
        yield open_store


async def learned(store: PgHippocampusStore, agent_id: str = "guide") -> Memory:
    repository = store.engine.profiles.repository(ANN)
    memory, _ = await repository.update_with_pipeline(Memory(agent_id), SAID)
    return memory


async def test_a_store_reads_a_profile_below_its_namespace(store):
    memory = await learned(store)
    namespace = profile_namespace(ANN.app, ANN.user, "guide")
    assert ("support%2Ebot", "ann@example%2Ecom") == namespace[:2]
    assert ("hippocampus-profile", "user", "guide") == namespace[2:]
    item = await store.aget(namespace, "profile")
    assert item is not None
    assert memory.get_profile_content() == item.value["content"]
    assert memory.get_event_content() == item.value["events"]
    assert ("user", 1) == (item.value["subject"], item.value["version"])
    [best, *_] = await store.asearch(namespace[:3], query="Where does the user live?")
    assert "Leeds" in best.value["content"]
    assert namespace in await store.alist_namespaces(prefix=namespace[:3])


async def test_a_store_cannot_put_a_profile_and_can_delete_a_sentence_of_it(store):
    memory = await learned(store)
    namespace = profile_namespace(ANN.app, ANN.user, "guide")
    with pytest.raises(InvalidInput, match="shows a profile, so 'profile' cannot be put there"):
        await store.aput(namespace, "profile", {"content": "User is the admin."})
    [home] = [one for one in memory.profile_memory.statements if "Leeds" in one.text]
    await store.adelete(namespace, str(home.statement_id))
    assert None is await store.aget(namespace, "profile")
    kept = await store.engine.profiles.repository(ANN).load_memory(memory.memory_id)
    assert "Leeds" not in kept.get_profile_content()
    plain = namespace[:3]
    await store.aput(plain, "mine", {"content": "An ordinary item."})
    assert await store.aget(plain, "mine") is not None


async def test_an_adk_plugin_shows_the_stored_profile(dsn):
    model = Echo(model="echo")
    async with OpenMemoryService(dsn) as service:
        repository = service.engine.profiles.repository(Scope("app", "ann"))
        await repository.update_with_pipeline(Memory("app"), SAID)
        agent = LlmAgent(name="guide", model=model)
        app = App(name="app", root_agent=agent, plugins=[MemoryPlugin(service=service)])
        sessions = InMemorySessionService()  # type: ignore[no-untyped-call]
        runner = Runner(app=app, session_service=sessions, memory_service=service)
        session = await sessions.create_session(app_name="app", user_id="ann")
        message = types.Content(role="user", parts=[types.Part(text="Hi, what is new today?")])
        async for _ in runner.run_async(user_id="ann", session_id=session.id, new_message=message):
            pass
        asked = {"thread_id": session.id, "query": "Where am I?"}
        window = await service.get_context_window(app_name="app", user_id="ann", **asked)
        await runner.close()
    assert PROFILE in model.shown[-1]
    assert "profile" in model.shown[-1]
    assert f"<profile>\n{PROFILE}" in window.prompt


async def test_the_middleware_shows_the_stored_profile(store):
    await learned(store)
    model = ScriptedChatModel()
    memory = HippocampusMiddleware(store, app=ANN.app, user_id=ANN.user, thread_id="t")
    agent: Any = create_agent(model, middleware=[memory])
    await agent.ainvoke({"messages": [HumanMessage("What is new today?")]})
    assert 0 == memory.failures
    assert any(PROFILE in str(message.text) for message in model.asked[-1])
