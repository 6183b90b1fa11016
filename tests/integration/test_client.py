"""HippocampusClient against the real server, and against servers that fail, are slow or hang up."""

import asyncio
import inspect
import json
import re
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from every_case import every_case
from starlette.applications import Starlette
from starlette.routing import Mount

from shared_core import MemoryEngine, NewMemory, Scope, errors, open_memory
from shared_core.client import HippocampusClient
from shared_core.http import ServerOptions, create_app, export
from shared_core.wire import HitAnswer, MemoryAnswer
from tests.integration.http_clients import listening
from tests.integration.http_processes import serving

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
ANA = Scope("my_app", "ana")
ZHU = Scope("my_app", "小朱")


class RecordingClient(HippocampusClient):
    """A client that records which of its methods a test calls."""

    def __init__(self, base_url: str, **options: Any) -> None:
        super().__init__(base_url, **options)
        self.called: set[str] = set()

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if not name.startswith("_") and name != "aclose" and inspect.ismethod(found):
            self.called.add(name)
        return found


@pytest.fixture
async def client(shared_memory, scope):
    async with listening(shared_memory) as url, HippocampusClient(url, app=scope.app) as found:
        yield found


@pytest.fixture
async def idle_memory(dsn):
    """A memory without a worker, so that no job changes a row between two reads."""
    async with open_memory(dsn, worker=False) as engine:
        yield engine


async def ask_the_server(client: HippocampusClient, app: str) -> None:
    assert "ok" == (await client.check_health()).status
    assert (await client.check_health()).version == (await client.check_liveness()).version
    assert "ok" == (await client.check_readiness()).status
    assert [app] == (await client.list_applications()).applications
    [first, second] = (await client.list_users()).users
    assert {("ana", app), ("小朱", app)} == {(one.user_id, one.app) for one in (first, second)}
    [after] = (await client.list_users(after=first.user_id, limit=1)).users
    assert second == after and after.newest_at.tzinfo is not None


async def keep_memories(client: HippocampusClient, memory: MemoryEngine) -> None:
    cats = {"text": "Ana has two cats.", "key": "cats", "importance": 8, "occurred_at": NOON}
    kept = await client.remember(user_id="ana", memories=["Ana drinks green tea.", cats])
    assert "cats" == kept.keys[1]
    new = {"text": "灿灿喜欢画画", "key": "画"}
    assert ["画"] == (await client.remember(user_id="小朱", memories=[new])).keys
    found = await client.recall(user_id="ana", query="What does Ana drink?", limit=1)
    assert ["Ana drinks green tea."] == [one.text for one in found.hits] and not found.degraded
    told = await client.recall(user_id="ana", query="What does Ana drink?", limit=1, explain=True)
    assert {} == found.hits[0].parts and "meaning" in told.hits[0].parts
    [hit] = (await client.search(user_id="小朱", query="谁喜欢画画？")).hits
    assert "灿灿喜欢画画" == hit.text and 0 < hit.score <= 1
    then = {"known": NOON}
    before = await client.recall(user_id="ana", query="cats", as_of=then, kinds=["semantic"])
    assert [] == before.hits
    listed = (await client.list_memories(user_id="ana", contains="CATS", end=NOON + DAY)).memories
    assert [("cats", NOON, 8.0)] == [(one.key, one.occurred_at, one.importance) for one in listed]
    assert 2 == (await client.count_memories(user_id="ana")).count
    detail = await client.show_memory(user_id="ana", key="cats")
    assert detail.is_current and "kept" == detail.stage and isinstance(detail, MemoryAnswer)
    times = {"begin": NOON.isoformat(), "end": (NOON + DAY).isoformat()}
    day = await client.show_timeline(user_id="ana", bucket="day", **times)
    assert ["cats"] == [one.key for one in day.memories] and 1 == sum(b.count for b in day.buckets)
    assert not isinstance(day.memories[0], HitAnswer)
    scored = await client.show_timeline(user_id="ana", query="cats", asked_at=NOON)
    assert isinstance(scored.memories[0], HitAnswer)
    assert 1 == (await client.forget(user_id="ana", keys=["cats", "none"])).forgotten


