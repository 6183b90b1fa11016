"""The HTTP application in process: what it answers, whom it lets in, and how it refuses."""

import asyncio
import json
import logging
import threading
from collections.abc import MutableMapping
from datetime import UTC, datetime
from io import BytesIO
from typing import Any
from unittest import mock

import httpx
import pytest
from every_case import every_case
from starlette.requests import ClientDisconnect

from shared_core import Scope, StorageUnavailable, open_memory
from shared_core.core.domain import ROLES
from shared_core.errors import ModelUnavailable
from shared_core.http import ServerOptions, create_app, export
from shared_core.http.access import KNOWN_S, KnownTokens, TokenBuckets
from shared_core.http.logs import JsonLines
from shared_core.http.problems import ProblemError
from shared_core.jobs.api_tokens import LOOK_AGAIN_S, FirstToken
from shared_core.mcp.tools import Message
from shared_core.models.embedders import E5Embedder, UseEmbedder
from shared_core.profiles.conversation_text import read_conversation
from shared_core.profiles.transcript import conversation_of
from shared_core.transfer import lines
from tests.integration.http_clients import app_of, client_of, problem_of

ASK = {"user_id": "ana", "query": "tea"}
TURN = {
    "event_id": "1", "role": "user", "author": "ana", "text": "I live in Lisbon.",
    "occurred_at": "2026-03-01T12:00:00Z",
}  # fmt: skip
NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
async def free(shared_memory):
    """A client of an application of its own that needs no token."""
    async with client_of(shared_memory) as found:
        yield found


@pytest.fixture
def ana(scope):
    """The user ana of the application of the client."""
    return Scope(scope.app, "ana")


@pytest.fixture
async def client(shared_memory, scope):
    """A client with a token for an application that no other test knows."""
    new = await shared_memory.tokens.create(scope.app)
    async with client_of(shared_memory, token=new.text, make_app=app_of) as found:
        yield found


async def test_a_problem_tells_how_many_faults_it_does_not_name(client):
    body = {"user_id": "ana", "thread_id": "t", "events": [{"role": "user", "content": "Hi."}]}
    told = problem_of(await client.post("/events", json=body), 422, "invalid-input")
    assert told["detail"].endswith("; 1 more in errors")
    named = {"field": "body.events.0.content", "reason": "Extra inputs are not permitted"}
    assert named in told["errors"]


@pytest.mark.parametrize("path", ["/recall", "/context", "/timeline/ana"])
async def test_a_hit_is_small_until_the_parts_of_its_score_are_asked_for(client, path):
    kept = {"user_id": "ana", "memories": ["Ana drinks green tea.", "Ana has a cat."]}
    assert 200 == (await client.post("/remember", json=kept)).status_code

    async def hit(**explain: bool) -> dict[str, Any]:
        if path.startswith("/timeline"):
            asked = {"query": "tea", **explain}
            return (await client.get(path, params=asked)).json()["memories"][0]
        body = {**ASK, **explain, **({"thread_id": "t"} if path == "/context" else {})}
        found = (await client.post(path, json=body)).json()
        return (found.get("hits") or found["items"])[0]

    plain, explained = await hit(), await hit(explain=True)
    [parts] = explained.keys() - plain.keys()
    assert len(json.dumps(plain)) < 600 and explained.pop(parts)["meaning"]
    assert explained.keys() == plain.keys() and "score" in plain


