"""Profiles over HTTP, as tools of MCP, on the command line, and as frameworks show them."""

import json
import uuid
from collections.abc import AsyncGenerator
from typing import Any

import httpx
import pytest
from every_case import every_case
from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from pydantic import Field
from typer.testing import CliRunner, Result

from adk_memory import MemoryPlugin, OpenMemoryService
from langgraph_store import PgHippocampusStore, profile_namespace
from langgraph_store.middleware import HippocampusMiddleware
from shared_core import InvalidInput, Scope
from shared_core.cli.main import app
from shared_core.http import create_app
from shared_core.profiles.memory import Memory
from tests.integration.http_clients import client_of
from tests.integration.scripted_chat import ScriptedChatModel
from tests.integration.test_http import problem_of
from tests.integration.test_mcp import answer, asked, refusal

MONDAY = [
    {"role": "user", "content": "I live in Leeds. I want to learn Rust."},
    {"role": "assistant", "content": "What brings you here?"},
]
MOVED = [{"role": "user", "content": "I live in Lisbon now."}]


@pytest.fixture
def ana():
    """A user whom no other test knows."""
    return f"ana-{uuid.uuid4().hex[:12]}"


@pytest.fixture
async def client(shared_memory):
    async with client_of(shared_memory) as found:
        yield found


async def updated(client: httpx.AsyncClient, ana: str, messages: Any, **more: Any) -> Any:
    body = {"user_id": ana, "messages": messages, **more}
    told = await client.post("/profile-update", json=body)
    assert 200 == told.status_code, told.text
    return told.json()


async def test_a_profile_is_updated_shown_compared_and_rolled_back(client, ana):
    problem_of(await client.get(f"/profile/{ana}"), 404, "not-found")
    first = await updated(client, ana, MONDAY, conversation_id="monday")
    assert (True, 0, 2, "monday") == (
        first["changed"], first["previous_version"], first["new_turns"], first["conversation_id"],
    )  # fmt: skip
    assert "User lives in Leeds." == first["profile"]["profile"]
    assert 4 == len(first["stages"])
    again = await updated(client, ana, MONDAY, conversation_id="monday")
    assert (False, 0) == (again["changed"], again["new_turns"])
    await updated(client, ana, MOVED)
    shown = (await client.get(f"/profile/{ana}")).json()
    assert (2, "default", "User lives in Lisbon.") == (
        shown["version"], shown["agent_id"], shown["profile"],
    )  # fmt: skip
    assert {"intent", "trend"} <= {one["dimension"] for one in shown["findings"]}
    assert "replaces" in {one["kind"] for one in shown["relations"]}
    chinese = (await client.get(f"/profile/{ana}?language=zh")).json()
    assert chinese["prompt"].startswith("## 用户画像")
    assert "Leeds" in (await client.get(f"/profile/{ana}?version=1")).json()["profile"]
    listed = (await client.get(f"/profile-versions/{ana}")).json()["versions"]
    assert [2, 1] == [one["version"] for one in listed]
    asked = {"from_version": 1, "to_version": 2}
    changed = (await client.get(f"/profile-diff/{ana}", params=asked)).json()
    assert (["User lives in Lisbon."], ["User lives in Leeds."]) == (
        changed["added"], changed["removed"],
    )  # fmt: skip
    back = (await client.post("/profile-rollback", json={"user_id": ana, "version": 1})).json()
    assert (3, "User lives in Leeds.") == (back["version"], back["profile"])
    missing = await client.post("/profile-rollback", json={"user_id": ana, "version": 9})
    assert "1 to 3" in problem_of(missing, 404, "not-found")["detail"]


async def test_what_fills_a_profile_becomes_facts_and_a_graph_as_well(client, shared_memory, ana):
    await updated(client, ana, MONDAY, conversation_id="monday")
    await shared_memory.flush(60)
    assert "Leeds" in {fact.value for fact in await shared_memory.facts(Scope("default", ana))}
    assert "Leeds" in (await client.get(f"/graph/{ana}")).text


async def test_an_agent_and_another_agent_have_profiles_of_their_own(client, ana):
    said = [{"role": "assistant", "content": "I speak Portuguese."}, *MOVED]
    told = await updated(client, ana, said, agent_id="guide", subject="agent")
    assert "Portuguese" in told["profile"]["profile"] and "Lisbon" not in told["profile"]["profile"]
    problem_of(await client.get(f"/profile/{ana}?agent_id=guide"), 404, "not-found")
    found = await client.get(f"/profile/{ana}?agent_id=guide&subject=agent")
    assert ("agent", "guide") == (found.json()["subject"], found.json()["agent_id"])


@every_case(
    {"messages": []}, {"messages": [{"role": "user", "content": "  "}]},
    {"messages": [{"role": "robot", "content": "Hi."}]}, {"messages": MOVED, "subject": "x"},
    {"messages": MOVED, "agent_id": ""}, {"messages": MOVED * 501}, {"messages": MOVED, "x": 1}
)  # fmt: skip
async def test_what_is_no_conversation_is_refused(body, client, ana):
    told = await client.post("/profile-update", json={"user_id": ana, **body})
    problem_of(told, 422, "invalid-input")


