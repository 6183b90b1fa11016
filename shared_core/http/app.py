"""The ASGI application: routes over one memory, and the layers around them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import Depends, FastAPI
from fastapi.security import HTTPBearer
from starlette.middleware import Middleware

from shared_core import __version__
from shared_core.engine import MemoryEngine
from shared_core.http.access import Access
from shared_core.http.bounds import BodyBounds
from shared_core.http.options import ServerOptions
from shared_core.http.parameters import known_parameters
from shared_core.http.problems import ProblemBody, handle_problems
from shared_core.http.request_log import RequestLog
from shared_core.http.routes import conversation, export, graph, health, jobs, memories, profiles

DESCRIPTION = """Long-term memory for AI agents.

Send `Authorization: Bearer hippo_...`; `hippocampus token create` makes a token. Every error is a
problem of RFC 9457, and every answer says the id of its request in `X-Request-ID`."""

BEARER = HTTPBearer(auto_error=False, description="A token of this memory.")
"""It only tells OpenAPI; Access looks at tokens before anything else reads the request."""


def create_app(memory: MemoryEngine, options: ServerOptions | None = None) -> FastAPI:
    """Return the application that serves a memory, which it opens and does not close."""
    options = options or ServerOptions()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
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
        middleware=[
            Middleware(RequestLog),
            Middleware(Access, tokens=memory.tokens, options=options),
            Middleware(BodyBounds, max_body=options.max_body),
        ],
    )
    app.state.memory = memory
    app.state.exports = asyncio.Semaphore(export.MOST_AT_ONCE)
    handle_problems(app)
    known = Depends(known_parameters)
    app.include_router(health.router, dependencies=[known])
    for routes in (conversation, memories, profiles, graph, jobs, export):
        app.include_router(routes.router, dependencies=[Depends(BEARER), known])
    _name_problems(app)
    return app


def _name_problems(app: FastAPI) -> None:
    """Add the schema of problems to OpenAPI, which names it on every route."""
    make = app.openapi

    def openapi() -> dict[str, Any]:
        schema = make()
        models = schema["components"]["schemas"]
        if ProblemBody.__name__ not in models:
            told = ProblemBody.model_json_schema(ref_template="#/components/schemas/{model}")
            models |= told.pop("$defs")
            models[ProblemBody.__name__] = told
        return schema

    app.openapi = openapi  # type: ignore[method-assign] # FastAPI's documented way
