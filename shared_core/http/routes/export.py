"""Everything of a user, or of an application, as lines of JSON."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope as AsgiScope, Send

from shared_core.engine import MemoryEngine
from shared_core.http import bodies
from shared_core.http.access import Caller, caller_of
from shared_core.http.answers import PROBLEMS
from shared_core.http.memory_of import memory_of
from shared_core.http.problems import ProblemError

router = APIRouter(tags=["export"])

LINES = "application/x-ndjson"
CHUNK_CHARACTERS = 65_536
MOST_AT_ONCE = 4
"""Each holds a connection to the database as long as its client reads."""
STALLED_S = 60.0
"""So long a client may take to read a piece before it counts as gone."""
ANSWER = {
    "description": "Lines of JSON: a header, the rows, an end that counts them",
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
    memory: Annotated[MemoryEngine, Depends(memory_of)],
    who: Annotated[Caller, Depends(caller_of)],
    user_id: Annotated[bodies.Name | None, Query(description="All of the app's if none.")] = None,
    app: bodies.App = None,
    vectors: Annotated[bool, Query(description="Else an import embeds the texts anew.")] = False,
) -> _Lines:
    """Hand out everything of a user, or of an application, for `hippocampus import`.

    All of one moment. Without the last line ("end") it was cut, and an import refuses it.
    """
    if user_id is None and who.users is not None:
        raise ProblemError(403, "forbidden", "This token is for some users: name one, ?user_id=...")
    scope = None if user_id is None else who.scope(user_id, app)
    of_app = who.app_named(app) if scope is None else None
    at_work: asyncio.Semaphore = request.app.state.exports
    if at_work.locked():
        raise ProblemError(
            503, "busy", f"{MOST_AT_ONCE} exports are at work: try again.", {"Retry-After": "10"}
        )
    await at_work.acquire()
    lines = memory.export(scope, app=of_app, vectors=vectors)
    try:
        first = await anext(lines)  # what is wrong is told before the answer begins
    except BaseException:
        at_work.release()
        raise
    return _Lines(first, lines, at_work)


class _Lines(StreamingResponse):
    """Sends lines in larger pieces, and gives its place back however it ends.

    One whose client has stopped reading ends after STALLED_S.
    """

    media_type = LINES

    def __init__(
        self, first: str, lines: AsyncGenerator[str, None], at_work: asyncio.Semaphore
    ) -> None:
        super().__init__(_chunks(first, lines))
        self._lines = lines
        self._at_work = at_work

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
            self._at_work.release()
            await self._lines.aclose()


async def _chunks(first: str, lines: AsyncGenerator[str, None]) -> AsyncIterator[str]:
    waiting, length = [first], len(first)
    async for line in lines:
        waiting.append(line)
        length += len(line)
        if length >= CHUNK_CHARACTERS:
            yield "\n".join([*waiting, ""])
            waiting, length = [], 0
    yield "\n".join([*waiting, ""])
