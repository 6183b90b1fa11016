"""Random HTTP requests for benchmarks.fuzz, made from the OpenAPI document of a running server.

Half of them come from schemathesis: what the document allows, and what it forbids. The other half
are examples of the document with some parts replaced by odd values, or with bytes that are no JSON,
odd headers, methods and paths. An answer is wrong if it is a 5xx other than a documented 503, if an
error is no application/problem+json with the documented members, or if it shows code of the server.
"""

from __future__ import annotations

import copy
import http.client
import json
import math
import random
import re
import urllib.parse
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import psutil  # type: ignore[import-untyped]

from benchmarks.odd_values import ODD_TEXTS

INTERNAL: Final = re.compile(
    r"Traceback|psycopg|pymysql|sqlalchemy|site-packages|\.py\b|File \\?\"|asyncio\.|pydantic"
    r"|Error\(|SELECT |INSERT |UPDATE |RuntimeError|KeyError|AttributeError| object at 0x"
)
"""Text that only a leaked exception, statement or object shows."""
MEMBERS: Final = ("type", "title", "status", "detail")
ODD_JSON: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 1.5, 2**31, 2**63, 2**64, 10**400, 1e308, -1e308, math.nan, math.inf,
    [], {}, [[]], {"": None}, {"a": {"b": {"c": []}}}, [None] * 200, "", *ODD_TEXTS,
)  # fmt: skip
RAW_BODIES: Final = (
    b"", b"{", b"[" * 20_000, b'{"a":' * 20_000, b"\xff\xfe", b"null", b"[]", b'"text"', b"1e999",
    b"NaN", b'{"user_id": "a", "user_id": "b"}', b"{}{}", b'{"a": 1,}', b"\x00", b"\xef\xbb\xbf{}",
    b'{"user_id": "\\ud800"}', b'{"user_id": "\\u0000"}', '{"user_id": "中"}'.encode("utf-16"),
    b'{"limit": ' + b"9" * 5_000 + b"}", b"-" * 100, b'{"__proto__": {}}',
)  # fmt: skip
HEADERS: Final[tuple[dict[str, str], ...]] = (
    {}, {}, {}, {}, {"Content-Type": "text/plain"}, {"Content-Type": "application/json; charset=x"},
    {"Content-Type": ""}, {"Accept": "text/html"}, {"Authorization": "Bearer"},
    {"Authorization": "Basic eDp5"}, {"Authorization": "Bearer \xff"}, {"Content-Encoding": "gzip"},
    {"X-Request-Id": "x" * 2_000}, {"Origin": "http://example.org"}, {"Host": "example.org"},
    {"traceparent": "00-zz-zz-01"}, {"X-Forwarded-For": "1.2.3.4"}, {"Expect": "100-continue"},
    {"Range": "bytes=0-1"}, {"If-None-Match": "*"}, {"Cookie": "a=b"},
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request as it is sent."""

    method: str
    path: str
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Answers:
    """How requests were answered. wrong: the first request of each kind of wrong answer."""

    counts: Counter[int] = field(default_factory=Counter)
    wrong: dict[str, str] = field(default_factory=dict)
    wrong_count: int = 0
    not_sent: int = 0
    slowest_s: float = 0.0
    slowest: str = ""


class Mutator:
    """Makes requests out of the examples of an OpenAPI document."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._operations = [
            (method.upper(), path, operation)
            for path, methods in document["paths"].items()
            for method, operation in methods.items()
        ]
        self._schemas = document["components"]["schemas"]

    def request(self, chance: random.Random) -> Request:
        """Return a random request."""
        method, path, operation = chance.choice(self._operations)
        query: list[tuple[str, str]] = []
        for parameter in operation.get("parameters", ()):
            value = self._parameter(parameter, chance)
            if parameter["in"] == "path":
                path = path.replace(f"{{{parameter['name']}}}", urllib.parse.quote(value, safe=""))
            elif parameter.get("required") or chance.random() < 0.3:
                query.append((parameter["name"], value))
        if chance.random() < 0.05:
            query.append((chance.choice(("x", "", "limit", "\x00")), "1"))
        if query:
            path += "?" + urllib.parse.urlencode(query, errors="surrogatepass")
        body = self._body(operation, chance) if "requestBody" in operation else None
        headers = dict(chance.choice(HEADERS))
        if chance.random() < 0.03:
            method = chance.choice(("PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "TRACE"))
        if chance.random() < 0.02:
            path = chance.choice(("/", "//", "/%00", "/..", "/docs", path + "/", path + "%2F"))
        return Request(method=method, path=path, body=body, headers=headers)

    def _parameter(self, parameter: dict[str, Any], chance: random.Random) -> str:
        if chance.random() < 0.5:
            example = parameter.get("examples") or parameter.get("schema", {}).get("examples")
            return str(example[0]) if isinstance(example, list) else "ana"
        odd = str(chance.choice((*ODD_TEXTS, "1", "0", "-1", "1e9", "9" * 30)))[:2_000]
        return odd.encode("utf-8", "replace").decode()

    def _body(self, operation: dict[str, Any], chance: random.Random) -> bytes:
        if chance.random() < 0.1:
            return chance.choice(RAW_BODIES)
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        body = copy.deepcopy(self._example(schema, chance))
        for _ in range(chance.randrange(4)):
            body = mutated(body, chance)
        text = json.dumps(body, ensure_ascii=chance.random() < 0.3)
        return text.encode("utf-8", "surrogatepass")

    def _example(self, schema: dict[str, Any], chance: random.Random) -> Any:
        if "$ref" in schema:
            return self._example(self._schemas[schema["$ref"].rsplit("/", 1)[1]], chance)
        for choices in ("oneOf", "anyOf"):
            if choices in schema:
                return self._example(chance.choice(schema[choices]), chance)
        return schema["examples"][0] if schema.get("examples") else {}


def mutated(body: Any, chance: random.Random) -> Any:
    """Return a JSON value with one part replaced, removed, added or doubled."""
    places = list(_places(body))
    if not places:
        return copy.deepcopy(chance.choice(ODD_JSON))
    holder, key = chance.choice(places)
    how = chance.random()
    if how < 0.7:
        holder[key] = copy.deepcopy(chance.choice(ODD_JSON))
    elif how < 0.8:
        del holder[key]
    elif how < 0.9 and isinstance(holder, dict):
        holder[chance.choice(("x", "", "\x00", "app", "limit", "__class__"))] = copy.deepcopy(
            holder[key]
        )
    elif isinstance(holder, list):
        holder.extend([holder[key]] * chance.choice((1, 150)))
    else:
        holder[key] = [holder[key]]
    return body


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])


