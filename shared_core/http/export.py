"""The export of a user or an application as lines of JSON."""

from __future__ import annotations

import asyncio
import time
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
GIVES_WAY_S = 5.0
"""The same while another client waits for a place."""
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
    running: RunningExports = request.app.state.exports
    place = running.take()
    lines = memory.export(scope, app=of_app, vectors=vectors)
    try:
        first = await anext(lines)  # an error is raised before the answer begins
    except BaseException:
        running.leave(place)
        raise
    return _Lines(first, lines, running, place)


class ExportPlace:
    """The place of one export: since when its client reads nothing, and how to end it."""

    def __init__(self) -> None:
        self._since = 0.0
        self._deadline: asyncio.Timeout | None = None

    @property
    def stalled_s(self) -> float:
        """Seconds since the client last read a chunk; 0 while none waits for it."""
        return 0.0 if self._deadline is None else time.monotonic() - self._since

    async def send(self, send: Send, message: Message) -> None:
        """Send a message. Raises ClientDisconnect if the client does not read it in time."""
        self._since = time.monotonic()
        try:
            async with asyncio.timeout(STALLED_S) as self._deadline:
                await send(message)
        except TimeoutError as error:
            raise ClientDisconnect from error
        finally:
            self._deadline = None

    def give_way(self) -> None:
        """Disconnect the client that reads nothing."""
        if self._deadline is not None:
            self._deadline.reschedule(asyncio.get_running_loop().time())


class RunningExports:
    """The exports that run now. One that is not read gives way to a new one."""

    def __init__(self) -> None:
        self._places: set[ExportPlace] = set()

    def __len__(self) -> int:
        return len(self._places)

    def take(self) -> ExportPlace:
        """Return a place. Raises ProblemError if all are taken and read."""
        if len(self._places) >= MAX_AT_ONCE:
            slowest = max(self._places, key=lambda place: place.stalled_s)
            if slowest.stalled_s < GIVES_WAY_S:
                raise ProblemError(
                    503, "busy", f"{MAX_AT_ONCE} exports are running: try again.",
                    {"Retry-After": "10"},
                )  # fmt: skip
            slowest.give_way()
            self.leave(slowest)
        place = ExportPlace()
        self._places.add(place)
        return place

    def leave(self, place: ExportPlace) -> None:
        """Free a place."""
        self._places.discard(place)


class _Lines(StreamingResponse):
    """Sends lines in chunks and frees its place at the end, also after a failure.

    A client that stops reading is disconnected after STALLED_S, or GIVES_WAY_S if others wait.
    """

    media_type = LINES

    def __init__(
        self,
        first: str,
        lines: AsyncGenerator[str, None],
        running: RunningExports,
        place: ExportPlace,
    ) -> None:
        super().__init__(_chunks(first, lines))
        self._lines = lines
        self._running = running
        self._place = place

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        async def send_in_time(message: Message) -> None:
            await self._place.send(send, message)

        try:
            await super().__call__(scope, receive, send_in_time)
        finally:
            self._running.leave(self._place)
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
