"""The HTTP server as a process: real sockets, signals, kills, and clients that go away."""

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import nullcontext, suppress

import httpx
import pytest
from commands import succeed
from warm_python import warm_python

from benchmarks import http as benchmark
from shared_core import Scope, open_memory
from tests.integration.http_processes import ServerProcess, command as hippocampus, serving

ANA = Scope("default", "ana")
LOCAL_JSON = "Host: localhost\r\nContent-Type: application/json"


@pytest.fixture(scope="module")
def shared(postgres, tmp_path_factory):
    """The server of the tests that let it run."""
    log = tmp_path_factory.mktemp("shared") / "log"
    for dsn in postgres.lend():
        with serving(dsn, log, "--no-auth", "--rate", "0") as server:
            yield server


def remember(url: str, key: str, client: httpx.Client | None = None, scope: Scope = ANA) -> int:
    memories = [{"text": f"Note number {key}.", "key": key}]
    body = {"user_id": scope.user, "app": scope.app, "memories": memories}
    answer = (client or httpx).post(f"{url}/remember", json=body, timeout=60)
    assert [key] == answer.json()["keys"]
    return answer.status_code


async def keys_of(dsn: str, scope: Scope = ANA) -> set[str]:
    async with open_memory(dsn, worker=False) as memory:
        return {one.key for one in await memory.list_memories(scope, limit=1000)}


def connected(server: ServerProcess) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=60)


async def test_what_was_acknowledged_survives_a_kill(dsn, tmp_path):
    """Killed while many requests are in work: each is there whole, or it was not answered."""
    acknowledged: set[str] = set()
    enough = threading.Event()

    def write(server: ServerProcess, worker: int) -> None:
        with httpx.Client(timeout=60) as client:
            for number in range(1000):
                key = f"{worker}-{number}"
                try:
                    remember(server.url, key, client)
                except httpx.TransportError:
                    return
                acknowledged.add(key)
                if len(acknowledged) >= 30:
                    enough.set()

    with serving(dsn, tmp_path / "log") as server, ThreadPoolExecutor(6) as pool:
        writing = [pool.submit(write, server, worker) for worker in range(6)]
        assert enough.wait(60)
        server.process.kill()
        for one in writing:
            one.result()
    with serving(dsn, tmp_path / "log") as again:
        question = {"user_id": "ana", "query": "Note number 0-0", "limit": 5}
        async with httpx.AsyncClient(timeout=60) as client:
            found = (await client.post(f"{again.url}/recall", json=question)).json()
        assert "0-0" in {hit["key"] for hit in found["hits"]}
    kept = await keys_of(dsn)
    assert acknowledged <= kept
    assert len(kept - acknowledged) <= 6  # what was in work, at most one of each


def test_it_stops_when_told_and_answers_what_it_began(dsn, tmp_path):
    with serving(dsn, tmp_path / "log") as server, ThreadPoolExecutor(8) as pool:
        remember(server.url, "first")
        begun = [pool.submit(remember, server.url, str(number)) for number in range(8)]
        wait(begun, 60, FIRST_COMPLETED)
        server.process.send_signal(signal.SIGTERM)
        answered = [one.exception() or one.result() for one in begun]
        assert 0 == server.process.wait(60), server.log()
    refused = [one for one in answered if one != 200]
    # A connection that was waiting to be accepted ends before, while or after it is written to.
    ended = httpx.ConnectError | httpx.ReadError | httpx.RemoteProtocolError
    assert all(isinstance(one, ended) for one in refused), refused
    lines = server.lines()
    assert "stopped" == lines[-1]["message"]
    done = [line for line in lines if line["message"] == "request" and line["status"] == 200]
    assert len(done) == 1 + len(answered) - len(refused)