async def hold_a_conversation(client: HippocampusClient, memory: MemoryEngine) -> None:
    answer = await client.process(user_id="小朱", input="我女儿叫灿灿", event_id="1")
    assert answer.metadata.taken_in and not answer.relations
    shown = await client.debug(user_id="小朱", input="她今年几岁了？")
    assert "灿灿今年几岁了？" == shown.resolved_query and shown.session_info is not None
    status = await client.show_session_status(user_id="小朱")
    assert status.has_active_session and 1 == status.session_info.event_count
    ended = await client.end_session(user_id="小朱")
    assert ended.session_info is not None and ended.session_info.ended_at.tzinfo is not None
    assert (await client.end_session(user_id="小朱")).session_info is None
    events = [
        {"event_id": "1", "role": "user", "text": "I live in Lisbon.", "occurred_at": NOON},
        {"event_id": "2", "role": "ai", "text": "Noted.", "occurred_at": NOON.isoformat()},
    ]
    of_ana = {"user_id": "ana", "thread_id": "monday"}
    turns = await client.append_events(**of_ana, events=events, later=False)
    assert ["1", "2"] == turns.new and [] == turns.set_aside
    window = await client.assemble_context(**of_ana, query="Where do I live?", max_tokens=500)
    assert "Lisbon" in window.prompt and window.tokens <= window.max_tokens == 500
    assert {"history", "query"} <= window.sections.keys()
    assert NOON in {one.occurred_at for one in window.items}
    await memory.consolidate(Scope(ANA.app, "ana"), "monday")
    graph = await client.show_graph(user_id="ana")
    assert "Lisbon" in {one.target for one in graph.relations} and not graph.metadata.has_more
    assert {"Lisbon", "user"} <= {one.name for one in graph.entities}


async def correct_facts(client: HippocampusClient) -> None:
    [home] = (await client.list_facts(user_id="ana", why=True)).facts
    assert home.why is not None and "I live in Lisbon." == home.why.stated.turns[0].text
    fact = await client.state_fact(user_id="ana", slot="employer", value="Acme", valid_from=NOON)
    assert ("Acme", NOON, None) == (fact.value, fact.valid_from, fact.valid_until)
    ended = await client.retract_fact(user_id="ana", key=fact.key, at=NOON + DAY)
    assert NOON + DAY == ended.valid_until
    assert (await client.restore_fact(user_id="ana", key=fact.key)).valid_until is None
    runs = (await client.list_runs(user_id="ana", limit=1)).runs
    assert runs[0].undone_at is None
    assert runs[0].run_id == (await client.undo_run(user_id="ana", run_id=runs[0].run_id)).undone


async def work_on_profiles(client: HippocampusClient) -> None:
    for number, city in enumerate(("Leeds", "Porto"), 1):
        message = {"role": "user", "content": f"I live in {city}.", "timestamp": NOON}
        talk = {"conversation_id": f"talk {number}", "messages": [message]}
        updated = await client.update_profile(user_id="ana", **talk)
        assert updated.changed and number == updated.profile.version and updated.stages
    shown = await client.show_profile(user_id="ana", language="zh")
    assert "Porto" in shown.profile and all(one.source_id for one in shown.relations)
    kept = (await client.list_profile_versions(user_id="ana")).versions
    assert [2, 1] == [one.version for one in kept]
    diff = await client.compare_profile_versions(user_id="ana", from_version=1, to_version=2)
    assert diff.added and "Porto" in " ".join(diff.added)
    back = await client.roll_back_profile(user_id="ana", version=1)
    assert 3 == back.version and "Leeds" in back.profile


