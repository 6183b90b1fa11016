"""Bearer tokens of the HTTP API on PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shared_core.core.namespaces import ROOT
from shared_core.policies.api_tokens import token_of
from shared_core.ports.api_tokens import ApiToken
from shared_core.storage.postgres.connection.database import PostgresDatabase


@dataclass
class PostgresTokens:
    """Tokens by id. A look-up binds the root: a token's application is known only afterwards."""

    _database: PostgresDatabase

    async def tokens(
        self, token_id: str | None = None, limit: int | None = None
    ) -> Sequence[tuple[ApiToken, bytes]]:
        name = "tokens" if token_id is None else "token"
        rows = await self._database.rows(ROOT, name, token_id=token_id, limit=limit)
        return [(token_of(row[0], row[2:]), bytes(row[1])) for row in rows]
