"""Who may ask over HTTP: whoever has a token, and without one as long as none was ever made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, BearerAuthBackend
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope as AsgiScope, Send

from shared_core.errors import MemoryCoreError
from shared_core.mcp.whom import GrantVerifier, Verify

NeedsToken = Callable[[], Awaitable[bool]]


class Door:
    """What a running server asks of each request: verify the token, and whether one is needed.

    A request that carries an Authorization header is checked in any case.
    """

    def __init__(self, app: str, verify: Verify, needs_token: NeedsToken) -> None:
        self._backend = BearerAuthBackend(GrantVerifier(app, verify))
        self._needs_token = needs_token

    def before(self, served: ASGIApp) -> ASGIApp:
        """Return an application that lets through to served what may pass."""

        async def let_in(scope: AsgiScope, receive: Receive, send: Send) -> None:
            shows_token = any(name == b"authorization" for name, _ in scope.get("headers", ()))
            needs_token = scope["type"] == "http" and (shows_token or await self._needs_token())
            may_pass = not needs_token or isinstance(scope.get("user"), AuthenticatedUser)
            await (served if may_pass else _refused())(scope, receive, send)

        return _told(AuthenticationMiddleware(AuthContextMiddleware(let_in), self._backend))


def _refused() -> JSONResponse:
    """Return 401 with the way out."""
    why = (
        "A valid token of this application is needed: Authorization: Bearer hippo_..."
        " ('hippocampus token create --app APP' makes one)."
    )
    told = {"error": "invalid_token", "error_description": why}
    return JSONResponse(told, 401, {"WWW-Authenticate": 'Bearer error="invalid_token"'})


def _told(app: ASGIApp) -> ASGIApp:
    """Return app with 503 where the tokens cannot be read."""

    async def call(scope: AsgiScope, receive: Receive, send: Send) -> None:
        try:
            await app(scope, receive, send)
        except MemoryCoreError:
            if scope["type"] != "http":
                raise
            told = {"error": "temporarily_unavailable", "error_description": "Try again."}
            await JSONResponse(told, 503, {"Retry-After": "2"})(scope, receive, send)

    return call