async def let_memories_fade(client: HippocampusClient, memory: MemoryEngine) -> None:
    new = NewMemory(text="Ana 去了上海。", key="sea", kind="episodic", occurred_at=NOON - 300 * DAY)
    await memory.remember(ANA, new)
    at_once = {"threshold": 1, "min_age_days": 0}
    policy = await client.set_retention_policy(user_id="ana", policy=at_once)
    assert 1.0 == policy.policy["episodic"].threshold
    await memory.retention.forget_faded(ANA)
    faded = {one.key: one for one in (await client.list_faded(user_id="ana")).memories}
    assert "demoted" == faded["sea"].stage
    assert ["x"] == (await client.revive(user_id="ana", keys=["sea", "x"])).unknown
    assert 1 == (await client.pin(user_id="ana", keys=["sea"])).changed
    stats = await client.show_retention_stats(user_id="ana")
    assert 1 == stats.pinned and stats.as_of.tzinfo is not None
    assert 1 == (await client.unpin(user_id="ana", keys=["sea"])).changed
    back = await client.set_retention_policy(user_id="ana", policy=None)
    assert back.policy == (await client.show_retention_policy()).policy


async def work_on_jobs(client: HippocampusClient, memory: MemoryEngine) -> None:
    await memory.jobs.request(ANA, None, job_type="reflection", delay_s=3600)
    accepted = await client.request_job(user_id="小朱", job_type="fast_replay", thread_id="x")
    assert "accepted" == accepted.status
    jobs = (await client.list_jobs(user_id="ana", status="pending")).jobs
    job = max(jobs, key=lambda one: one.run_after)
    assert ("reflection", None, 0) == (job.job_type, job.thread_id, job.attempts)
    assert job == await client.show_job(job_id=job.job_id)
    assert 1 == (await client.cancel_job(job_id=job.job_id)).changed
    assert 0 == (await client.retry_job(job_id=job.job_id)).changed
    assert "cancelled" == (await client.show_job(job_id=job.job_id)).status


async def carry_and_erase(client: HippocampusClient, memory: MemoryEngine) -> None:
    lines = [line async for line in client.export(user_id="小朱")]
    assert [line async for line in memory.export(ZHU)] == lines
    assert any("灿灿喜欢画画" in line for line in lines)
    erased = await client.erase(user_id="小朱")
    assert 0 < erased.erased == erased.counts["memories"]
    [receipt] = (await client.list_erasures()).receipts
    assert receipt.is_intact and erased.receipt_hash == receipt.receipt_hash
    assert [] == (await client.recall(user_id="小朱", query="谁喜欢画画？")).hits


@pytest.mark.timeout(300)
@pytest.mark.parametrize("by_token", [False, True])
async def test_every_operation_answers_in_english_and_chinese(idle_memory, dsn, tmp_path, by_token):
    token = (await idle_memory.tokens.create(ANA.app)).text if by_token else None
    options = ["--auth"] if by_token else []
    with serving(dsn, tmp_path / "log", "--no-worker", *options) as server:
        # With the token the application need not be named.
        app = None if by_token else ANA.app
        async with RecordingClient(server.url, token=token, app=app) as client:
            await keep_memories(client, idle_memory)
            await hold_a_conversation(client, idle_memory)
            await correct_facts(client)
            await work_on_profiles(client)
            await let_memories_fade(client, idle_memory)
            await work_on_jobs(client, idle_memory)
            await ask_the_server(client, ANA.app)
            if by_token:
                token = (await idle_memory.tokens.create("metrics", opens="metrics")).text
            async with RecordingClient(server.url, token=token) as of_metrics:
                assert "hippocampus_" in await of_metrics.read_metrics()
            client.called |= of_metrics.called
            await carry_and_erase(client, idle_memory)
            called = client.called
        assert [] == [line for line in server.lines() if line["level"] == "error"]
    public = {name for name in vars(HippocampusClient) if not name.startswith("_")}
    operations = {
        name
        for base in HippocampusClient.__mro__
        for name, member in vars(base).items()
        if not name.startswith("_") and inspect.isfunction(member)
    }
    assert {"aclose"} == public and 47 == len(operations - public)
    assert operations - public == called