async def test_clients_that_go_away_leave_nothing_half_done(shared, scope):
    memories = [{"text": f"Half {number}.", "key": f"half-{number}"} for number in range(20)]
    body = json.dumps({"user_id": scope.user, "app": scope.app, "memories": memories}).encode()
    head = f"POST /remember HTTP/1.1\r\n{LOCAL_JSON}\r\nContent-Length: {len(body)}\r\n\r\n"
    before = len(shared.lines())
    for sent in (body, body[: len(body) // 2], b""):
        with connected(shared) as connection:
            connection.sendall(head.encode() + sent)
    while 3 > sum(line["message"] == "request" for line in shared.lines()[before:]):
        time.sleep(0.02)
    assert 200 == remember(shared.url, "after", scope=scope)
    assert [] == [line for line in shared.lines() if line["level"] == "error"]
    kept = await keys_of(shared.dsn, scope)
    assert "after" in kept
    assert len(kept) in (1, 21)  # all of the whole request, or nothing


def test_chunks_without_end_are_refused(shared):
    head = f"POST /recall HTTP/1.1\r\n{LOCAL_JSON}\r\nTransfer-Encoding: chunked\r\n\r\n"
    with connected(shared) as connection:
        connection.sendall(head.encode())
        chunk = b"40000\r\n" + b" " * 0x40000 + b"\r\n"
        for _ in range(5):  # of four together as large as a body may be
            connection.sendall(chunk)
        answer = connection.recv(65536)
    assert answer.startswith(b"HTTP/1.1 413"), answer
    assert b"connection: close" in answer.lower()
    assert 200 == httpx.get(f"{shared.url}/health/ready", timeout=60).status_code


@pytest.mark.parametrize(("megabytes", "headers", "status"), [
    (5, {}, 413), (20, {}, 413), (0.9, {"Content-Type": "text/plain"}, 415),
    (0.9, {"Authorization": "Bearer hippo_wrong"}, 401),
])  # fmt: skip
def test_a_client_that_is_still_sending_reads_why_it_is_refused(megabytes, headers, status, shared):
    headers = {"Content-Type": "application/json", **headers}
    body = json.dumps({"user_id": "ana", "memories": ["a" * int(megabytes * 1_000_000)]})
    for _ in range(5):
        answer = httpx.post(f"{shared.url}/remember", content=body, headers=headers, timeout=60)
        assert status == answer.status_code


def test_who_asks_first_is_not_invited_to_send_too_much_and_a_head_without_end_is_refused(shared):
    head = f"POST /recall HTTP/1.1\r\n{LOCAL_JSON}\r\nExpect: 100-continue\r\n"
    with connected(shared) as connection:
        connection.sendall(f"{head}Content-Length: 5000000\r\n\r\n".encode())
        assert connection.recv(65536).startswith(b"HTTP/1.1 413")
    with connected(shared) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Long: ")
        with suppress(ConnectionError):  # it may hang up before all is sent
            connection.sendall(b"x" * 200_000)
            assert connection.recv(65536)[:12] in (b"HTTP/1.1 400", b"")
    assert 200 == httpx.get(f"{shared.url}/health", timeout=60).status_code


def test_it_is_never_open_to_other_machines_without_tokens(dsn, tmp_path):
    command = [*hippocampus(), "serve", "--uri", dsn, "--host", "0.0.0.0", "--port", "0"]
    refused = subprocess.run([*command, "--no-auth"], capture_output=True, text=True)
    assert 1 == refused.returncode and "hippocampus token create" in refused.stderr
    with serving(dsn, tmp_path / "log", "--host", "0.0.0.0") as server:
        answer = httpx.get(f"{server.url}/memories", params={"user_id": "ana"}, timeout=60)
        assert 401 == answer.status_code
        whose = ("--app", "a", "--user", "ana", "--expires", "1h")
        token = json.loads(succeed("token", "create", *whose, "--json", "--uri", dsn))
        headers = {"Authorization": f"Bearer {token['token']}"}
        for user, status in (("ana", 200), ("bob", 403)):
            answer = httpx.get(f"{server.url}/memories?user_id={user}", headers=headers, timeout=60)
            assert status == answer.status_code
    shown = succeed("token", "list", "--json", "--uri", dsn)
    [listed] = json.loads(shown)
    assert (["ana"], "a", token["token_id"]) == (listed["users"], listed["app"], listed["token_id"])
    assert token["token"] not in shown and token["token"] not in server.log()


def test_a_running_server_closes_with_the_first_token(dsn, tmp_path):
    with serving(dsn, tmp_path / "log") as server:
        ask = f"{server.url}/memories?user_id=bob"
        assert 200 == httpx.get(ask, timeout=60).status_code
        whose = ("--app", "default", "--user", "ana")
        token = succeed("token", "create", *whose, "--uri", dsn).strip()
        while httpx.get(ask, timeout=60).status_code == 200:
            time.sleep(0.1)
        assert 401 == httpx.get(ask, timeout=60).status_code
        headers = {"Authorization": f"Bearer {token}"}
        assert 403 == httpx.get(ask, headers=headers, timeout=60).status_code


@pytest.mark.parametrize(("options", "expected"), [
    ("--port 70000", "port must be between 0 and 65535"),
    ("--embedded --uri embedded", "either --embedded or --uri"),
    ("--host no.such.host.invalid", "cannot listen on"),
    ("--uri postgresql://a:secret@127.0.0.1:1/x --port 0", "cannot be used"),
    ("--uri embedded://{folder} --port {taken}", "cannot listen on 127.0.0.1:{taken}"),
])  # fmt: skip
def test_what_it_cannot_do_it_says_in_a_line(tmp_path, options, expected):
    with socket.create_server(("127.0.0.1", 0)) as address:
        names = {"folder": tmp_path, "taken": address.getsockname()[1]}
        line = [*hippocampus(), "serve", *options.format(**names).split()]
        done = subprocess.run(line, capture_output=True, text=True)
    assert 1 == done.returncode and expected.format(**names) in done.stderr, done.stderr
    assert "Traceback" not in done.stderr and "secret" not in done.stderr


def test_many_clients_are_answered_without_an_error(shared, monkeypatch, capsys):
    fill = benchmark.fill
    monkeypatch.setattr(benchmark, "fill", lambda uri, *rest: fill(shared.dsn, *rest))
    monkeypatch.setattr(benchmark, "serving", lambda uri: nullcontext(shared.port))
    monkeypatch.setattr(benchmark, "WARM_UP_S", 0.0)
    options = ["--clients", "8", "--seconds", "0.5", "--memories", "5", "--json"]
    monkeypatch.setattr(sys, "argv", ["benchmarks.http", *options])
    benchmark.main()
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (8, 0) == (figures["clients"], figures["errors"])
    assert {"requests_per_s", "p50_ms", "p99_ms"} <= figures.keys()


WITHOUT = """
import sys
for name in [one for one in sys.modules if one.startswith({forgotten!r})]:
    del sys.modules[name]
sys.modules[{package!r}] = None
from shared_core.cli.main import app
app()
"""


@pytest.mark.parametrize(("package", "forgotten", "command", "extra"), [
    ("uvicorn", "shared_core.http", "serve", "server"),
    ("nicegui", "shared_core.ui", "ui --no-open --port 0", "ui"),
    ("nicegui", "shared_core.ui", "serve --ui --port 0", "ui"),
])  # fmt: skip
def test_without_its_packages_it_says_what_to_install(package, forgotten, command, extra):
    code = WITHOUT.format(package=package, forgotten=forgotten)
    line = [*warm_python(), "-c", code, *command.split()]
    done = subprocess.run(line, capture_output=True, text=True)
    assert 1 == done.returncode and f"pip install 'pg-hippocampus[{extra}]'" in done.stderr
    assert "Traceback" not in done.stderr