async def test_what_is_remembered_is_recalled_listed_and_forgotten(client, shared_memory, ana):
    said = ["Ana drinks green tea.", {"text": "Ana has two cats.", "key": "cats", "importance": 8}]
    answer = await client.post("/remember", json={"user_id": "ana", "memories": said})
    tea, cats = answer.json()["keys"]
    assert "cats" == cats
    question = {"user_id": "ana", "query": "What does Ana drink?", "limit": 5.0}
    found = (await client.post("/recall", json=question)).json()
    assert (tea, False) == (found["hits"][0]["key"], found["degraded"])
    assert tea == (await client.post("/search", json=question)).json()["hits"][0]["key"]
    listed = (await client.get("/memories", params={"user_id": "ana"})).json()["memories"]
    assert {tea, "cats"} == {one["key"] for one in listed}
    gone = await client.post("/forget", json={"user_id": "ana", "keys": ["cats", "none"]})
    assert {"forgotten": 1} == gone.json()
    assert [tea] == [one.key for one in await shared_memory.list_memories(ana)]
    erased = (await client.post("/erase", json={"user_id": "ana"})).json()
    assert (1, 1, "ana") == (erased["erased"], erased["counts"]["memories"], erased["user_id"])
    [receipt] = await shared_memory.erasures(ana)
    assert receipt.to_dict() | {"erased": 1} == erased and receipt.is_intact
    assert [] == (await client.post("/recall", json=question)).json()["hits"]


async def test_turns_become_facts_a_graph_and_a_context(client, shared_memory, ana):
    of_ana = {"user_id": "ana", "app": ana.app, "thread_id": "monday"}
    body = {**of_ana, "events": [TURN]}
    assert {"new": ["1"], "edited": [], "set_aside": []} == (
        await client.post("/events", json=body)
    ).json()
    assert {"new": [], "edited": [], "set_aside": []} == (
        await client.post("/events", json=body)
    ).json()
    assert await shared_memory.flush(60)
    graph = (await client.get("/graph/ana", params={"app": ana.app})).json()
    assert ("success", "ana") == (graph["status"], graph["user_id"])
    assert "Lisbon" in {one["target"] for one in graph["relations"]}
    asked = {**of_ana, "query": "Where do I live?", "max_tokens": 500}
    assert 200 == (await client.post("/context", json=asked | {"query": ""})).status_code
    window = (await client.post("/context", json=asked)).json()
    assert "Lisbon" in window["prompt"] and window["tokens"] <= 500
    [job] = (await client.get("/jobs", params={"status": "completed"})).json()["jobs"]
    assert ("ana", "monday") == (job["user_id"], job["thread_id"])
    again = {**of_ana, "job_type": "fast_replay"}
    assert 202 == (await client.post("/jobs", json=again)).status_code
    shown = await client.get(f"/jobs/{job['job_id']}", params={"app": ana.app})
    assert job["job_id"] == shown.json()["job_id"]
    assert {"changed": 0} == (await client.post(f"/jobs/{job['job_id']}/retry")).json()
    async with client_of(shared_memory, ServerOptions(auth=False), make_app=app_of) as of_default:
        problem_of(await of_default.get(f"/jobs/{job['job_id']}"), 404, "not-found")


async def test_a_conversation_as_document_003_tells_it(client, shared_memory):
    """Sections 5.2, 6 and 10: paths, names and order of the parts, and what they say."""
    for said in ("我叫小朱", "我女儿叫灿灿", "她今年几岁了？"):
        answer = await client.post("/process", json={"input": said, "user_id": "user_001"})
        told = answer.json()
        assert ["status", "resolved_query", "memories", "relations", "metadata"] == list(told)
        assert ("success", []) == (told["status"], told["memories"])
        assert {"retrieval_time_ms", "has_memory"} == set(told["metadata"])
    assert "灿灿今年几岁了？" == told["resolved_query"] and "灿灿".encode() in answer.content
    status = (await client.get("/session-status/user_001")).json()
    assert ("success", True) == (status["status"], status["has_active_session"])
    assert 3 == status["session_info"]["event_count"]
    ended = (await client.post("/end-session", json={"user_id": "user_001"})).json()
    assert "Session ending, consolidation started" == ended["message"]
    assert 3 == ended["session_info"]["event_count"]
    again = (await client.post("/end-session", json={"user_id": "user_001"})).json()
    assert {"status": "success", "message": "No active session", "session_info": None} == again
    assert await shared_memory.flush(60)
    asked = {"input": "小朱的女儿叫什么？", "user_id": "user_001"}
    told = (await client.post("/process", json=asked)).json()
    assert told["metadata"]["has_memory"] and "灿灿" in json.dumps(told, ensure_ascii=False)
    shown = (await client.post("/debug", json=asked)).json()
    assert asked["input"] == shown["query"] and shown["hits"][0]["parts"]
    assert 1 == shown["session_info"]["event_count"]  # it took nothing in
    await client.post("/end-session", json={"user_id": "user_001"})
    await client.post("/process", json={"input": "我女儿叫灿灿", "user_id": "user_001"})
    asked = {"input": "她今年几岁了？", "user_id": "user_001"}
    shown, told = [(await client.post(path, json=asked)).json() for path in ("/debug", "/process")]
    assert shown["resolved_query"] == told["resolved_query"] != asked["input"]
    assert (told["memories"], told["relations"]) == (shown["memories"], shown["relations"])
    graph = (await client.get("/graph/user_001")).json()
    assert "灿灿" in {one["target"] for one in graph["relations"]}


