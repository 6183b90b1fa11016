"""Request ids, and logs as JSON with one line per request."""

from __future__ import annotations

import logging
import re
import time
from datetime import UTC, datetime
from http import HTTPMethod
from typing import Any

import orjson
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shared_core.core import telemetry
from shared_core.core.failure_reason import places
from shared_core.core.ids import uuid7
from shared_core.http.problems import DETAIL_OF, problem, request_id

log = logging.getLogger("hippocampus.http")

HEADER = "x-request-id"
GONE = 499
"""Status in the log of a client that disconnected before the answer."""
_FORM = re.compile(r"[A-Za-z0-9._:-]{1,128}")


class JsonLines(logging.Formatter):
    """Formats a record as one JSON object: time, level, logger, message, request and its id."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line. An exception adds its type alone, never its message."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if current := request_id.get():
            line["request_id"] = current
        line |= getattr(record, "request", {})
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__name__
        return orjson.dumps(line).decode()


def log_as_json() -> None:
    """Log as JSON to standard error: this library from INFO, others from WARNING."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("hippocampus").setLevel(logging.INFO)


class RequestLog:
    """The outermost layer: sets the request id and logs the route, never a path, query or body."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        header = Headers(scope=scope).get(HEADER, "")
        current = header if _FORM.fullmatch(header) else uuid7().hex
        request_id.set(current)
        status, started = 0, time.perf_counter()

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
            took_s = time.perf_counter() - started
            fields = _fields(scope, status, took_s)
            telemetry.request_ended(fields["method"], fields["route"] or "", status, took_s)
            log.info("request", extra={"request": fields})

    async def _failed(
        self, error: Exception, status: int, scope: Scope, receive: Receive, send: Send
    ) -> int:
        log.error("unexpected %s at %s", type(error).__name__, places(error))
        if not status:
            await problem(500, "internal", DETAIL_OF["internal"])(scope, receive, send)
        return status or 500


def _fields(scope: Scope, status: int, took_s: float) -> dict[str, Any]:
    caller = scope.get("hippocampus.caller")
    return {
        "method": scope["method"] if scope["method"] in HTTPMethod.__members__ else "?",
        "route": getattr(scope.get("route"), "path_format", None),
        "status": status,
        "duration_ms": round(took_s * 1000, 1),
        "token_id": getattr(caller, "token_id", None),
    }
