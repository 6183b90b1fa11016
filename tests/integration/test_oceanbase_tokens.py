"""Bearer tokens in the storage port, the same on both engines."""

from __future__ import annotations

from datetime import timedelta

from standing_clock import NOW

from shared_core.ports.api_tokens import ApiToken
from shared_core.ports.storage import Storage


async def test_tokens_are_kept_and_revoked_once(storage: Storage) -> None:
    assert not await storage.tokens.any_token()
    first = ApiToken(
        token_id="a1", app="app/ü", users=("ann", "火"), label="first", created_at=NOW,
        expires_at=NOW + timedelta(days=1),
    )  # fmt: skip
    later = NOW + timedelta(seconds=1)
    second = ApiToken(token_id="b2", app="other", users=None, label="", created_at=later)
    await storage.tokens.add_token(first, b"\x00" * 32)
    await storage.tokens.add_token(second, b"\xff" * 32)
    assert await storage.tokens.any_token()
    assert (first, b"\x00" * 32) == await storage.tokens.token("a1")
    assert (second, b"\xff" * 32) == await storage.tokens.token("b2")
    assert await storage.tokens.token("A1") is None
    assert [second, first] == list(await storage.tokens.tokens(None))
    assert [first] == list(await storage.tokens.tokens("app/ü"))
    assert [] == list(await storage.tokens.tokens("app"))
    assert not await storage.tokens.revoke_token("none")
    for _ in range(2):
        assert await storage.tokens.revoke_token("a1")
    found = await storage.tokens.token("a1")
    assert found and NOW == found[0].revoked_at
