"""Bearer tokens of the HTTP API on PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shared_core.core.namespaces import ROOT, from_path, to_path
from shared_core.ports.api_tokens import ApiToken
from shared_core.ports.storage import Clock
from shared_core.storage._rows import record
from shared_core.storage.postgres.connection.database import PostgresDatabase
from shared_core.storage.postgres.connection.statements import step


@dataclass
class PostgresTokens:
    """Tokens by id. A look-up binds the root: a token's application is known only afterwards."""

    _database: PostgresDatabase
    _clock: Clock

    async def add_token(self, token: ApiToken, secret_hash: bytes) -> None:
        await self._database.rows(
            to_path((token.app,)),
            "add_token",
            token_id=token.token_id,
            secret_hash=secret_hash,
            label=token.label,
            users=None if token.users is None else list(token.users),
            now=token.created_at,
            expires_at=token.expires_at,
        )

    async def token(self, token_id: str) -> tuple[ApiToken, bytes] | None:
        rows = await self._database.rows(ROOT, "token", token_id=token_id)
        return (_token(rows[0]), bytes(rows[0][-1])) if rows else None

    async def tokens(self, app: str | None) -> Sequence[ApiToken]:
        tenant = None if app is None else to_path((app,))
        [rows] = await self._database.run(tenant or ROOT, step("tokens", {"tenant": tenant}))
        return [_token(row) for row in rows]

    async def revoke_token(self, token_id: str) -> bool:
        now = self._clock()
        return bool(await self._database.rows(ROOT, "revoke_token", token_id=token_id, now=now))

    async def any_token(self) -> bool:
        [(found,)] = await self._database.rows(ROOT, "any_token")
        return bool(found)


def _token(row: Sequence[Any]) -> ApiToken:
    tenant, users, *values = row[:7]
    [app] = from_path(tenant)
    return record(ApiToken, values, app=app, users=None if users is None else tuple(users))
