"""The ASGI application: the routes over one memory, and the layers around them."""

from __future__ import annotations

from asyncio import timeout
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from operator import attrgetter
from typing import Any, Final

from fastapi import Depends, FastAPI
from fastapi.security import HTTPBearer
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope as AsgiScope, Send

from shared_core import __version__
from shared_core.engine import MemoryEngine
from shared_core.http import directory, export, facts, metrics, retention, routes
from shared_core.http.access import Access
from shared_core.http.logs import RequestLog
from shared_core.http.options import ServerOptions
from shared_core.http.problems import ProblemError, handle_problems, problem
from shared_core.http.routes import known_parameters
from shared_core.wire import ProblemBody

DESCRIPTION = """Long-term memory for AI agents.

Send `Authorization: Bearer hippo_...`; `hippocampus token create` creates a token. Every error is a
problem of RFC 9457, and every answer has the id of its request in `X-Request-ID`."""

BEARER = HTTPBearer(auto_error=False, description="A token of this memory.")
"""For OpenAPI alone: Access checks the token before anything else reads the request."""


def create_app(memory: MemoryEngine, options: ServerOptions | None = None) -> FastAPI:
    """Return the application that serves a memory. It opens the memory and does not close it."""
    options = options or ServerOptions()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        with closing(metrics.Scrape()) as app.state.scrape:
            await memory.open()
            yield

    app = FastAPI(
        title="pg-hippocampus",
        version=__version__,
        description=DESCRIPTION,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        lifespan=lifespan,
        redoc_url=None,
        swagger_ui_oauth2_redirect_url=None,
        telemetry={"logs": False},
        generate_unique_id_function=attrgetter("name"),  # of the endpoint: stable for clients
        middleware=[
            Middleware(RequestLog),
            Middleware(Access, tokens=memory.tokens, options=options),
            Middleware(BodyBounds, max_body=options.max_body),
        ],
    )
    app.state.memory = memory
    app.state.scrape = None  # a mounted application has no lifespan
    app.state.exports = export.RunningExports()
    handle_problems(app)
    known = Depends(known_parameters)
    app.include_router(routes.health, dependencies=[known])
    areas = (facts, retention, directory, export, metrics)
    for router in (*routes.ROUTERS, *(area.router for area in areas)):
        app.include_router(router, dependencies=[Depends(BEARER), known])
    _name_problems(app)
    return app


def _name_problems(app: FastAPI) -> None:
    """Add the schema of problems to OpenAPI; every route refers to it."""
    make = app.openapi

    def openapi() -> dict[str, Any]:
        schema = make()
        models = schema["components"]["schemas"]
        if ProblemBody.__name__ not in models:
            problems = ProblemBody.model_json_schema(ref_template="#/components/schemas/{model}")
            models |= problems.pop("$defs")
            models[ProblemBody.__name__] = problems
        return schema

    app.openapi = openapi  # type: ignore[method-assign] # FastAPI's documented way


CLOSE = {"Connection": "close"}
DROPPED: Final = 32_000_000
"""Bytes of a body that are read at most, to be dropped, before it is answered."""
DROPPED_S: Final = 30.0
SILENT_S: Final = 5.0
"""Seconds that this may take, and seconds without a part of the body after which it ends."""


class BodyBounds:
    """Refuses bodies that are too large (413) or not JSON (415).

    Before an answer begins, the rest of the body is read and dropped. Otherwise the server resets
    the connection of a client that is still sending, and the client never sees the answer (RFC
    9112, section 9.6).
    """

    def __init__(self, app: ASGIApp, max_body: int) -> None:
        self.app = app
        self._max_body = max_body

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        body = _Body(headers, receive, send, self._max_body)
        if body.length > self._max_body:
            refused = problem(413, "too-large", _too_large(self._max_body), headers=CLOSE)
            await refused(scope, body.receive, send if body.length > DROPPED else body.send)
            return
        if body.is_there and not _is_json(headers.get("content-type", "")):
            refused = problem(
                415, "unsupported-media-type", "Send JSON, with Content-Type: application/json."
            )
            await refused(scope, body.receive, body.send)
            return
        await self.app(scope, body.receive, body.send)


class _Body:
    """The body of one request: what was received of it, and whether all was.

    length: bytes that the head announces; 0 for chunks.
    """

    def __init__(self, headers: Headers, receive: Receive, send: Send, max_body: int) -> None:
        told = headers.get("content-length", "")
        self.length = int(told) if told.isdecimal() else 0
        self.is_there = "transfer-encoding" in headers or told not in ("", "0")
        self._expects = "100-continue" in headers.get("expect", "").lower()
        self._receive = receive
        self._send = send
        self._max_body = max_body
        self._seen = 0
        self._ended = not self.is_there

    async def receive(self) -> Message:
        """Return the next part. Raises ProblemError once the parts are too large together."""
        message = await self._next()
        if self._seen > self._max_body:
            raise ProblemError(413, "too-large", _too_large(self._max_body), CLOSE)
        return message

    async def send(self, message: Message) -> None:
        """Send a part of the answer; before the first, drop the rest of the body."""
        waits = self._expects and not self._seen  # for "100 Continue", which it need not get
        if message["type"] == "http.response.start" and not (self._ended or waits):
            with suppress(TimeoutError):
                async with timeout(DROPPED_S):
                    await self._drop()
        await self._send(message)

    async def _drop(self) -> None:
        while not self._ended and self._seen <= DROPPED:
            async with timeout(SILENT_S):
                await self._next()

    async def _next(self) -> Message:
        message = await self._receive()
        self._seen += len(message.get("body", b""))
        self._ended = message["type"] == "http.disconnect" or not message.get("more_body", False)
        return message


def _too_large(max_body: int) -> str:
    return f"A body may have at most {max_body:,} bytes."


def _is_json(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind == "application/json" or (
        kind.startswith("application/") and kind.endswith("+json")
    )
