"""Gives every request an id, says it in the answer, and logs each request in one line."""

from __future__ import annotations

import logging
import re
import time
import traceback

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shared_core.core.ids import uuid7
from shared_core.http.problems import TOLD, problem
from shared_core.http.request_ids import request_id

log = logging.getLogger("hippocampus.http")

HEADER = "x-request-id"
GONE = 499
"""What the log says of a client that went away before it had its answer."""
_FORM = re.compile(r"[A-Za-z0-9._:-]{1,128}")


class RequestLog:
    """The outermost layer. A log line holds the route, never a path, a query or a body."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        given = Headers(scope=scope).get(HEADER, "")
        current = given if _FORM.fullmatch(given) else uuid7().hex
        request_id.set(current)
        status, begun = 0, time.perf_counter()

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[HEADER] = current
            await send(message)

        try:
            await self.app(scope, receive, answer)
        except ClientDisconnect:
            status = GONE
        except Exception as error:  # noqa: BLE001 # the outermost frame: logged, and answered
            status = await self._failed(error, status, scope, receive, answer)
        finally:
            log.info("request", extra={"request": _told(scope, status, begun)})

    async def _failed(
        self, error: Exception, status: int, scope: Scope, receive: Receive, send: Send
    ) -> int:
        log.error("unexpected %s at %s", type(error).__name__, _places(error))
        if not status:
            await problem(500, "internal", TOLD["internal"])(scope, receive, send)
        return status or 500


def _told(scope: Scope, status: int, begun: float) -> dict[str, object]:
    caller = scope.get("hippocampus.caller")
    return {
        "method": scope["method"] if scope["method"].isalpha() else "?",
        "route": getattr(scope.get("route"), "path_format", None),
        "status": status,
        "duration_ms": round((time.perf_counter() - begun) * 1000, 1),
        "token_id": getattr(caller, "token_id", None),
    }


def _places(error: Exception) -> str:
    """Return where an error came from, without its message, which may hold a user's words."""
    frames = traceback.extract_tb(error.__traceback__)[-5:]
    return " < ".join(
        f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno} {frame.name}"
        for frame in reversed(frames)
    )
