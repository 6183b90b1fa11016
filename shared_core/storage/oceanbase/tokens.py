"""OceanBaseStorage: bearer tokens, which are looked up before their owner is known."""

from __future__ import annotations

import json
from collections.abc import Sequence

from shared_core.policies.api_tokens import TOKEN_COLUMNS, token_of
from shared_core.ports.api_tokens import ApiToken
from shared_core.storage.oceanbase.base import OceanBasePart, reading
from shared_core.storage.oceanbase.connection.transactions import Transaction
from shared_core.storage.oceanbase.visibility import if_set


class OceanBaseTokens(OceanBasePart):
    """Bearer tokens of all applications."""

    @reading
    def tokens(
        self, tx: Transaction, token_id: str | None = None, limit: int | None = None
    ) -> Sequence[tuple[ApiToken, bytes]]:
        where = if_set("token_id = %s", token_id)
        most = "" if limit is None else f" LIMIT {limit:d}"
        rows = tx.rows(
            f"SELECT tenant_id, secret_hash, {', '.join(TOKEN_COLUMNS)} FROM api_tokens"
            f" WHERE {where.sql}{most}",
            where.values,
        )
        found = []
        for tenant, secret_hash, token, label, users, *moments in rows:
            row = (token, label, None if users is None else json.loads(users), *moments)
            found.append((token_of(tenant, row), bytes(secret_hash)))
        return found
