"""What a body may be: JSON, and not too long, whether its length is told or not."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shared_core.http.problems import ProblemError, problem

CLOSE = {"Connection": "close"}


class BodyBounds:
    """Refuses bodies that are too long (413) or no JSON (415) before anything reads them."""

    def __init__(self, app: ASGIApp, max_body: int) -> None:
        self.app = app
        self._max_body = max_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length) > self._max_body:
            refused = problem(413, "too-large", self._told(), headers=CLOSE)
            await refused(scope, receive, send)
            return
        has_body = "transfer-encoding" in headers or length not in ("", "0")
        if has_body and not _is_json(headers.get("content-type", "")):
            refused = problem(
                415, "unsupported-media-type", "Send JSON, with Content-Type: application/json."
            )
            await refused(scope, receive, send)
            return
        await self.app(scope, self._counted(receive), send)

    def _counted(self, receive: Receive) -> Receive:
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._max_body:
                raise ProblemError(413, "too-large", self._told(), CLOSE)
            return message

        return counted

    def _told(self) -> str:
        return f"A body may have {self._max_body:,} bytes at most."


def _is_json(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind == "application/json" or (
        kind.startswith("application/") and kind.endswith("+json")
    )
