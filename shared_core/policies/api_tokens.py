"""Bearer tokens of one application: written once, listed, revoked for good."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from shared_core.core.namespaces import from_path, to_path
from shared_core.ports.api_tokens import ApiToken
from shared_core.ports.operations import Insert, Last, Policy, Row, Select, Update, equal, is_null

TOKEN_COLUMNS = ("token_id", "label", "users", "created_at", "expires_at", "revoked_at", "opens")
SELECT_TOKENS = Select("api_tokens", TOKEN_COLUMNS)
"""Reads the tokens of one application; tokens_of() takes its rows."""


def token_of(tenant: str, row: Row) -> ApiToken:
    """Return the token in TOKEN_COLUMNS of an application's path."""
    [app] = from_path(tenant)
    token_id, label, users, *rest = row[: len(TOKEN_COLUMNS)]
    created_at, expires_at, revoked_at, opens = rest
    return ApiToken(
        token_id=token_id,
        app=app,
        users=None if users is None else tuple(users),
        label=label,
        created_at=created_at,
        expires_at=expires_at,
        revoked_at=revoked_at,
        opens=opens,
    )


def tokens_of(app: str, rows: Iterable[Row]) -> list[ApiToken]:
    """Return the tokens of an application, newest first."""
    return newest_first(token_of(to_path((app,)), row) for row in rows)


def newest_first(tokens: Iterable[ApiToken]) -> list[ApiToken]:
    """Return tokens in the order in which they are listed."""
    in_order = sorted(tokens, key=lambda one: one.token_id)
    return sorted(in_order, key=lambda one: one.created_at, reverse=True)


def add_token(token: ApiToken, secret_hash: bytes) -> Policy[None]:
    """Store a new token. A second try finds the row that the first one wrote."""
    columns = ("token_id", "secret_hash", "label", "users", "created_at", "expires_at", "opens")
    users = None if token.users is None else list(token.users)
    row = (
        token.token_id, secret_hash, token.label, users, token.created_at, token.expires_at,
        token.opens,
    )  # fmt: skip
    yield Last([Insert("api_tokens", columns, [row], "keep")])


def revoke_token(token_id: str, now: datetime) -> Policy[None]:
    """Revoke a token. A token that is revoked already keeps its first moment."""
    where = (equal("token_id", token_id), is_null("revoked_at"))
    yield Last([Update("api_tokens", {"revoked_at": now}, where)])