async def test_an_export_is_what_an_import_reads(shared_memory, ana, dsn, tmp_path, monkeypatch):
    monkeypatch.setattr(export, "CHUNK_CHARACTERS", 4_000)
    monkeypatch.setattr(lines, "MOST_LINES", 30)
    await shared_memory.remember(ana, [f"Ana has note {n}. 灿灿" for n in range(70)])
    await shared_memory.remember(Scope(ana.app, "bob"), "Bob sails.")
    new = await shared_memory.tokens.create(ana.app, users=["ana"])
    async with client_of(shared_memory, token=new.text, make_app=app_of) as client:
        answer = await client.get("/export", params={"user_id": "ana"})
        problem_of(await client.get("/export"), 403, "forbidden")
    assert "application/x-ndjson" == answer.headers["content-type"].partition(";")[0]
    assert answer.text.endswith("\n") and "Bob" not in answer.text
    assert [line async for line in shared_memory.export(ana)] == answer.text.splitlines()
    (file := tmp_path / "ana.jsonl").write_bytes(answer.content)
    async with open_memory(dsn, worker=False) as other:
        await other.import_lines(file)
        assert 70 == await other.count_memories(ana)
    everybody = await shared_memory.tokens.create(ana.app)
    async with client_of(shared_memory, token=everybody.text, make_app=app_of) as client:
        assert "Bob sails." in (await client.get("/export")).text


ASKED = {
    "type": "http", "asgi": {"version": "3.0", "spec_version": "2.4"}, "http_version": "1.1",
    "method": "GET", "scheme": "http", "path": "/export", "raw_path": b"/export", "root_path": "",
    "query_string": b"user_id=ana", "headers": [(b"host", b"localhost")],
    "server": ("localhost", 80), "client": ("127.0.0.1", 5),
}  # fmt: skip


@pytest.fixture
async def exporting(shared_memory, ana):
    """An application that exports the user ana, and a client of it."""
    async with client_of(shared_memory, ServerOptions(auth=False, app=ana.app)) as client:
        yield client._transport.app, client


async def nothing_more() -> MutableMapping[str, Any]:
    return await asyncio.Future()


@pytest.mark.parametrize("spec_version", ["2.3", "2.4"])
async def test_an_unread_export_gives_its_place_back(
    exporting, shared_memory, ana, monkeypatch, spec_version
):
    monkeypatch.setattr(export, "CHUNK_CHARACTERS", 1_000)
    monkeypatch.setattr(export, "STALLED_S", 0.2)
    await shared_memory.remember(ana, [f"Note {n}." for n in range(30)])
    app, _ = exporting
    asked = iter([{"type": "http.request", "body": b"", "more_body": False}])
    begun = []

    async def receive() -> MutableMapping[str, Any]:
        return next(asked, None) or await nothing_more()

    async def send(message: MutableMapping[str, Any]) -> None:
        if message.get("body"):
            begun.append(message)
            await asyncio.Future()

    asgi = {"version": "3.0", "spec_version": spec_version}
    await asyncio.wait_for(app({**ASKED, "asgi": asgi}, receive, send), 60)
    assert (1, 0) == (len(begun), len(app.state.exports))


