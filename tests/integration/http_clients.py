"""Clients of the HTTP application, and the application on a socket, in process."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import uvicorn

from shared_core import MemoryEngine
from shared_core.http import ServerOptions, create_app


@asynccontextmanager
async def client_of(
    memory: MemoryEngine,
    options: ServerOptions | None = None,
    *,
    token: str | None = None,
    host: str = "localhost",
) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client of the HTTP application of a memory, without sockets."""
    app = create_app(memory, options or ServerOptions(auth=token is not None))
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url=f"http://{host}", headers=headers
        ) as client,
    ):
        yield client


@asynccontextmanager
async def listening(
    memory: MemoryEngine, options: ServerOptions | None = None
) -> AsyncIterator[str]:
    """Yield the address of the HTTP application of a memory, served by uvicorn on a socket."""
    app = create_app(memory, options or ServerOptions(auth=False))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="on"))
    with socket.create_server(("127.0.0.1", 0)) as address:
        serving = asyncio.create_task(server.serve([address]))
        while not server.started:
            assert not serving.done(), serving
            await asyncio.sleep(0.01)
        yield f"http://127.0.0.1:{address.getsockname()[1]}"
        server.should_exit = True
        await serving
