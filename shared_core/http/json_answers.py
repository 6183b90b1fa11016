"""Answers as JSON bytes, encoded once and not validated again."""

from __future__ import annotations

import orjson
from starlette.responses import Response


def to_json_bytes(content: object) -> bytes:
    """Return JSON; moments and ids as texts."""
    return orjson.dumps(content)


class Json(Response):
    """An answer of 200 whose content is ready to be written."""

    media_type = "application/json"

    def __init__(self, content: object, status: int = 200) -> None:
        super().__init__(to_json_bytes(content), status)
