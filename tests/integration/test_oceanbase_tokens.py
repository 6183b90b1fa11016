"""Bearer tokens, the same on both engines."""

from __future__ import annotations

from datetime import timedelta

from standing_clock import NOW

from shared_core.core.namespaces import to_path
from shared_core.policies.api_tokens import (
    SELECT_TOKENS,
    add_token,
    newest_first,
    revoke_token,
    tokens_of,
)
from shared_core.ports.api_tokens import ApiToken
from shared_core.ports.storage import Storage


async def add(storage: Storage, token: ApiToken, secret_hash: bytes) -> None:
    tenant = to_path((token.app,))
    await storage.transact(tenant, lambda: add_token(token, secret_hash), lock="none")


async def listed(storage: Storage, app: str) -> list[ApiToken]:
    [rows] = await storage.read(to_path((app,)), [SELECT_TOKENS])
    return tokens_of(app, rows)


async def test_tokens_are_kept_and_revoked_once(storage: Storage) -> None:
    assert not await storage.tokens.tokens(limit=1)
    first = ApiToken(
        token_id="a1", app="app/ü", users=("ann", "火"), label="first", created_at=NOW,
        expires_at=NOW + timedelta(days=1),
    )  # fmt: skip
    later = NOW + timedelta(seconds=1)
    second = ApiToken(token_id="b2", app="other", users=None, label="", created_at=later)
    await add(storage, first, b"\x00" * 32)
    await add(storage, second, b"\xff" * 32)
    assert 1 == len(await storage.tokens.tokens(limit=1))
    assert [(first, b"\x00" * 32)] == list(await storage.tokens.tokens("a1"))
    assert [(second, b"\xff" * 32)] == list(await storage.tokens.tokens("b2"))
    assert [] == list(await storage.tokens.tokens("A1"))
    assert [second, first] == newest_first(one for one, _ in await storage.tokens.tokens())
    assert [first] == await listed(storage, "app/ü")
    assert [] == await listed(storage, "app")
    for moment in (NOW, later):
        await storage.transact(
            to_path(("app/ü",)), lambda at=moment: revoke_token("a1", at), lock="none"
        )
    [(found, _)] = await storage.tokens.tokens("a1")
    assert NOW == found.revoked_at


async def test_a_second_try_finds_the_token_of_the_first(storage: Storage) -> None:
    token = ApiToken(token_id="a1", app="app", users=None, label="", created_at=NOW)
    for _ in range(2):
        await add(storage, token, b"\x00" * 32)
    assert [(token, b"\x00" * 32)] == list(await storage.tokens.tokens())