@pytest.mark.parametrize(("kind", "over_http", "in_python", "given"), [
    (errors.NotFound, "show_memory", "memory", {"key": "nothing"}),
    (errors.NotFound, "retract_fact", "retract", {"key": "nothing"}),
    (errors.InvalidInput, "state_fact", "state_fact", {"slot": "emplyer", "value": "Acme"}),
    (errors.InvalidInput, "show_timeline", "slice", {"when": "blue"}),
])  # fmt: skip
async def test_an_error_has_the_class_and_the_words_that_it_has_in_python(
    client, shared_memory, scope, kind, over_http, in_python, given
):
    with pytest.raises(kind) as there:
        await getattr(client, over_http)(user_id=scope.user, **given)
    with pytest.raises(kind) as here:
        await getattr(shared_memory, in_python)(scope, *given.values())
    assert (type(here.value), str(here.value)) == (type(there.value), str(there.value))
    [note] = there.value.__notes__
    assert "http://127.0.0.1:" in note and "request" in note


async def test_a_value_that_the_server_refuses_is_named(client):
    with pytest.raises(errors.InvalidInput, match="limit"):
        await client.recall(user_id="ana", query="tea", limit=101)
    with pytest.raises(errors.InvalidInput, match="such as 2024-05-01T09:30"):
        await client.recall(user_id="ana", query="tea", asked_at=datetime(2026, 3, 1))  # noqa: DTZ001
    for text in ("\ud800", "\x00 "):
        for call, given in (("list_facts", {}), ("list_memories", {}), ("forget", {"keys": ["x"]})):
            with pytest.raises(errors.InvalidInput):
                await getattr(client, call)(user_id=text, **given)
    with pytest.raises(errors.InvalidInput, match="JSON"):
        await client.remember(user_id="ana", memories=[{"text": "x", "metadata": {"x": object()}}])  # type: ignore[dict-item]
    with pytest.raises(errors.InvalidInput, match="job_id must not be empty"):
        await client.show_job(job_id="")


@pytest.mark.parametrize(
    "user_id", ["a/b", ".", "..", "../jobs", "a?b#c", "%2F", "用户 一", "a b+c", "é", "a:b@c"]
)
async def test_any_user_id_reaches_the_server_as_it_is(client, user_id):
    fact = await client.state_fact(user_id=user_id, slot="employer", value="Acme")
    [found] = (await client.list_facts(user_id=user_id)).facts
    assert fact.key == found.key
    assert user_id == (await client.show_graph(user_id=user_id)).user_id
    assert [user_id] == [one.user_id for one in (await client.list_users(contains=user_id)).users]


async def test_the_application_of_a_call_goes_before_that_of_a_client(client, shared_memory, scope):
    other = Scope(f"the other {scope.app}", scope.user)
    await client.remember(user_id=scope.user, memories=["Ana sails."], app=other.app)
    await client.remember(user_id=scope.user, memories=["Ana rows."])
    assert 1 == len(await shared_memory.list_memories(other))
    assert 1 == len(await shared_memory.list_memories(scope))
    assert 1 == (await client.count_memories(user_id=scope.user, app=other.app)).count


async def test_a_token_is_needed_and_opens_its_own_application_and_users(shared_memory, scope):
    some = (await shared_memory.tokens.create(scope.app, users=["ana"])).text
    async with listening(shared_memory, ServerOptions(auth=True)) as url:
        async with HippocampusClient(url) as client:
            with pytest.raises(errors.AccessDenied, match="token=") as refused:
                await client.recall(user_id="ana", query="tea")
            assert url in str(refused.value)
            assert "ok" == (await client.check_health()).status
        async with HippocampusClient(url, token="hippo_0_0") as client:
            with pytest.raises(errors.AccessDenied, match="hippocampus token create"):
                await client.recall(user_id="ana", query="tea")
        async with HippocampusClient(url, token=some) as client:
            await client.remember(user_id="ana", memories=["Ana rows."])
            with pytest.raises(errors.AccessDenied, match="for other users"):
                await client.recall(user_id="bob", query="tea")
            with pytest.raises(errors.AccessDenied, match="for another application"):
                await client.recall(user_id="ana", query="tea", app="other")
            assert some not in repr(client)


