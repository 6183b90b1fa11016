"""The export of a user or an application as lines of JSON."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope as AsgiScope, Send

from shared_core.http import bodies
from shared_core.http.answers import PROBLEMS
from shared_core.http.problems import ProblemError
from shared_core.http.routes import Engine, Who, check_may_list

router = APIRouter(tags=["export"])

LINES = "application/x-ndjson"
CHUNK_CHARACTERS = 65_536
MAX_AT_ONCE = 4
"""Maximum number of simultaneous exports. Each holds a connection while its client reads."""
STALLED_S = 60.0
"""Seconds a client may take to read a chunk before it counts as gone."""
ANSWER = {
    "description": "Lines of JSON: a header, the rows, and an end with their number",
    "content": {LINES: {"schema": {"type": "string"}}},
}


@router.get(
    "/export",
    responses={200: ANSWER, **PROBLEMS},
    response_class=StreamingResponse,
    response_model=None,
)
async def export(
    request: Request,
    memory: Engine,
    who: Who,
    user_id: Annotated[bodies.Name | None, Query(description="Default: all users.")] = None,
    app: bodies.App = None,
    vectors: Annotated[
        bool, Query(description="Include vectors, so that an import need not embed.")
    ] = False,
) -> _Lines:
    """Export all data of a user or an application for `hippocampus import`.

    The export is a snapshot of one moment. Without its last line ("end") it is incomplete, and an
    import refuses it.
    """
    check_may_list(who, user_id)
    scope = None if user_id is None else who.scope(user_id, app)
    of_app = who.app_named(app) if scope is None else None
    running: asyncio.Semaphore = request.app.state.exports
    if running.locked():
        raise ProblemError(
            503, "busy", f"{MAX_AT_ONCE} exports are running: try again.", {"Retry-After": "10"}
        )
    await running.acquire()
    lines = memory.export(scope, app=of_app, vectors=vectors)
    try:
        first = await anext(lines)  # an error is raised before the answer begins
    except BaseException:
        running.release()
        raise
    return _Lines(first, lines, running)


class _Lines(StreamingResponse):
    """Sends lines in chunks and frees its place at the end, also after a failure.

    A client that stops reading is disconnected after STALLED_S.
    """

    media_type = LINES

    def __init__(
        self, first: str, lines: AsyncGenerator[str, None], running: asyncio.Semaphore
    ) -> None:
        super().__init__(_chunks(first, lines))
        self._lines = lines
        self._running = running

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        async def send_in_time(message: Message) -> None:
            try:
                async with asyncio.timeout(STALLED_S):
                    await send(message)
            except TimeoutError as error:
                raise ClientDisconnect from error

        try:
            await super().__call__(scope, receive, send_in_time)
        finally:
            self._running.release()
            await self._lines.aclose()


async def _chunks(first: str, lines: AsyncGenerator[str, None]) -> AsyncIterator[str]:
    chunk, length = [first], len(first)
    async for line in lines:
        chunk.append(line)
        length += len(line)
        if length >= CHUNK_CHARACTERS:
            yield "\n".join([*chunk, ""])
            chunk, length = [], 0
    yield "\n".join([*chunk, ""])