async def test_exports_that_nobody_reads_do_not_take_all_connections(exporting, caplog):
    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: object) -> None:
        raise OSError("the client is gone")

    app, client = exporting
    for _ in range(2 * export.MAX_AT_ONCE):  # each gives its place back
        assert 200 == (await client.get("/export?user_id=ana")).status_code
    for _ in range(export.MAX_AT_ONCE):  # also when its client is gone before a line was sent
        await app({**ASKED, "app": app, "state": {}}, receive, send)
    for _ in range(export.MAX_AT_ONCE):
        app.state.exports.take()
    answer = await client.get("/export?user_id=ana")
    problem_of(answer, 503, "busy")
    assert "unexpected" not in caplog.text
    assert "10" == answer.headers["retry-after"]


async def test_a_reader_that_stalls_gives_way_to_the_next(exporting, monkeypatch):
    app, client = exporting
    stalled = asyncio.Semaphore(0)

    async def send(message: MutableMapping[str, Any]) -> None:
        if message.get("body"):
            stalled.release()
            await asyncio.Future()

    def ask() -> asyncio.Task[None]:
        return asyncio.create_task(app({**ASKED, "app": app, "state": {}}, nothing_more, send))

    slow = [ask() for _ in range(export.MAX_AT_ONCE)]
    for _ in slow:
        await asyncio.wait_for(stalled.acquire(), 60)
    problem_of(await client.get("/export?user_id=ana"), 503, "busy")
    monkeypatch.setattr(export, "GIVES_WAY_S", 0.0)
    assert 200 == (await client.get("/export?user_id=ana")).status_code
    done, left = await asyncio.wait(slow, return_when=asyncio.FIRST_COMPLETED, timeout=60)
    assert 1 == len(done) and export.MAX_AT_ONCE - 1 == len(left) == len(app.state.exports)
    for task in left:
        task.cancel()
    await asyncio.gather(*slow, return_exceptions=True)


@every_case(
    ("/nowhere", 404, "no-such-path"), ("/recall", 405, "method-not-allowed"),
    ("/memories?user_id=a&limit=0", 422, "invalid-input"),
    ("/memories?user_id=a&user_id=b", 422, "invalid-input"),
    ("/jobs/no-uuid", 422, "invalid-input"), ("/jobs?usr_id=ana", 422, "invalid-input"),
    ("/health?x=1", 422, "invalid-input"),
)  # fmt: skip
async def test_an_address_that_is_refused_is_a_problem(path, status, kind, client):
    problem_of(await client.get(path), status, kind)


@every_case(
    ("/recall", None, "body"), ("/recall", [], "body"),
    ("/recall", {"user_id": "ana"}, "body.query: Field required"),
    ("/recall", {"user_id": "a", "query": ""}, "body.query: must not be empty or blank"),
    ("/recall", {"user_id": "a", "query": " \n"}, "body.query: must not be empty or blank"),
    ("/search", {"user_id": "a", "query": ""}, "body.query: must not be empty or blank"),
    ("/search", {"user_id": "a", "query": " \n"}, "body.query: must not be empty or blank"),
    ("/recall", {"user_id": "a\x00", "query": "x"}, "body.user_id: must not be blank"),
    ("/recall", {"user_id": " ", "query": "x"}, "body.user_id: must not be blank"),
    ("/recall", {"query": "x"}, "user_id is missing: it is optional only with a token for one"),
    ("/recall", {**ASK, "x": 1}, "body.x"), ("/recall", {**ASK, "limit": "5"}, "body.limit"),
    ("/recall", {**ASK, "asked_at": 0}, "body.asked_at"),
    ("/recall", {**ASK, "asked_at": "2024-05-01"}, "body.asked_at"),
    ("/remember", {"user_id": "a", "memories": [" "]}, "body.memories.0"),
    ("/process", {"user_id": "a", "input": " \u3000"}, "body.input: must not be empty"),
    ("/forget", {"user_id": "a", "keys": ["\x00"]}, "body.keys.0: must not contain NUL"),
    ("/erase", {}, "body.user_id: Field required"),
)  # fmt: skip
async def test_a_body_that_is_refused_is_told_in_words(path, body, told, client):
    answer = problem_of(await client.post(path, json=body), 422, "invalid-input")
    assert answer["detail"].startswith(told), answer
    assert "pattern" not in str(answer)


