"""Who calls: tokens, what they open, and how often they may."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, TypeAlias

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope as AsgiScope, Send

from shared_core.core.domain import Scope
from shared_core.core.uri_validation import is_loopback
from shared_core.errors import MemoryCoreError
from shared_core.http.options import LOCAL_NAMES, ServerOptions
from shared_core.http.problems import ProblemError, core_problem, problem
from shared_core.http.rates import TokenBuckets
from shared_core.jobs.api_tokens import ApiTokens, FirstToken
from shared_core.ports.api_tokens import ApiToken

OPEN_PATHS = frozenset({"/health", "/health/live", "/health/ready", "/openapi.json", "/docs"})
KNOWN_S = 5.0
"""So long a token that was looked up counts as it was: a revoked one opens that much longer."""
MOST_KNOWN = 10_000
PROXIED: Final = frozenset({"forwarded", "via", "x-real-ip"})
Address: TypeAlias = tuple[str, int]
"""Of whoever is at the other end."""


@dataclass(frozen=True, slots=True)
class Caller:
    """What a request may touch. app: None for any, then default_app is what it gets unasked.

    users: None for all of the application.
    """

    app: str | None
    users: tuple[str, ...] | None
    token_id: str | None
    default_app: str

    def app_named(self, app: str | None) -> str:
        """Return the application of a request that named one or none; ProblemError if not its."""
        if self.app is not None and app not in (None, self.app):
            raise ProblemError(403, "forbidden", "This token is for another application.")
        return app or self.app or self.default_app

    def scope(self, user_id: str, app: str | None) -> Scope:
        """Return the scope of a user, of the token's own if "" names none.

        Raises ProblemError for one that this caller has no token for, and for nobody.
        """
        if not user_id:
            user_id = self._only_user()
        if self.users is not None and user_id not in self.users:
            raise ProblemError(403, "forbidden", "This token is for other users.")
        return Scope(self.app_named(app), user_id)

    def _only_user(self) -> str:
        if self.users is not None and len(self.users) == 1:
            return self.users[0]
        raise ProblemError(
            422,
            "invalid-input",
            "user_id is missing: only with a token for one user may it be left out.",
        )


async def caller_of(request: Request) -> Caller:
    """Return who calls, as Access found."""
    found: Caller = request.scope["hippocampus.caller"]
    return found


class KnownTokens:
    """Tokens that were looked up a moment ago, right or wrong, by the hash of their text."""

    def __init__(self, tokens: ApiTokens, now_s: Callable[[], float] = time.monotonic) -> None:
        self._tokens = tokens
        self._now_s = now_s
        self._known: OrderedDict[bytes, tuple[ApiToken | None, float]] = OrderedDict()

    async def verify(self, text: str) -> ApiToken | None:
        """Return the token whose text this is, None for none."""
        key = hashlib.sha256(text.encode("latin-1")).digest()
        known = self._known.get(key)
        if known is not None and self._now_s() < known[1]:
            token = known[0]
        else:
            token = await self._tokens.verify(text)
            self._known[key] = token, self._now_s() + KNOWN_S
            self._known.move_to_end(key)
            while len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)
        return token if token is not None and token.opens_at(datetime.now(UTC)) else None


class Access:
    """Lets in who has a token; as long as none was made, who asks this machine by its own name.

    A request that shows a token is checked in any case.
    """

    def __init__(self, app: ASGIApp, tokens: ApiTokens, options: ServerOptions) -> None:
        self.app = app
        self._options = options
        self._first = FirstToken(tokens)
        self._known = KnownTokens(tokens)
        self._rates = TokenBuckets(options.rate, options.burst)

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS:
            await self.app(scope, receive, send)
            return
        try:
            scope["hippocampus.caller"] = await self._caller(
                Headers(scope=scope), scope.get("client")
            )
        except ProblemError as error:
            refused = problem(error.status_code, error.kind, error.detail, headers=error.headers)
            await refused(scope, receive, send)
        except MemoryCoreError as error:
            await core_problem(error)(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    async def _caller(self, headers: Headers, client: Address | None) -> Caller:
        if not ("authorization" in headers or await self._needs_token()):
            _check_is_local(headers, client)
            return Caller(None, None, None, self._options.app)
        scheme, _, text = headers.get("authorization", "").partition(" ")
        token = await self._known.verify(text.strip()) if scheme.lower() == "bearer" else None
        if token is None:
            raise ProblemError(
                401,
                "unauthorized",
                "A valid token is needed: Authorization: Bearer hippo_..."
                " ('hippocampus token create' makes one).",
                {"WWW-Authenticate": 'Bearer realm="hippocampus"'},
            )
        wait_s = self._rates.take(token.token_id)
        if wait_s:
            raise ProblemError(
                429,
                "too-many-requests",
                f"This token may ask {self._options.rate:g} times a second.",
                {"Retry-After": str(wait_s)},
            )
        return Caller(token.app, token.users, token.token_id, token.app)

    async def _needs_token(self) -> bool:
        if self._options.auth is not None or not self._options.is_local:
            return self._options.needs_tokens(some_exist=False)
        return self._options.needs_tokens(some_exist=await self._first.is_made())


def _check_is_local(headers: Headers, client: Address | None) -> None:
    """Refuse other machines, known signs of a proxy, and web pages that took a name for this one.

    Without an address of the client, as behind a socket of the file system, the name decides.
    """
    host = headers.get("host", "").rsplit("@")[-1]
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    if name.lower() not in LOCAL_NAMES or (client is not None and not is_loopback(client[0])):
        raise ProblemError(
            403, "forbidden", "Without tokens the server answers to localhost alone, see --auth."
        )
    if any(name in PROXIED or name.startswith("x-forwarded-") for name in headers):
        raise ProblemError(
            403, "forbidden", "Without tokens the server answers no proxy, see --auth."
        )