class Client:
    """Sends requests one after the other, and judges the answers and the time they took."""

    def __init__(self, port: int, token: str, pid: int) -> None:
        self._port = port
        self._token = token
        self._process = psutil.Process(pid)
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        self.answers = Answers()

    def send(self, request: Request) -> None:
        """Send a request and judge the answer."""
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        begun = sum(self._process.cpu_times()[:2])
        try:
            self._connection.request(
                request.method, request.path, request.body, headers | request.headers
            )
            answer = self._connection.getresponse()
            content = answer.read()
        except (http.client.InvalidURL, UnicodeEncodeError, ValueError):
            self.answers.not_sent += 1  # the client refuses to send it
            self._connect()
            return
        except (http.client.HTTPException, OSError) as error:
            self._wrong(f"no answer: {type(error).__name__}", request, b"")
            self._connect()
            return
        kind = answer.headers.get("content-type", "")
        self.judge(request, answer.status, kind, content)
        self.note_time(sum(self._process.cpu_times()[:2]) - begun, request)

    def judge(self, request: Request, status: int, kind: str, content: bytes) -> None:
        """Count an answer, and note what is wrong with it."""
        self.answers.counts[status] += 1
        text = content.decode("utf-8", "replace")
        if status >= 500 and status != 503:
            self._wrong(f"status {status}", request, content)
        if status < 400:
            return
        if leaked := INTERNAL.search(text):
            self._wrong(f"shows {leaked[0]!r}", request, content)
        if request.method == "HEAD":
            return
        if kind != "application/problem+json":
            self._wrong(f"{status} of type {kind!r}", request, content)
            return
        found = json.loads(text)
        if any(name not in found for name in MEMBERS) or found["status"] != status:
            self._wrong(f"{status} without a member", request, content)

    def note_time(self, seconds: float, request: Request) -> None:
        """Remember the request that took the most processor time of the server."""
        if seconds > self.answers.slowest_s:
            self.answers.slowest_s = seconds
            self.answers.slowest = f"{request!r:.300}"

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _wrong(self, what: str, request: Request, content: bytes) -> None:
        self.answers.wrong_count += 1
        self.answers.wrong.setdefault(what, f"{request!r:.1500}\n{content!r:.1500}")

    def _connect(self) -> None:
        self.close()
        self._connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=120)


def by_schema(url: str, count: int, seed: int, send: Callable[[Request], None]) -> int:
    """Send requests that schemathesis makes, about the same number of each operation.

    Returns their number. It makes fewer for an operation that takes little.
    """
    import schemathesis
    from schemathesis.generation import GenerationMode

    schema: Any = schemathesis.openapi.from_url(f"{url}/openapi.json")
    operations = [found.ok() for found in schema.get_all_operations()]
    sent = 0
    for operation in operations:
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            takes = any((operation.query, operation.path_parameters, operation.body))
            if takes or mode is GenerationMode.POSITIVE:
                each = max(1, count // (2 * len(operations)))
                for request in _made(operation.as_strategy(generation_mode=mode), each, seed, url):
                    send(request)
                    sent += 1
    return sent


def _made(strategy: Any, count: int, seed: int, url: str) -> list[Request]:
    """Return the requests of some cases of schemathesis."""
    from hypothesis import HealthCheck, Phase, given, seed as seeded, settings

    made: list[Request] = []

    @seeded(seed)
    @settings(
        max_examples=count, deadline=None, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=strategy)
    def take(case: Any) -> None:
        parts = case.as_transport_kwargs(base_url=url)
        query = urllib.parse.urlencode(parts.get("params") or {}, doseq=True)
        path = urllib.parse.urlsplit(parts["url"]).path + (f"?{query}" if query else "")
        body = json.dumps(parts["json"]) if "json" in parts else parts.get("data")
        body = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body
        if body is None or isinstance(body, bytes):
            made.append(Request(method=parts["method"], path=path, body=body))

    take()
    return made
