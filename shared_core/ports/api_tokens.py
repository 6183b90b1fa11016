"""Bearer tokens of the HTTP and MCP servers, and their storage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol, TypeAlias

Opens: TypeAlias = Literal["memory", "metrics"]
"""What a token opens: the memory of its users, or the metrics of the server and nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiToken:
    """A stored bearer token, without its secret.

    users: the users of the application that it gives access to; None for all of them. label: a
    name chosen by its owner.
    """

    token_id: str
    app: str
    users: tuple[str, ...] | None
    label: str
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    opens: Opens = "memory"

    def opens_at(self, now: datetime) -> bool:
        """Return whether it is neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class TokenStorage(Protocol):
    """Tokens of all applications; token ids are unique across applications."""

    async def tokens(
        self, token_id: str | None = None, limit: int | None = None
    ) -> Sequence[tuple[ApiToken, bytes]]:
        """Return tokens, revoked and expired ones too, each with the SHA-256 of its secret.

        In no order. token_id: only this one. limit: maximum number.
        """