async def test_too_many_requests_say_how_long_to_wait(shared_memory, scope):
    token = (await shared_memory.tokens.create(scope.app)).text
    async with (
        listening(shared_memory, ServerOptions(auth=True, rate=0.001, burst=1)) as url,
        HippocampusClient(url, token=token) as client,
    ):
        await client.count_memories(user_id="ana")
        with pytest.raises(errors.TooManyRequests, match="Try again in") as refused:
            await client.count_memories(user_id="ana")
    assert refused.value.retry_after_s is not None and 900 < refused.value.retry_after_s <= 1000


async def test_what_is_too_large_is_refused_with_the_way_out(shared_memory):
    async with (
        listening(shared_memory, ServerOptions(auth=False, max_body=1000)) as url,
        HippocampusClient(url) as client,
    ):
        with pytest.raises(errors.InvalidInput, match="--max-body"):
            await client.remember(user_id="ana", memories=["x" * 2000])


async def test_many_requests_at_once_share_a_small_pool(shared_memory, scope):
    limits = httpx.Limits(max_connections=4)
    users = [f"user {n % 5}" for n in range(40)]
    async with (
        listening(shared_memory) as url,
        httpx.AsyncClient(limits=limits, timeout=60) as http,
        HippocampusClient(url, http_client=http, app=scope.app) as client,
    ):
        notes = ((user, f"Note {n}. 第{n}条") for n, user in enumerate(users))
        writes = (client.remember(user_id=user, memories=[text]) for user, text in notes)
        await asyncio.gather(*writes)
        counts = await asyncio.gather(*(client.count_memories(user_id=user) for user in users))
        assert {8} == {one.count for one in counts}


def lengths(texts: list[str]) -> list[list[float]]:
    """Stand in for a model where many memories need some vector."""
    return [[1.0, len(text)] for text in texts]


async def test_an_export_has_every_line_is_imported_and_may_be_left_early(dsn, other_dsn, tmp_path):
    odd = "one\u2028two\u2029three\x85four\x0bfive\x1csix\r\nseven 灿灿"
    async with (
        open_memory(dsn, embedder=lengths, worker=False) as memory,
        open_memory(other_dsn, embedder=lengths, worker=False) as other,
        listening(memory) as url,
        HippocampusClient(url, app="my_app") as client,
    ):
        await memory.remember(ANA, [f"{odd} {n}" for n in range(900)])
        lines = [line async for line in client.export(user_id="ana")]
        assert [line async for line in memory.export(ANA)] == lines and 900 < len(lines)
        (file := tmp_path / "ana.jsonl").write_text("\n".join([*lines, ""]), "utf-8", newline="")
        await other.import_lines(file)
        assert 900 == await other.count_memories(ANA)
        for _ in range(2 * export.MAX_AT_ONCE):  # an export that is left early gives its place back
            async with aclosing(client.export(user_id="ana")) as left:
                assert (await anext(left)).startswith("{")
        with pytest.raises(errors.InvalidInput):
            await anext(client.export(user_id=""))


async def test_a_client_in_process_asks_the_application_itself(shared_memory, scope):
    app = create_app(shared_memory, ServerOptions(auth=False))
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport) as http:
        async with HippocampusClient("http://localhost", http_client=http, app=scope.app) as client:
            await client.remember(user_id="ana", memories=["Ana rows."])
        assert not http.is_closed
        async with HippocampusClient("http://localhost", http_client=http, app=scope.app) as client:
            assert 1 == (await client.count_memories(user_id="ana")).count


