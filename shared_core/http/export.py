"""The export of a user or an application as lines of JSON."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope as AsgiScope, Send

from shared_core.http import bodies
from shared_core.http.answers import PROBLEMS
from shared_core.http.problems import ProblemError
from shared_core.http.routes import Engine, Who, target

router = APIRouter(tags=["export"])

LINES = "application/x-ndjson"
CHUNK_CHARACTERS = 65_536
MAX_AT_ONCE = 4
"""Maximum number of simultaneous exports. Each holds a connection while its client reads."""
MIN_BYTES_PER_S = 16_384
"""The rate at which a client must read. A rate bounds the time an export takes; a limit on each
chunk would not."""
STALLED_S = 60.0
"""Seconds a client may be behind that rate before it is disconnected."""
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
) -> ExportLines:
    """Export all data of a user or an application for `hippocampus import`.

    The export is a snapshot of one moment. Without its last line ("end") it is incomplete, and an
    import refuses it.
    """
    scope, of_app = target(who, user_id, app)
    running: RunningExports = request.app.state.exports
    place = running.take()
    lines = memory.export(scope, app=of_app, vectors=vectors)
    try:
        first = await anext(lines)  # an error is raised before the answer begins
    except BaseException:
        running.leave(place)
        raise
    return ExportLines(first, lines, running, place)


class ExportPlace:
    """The place of one export: how far its client is behind, and how to end it."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._behind_s = 0.0
        self._sending_since: float | None = None
        self._deadline: asyncio.Timeout | None = None
        self._is_given_away = False

    @property
    def behind_s(self) -> float:
        """Seconds the client is behind the minimum rate. Time spent in the database is free."""
        since = self._sending_since
        return self._behind_s + (0.0 if since is None else self._now_s() - since)

    async def send(self, send: Send, message: Message) -> None:
        """Send a message. Raises ClientDisconnect if the client is too slow for its place."""
        if self._is_given_away:
            raise ClientDisconnect
        self._sending_since = self._now_s()
        try:
            async with asyncio.timeout(STALLED_S - self._behind_s) as self._deadline:
                await send(message)
        except TimeoutError as error:
            raise ClientDisconnect from error
        finally:
            allowed_s = len(message.get("body", b"")) / MIN_BYTES_PER_S
            self._behind_s = max(0.0, self.behind_s - allowed_s)
            self._sending_since = self._deadline = None

    def give_away(self) -> None:
        """Disconnect the client now, or at its next message."""
        self._is_given_away = True
        if self._deadline is not None and not self._deadline.expired():
            self._deadline.reschedule(asyncio.get_running_loop().time())


class RunningExports:
    """The exports that run now. One that is read too slowly gives way to a new one."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._places: set[ExportPlace] = set()

    def __len__(self) -> int:
        return len(self._places)

    def take(self) -> ExportPlace:
        """Return a place. Raises ProblemError if all are taken and read fast enough."""
        if len(self._places) >= MAX_AT_ONCE:
            slowest = max(self._places, key=lambda place: place.behind_s)
            if slowest.behind_s < GIVES_WAY_S:
                raise ProblemError(
                    503, "busy", f"{MAX_AT_ONCE} exports are running: try again.",
                    {"Retry-After": "10"},
                )  # fmt: skip
            slowest.give_away()
            self.leave(slowest)
        place = ExportPlace(self._now_s)
        self._places.add(place)
        return place

    def leave(self, place: ExportPlace) -> None:
        """Free a place."""
        self._places.discard(place)


class ExportLines(StreamingResponse):
    """Sends lines in chunks and frees its place at the end, also after a failure.

    A client that is STALLED_S behind the minimum rate is disconnected; GIVES_WAY_S if others wait.
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
