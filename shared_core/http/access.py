"""Access to the server: the caller of each request, its token and its rate."""

from __future__ import annotations

import hashlib
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias, get_args

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope as AsgiScope, Send

from shared_core.core.domain import Scope
from shared_core.core.local_requests import fault_of_local_request
from shared_core.core.telemetry import cache_counts
from shared_core.errors import MemoryCoreError
from shared_core.http.options import ServerOptions
from shared_core.http.problems import ProblemError, core_problem, problem
from shared_core.jobs.api_tokens import ApiTokens, FirstToken
from shared_core.ports.api_tokens import ApiToken, Opens

OPEN_PATHS = frozenset({"/health", "/health/live", "/health/ready", "/openapi.json", "/docs"})
KNOWN_S = 5.0
"""Seconds a looked-up token is remembered. A revoked token works that much longer."""
MAX_KNOWN = 10_000
MAX_BUCKETS = 10_000
"""Maximum number of remembered tokens, and of token buckets."""
Address: TypeAlias = tuple[str, int]
"""Host and port of the client."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The application and the users that a request may read and write.

    app: None for every application; default_app is then used if the request names none.
    users: None for all users of the application. opens: "metrics" for a caller who may read the
    metrics alone.
    """

    app: str | None
    users: tuple[str, ...] | None
    token_id: str | None
    default_app: str
    opens: Opens = "memory"

    def app_named(self, app: str | None) -> str:
        """Return the application of a request. Raises ProblemError for a forbidden one."""
        if self.app is not None and app not in (None, self.app):
            raise ProblemError(403, "forbidden", "This token is for another application.")
        return app or self.app or self.default_app

    def scope(self, user_id: str, app: str | None) -> Scope:
        """Return the scope of a user; for "", of the only user of the token.

        Raises ProblemError for a forbidden user, and for "" if the token is not for one user.
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
            "user_id is missing: it is optional only with a token for one user.",
        )


async def caller_of(request: Request) -> Caller:
    """Return the caller that Access found. Raises ProblemError if it opens no memory."""
    found: Caller = request.scope["hippocampus.caller"]
    if found.opens != "memory":
        raise ProblemError(403, "forbidden", "This token is for metrics: it opens no memory.")
    return found


async def reader_of_metrics(request: Request) -> None:
    """Raise ProblemError unless the caller may read the metrics of all applications."""
    found: Caller = request.scope["hippocampus.caller"]
    if found.token_id is not None and found.opens != "metrics":
        raise ProblemError(
            403,
            "forbidden",
            "This token is for an application, and metrics tell of all of them: 'hippocampus token"
            " create --metrics' makes a token for them.",
        )


class KnownTokens:
    """Cache of token lookups, hits and misses, by the hash of the token.

    opens: what the tokens may open.
    """

    def __init__(
        self,
        tokens: ApiTokens,
        now_s: Callable[[], float] = time.monotonic,
        *,
        opens: Sequence[Opens] = ("memory",),
    ) -> None:
        self._tokens = tokens
        self._opens = opens
        self._now_s = now_s
        self._known: OrderedDict[bytes, tuple[ApiToken | None, float]] = OrderedDict()
        self._counts = cache_counts("api_tokens")

    async def verify(self, text: str) -> ApiToken | None:
        """Return the token with this secret, or None."""
        key = hashlib.sha256(text.encode("latin-1")).digest()
        known = self._known.get(key)
        if known is not None and self._now_s() < known[1]:
            self._counts.hits += 1
            token = known[0]
        else:
            self._counts.misses += 1
            token = await self._tokens.verify(text, opens=self._opens)
            self._known[key] = token, self._now_s() + KNOWN_S
            self._known.move_to_end(key)
            while len(self._known) > MAX_KNOWN:
                self._known.popitem(last=False)
        return token if token is not None and token.opens_at(datetime.now(UTC)) else None


class Access:
    """Accepts requests with a valid token.

    Until the first token exists, it also accepts requests addressed to this host by name. A token
    in a request is always checked.
    """

    def __init__(self, app: ASGIApp, tokens: ApiTokens, options: ServerOptions) -> None:
        self.app = app
        self._options = options
        self._first = FirstToken(tokens)
        self._known = KnownTokens(tokens, opens=get_args(Opens))
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
            if fault := fault_of_local_request(headers.items(), client and client[0]):
                raise ProblemError(403, "forbidden", fault)
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
                f"This token may send {self._options.rate:g} requests per second.",
                {"Retry-After": str(wait_s)},
            )
        return Caller(token.app, token.users, token.token_id, token.app, token.opens)

    async def _needs_token(self) -> bool:
        if self._options.auth is not None or not self._options.is_local:
            return self._options.needs_tokens(some_exist=False)
        return self._options.needs_tokens(some_exist=await self._first.is_made())


class TokenBuckets:
    """Token buckets by key. Each fills at `rate` per second up to `burst`; rate 0 is no limit."""

    def __init__(
        self, rate: float, burst: int, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate = rate
        self._burst = burst
        self._now_s = now_s
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, key: str) -> int:
        """Take one; return 0, or the whole seconds until the next one if the bucket is empty."""
        if not self._rate:
            return 0
        now = self._now_s()
        level, then = self._buckets.get(key, (float(self._burst), now))
        level = min(float(self._burst), level + (now - then) * self._rate)
        if len(self._buckets) >= MAX_BUCKETS and key not in self._buckets:
            self._drop_full(now)
        self._buckets[key] = (level - 1 if level >= 1 else level), now
        return 0 if level >= 1 else math.ceil((1 - level) / self._rate)

    def _drop_full(self, now: float) -> None:
        """Drop the buckets that are full by now; a new bucket is full as well."""
        self._buckets = {
            key: (level, then)
            for key, (level, then) in self._buckets.items()
            if level + (now - then) * self._rate < self._burst
        }