@every_case(
    ({"text": "x", "importance": 11}, "body.memories.0.memory.importance"),
    ({"importance": 5}, "body.memories.0.memory.text"),
    (" ", "body.memories.0.text"),
    (5, "body.memories.0.text"),
)  # fmt: skip
async def test_a_memory_that_is_refused_is_told_by_its_own_fault_alone(given, field, client):
    answer = await client.post("/remember", json={"user_id": "ana", "memories": [given]})
    assert [field] == [one["field"] for one in answer.json()["errors"]]


JSON = {"Content-Type": "application/json"}


@every_case(
    (b'{"user_id": "ana", ', JSON, 400, "malformed-json"),
    (b'{"user_id": "\xff\xfe", "query": "x"}', JSON, 400, "malformed-body"),
    (b"[" * 100_000, JSON, 400, "malformed-body"),
    (b'{"user_id": 1' + b"0" * 5000 + b"}", JSON, 400, "malformed-body"),
    (b'{"user_id": "\\ud800", "query": "x"}', JSON, 422, "invalid-input"),
    (b'{"user_id": "a", "query": "x", "min_relevance": NaN}', JSON, 422, "invalid-input"),
    (b'{"user_id": "a", "query": "x"}', {"Content-Type": "text/plain"}, 415, "unsupported"),
    (b'{"user_id": "a", "query": "x"}', {}, 415, "unsupported"),
    (b'{"query": "' + b"x" * 2000 + b'"}', JSON, 413, "too-large"),
)  # fmt: skip
async def test_bodies_that_cannot_be_read_are_named(content, headers, status, kind, shared_memory):
    options = ServerOptions(auth=False, max_body=1000 if status == 413 else 200_000)
    async with client_of(shared_memory, options, make_app=app_of) as client:
        answer = await client.post("/recall", content=content, headers=headers)
        found = answer.json()
    assert (status, kind) == (answer.status_code, found["type"].rsplit(":")[-1][: len(kind)])


async def test_a_lone_surrogate_in_a_text_is_replaced(client):
    memories = b'["tea \\ud83d", {"text": "x", "metadata": {"n": NaN}}]'
    content = b'{"user_id": "ana", "memories": ' + memories + b"}"
    answer = await client.post("/remember", content=content, headers=JSON)
    assert "tea" not in json.dumps(problem_of(answer, 422, "invalid-input"))


async def test_a_request_keeps_its_id_and_a_bad_one_is_replaced(client):
    kept = await client.get("/health", headers={"X-Request-ID": "trace-1.2:3"})
    assert "trace-1.2:3" == kept.headers["x-request-id"]
    made = await client.get("/health", headers={"X-Request-ID": "a b\tc"})
    assert 32 == len(made.headers["x-request-id"])


async def test_jobs_of_others_are_none(shared_memory, scope):
    memory, app = shared_memory, scope.app
    await memory.jobs.request(Scope(app, "bob"), None, job_type="reflection", delay_s=3600)
    [job] = await memory.jobs.list(app=app)
    new = await memory.tokens.create(app, users=["ana"])
    other = await memory.tokens.create(f"{app} two")
    for text in (new.text, other.text):
        async with client_of(memory, token=text, make_app=app_of) as client:
            problem_of(await client.get(f"/jobs/{job.job_id}"), 404, "not-found")
            problem_of(await client.post(f"/jobs/{job.job_id}/cancel"), 404, "not-found")
    everybody = await memory.tokens.create(app)
    async with client_of(memory, token=everybody.text, make_app=app_of) as client:
        assert {"changed": 1} == (await client.post(f"/jobs/{job.job_id}/cancel")).json()


