"""OceanBaseStorage: bearer tokens, which are looked up before their owner is known."""

from __future__ import annotations

import json
from collections.abc import Sequence

from shared_core.core.json_text import to_json
from shared_core.core.namespaces import from_path, to_path
from shared_core.ports.api_tokens import ApiToken
from shared_core.storage.oceanbase.base import OceanBasePart, reading
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction
from shared_core.storage.oceanbase.visibility import if_set

_COLUMNS = "tenant_id, token_id, label, users, created_at, expires_at, revoked_at"


class OceanBaseTokens(OceanBasePart):
    """Bearer tokens of all applications."""

    async def add_token(self, token: ApiToken, secret_hash: bytes) -> None:
        row = (
            to_path((token.app,)), token.token_id, secret_hash, token.label,
            None if token.users is None else to_json(list(token.users)), token.created_at,
            token.expires_at,
        )  # fmt: skip
        columns = (
            "tenant_id", "token_id", "secret_hash", "label", "users", "created_at", "expires_at",
        )  # fmt: skip
        await self._database.write(lambda tx: tx.insert("api_tokens", columns, [row]))

    @reading
    def token(self, tx: Transaction, token_id: str) -> tuple[ApiToken, bytes] | None:
        row = tx.one(
            f"SELECT {_COLUMNS}, secret_hash FROM api_tokens WHERE token_id = %s", [token_id]
        )
        return (_token(row), bytes(row[-1])) if row else None

    @reading
    def tokens(self, tx: Transaction, app: str | None) -> Sequence[ApiToken]:
        where = if_set("tenant_id = %s", None if app is None else to_path((app,)))
        rows = tx.rows(
            f"SELECT {_COLUMNS} FROM api_tokens WHERE {where.sql}"
            " ORDER BY created_at DESC, token_id",
            where.values,
        )
        return [_token(row) for row in rows]

    async def revoke_token(self, token_id: str) -> bool:
        now = self._clock()
        sql = "UPDATE api_tokens SET revoked_at = coalesce(revoked_at, %s) WHERE token_id = %s"
        return await self._database.write(lambda tx: bool(tx.run(sql, [now, token_id])))

    async def any_token(self) -> bool:
        return await self._database.read(lambda tx: tx.has("SELECT 1 FROM api_tokens LIMIT 1"))


def _token(row: Row) -> ApiToken:
    tenant, token_id, label, users, created_at, expires_at, revoked_at = row[:7]
    [app] = from_path(tenant)
    return ApiToken(
        token_id=token_id,
        app=app,
        users=None if users is None else tuple(json.loads(users)),
        label=label,
        created_at=created_at,
        expires_at=expires_at,
        revoked_at=revoked_at,
    )
