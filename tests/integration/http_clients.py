"""Clients of the HTTP application, in process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

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