@every_case(None, "", "Bearer", "Bearer hippo_0_0", "Basic YTpi", "Bearer \xff", "token")
async def test_without_a_valid_token_nothing_opens(header, shared_memory):
    async with client_of(shared_memory, ServerOptions(auth=True), make_app=app_of) as client:
        headers = {} if header is None else {"Authorization": header.encode("latin-1")}
        for method, path in (("GET", "/memories?user_id=a"), ("POST", "/recall"), ("GET", "/x")):
            answer = await client.request(method, path, headers=headers)
            problem_of(answer, 401, "unauthorized")
            assert answer.headers["www-authenticate"].startswith("Bearer")
        for path in ("/health", "/health/live", "/health/ready", "/openapi.json", "/docs"):
            assert 200 == (await client.get(path)).status_code


async def test_a_revoked_token_closes_within_seconds(shared_memory):
    now, tokens = [0.0], shared_memory.tokens
    new = await tokens.create("app")
    known = KnownTokens(tokens, lambda: now[0])
    assert new.token == await known.verify(new.text)
    await tokens.revoke(new.token.token_id)
    now[0] = KNOWN_S - 0.1
    assert new.token == await known.verify(new.text)
    now[0] = KNOWN_S
    assert await known.verify(new.text) is None


async def test_the_first_token_closes_the_door_of_this_machine_within_seconds(memory):
    now = [0.0]
    first = FirstToken(memory.tokens, lambda: now[0])
    assert not await first.is_made()
    async with client_of(memory, ServerOptions()) as client:
        assert 200 == (await client.get("/memories?user_id=a")).status_code
    await memory.tokens.revoke((await memory.tokens.create("app")).token.token_id)
    async with client_of(memory, ServerOptions()) as client:
        problem_of(await client.get("/memories?user_id=a"), 401, "unauthorized")
    now[0] = LOOK_AGAIN_S - 0.1
    assert not await first.is_made()
    now[0] = LOOK_AGAIN_S
    assert await first.is_made()


@pytest.mark.parametrize("auth", [None, False])
async def test_a_token_that_is_shown_is_checked_where_none_is_needed(memory, auth):
    async with client_of(memory, ServerOptions(auth=auth)) as client:
        assert 200 == (await client.get("/memories?user_id=bob")).status_code
        client.headers["Authorization"] = "Bearer nonsense"
        problem_of(await client.get("/memories?user_id=bob"), 401, "unauthorized")
        new = await memory.tokens.create("one", users=["ana"])
        client.headers["Authorization"] = f"Bearer {new.text}"
        for path in ("/memories?user_id=bob", "/export"):
            problem_of(await client.get(path), 403, "forbidden")
        assert 200 == (await client.get("/memories?user_id=ana")).status_code


@every_case(
    ("evil.example", {}), ("localhost", {"X-Forwarded-For": "10.0.0.1"}),
    ("localhost", {"X-Forwarded-Host": "memory.example"}), ("localhost", {"Via": "1.1 proxy"}),
    ("127.0.0.1.evil.example:8420", {}), ("localhost", {"Host": "x@127.0.0.1"}),
    ("localhost", {"Host": "127.0.0.1:8420@evil.example"}),
    ("localhost", {"Origin": "http://evil.example"}), ("localhost", {"Origin": "null"}),
)  # fmt: skip
async def test_without_tokens_no_web_page_and_no_proxy_is_served(host, headers, shared_memory):
    async with client_of(shared_memory, host=host, make_app=app_of) as client:
        problem_of(await client.get("/memories?user_id=a", headers=headers), 403, "forbidden")
    for name in ("localhost:8420", "127.0.0.1", "[::1]:8420"):
        async with client_of(shared_memory, host=name, make_app=app_of) as client:
            assert 200 == (await client.get("/memories?user_id=a")).status_code


