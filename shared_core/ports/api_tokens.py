"""What the core asks of a storage for bearer tokens; ports.Storage joins it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiToken:
    """A bearer token as it is stored: whose memories it opens, and until when. Without its secret.

    users: those users of the application; None for all of them. label: what its owner calls it.
    """

    token_id: str
    app: str
    users: tuple[str, ...] | None
    label: str
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None

    def opens_at(self, now: datetime) -> bool:
        """Return whether it is neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class TokenStorage(Protocol):
    """Tokens of all applications; an id is unique among them."""

    async def add_token(self, token: ApiToken, secret_hash: bytes) -> None: ...

    async def token(self, token_id: str) -> tuple[ApiToken, bytes] | None:
        """Return a token and the SHA-256 of its secret, whatever its state; None for none."""

    async def tokens(self, app: str | None) -> Sequence[ApiToken]:
        """Return the tokens of an application, or of all, newest first."""

    async def revoke_token(self, token_id: str) -> bool:
        """Revoke a token; return whether it is there. A revoked one keeps its moment."""

    async def any_token(self) -> bool:
        """Return whether one was ever made."""
