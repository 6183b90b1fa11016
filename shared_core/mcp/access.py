"""Access to the server: which users a call may name, and which requests need a token."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias

from mcp.server.auth.middleware.auth_context import AuthContextMiddleware, get_access_token
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, BearerAuthBackend
from mcp.server.auth.provider import AccessToken
from mcp.server.mcpserver.exceptions import ToolError
from starlette.datastructures import Headers
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope as AsgiScope, Send

from shared_core.core.domain import Scope
from shared_core.core.local_requests import fault_of_local_request
from shared_core.core.namespaces import check_label
from shared_core.errors import MemoryCoreError

USERS_CLAIM = "users"
"""Claim of an access token that holds its users, or None for all users."""


class Grant(Protocol):
    """What a bearer token opens: the users of an application, or None for all of them."""

    @property
    def token_id(self) -> str: ...
    @property
    def app(self) -> str: ...
    @property
    def users(self) -> Sequence[str] | None: ...


Verify: TypeAlias = Callable[[str], Awaitable[Grant | None]]
"""Return the grant of a token's text, or None if the token opens nothing."""


class GrantVerifier:
    """Verifies tokens for the SDK. A token of another application opens nothing."""

    def __init__(self, app: str, verify: Verify) -> None:
        self._app = app
        self._verify = verify

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return what a token opens here, or None."""
        grant = await self._verify(token)
        if grant is None or grant.app != self._app:
            return None
        users = None if grant.users is None else list(grant.users)
        return AccessToken(
            token=token, client_id=grant.token_id, scopes=[], claims={USERS_CLAIM: users}
        )


class ServedUsers:
    """The users of a server: one fixed user, or the users that a call may name."""

    def __init__(self, app: str, user: str | None) -> None:
        self.app = check_label(app, "app")
        self.user = None if user is None else check_label(user, "user")

    def scope(self, user_id: str | None) -> Scope:
        """Return the scope of a call. Raises ToolError for a missing or a forbidden user."""
        allowed = self._allowed()
        if user_id is None and allowed is not None and len(allowed) == 1:
            [user_id] = allowed
        if user_id is None:
            raise ToolError("user_id is missing: this server has several users, name one")
        if allowed is not None and user_id not in allowed:
            raise ToolError("user_id is not a user of this server or of the token: leave it out")
        check_label(user_id, "user_id")
        return Scope(self.app, user_id)

    def _allowed(self) -> Sequence[str] | None:
        token = get_access_token()
        granted = None if token is None else (token.claims or {}).get(USERS_CLAIM, [])
        if self.user is None:
            return granted
        return [self.user] if granted is None or self.user in granted else []


class TokenGate:
    """Lets requests with a valid token through, and local requests while no token exists.

    A token in a request is always checked. needs_token returns whether a token exists.
    """

    def __init__(
        self, app: str, verify: Verify, needs_token: Callable[[], Awaitable[bool]]
    ) -> None:
        self._backend = BearerAuthBackend(GrantVerifier(app, verify))
        self._needs_token = needs_token

    def before(self, served: ASGIApp) -> ASGIApp:
        """Return an application that passes allowed requests on to `served`."""

        async def gate(scope: AsgiScope, receive: Receive, send: Send) -> None:
            has_token = any(name == b"authorization" for name, _ in scope.get("headers", ()))
            needs_token = scope["type"] == "http" and (has_token or await self._needs_token())
            answer = served if needs_token else only_local(served)
            if needs_token and not isinstance(scope.get("user"), AuthenticatedUser):
                answer = _unauthorized()
            await answer(scope, receive, send)

        checked = AuthenticationMiddleware(AuthContextMiddleware(gate), self._backend)

        async def call(scope: AsgiScope, receive: Receive, send: Send) -> None:
            try:
                await checked(scope, receive, send)
            except MemoryCoreError:  # the tokens cannot be read
                if scope["type"] != "http":
                    raise
                body = {"error": "temporarily_unavailable", "error_description": "Try again."}
                await JSONResponse(body, 503, {"Retry-After": "2"})(scope, receive, send)

        return call


def only_local(served: ASGIApp) -> ASGIApp:
    """Return an application that answers requests from this machine, and refuses all others."""

    async def call(scope: AsgiScope, receive: Receive, send: Send) -> None:
        fault = None
        if scope["type"] == "http":
            client = scope.get("client")
            fault = fault_of_local_request(Headers(scope=scope).items(), client and client[0])
        answer = served
        if fault is not None:
            answer = JSONResponse({"error": "forbidden", "error_description": fault}, 403)
        await answer(scope, receive, send)

    return call


def _unauthorized() -> JSONResponse:
    description = (
        "A valid token of this application is needed: Authorization: Bearer hippo_..."
        " ('hippocampus token create --app APP' makes one)."
    )
    body = {"error": "invalid_token", "error_description": description}
    return JSONResponse(body, 401, {"WWW-Authenticate": 'Bearer error="invalid_token"'})