async def test_the_address_may_have_a_path_in_front(shared_memory, scope):
    inner = create_app(shared_memory, ServerOptions(auth=False))
    outer = Starlette(routes=[Mount("/memory", inner)])
    async with (
        httpx.AsyncClient(transport=httpx.ASGITransport(outer)) as http,
        HippocampusClient("http://localhost/memory/", http_client=http, app=scope.app) as client,
    ):
        assert 0 == (await client.count_memories(user_id="ana")).count
        fact = await client.state_fact(user_id="ana", slot="employer", value="Acme")
    assert "employer" == fact.slot


async def test_a_closed_client_says_so():
    client = HippocampusClient()
    await client.aclose()
    with pytest.raises(errors.InvalidInput, match="is closed"):
        await client.check_health()


OK = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
HANG = "hang"
HANG_UP = ""


def answer(status: str, body: str, kind: str = "application/json", *headers: str) -> str:
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body.encode())}"]
    return "\r\n".join([*lines, *headers, "", body])


def problem(status: int, kind: str, *headers: str) -> str:
    """Return a problem as the server of this project answers it."""
    body = {
        "type": f"urn:hippocampus:problem:{kind}", "title": "x", "status": status,
        "detail": "The reason.", "request_id": "r-1", "errors": [],
    }  # fmt: skip
    return answer(f"{status} X", json.dumps(body), "application/problem+json", *headers)


def is_whole(given: str) -> bool:
    """Return whether an answer has as many bytes as it says."""
    head, _, body = given.partition("\r\n\r\n")
    return f"\r\nContent-Length: {len(body.encode())}\r\n" in f"{head}\r\n"


COUNT = answer("200 OK", '{"count": 7}')
HITS = answer("200 OK", '{"hits": [], "edges": [], "degraded": false}')
KEYS = answer("200 OK", '{"keys": ["x"]}')


@dataclass
class ScriptedServer:
    """A server on a socket that gives its answers in order, the last one again and again."""

    answers: Sequence[str]
    port: int = 0
    requests: list[str] = field(default_factory=list)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection until it ends."""
        self.tasks.add(asyncio.current_task())  # type: ignore[arg-type]
        try:
            await self.answer(reader, writer)
        finally:
            writer.close()
            self.left.set()
        with suppress(ConnectionError):
            await writer.wait_closed()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer requests until the client hangs up, or the answer ends the connection."""
        while head := await reader.readline():
            length = 0
            while (line := (await reader.readline()).strip().lower()) != b"":
                if line.startswith(b"content-length:"):
                    length = int(line.partition(b":")[2])
            await reader.readexactly(length)
            self.requests.append(head.decode().rpartition(" ")[0])
            given = self.answers[min(len(self.requests), len(self.answers)) - 1]
            self.asked.set()
            if given == HANG:
                await reader.read()
                return
            writer.write(given.encode())
            await writer.drain()
            if not is_whole(given):
                return


@asynccontextmanager
async def scripted(*answers: str) -> AsyncIterator[ScriptedServer]:
    found = ScriptedServer(answers)
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0)
    found.port = server.sockets[0].getsockname()[1]
    try:
        yield found
    finally:
        server.close()
        for task in found.tasks:
            task.cancel()
        await asyncio.gather(*found.tasks, return_exceptions=True)


async def test_a_server_that_is_not_there_and_a_name_that_nobody_has_are_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    async with HippocampusClient(f"http://127.0.0.1:{port}", retries=1) as client:
        with pytest.raises(errors.ServerUnavailable, match="hippocampus serve") as refused:
            await client.remember(user_id="ana", memories=["x"])
    assert f"http://127.0.0.1:{port}" in str(refused.value) and not refused.value.may_be_done
    async with HippocampusClient("http://no.such.host.invalid", retries=0) as client:
        with pytest.raises(errors.ServerUnavailable, match="no.such.host.invalid"):
            await client.check_health()


async def test_a_slow_answer_says_that_the_write_may_be_done():
    async with scripted(HANG) as server, HippocampusClient(server.url, timeout=0.2) as client:
        with pytest.raises(errors.ServerUnavailable, match="timeout=") as refused:
            await client.remember(user_id="ana", memories=["x"])
    assert refused.value.may_be_done and ["POST /remember"] == server.requests


