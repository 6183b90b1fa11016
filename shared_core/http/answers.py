"""How routes answer: JSON, and its description for OpenAPI with every problem.

The core's values are sent without validation.
"""

from __future__ import annotations

from typing import Any

import orjson
from pydantic import BaseModel
from starlette.responses import Response

from shared_core import wire


class Json(Response):
    """An answer that is encoded as JSON once, moments and ids as texts."""

    media_type = "application/json"

    def __init__(self, content: object, status: int = 200) -> None:
        super().__init__(orjson.dumps(content), status)


REASONS = {
    400: "The body cannot be read",
    401: "A valid token is missing",
    403: "The token is for another user or application",
    404: "It does not exist",
    405: "The path has other methods",
    409: "Another request changed it first",
    413: "The body is too large",
    415: "The body is not JSON",
    422: "A value is invalid",
    429: "The token sends too many requests",
    500: "The server failed",
    501: "The server does not support it",
    503: "The database or a model is unavailable",
}
PROBLEM = {wire.MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemBody"}}}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"description": reason, "content": PROBLEM} for status, reason in REASONS.items()
}


def responses(model: type[BaseModel], status: int = 200) -> dict[int | str, dict[str, Any]]:
    """Return the responses of a route for OpenAPI: its answer, and every problem."""
    described = (model.__doc__ or "").partition("\n")[0]
    return {status: {"model": model, "description": described}, **PROBLEMS}
