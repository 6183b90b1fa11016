"""Bearer tokens: what they open, when they end, and that nobody can read one back."""

from datetime import UTC, datetime, timedelta

import pytest
from every_case import every_case
from postgres_admin import column

from shared_core import InvalidInput, NotFound, open_memory, run_sync


@pytest.fixture(scope="module")
def tokens(postgres):
    """The tokens of a database of this module, for tests that count none."""
    for dsn in postgres.lend():
        memory = open_memory(dsn, worker=False)
        yield memory.tokens
        run_sync(memory.close())


async def test_a_token_opens_what_it_was_made_for(tokens):
    new = await tokens.create("app", users=["ana", "bob", "ana"], label="phone")
    found = await tokens.verify(new.text)
    assert found == new.token
    assert ("app", ("ana", "bob"), "phone") == (found.app, found.users, found.label)
    everybody = await tokens.create("a/b%.c")
    again = await tokens.verify(everybody.text)
    assert ("a/b%.c", None) == (again.app, again.users)


async def test_its_text_is_nowhere_in_the_database(memory, dsn):
    new = await memory.tokens.create("app")
    secret = new.text.rsplit("_", 1)[1] if new.text.count("_") == 2 else new.text[23:]
    [row] = column(dsn, "SELECT t::text FROM hippocampus.api_tokens t")
    assert secret not in row and new.token.token_id in row
    assert secret not in repr(await memory.tokens.list())


@every_case(
    lambda text: text[:-2] + ("BB" if text.endswith("AA") else "AA"),
    lambda text: text + "A", lambda text: text[:-1],
    lambda text: "hippo_" + "0" * 16 + text[22:], lambda text: text.upper(),
    lambda text: f"{text}\n", lambda text: "", lambda text: "\x00" * 500,
)  # fmt: skip
async def test_what_is_not_the_token_opens_nothing(spoil, tokens):
    new = await tokens.create("app")
    assert await tokens.verify(spoil(new.text)) is None
    assert await tokens.verify(new.text) is not None


async def test_an_expired_and_a_revoked_token_open_nothing(clocked, clock):
    tokens = clocked.tokens
    brief = await tokens.create("app", expires_at=clock.now + timedelta(hours=1))
    lasting = await tokens.create("app")
    before_its_end = clock.forward(minutes=59)
    assert await tokens.verify(brief.text) == brief.token
    await tokens.revoke(lasting.token.token_id)
    assert await tokens.verify(lasting.text) is None
    clock.forward(minutes=1)
    assert await tokens.verify(brief.text) is None
    await tokens.revoke(lasting.token.token_id)
    revoked = {one.token_id: one.revoked_at for one in await tokens.list("app")}
    assert {brief.token.token_id: None, lasting.token.token_id: before_its_end} == revoked


async def test_lists_keep_applications_apart(memory):
    assert not await memory.tokens.any()
    one = await memory.tokens.create("app")
    other = await memory.tokens.create("app2")
    assert [one.token] == list(await memory.tokens.list("app"))
    assert [other.token, one.token] == list(await memory.tokens.list())
    assert await memory.tokens.any()


@every_case(
    ({"app": ""}, "app must not be empty"),
    ({"app": "a\x00"}, "NUL"),
    ({"app": "a", "users": []}, "1 to 10,000 users"),
    ({"app": "a", "users": [""]}, "user must not be empty"),
    ({"app": "a", "expires_at": datetime(2999, 1, 1)}, "time zone"),  # noqa: DTZ001
    ({"app": "a", "expires_at": datetime(2020, 1, 1, tzinfo=UTC)}, "must be in the future"),
    ({"app": "a", "label": "x" * 201}, "at most 200"),
)  # fmt: skip
async def test_a_token_for_nothing_is_refused(given, expected, tokens):
    before = list(await tokens.list())
    with pytest.raises(InvalidInput, match=expected):
        await tokens.create(**given)
    assert before == list(await tokens.list())


async def test_revoking_what_is_none_is_told(tokens):
    with pytest.raises(NotFound, match="token list"):
        await tokens.revoke("0" * 16)