async def test_a_token_opens_the_profiles_of_its_users_alone(memory, ana):
    token = (await memory.tokens.create("app", users=[ana])).text
    async with client_of(memory) as client:
        client.headers["Authorization"] = f"Bearer {token}"
        await updated(client, ana, MONDAY)
        for path in ("profile", "profile-versions"):
            problem_of(await client.get(f"/{path}/bob"), 403, "forbidden")
        body = {"user_id": "bob", "messages": MOVED}
        problem_of(await client.post("/profile-update", json=body), 403, "forbidden")


async def test_every_route_of_profiles_has_an_example(shared_memory):
    told = create_app(shared_memory).openapi()
    for name in ("ProfileUpdateBody", "ProfileRollbackBody", "ProfileAnswer", "ProfileDiffAnswer"):
        assert told["components"]["schemas"][name]["examples"], name


@pytest.mark.tail
async def test_a_client_of_mcp_updates_and_reads_the_profile(shared_dsn, ana):
    async with asked("--user", ana, "--uri", shared_dsn) as client:
        nothing = await answer(client, "get_user_profile")
        assert (0, "", []) == (nothing["version"], nothing["profile"], nothing["findings"])
        told = await answer(client, "update_user_profile", messages=MONDAY, conversation_id="c")
        assert (True, 2, 1) == (told["changed"], told["new_turns"], told["version"])
        again = await answer(client, "update_user_profile", messages=MONDAY, conversation_id="c")
        assert (False, 0) == (again["changed"], again["new_turns"])
        known = await answer(client, "get_user_profile")
        assert "User lives in Leeds." == known["profile"]
        quotes = [quote for one in known["findings"] for quote in one["quotes"]]
        assert "I want to learn Rust." in quotes
        assert "not a user of" in await refusal(client, "get_user_profile", user_id="bob")
        blank = [{"role": "user", "content": " "}]
        refused = await refusal(client, "update_user_profile", messages=blank)
        assert "the conversation is empty" in refused
        page = await client.read_resource("memory://profile")
        assert "User lives in Leeds." in page.contents[0].text  # type: ignore[union-attr]


@pytest.fixture
def run(shared_dsn, ana):
    """Runs `hippocampus profile`."""

    def run(command: str, *arguments: str, given: str | bytes | None = None) -> Result:
        line = ["profile", command, "my app", ana, *arguments, "--uri", shared_dsn]
        return CliRunner().invoke(app, line, input=given)

    return run


def test_the_command_line_shows_updates_compares_and_rolls_back(run, shared_dsn, ana, tmp_path):
    assert run("show").stdout == (
        f"No profile is stored for {ana} in my app. hippocampus profile update makes one from a"
        " conversation.\n"
    )
    assert ("null\n", "[]\n") == (run("show", "--json").stdout, run("versions", "--json").stdout)
    talk = "我住在北京。\n助手：你好！\n\nuser: I want to learn Rust.\n"
    told = run("update", "--conversation", "c", given=talk)
    assert told.stdout.startswith("The profile is at version 1.\n## 用户画像\n用户住在北京。"), told
    assert "北京" in CliRunner().invoke(app, ["facts", "my app", ana, "--uri", shared_dsn]).stdout
    assert "Nothing is new" in run("update", "--conversation", "c", given=talk).stdout
    file = tmp_path / "talk.json"
    moved = {"messages": [{"role": "user", "content": "我搬到上海了。"}]}
    file.write_text(json.dumps(moved), "utf-8")
    result = json.loads(run("update", "--file", str(file), "--json").stdout)
    assert (True, "用户住在上海。") == (result["changed"], result["profile"]["profile"])
    shown = run("show").stdout
    assert "用户住在上海。" in shown and "intent 0.6" in shown
    assert "用户住在北京。" in run("show", "--version", "1").stdout
    table = run("versions").stdout
    assert "repeated" in table and table.index("\n2 ") < table.index("\n1 ")
    changed = run("diff", "1", "2").stdout
    assert "- 用户住在北京。" in changed and "+ 用户住在上海。" in changed
    assert "have the same content" in run("diff", "2", "2").stdout
    assert "Version 3 has the content of version 1.\n" == run("rollback", "1").stdout
    assert "用户住在北京。" == json.loads(run("show", "--json").stdout)["profile"]
    refused = run("rollback", "9")
    assert (1, True) == (refused.exit_code, "has no version 9" in refused.stderr)


def test_a_conversation_that_tells_nothing_of_the_user_is_said_to(run, ana):
    told = run("update", given="assistant: Good morning!")
    assert told.exit_code == 0, told.output
    assert f"The conversation says nothing about who {ana} is." in told.stdout


@every_case(
    (b"", "the conversation is empty"), (b"\xff\xfe", "is not UTF-8"),
    (b'{"a":', "is not valid JSON"),
    (b"[]", "the conversation is empty"), (b'[{"role": "x", "content": "y"}]', "got 'x'"),
    (b'{"a":' * 200_000, "nested too deep"),
    (b'[{"content": ' + b"[" * 600 + b"]" * 600 + b"}]", "over 500 levels"),
    (b'[{"role": ' + b"9" * 5_000 + b"}]", "is not valid JSON")
)  # fmt: skip
def test_what_is_no_conversation_is_named(given, why, run):
    refused = run("update", given=given)
    assert (1, True) == (refused.exit_code, why in refused.stderr), refused.output


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
