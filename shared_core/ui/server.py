"""The application of the inspector: its pages below /ui, and the HTTP API beside them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import nicegui
from fastapi import FastAPI
from nicegui import ui
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse

from shared_core.engine import MemoryEngine
from shared_core.http import ServerOptions, create_app as create_api
from shared_core.http.server import run
from shared_core.ui.guard import MOUNT, Doors, InspectorGuard
from shared_core.ui.options import InspectorOptions
from shared_core.ui.pages import register
from shared_core.ui.sockets import drop_malformed_messages
from shared_core.ui.view import Inspector


def create_app(
    memory: MemoryEngine, options: ServerOptions, inspector: InspectorOptions
) -> FastAPI:
    """Return the application: the inspector at /ui, the HTTP API at its usual paths.

    A read-only inspector serves no API, because an API can write. NiceGUI has one application in a
    process, so only the first call in a process works.
    """
    api = create_api(memory, options)
    doors = Doors(memory.tokens, options)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with api.router.lifespan_context(api):
            yield

    app = FastAPI(
        openapi_url=None, lifespan=lifespan, middleware=[Middleware(InspectorGuard, doors=doors)],
        telemetry={"logs": False},
    )  # fmt: skip

    @app.get("/", include_in_schema=False)
    @app.get(MOUNT, include_in_schema=False)
    async def front() -> RedirectResponse:
        return RedirectResponse(f"{MOUNT}/")

    @nicegui.app.exception_handler(404)
    async def no_page(request: Request, error: Exception) -> PlainTextResponse:
        return PlainTextResponse(f"There is no such page; see {MOUNT}/. 没有这个页面。", 404)

    nicegui.app.state.inspector = Inspector(memory, doors, inspector, api.state.exports)
    register()
    drop_malformed_messages()
    ui.run_with(
        app, mount_path=MOUNT, title="pg-hippocampus", favicon="🧠", dark=None, tailwind=False,
        show_welcome_message=False, reconnect_timeout=30.0,
    )  # fmt: skip
    if not inspector.read_only:
        app.mount("/", api)
    return app


def serve(
    memory: MemoryEngine,
    options: ServerOptions,
    inspector: InspectorOptions,
    listens: Callable[[str], None] = lambda address: None,
) -> int:
    """Serve the inspector and the HTTP API until SIGTERM or Ctrl-C; return the exit code.

    listens: called with the address of the server once it can be reached.
    """
    return run(memory, options, create_app(memory, options, inspector), listens)
