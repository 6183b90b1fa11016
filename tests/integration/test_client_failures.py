"""What HippocampusClient says of servers that fail, are slow, hang up, or are something else."""

import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, field

import pytest

from shared_core import errors
from shared_core.client import HippocampusClient

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


async def test_a_server_that_is_not_there_is_named_with_the_way_out():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    async with HippocampusClient(f"http://127.0.0.1:{port}", retries=1) as client:
        with pytest.raises(errors.ServerUnavailable, match="hippocampus serve") as refused:
            await client.remember(user_id="ana", memories=["x"])
    assert f"http://127.0.0.1:{port}" in str(refused.value) and not refused.value.may_be_done


async def test_a_name_that_nobody_has_is_named():
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


@pytest.mark.parametrize(("status", "kind", "error", "reads_again", "writes_again"), [
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
])  # fmt: skip
async def test_each_problem_is_an_error_of_its_own_and_what_passes_is_tried_again(
    status, kind, error, reads_again, writes_again
):
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


@pytest.mark.parametrize(("given", "error", "words"), [
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
])  # fmt: skip
async def test_what_is_not_our_server_is_named_with_its_address(given, error, words):
    async with scripted(given) as server, HippocampusClient(server.url, retries=0) as client:
        with pytest.raises(errors.MemoryCoreError, match=words) as known:
            await client.count_memories(user_id="ana")
    assert error is type(known.value) and server.url in str(known.value)
    assert len(str(known.value)) < 600


@pytest.mark.parametrize("method", ["export", "read_metrics"])
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


@pytest.mark.parametrize(("options", "words"), [
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
])  # fmt: skip
def test_what_a_client_cannot_be_made_of_is_named(options, words):
    with pytest.raises(errors.InvalidInput, match=words) as refused:
        HippocampusClient(**options)  # type: ignore[arg-type]
    assert not {"令牌", "secret"} & {*re.findall(r"\w+", str(refused.value))}


async def test_a_value_that_no_address_can_hold_is_refused():
    async with HippocampusClient("http://127.0.0.1:1") as client:
        with pytest.raises(errors.InvalidInput, match="no part of an address"):
            await client.list_facts(user_id="x" * 70_000)
