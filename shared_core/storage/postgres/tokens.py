"""The part of PostgresStorage that keeps bearer tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shared_core.core.namespaces import ROOT, from_path, to_path
from shared_core.ports.api_tokens import ApiToken
from shared_core.ports.storage import Clock
from shared_core.storage._rows import utc
from shared_core.storage.postgres.connection.database import PostgresDatabase
from shared_core.storage.postgres.connection.sql_files import statement


class PostgresTokens:
    """Tokens are looked up by their id before it is known which application they are for."""

    _database: PostgresDatabase
    _clock: Clock

    async def add_token(self, token: ApiToken, secret_hash: bytes) -> None:
        tenant = to_path((token.app,))
        values = {
            "tenant": tenant,
            "token_id": token.token_id,
            "secret_hash": secret_hash,
            "label": token.label,
            "users": None if token.users is None else list(token.users),
            "now": token.created_at,
            "expires_at": token.expires_at,
        }
        await self._database.run(tenant, (statement("add_token"), values))

    async def token(self, token_id: str) -> tuple[ApiToken, bytes] | None:
        [rows] = await self._database.run(ROOT, (statement("token"), {"token_id": token_id}))
        return (_token(rows[0]), bytes(rows[0][-1])) if rows else None

    async def tokens(self, app: str | None) -> Sequence[ApiToken]:
        tenant = None if app is None else to_path((app,))
        [rows] = await self._database.run(tenant or ROOT, (statement("tokens"), {"tenant": tenant}))
        return [_token(row) for row in rows]

    async def revoke_token(self, token_id: str) -> bool:
        values = {"token_id": token_id, "now": self._clock()}
        [rows] = await self._database.run(ROOT, (statement("revoke_token"), values))
        return bool(rows)

    async def any_token(self) -> bool:
        [rows] = await self._database.run(ROOT, (statement("any_token"), {}))
        return bool(rows[0][0])


def _token(row: Sequence[Any]) -> ApiToken:
    tenant, token_id, label, users, created_at, expires_at, revoked_at = row[:7]
    [app] = from_path(tenant)
    return ApiToken(
        token_id=token_id,
        app=app,
        users=None if users is None else tuple(users),
        label=label,
        created_at=utc(created_at),
        expires_at=utc(expires_at) if expires_at else None,
        revoked_at=utc(revoked_at) if revoked_at else None,
    )