async def test_without_tokens_no_other_machine_is_served(memory):
    app = create_app(memory, ServerOptions())
    for client, status in (("203.0.113.9", 403), ("127.0.0.1", 200), ("::1", 200)):
        transport = httpx.ASGITransport(app, client=(client, 4711))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as asked:
            assert status == (await asked.get("/memories?user_id=a")).status_code


async def test_who_asks_too_often_is_told_when_to_come_back(shared_memory):
    new, other = [await shared_memory.tokens.create("app") for _ in range(2)]
    options = ServerOptions(auth=True, rate=0.001, burst=2)
    async with client_of(shared_memory, options, token=new.text) as client:
        for _ in range(2):
            assert 200 == (await client.get("/memories?user_id=a")).status_code
        answer = await client.get("/memories?user_id=a")
        problem_of(answer, 429, "too-many-requests")
        assert 900 <= int(answer.headers["retry-after"]) <= 1000
        headers = {"Authorization": f"Bearer {other.text}"}
        assert 200 == (await client.get("/memories?user_id=a", headers=headers)).status_code


def test_a_bucket_fills_again():
    now = [0.0]
    buckets = TokenBuckets(rate=2, burst=3, now_s=lambda: now[0])
    assert [0, 0, 0, 1] == [buckets.take("a") for _ in range(4)]
    assert 0 == buckets.take("b")
    now[0] = 0.5
    assert [0, 1] == [buckets.take("a"), buckets.take("a")]
    now[0] = 100.0
    assert [0, 0, 0, 1] == [buckets.take("a") for _ in range(4)]
    assert [0] * 99 == [TokenBuckets(rate=0, burst=1).take("a") for _ in range(99)]


async def test_faults_of_the_server_tell_nothing_and_are_logged(client, shared_memory, caplog):
    question = {"user_id": "ana", "query": "my secret words"}
    away = StorageUnavailable("the database at 'postgresql://db.internal' is away")
    faults = [KeyError("my secret words"), away]
    with mock.patch.object(shared_memory, "recall", side_effect=faults):
        problem_of(await client.post("/recall", json=question), 500, "internal")
        answer = await client.post("/recall", json=question)
    told = problem_of(answer, 503, "storage-unavailable")
    assert "db.internal" not in json.dumps(told) and "2" == answer.headers["retry-after"]
    assert "KeyError" in caplog.text and "db.internal" in caplog.text
    assert "secret" not in caplog.text


async def test_it_is_ready_once_the_model_is_loaded(free, monkeypatch):
    begun, may_end, load = threading.Event(), threading.Event(), E5Embedder._load

    def slow(self: E5Embedder) -> Any:
        begun.set()
        may_end.wait(60)
        return load(self)

    monkeypatch.setattr(E5Embedder, "_network", None)
    monkeypatch.setattr(E5Embedder, "_load", slow)
    asked = asyncio.ensure_future(free.get("/health/ready"))
    await asyncio.to_thread(begun.wait, 60)
    assert 200 == (await free.get("/health/live")).status_code
    assert not asked.done()
    may_end.set()
    assert 200 == (await asked).status_code
    assert E5Embedder._network is not None


@pytest.mark.parametrize(
    "fault", [ModelUnavailable("its secret file is gone"), OSError("its secret file is gone")]
)
async def test_it_is_not_ready_while_the_model_cannot_be_loaded(free, monkeypatch, fault):
    with monkeypatch.context() as broken:
        for kind in (E5Embedder, UseEmbedder):
            monkeypatch.setattr(kind, "_network", None)
            broken.setattr(kind, "_load", mock.Mock(side_effect=fault))
        for _ in range(2):
            answer = await free.get("/health/ready")
            assert "secret" not in str(problem_of(answer, 503, "model-unavailable"))
        assert 200 == (await free.get("/health/live")).status_code
    assert 200 == (await free.get("/health/ready")).status_code