@pytest.mark.parametrize("broken", [HANG_UP, f"{OK}Content-Length: 500\r\n\r\n" + '{"keys":'])
async def test_a_connection_that_ends_is_named_and_a_write_is_not_sent_again(broken):
    async with scripted(broken, KEYS) as server, HippocampusClient(server.url) as client:
        with pytest.raises(errors.ServerUnavailable, match="may have been carried") as refused:
            await client.remember(user_id="ana", memories=["x"])
        assert refused.value.may_be_done and 1 == len(server.requests)
    async with scripted(broken, HITS) as server, HippocampusClient(server.url) as client:
        assert [] == (await client.recall(user_id="ana", query="x")).hits
        assert 2 == len(server.requests)


@every_case(
    (503, "storage-unavailable", errors.StorageUnavailable, True, False),
    (503, "model-unavailable", errors.ModelUnavailable, True, False),
    (503, "busy", errors.ServerUnavailable, True, True),
    (429, "too-many-requests", errors.TooManyRequests, True, True),
    (500, "internal", errors.MemoryCoreError, False, False),
    (501, "not-supported", errors.CapabilityMissing, False, False),
    (503, "read-only", errors.StorageReadOnly, False, False),
    (503, "embedding-mismatch", errors.EmbeddingMismatch, False, False),
    (409, "conflict", errors.Conflict, False, False),
    (405, "method-not-allowed", errors.UnexpectedAnswer, False, False),
    (404, "no-such-path", errors.UnexpectedAnswer, False, False),
)  # fmt: skip
async def test_each_problem_is_an_error_of_its_own(status, kind, error, reads_again, writes_again):
    """A write is sent again only if it was refused before it began."""
    given = problem(status, kind, "Retry-After: 0")
    async with scripted(given) as server, HippocampusClient(server.url, retries=1) as client:
        with pytest.raises(errors.MemoryCoreError, match=r"The reason\.") as known:
            await client.count_memories(user_id="ana")
        assert error is type(known.value) and 1 + reads_again == len(server.requests)
    assert [f"GET {server.url}/memories/count, request r-1"] == known.value.__notes__
    assert status < 500 or kind == "busy" or "(request r-1)" in str(known.value)
    if reads_again:
        async with scripted(given, given, COUNT) as server, HippocampusClient(server.url) as client:
            assert 7 == (await client.count_memories(user_id="ana")).count
            assert 3 == len(server.requests)
    async with scripted(given, KEYS) as server, HippocampusClient(server.url) as client:
        with nullcontext() if writes_again else pytest.raises(error):
            assert ["x"] == (await client.remember(user_id="ana", memories=["x"])).keys
        assert 1 + writes_again == len(server.requests)


async def test_a_long_pause_is_left_to_the_caller():
    refused = problem(429, "too-many-requests", "Retry-After: 3600")
    async with scripted(refused) as server, HippocampusClient(server.url) as client:
        with pytest.raises(errors.TooManyRequests, match="in 3600 s") as known:
            await client.count_memories(user_id="ana")
        assert 3600 == known.value.retry_after_s and 1 == len(server.requests)


