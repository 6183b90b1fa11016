"""Clients of the HTTP application, and the application on a socket, in process."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI

from shared_core import MemoryEngine
from shared_core.http import ServerOptions, create_app


@lru_cache(maxsize=8)
def app_of(memory: MemoryEngine, options: ServerOptions) -> FastAPI:
    """Return the application of a memory that tests share: it takes long to make one."""
    return create_app(memory, options)


@asynccontextmanager
async def client_of(
    memory: MemoryEngine, options: ServerOptions | None = None, *, token: str | None = None,
    host: str = "localhost",
    make_app: Callable[[MemoryEngine, ServerOptions], FastAPI] = create_app,
) -> AsyncIterator[httpx.AsyncClient]:  # fmt: skip
    """Yield a client of the HTTP application of a memory, without sockets."""
    app = make_app(memory, options or ServerOptions(auth=token is not None))
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    place: Any = {"transport": httpx.ASGITransport(app), "base_url": f"http://{host}"}
    client = httpx.AsyncClient(**place, headers=headers)
    async with app.router.lifespan_context(app), client:
        yield client


@asynccontextmanager
async def listening(memory: MemoryEngine, given: ServerOptions | None = None) -> AsyncIterator[str]:
    """Yield the address of the HTTP application of a memory, served by uvicorn on a socket."""
    app = app_of(memory, given or ServerOptions(auth=False))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="on"))
    with socket.create_server(("127.0.0.1", 0)) as address:
        serving = asyncio.create_task(server.serve([address]))
        while not server.started:
            assert not serving.done(), serving
            await asyncio.sleep(0.01)
        yield f"http://127.0.0.1:{address.getsockname()[1]}"
        server.should_exit = True
        await serving


def problem_of(answer: httpx.Response, status: int, kind: str) -> dict[str, Any]:
    """Return the problem that an answer must be."""
    told: dict[str, Any] = answer.json()
    assert (status, f"urn:hippocampus:problem:{kind}") == (answer.status_code, told["type"]), told
    assert "application/problem+json" == answer.headers["content-type"]
    assert (status, answer.headers["x-request-id"]) == (told["status"], told["request_id"])
    return told
