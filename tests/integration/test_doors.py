"""What is the same at every door: roles, refusals in words, and whose memory a token opens."""

from datetime import UTC, datetime
from io import BytesIO

import pytest

from shared_core.core.domain import ROLES
from shared_core.http import ServerOptions
from shared_core.mcp.tools import Message
from shared_core.profiles.conversation_text import read_conversation
from shared_core.profiles.transcript import conversation_of
from tests.integration.http_clients import client_of
from tests.integration.test_http import problem_of

NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
async def client(shared_memory):
    async with client_of(shared_memory) as found:
        yield found


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        ("/process", {"user_id": "a", "input": " \u3000"}, "body.input: must not be empty"),
        ("/recall", {"user_id": "a", "query": ""}, "body.query: must not be empty or blank"),
        ("/recall", {"user_id": "a\x00", "query": "x"}, "body.user_id: must not be blank"),
        ("/recall", {"user_id": " ", "query": "x"}, "body.user_id: must not be blank"),
        ("/forget", {"user_id": "a", "keys": ["\x00"]}, "body.keys.0: must not contain NUL"),
        ("/recall", {"query": "x"}, "user_id is missing: it is optional only with a token for one"),
        ("/erase", {}, "body.user_id: Field required"),
    ],
)
async def test_a_refusal_is_told_in_words(client, path, body, told):
    answer = problem_of(await client.post(path, json=body), 422, "invalid-input")
    assert answer["detail"].startswith(told), answer
    assert "pattern" not in str(answer)


async def test_a_token_for_one_user_says_whose_memory_it_is(memory):
    own = (await memory.tokens.create("app", users=["ana"])).text
    several = (await memory.tokens.create("app", users=["ana", "bob"])).text
    async with client_of(memory, ServerOptions(auth=True)) as client:
        client.headers["Authorization"] = f"Bearer {own}"
        for path, body in (("/remember", {"memories": ["Ana skis."]}),
                           ("/process", {"input": "Hello, I am Ana."}),
                           ("/profile-update", {"messages": [{"role": "ai", "content": "Yes."}]}),
                           ("/recall", {"query": "skis"})):  # fmt: skip
            told = await client.post(path, json=body)
            assert 200 == told.status_code, told.text
        assert "Ana skis." == told.json()["hits"][0]["text"]
        client.headers["Authorization"] = f"Bearer {several}"
        problem_of(await client.post("/recall", json={"query": "skis"}), 422, "invalid-input")
        shown = (await client.get("/openapi.json")).json()["components"]["schemas"]
        assert ["user_id", "input"] == shown["ProcessBody"]["required"]
        assert "default" not in shown["ProcessBody"]["properties"]["user_id"]


@pytest.mark.parametrize("given", ["user", "human", "agent", "assistant", "ai", "tool", "system"])
async def test_every_door_takes_the_same_roles(client, scope, given):
    turn = {"event_id": "1", "role": given, "text": "Tea.", "occurred_at": "2026-03-01T12:00:00Z"}
    whose = {"app": scope.app, "user_id": scope.user}
    body = {**whose, "thread_id": "t", "events": [turn], "later": False}
    told = await client.post("/events", json=body)
    assert (200, ["1"]) == (told.status_code, told.json().get("new")), told.text
    message = {"role": given, "content": "Tea."}
    update = {**whose, "messages": [message]}
    assert 200 == (await client.post("/profile-update", json=update)).status_code
    assert given in ROLES and Message(role=given, content="Tea.").role == given  # type: ignore[arg-type]
    assert ROLES[given] == conversation_of([message], NOW).events[0].role  # type: ignore[index]
    [line] = read_conversation(BytesIO(f"{given}: Tea.".encode()))  # type: ignore[misc, attr-defined]
    assert ROLES[line["role"]] == ROLES[given]  # type: ignore[index]