async def test_it_is_ready_while_the_database_answers(free, shared_memory):
    with mock.patch.object(shared_memory.tokens, "any", side_effect=StorageUnavailable("away")):
        problem_of(await free.get("/health/ready"), 503, "storage-unavailable")
        assert 200 == (await free.get("/health/live")).status_code
    assert 200 == (await free.get("/health/ready")).status_code


@pytest.mark.parametrize(("chunk_s", "makes_room"), [(4.9, True), (3.9, False)])
async def test_exports_that_are_read_too_slowly_give_way(chunk_s, makes_room):
    now = [0.0]
    running = export.RunningExports(lambda: now[0])
    places = [running.take() for _ in range(export.MAX_AT_ONCE)]
    chunk = {"type": "http.response.body", "body": b"x" * export.CHUNK_CHARACTERS}

    async def read(message: object) -> None:
        now[0] += chunk_s

    for _ in range(10):
        await places[0].send(read, chunk)
        now[0] += 60.0  # the database takes its time
    if not makes_room:
        with pytest.raises(ProblemError, match="exports are running"):
            running.take()
        return
    assert running.take() not in places
    with pytest.raises(ClientDisconnect):
        await places[0].send(read, chunk)


async def test_an_export_that_ends_just_now_may_be_told_to_give_way():
    place, given = export.ExportPlace(), []

    async def leaves(message: object) -> None:
        try:
            await asyncio.Future()
        finally:
            place.give_away()  # the deadline has expired, and its exception is under way
            given.append(place)

    async def told() -> None:
        await place.send(leaves, {"type": "http.response.start"})

    sending = asyncio.create_task(told())
    await asyncio.sleep(0)
    place.give_away()
    with pytest.raises(ClientDisconnect):
        await sending
    assert [place] == given


async def test_a_log_line_has_the_route_and_no_words(shared_memory, caplog):
    caplog.set_level(logging.INFO, "hippocampus.http")
    new = await shared_memory.tokens.create("app")
    async with client_of(shared_memory, token=new.text, make_app=app_of) as client:
        headers = {"X-Request-ID": "r1"}
        await client.get("/graph/ana@example.com", params={"entity": "Lisbon"}, headers=headers)
    [record] = [one for one in caplog.records if one.getMessage() == "request"]
    line = json.loads(JsonLines().format(record))
    assert ("GET", "/graph/{user_id}", 200) == (line["method"], line["route"], line["status"])
    assert (new.token.token_id, "info") == (line["token_id"], line["level"])
    assert datetime.fromisoformat(line["time"]).tzinfo == UTC
    assert not {"ana@example.com", "Lisbon"} & set(json.dumps(line).split('"'))


NAMES_AN_ID = ("/retract", "/restore", "/undo-run")
"""The examples of these name something that no memory has."""


async def test_every_route_is_told_with_an_example(free):
    schema = (await free.get("/openapi.json")).json()
    models = schema["components"]["schemas"]
    for path, methods in schema["paths"].items():
        for method, told in methods.items():
            assert told["description"], path
            assert {"401", "422", "500"} <= set(told["responses"]), path
            if body := told.get("requestBody"):
                sent = body["content"]["application/json"]["schema"]
                for one in sent.get("oneOf", [sent]):
                    [example] = models[one["$ref"].rsplit("/")[-1]]["examples"]
                    answer = await free.request(method, path, json=example)
                    is_of_none = path in NAMES_AN_ID and answer.status_code == 404
                    assert answer.status_code in (200, 202) or is_of_none, (path, answer.text)


async def test_a_token_for_one_user_says_whose_memory_it_is(shared_memory, scope):
    own = (await shared_memory.tokens.create(scope.app, users=["ana"])).text
    several = (await shared_memory.tokens.create(scope.app, users=["ana", "bob"])).text
    async with client_of(shared_memory, ServerOptions(auth=True), make_app=app_of) as client:
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