@every_case(
    (answer("200 OK", "<html>Hello</html>", "text/html"), errors.UnexpectedAnswer, "address"),
    (answer("200 OK", '{"status": "up"}'), errors.UnexpectedAnswer, "count: Field required"),
    (answer("200 OK", '{"count": "many"}'), errors.UnexpectedAnswer, "count"),
    (answer("200 OK", ""), errors.UnexpectedAnswer, "no answer of this API"),
    (answer("204 No Content", ""), errors.UnexpectedAnswer, "204"),
    (answer("404 Not Found", "not here", "text/plain"), errors.UnexpectedAnswer, "not here"),
    (answer("401 No", "{}", "application/problem+json"), errors.UnexpectedAnswer, "401"),
    (
        answer("302 Found", "", "text/plain", "Location: https://example.org/"),
        errors.UnexpectedAnswer, "https://example.org/",
    ),
    (answer("502 Bad Gateway", "nginx", "text/html"), errors.ServerUnavailable, "in front"),
    (answer("500 Oops", "x" * 9999, "text/plain"), errors.UnexpectedAnswer, "x{200}'"),
    ("SSH-2.0-OpenSSH_9.2\r\n", errors.ServerUnavailable, "ended"),
)  # fmt: skip
async def test_what_is_not_our_server_is_named_with_its_address(given, error, words):
    async with scripted(given) as server, HippocampusClient(server.url, retries=0) as client:
        with pytest.raises(errors.MemoryCoreError, match=words) as known:
            await client.count_memories(user_id="ana")
    assert error is type(known.value) and server.url in str(known.value)
    assert len(str(known.value)) < 600


@every_case("export", "read_metrics")
async def test_a_stream_or_a_text_of_something_else_is_refused(method):
    async with scripted(answer("200 OK", "[]")) as server, HippocampusClient(server.url) as client:
        with pytest.raises(errors.UnexpectedAnswer, match="no answer of this API"):
            if method == "export":
                await anext(client.export(user_id="ana"))
            else:
                await client.read_metrics()


async def test_an_export_that_breaks_off_is_an_error_after_its_lines():
    head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked"
    lines = []
    async with scripted(f'{head}\r\n\r\n8\r\n{{"a":1}}\n\r\n') as server:
        async with HippocampusClient(server.url) as client:
            with pytest.raises(errors.ServerUnavailable, match="ended"):
                async for line in client.export(user_id="ana"):
                    lines.append(line)
        assert 1 == len(server.requests)
    assert ['{"a":1}'] == lines


async def test_a_cancelled_call_hangs_up_and_the_client_goes_on():
    async with scripted(HANG, COUNT) as server, HippocampusClient(server.url) as client:
        call = asyncio.create_task(client.remember(user_id="ana", memories=["x"]))
        await server.asked.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await asyncio.wait_for(server.left.wait(), 60)
        assert 7 == (await client.count_memories(user_id="ana")).count
        asked = [one.replace("&contains=", "") for one in server.requests]
        assert ["POST /remember", "GET /memories/count?user_id=ana"] == asked


@every_case(
    ({"base_url": "localhost:8420"}, "http://127.0.0.1:8420"),
    ({"base_url": "ftp://localhost"}, "http://127.0.0.1:8420"),
    ({"base_url": "http://"}, "http://127.0.0.1:8420"),
    ({"base_url": "http://localhost:port"}, "http://127.0.0.1:8420"),
    ({"base_url": "http://localhost?x=1"}, "http://127.0.0.1:8420"),
    ({"base_url": "http://u:secret@host"}, "a password: pass the token as token="),
    ({"base_url": "http://host/a?"}, "http://127.0.0.1:8420"),
    ({"base_url": "http://host#"}, "http://127.0.0.1:8420"),
    ({"token": ""}, "hippocampus token create"),
    ({"token": "hippo_0_\n"}, "hippocampus token create"),
    ({"token": "令牌"}, "hippocampus token create"),
    ({"timeout": 0}, "timeout must be more than 0"),
    ({"retries": -1}, "retries must be at least 0"),
)  # fmt: skip
def test_what_a_client_cannot_be_made_of_is_named(options, words):
    with pytest.raises(errors.InvalidInput, match=words) as refused:
        HippocampusClient(**options)  # type: ignore[arg-type]
    assert not {"令牌", "secret"} & {*re.findall(r"\w+", str(refused.value))}


async def test_a_value_that_no_address_can_hold_is_refused():
    async with HippocampusClient("http://127.0.0.1:1") as client:
        with pytest.raises(errors.InvalidInput, match="no part of an address"):
            await client.list_facts(user_id="x" * 70_000)
