"""Errors as problem details of RFC 9457, with the id of the request."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from http import HTTPStatus
from typing import Any, Final

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from shared_core import errors
from shared_core.wire import KIND_PREFIX, MEDIA_TYPE, STATUS_OF

request_id: ContextVar[str] = ContextVar("hippocampus_request_id", default="")
"""The id of the current request."""

log = logging.getLogger("hippocampus.http")

RETRY_S = 2
"""Seconds a caller should wait while the database or a model is unavailable."""


class ProblemError(HTTPException):
    """A problem that a middleware or a route raises, inside or outside Starlette's own layers."""

    def __init__(
        self, status: int, kind: str, detail: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(status, detail, dict(headers or {}))
        self.kind = kind


DETAIL_OF: Mapping[str, str] = {
    "read-only": "The memory is read-only now.",
    "storage-unavailable": "The database is unavailable: try again later.",
    "model-unavailable": "A model failed: try again later.",
    "embedding-mismatch": "The server has another embedding model than its database.",
    "internal": "The server failed. Its log has the details under the id of this request.",
    "not-supported": "This server does not support that.",
}
"""Details of server errors for callers. The log alone has the error message."""
MOST_TOLD: Final = 3
"""Faults of a request that `detail` names; `errors` has them all."""


def problem(
    status: int,
    kind: str,
    detail: str,
    *,
    headers: Mapping[str, str] | None = None,
    faults: Sequence[Mapping[str, str]] = (),
) -> Response:
    """Return a problem as an answer."""
    body: dict[str, Any] = {
        "type": f"{KIND_PREFIX}{kind}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "request_id": request_id.get(),
        "errors": list(faults),
    }
    return Response(orjson.dumps(body), status, dict(headers or {}), MEDIA_TYPE)


def core_problem(error: errors.MemoryCoreError) -> Response:
    """Return an error of the core as an answer."""
    status, kind = next(STATUS_OF[base] for base in type(error).__mro__ if base in STATUS_OF)
    if status < HTTPStatus.INTERNAL_SERVER_ERROR:
        return problem(status, kind, str(error))
    log.error("%s: %s", type(error).__name__, error)
    wait = getattr(error, "retry_after_s", None) or RETRY_S
    headers = {"Retry-After": str(max(1, round(wait)))} if status == 503 else {}
    return problem(status, kind, DETAIL_OF[kind], headers=headers)


def handle_problems(app: FastAPI) -> None:
    """Answer every error of an application with a problem."""

    @app.exception_handler(errors.MemoryCoreError)
    async def of_the_core(_: Request, error: errors.MemoryCoreError) -> Response:
        return core_problem(error)

    @app.exception_handler(RequestValidationError)
    async def of_validation(_: Request, error: RequestValidationError) -> Response:
        found = [_fault(one) for one in error.errors()]
        if any(one["type"] == "json_invalid" for one in error.errors()):
            return problem(400, "malformed-json", "The body is not JSON.", faults=found)
        told = [f"{one['field']}: {one['reason']}" for one in found[:MOST_TOLD]]
        if len(found) > MOST_TOLD:
            told.append(f"{len(found) - MOST_TOLD} more in errors")
        detail = "; ".join(told)
        return problem(422, "invalid-input", detail, faults=found)

    @app.exception_handler(HTTPException)
    async def of_http(_: Request, error: HTTPException) -> Response:
        kind = getattr(error, "kind", None) or KINDS.get(error.status_code, "refused")
        detail = DETAILS.get(error.status_code, error.detail)
        if isinstance(error, ProblemError):
            detail = error.detail
        return problem(error.status_code, kind, detail, headers=error.headers)


KINDS = {400: "malformed-body", 404: "no-such-path", 405: "method-not-allowed"}
DETAILS = {
    400: "The body cannot be read as JSON in UTF-8.",
    404: "There is no such path: /openapi.json lists the paths.",
    405: "This path has other methods: see the header Allow.",
}


def _fault(error: Mapping[str, Any]) -> dict[str, str]:
    # Without "input" and "ctx", which contain values of the caller.
    place = ".".join(str(part) for part in error["loc"])
    reason = str(error["msg"]).removeprefix("Value error, ")
    return {"field": _printable(place), "reason": _printable(reason)}


def _printable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()[:500]
