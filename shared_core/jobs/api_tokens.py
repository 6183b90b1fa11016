"""engine.tokens: bearer tokens, shown once and stored as a hash."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import get_args

from shared_core.core.namespaces import check_label, to_path
from shared_core.core.timestamps import check_moment
from shared_core.core.validation import listed
from shared_core.errors import InvalidInput, NotFound
from shared_core.lifecycle import Handle
from shared_core.policies.api_tokens import (
    SELECT_TOKENS,
    add_token,
    newest_first,
    revoke_token,
    tokens_of,
)
from shared_core.ports.api_tokens import ApiToken, Opens

SECRET_BYTES = 32
"""No dictionary and no search finds 256 random bits, so a fast hash is enough."""
LOOK_AGAIN_S = 5.0
"""Seconds for which the answer "no token was ever created" is cached."""
MAX_LABEL = 200
MAX_USERS = 10_000
_FORM = re.compile(r"hippo_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")


@dataclass(frozen=True, slots=True)
class NewToken:
    """A new token with its text, which is never shown again."""

    token: ApiToken
    text: str


class ApiTokens:
    """The tokens of one memory, in the database, so that all processes on it share them."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._clock = handle.clock

    async def create(
        self,
        app: str,
        *,
        users: Sequence[str] | None = None,
        expires_at: datetime | None = None,
        label: str = "",
        opens: Opens = "memory",
    ) -> NewToken:
        """Create a token for an application, or for some of its users; return it with its text.

        Args:
            opens: "metrics" for a token that reads the metrics of the server and no memory.

        Raises:
            InvalidInput: for an empty list of users, for names that cannot be stored, for an
                expires_at that is naive or past, and for users of a token for metrics.
        """
        check_label(app, "app")
        if opens not in get_args(Opens):
            raise InvalidInput(f"opens must be 'memory' or 'metrics', got {opens!r}")
        if opens == "metrics" and users is not None:
            raise InvalidInput("a token for metrics opens no memory: leave users out")
        now = self._clock()
        if expires_at is not None:
            check_moment(expires_at, "expires_at")
            if expires_at <= now:
                raise InvalidInput(
                    f"expires_at must be in the future, got {expires_at.isoformat()}"
                )
        if label != "" and len(check_label(label, "label")) > MAX_LABEL:
            raise InvalidInput(f"label must have at most {MAX_LABEL} characters, got {len(label)}")
        token = ApiToken(
            token_id=secrets.token_hex(8),
            app=app,
            users=None if users is None else _checked(users),
            label=label,
            created_at=now,
            expires_at=expires_at,
            opens=opens,
        )
        secret = secrets.token_urlsafe(SECRET_BYTES)
        hashed, storage = _hashed(secret), await self._handle.storage()
        await storage.transact(to_path((app,)), lambda: add_token(token, hashed), lock="none")
        return NewToken(token, f"hippo_{token.token_id}_{secret}")

    async def verify(self, text: str, *, opens: Sequence[Opens] = ("memory",)) -> ApiToken | None:
        """Return the token with this secret, or None if it is unknown, revoked or expired.

        opens: what the token may open; None is also returned for any other token.
        """
        parts = _FORM.fullmatch(text) if isinstance(text, str) else None
        if parts is None:
            return None
        storage = await self._handle.storage()
        for token, secret_hash in await storage.tokens.tokens(parts[1]):
            is_it = hmac.compare_digest(_hashed(parts[2]), secret_hash)
            is_it = is_it and token.opens in opens and token.opens_at(self._clock())
            return token if is_it else None
        return None

    async def list(self, app: str | None = None) -> Sequence[ApiToken]:
        """Return the tokens of an application, or of all, newest first; revoked ones too."""
        if app is None:
            storage = await self._handle.storage()
            return newest_first(token for token, _ in await storage.tokens.tokens())
        check_label(app, "app")
        storage = await self._handle.storage()
        [rows] = await storage.read(to_path((app,)), [SELECT_TOKENS])
        return tokens_of(app, rows)

    async def revoke(self, token_id: str) -> None:
        """Revoke a token for good.

        Raises:
            NotFound: for an unknown id.
        """
        check_label(token_id, "token_id")
        storage = await self._handle.storage()
        found = await storage.tokens.tokens(token_id)
        if not found:
            raise NotFound(f"there is no token {token_id!r}: hippocampus token list shows them")
        now = self._clock()
        for token, _ in found:
            tenant = to_path((token.app,))
            await storage.transact(tenant, lambda: revoke_token(token_id, now), lock="none")

    async def any(self) -> bool:
        """Return whether a token was ever created, including revoked and expired ones."""
        storage = await self._handle.storage()
        return bool(await storage.tokens.tokens(limit=1))


class FirstToken:
    """Caches whether a token was ever created: "no" for LOOK_AGAIN_S seconds, "yes" for good.

    Servers check it with each request, because the first token may be created while they run.
    """

    def __init__(self, tokens: ApiTokens, now_s: Callable[[], float] = time.monotonic) -> None:
        self._tokens = tokens
        self._now_s = now_s
        self._is_made = False
        self._look_at = now_s()

    async def is_made(self) -> bool:
        """Return whether a token was ever created. Raises StorageUnavailable if that is unknown."""
        if not self._is_made and self._now_s() >= self._look_at:
            checked_at = self._now_s()
            self._is_made = await self._tokens.any()
            self._look_at = checked_at + LOOK_AGAIN_S
        return self._is_made


def _checked(users: Sequence[str]) -> tuple[str, ...]:
    given = listed(users, "users", '["ana"]')
    names = tuple(dict.fromkeys(check_label(user, "user") for user in given))
    if not 0 < len(names) <= MAX_USERS:
        raise InvalidInput(
            f"users must hold 1 to {MAX_USERS:,} users, or be None for all, got {len(names)}"
        )
    return names


def _hashed(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
