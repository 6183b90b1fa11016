"""Whose memory a call opens: what the command fixed, what a token allows, what the call names."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.mcpserver.exceptions import ToolError

from shared_core.core.domain import Scope
from shared_core.core.namespaces import check_label

ANY_USER = "users"


class Grant(Protocol):
    """What a bearer token opens: the users of an application, None for all of them."""

    @property
    def token_id(self) -> str: ...
    @property
    def app(self) -> str: ...
    @property
    def users(self) -> Sequence[str] | None: ...


Verify: TypeAlias = Callable[[str], Awaitable[Grant | None]]
"""Returns what the text of a token opens; None for a token that opens nothing."""


class GrantVerifier:
    """Asks for the grant of a token, as the SDK wants it; one of another application is none."""

    def __init__(self, app: str, verify: Verify) -> None:
        self._app = app
        self._verify = verify

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return what a token opens here, None if nothing."""
        grant = await self._verify(token)
        if grant is None or grant.app != self._app:
            return None
        users = None if grant.users is None else list(grant.users)
        return AccessToken(
            token=token, client_id=grant.token_id, scopes=[], claims={ANY_USER: users}
        )


class Whom:
    """Whom a server answers for: one user, or those that a call may name."""

    def __init__(self, app: str, user: str | None) -> None:
        self.app = check_label(app, "app")
        self.user = None if user is None else check_label(user, "user")

    def scope(self, user_id: str | None) -> Scope:
        """Return the scope of a call. Raises ToolError for nobody, and for somebody else."""
        allowed = self._allowed()
        if user_id is None and allowed is not None and len(allowed) == 1:
            [user_id] = allowed
        if user_id is None:
            raise ToolError("user_id is missing: this server answers for several users")
        if allowed is not None and user_id not in allowed:
            raise ToolError(
                "user_id names somebody else than this server or token is for: leave it out"
            )
        check_label(user_id, "user_id")
        return Scope(self.app, user_id)

    def _allowed(self) -> Sequence[str] | None:
        token = get_access_token()
        granted = None if token is None else (token.claims or {}).get(ANY_USER, [])
        if self.user is None:
            return granted
        return [self.user] if granted is None or self.user in granted else []
