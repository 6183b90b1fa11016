"""The conversation layer and what must not be: bad inputs, ids and settings."""

from __future__ import annotations

from typing import Any

import pytest

from shared_core import CoreferenceResolver, InvalidInput, Scope, SessionManager, open_memory
from tests.integration.talking import ANN, SCOPE, Watch, opened, rows


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("", "must not be empty or blank"),
        (" \n\t　", "must not be empty or blank"),
        (None, "must be a text, got NoneType"),
        (b"tea", "must be a text, got bytes"),
        (["tea"], "must be a text, got list"),
        ("x" * 100_001, "at most 100,000 characters, got 100,001"),
    ],
)
async def test_an_input_that_is_none_is_refused(dsn: str, given: Any, reason: str) -> None:
    async with opened(dsn, Watch()) as memory:
        with pytest.raises(InvalidInput, match=reason):
            await memory.process_memory(given, ANN)
        assert [] == rows(dsn)


@pytest.mark.parametrize("user_id", ["", None, 7, "a\x00b", "\ud800", Scope("a", "b")])
async def test_a_user_id_that_is_none_is_refused(dsn: str, user_id: Any) -> None:
    async with opened(dsn, Watch()) as memory:
        for call in (
            memory.process_memory("I like tea", user_id),
            memory.end_session(user_id),
            memory.get_session_status(user_id),
        ):
            with pytest.raises(InvalidInput):
                await call


@pytest.mark.parametrize("text", ["a\x00b", "\ud800 tea", "🙂", "？", "x" * 100_000, "'; DROP --"])
async def test_whatever_is_said_is_taken_in(dsn: str, text: str) -> None:
    async with opened(dsn, Watch()) as memory:
        answer: Any = await memory.process_memory(text, ANN)
        assert "\x00" not in answer["resolved_query"]
        assert answer["resolved_query"].encode()
        assert [("active", 1)] == rows(dsn)


async def test_a_secret_is_masked_before_it_is_stored(dsn: str) -> None:
    async with opened(dsn, Watch()) as memory:
        await memory.process_memory("My password is: hunter2secret", ANN)
        [said] = await SessionManager(memory).get_session_events(ANN)
        assert "hunter2secret" not in said.text


@pytest.mark.parametrize(
    ("variable", "value", "setting", "expected"),
    [
        ("SESSION_TIMEOUT", "900", "timeout_s", 900),
        ("HIPPOCAMPUS_SESSION_TIMEOUT", "60", "timeout_s", 60),
        ("SESSION_MAX_DURATION", "7200", "max_duration_s", 7200),
        ("SESSION_MAX_EVENTS", "7", "max_events", 7),
        ("COREFERENCE_CONTEXT_SIZE", "3", "context_size", 3),
        ("HIPPOCAMPUS_APP", "brain", "app", "brain"),
        ("MEMORY_STRATEGIES", "privacy_filter", "strategies", ("privacy_filter",)),
    ],
)
async def test_the_environment_sets_the_rules(
    dsn: str,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    value: str,
    setting: str,
    expected: object,
) -> None:
    monkeypatch.setenv(variable, value)
    assert expected == getattr(open_memory(dsn).conversations.settings, setting)


@pytest.mark.parametrize("value", ["soon", "0", "-5", "1.5", "nan", "99999999999"])
async def test_a_variable_that_makes_no_sense_is_named_by_the_call_that_needs_it(
    dsn: str, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("SESSION_TIMEOUT", value)
    async with open_memory(dsn) as memory:
        await memory.remember(SCOPE, "tea")
        with pytest.raises(InvalidInput, match=f"SESSION_TIMEOUT='{value}' is not valid"):
            await memory.process_memory("I like tea", ANN)


async def test_the_size_of_the_context_bounds_what_pronouns_mean(dsn: str) -> None:
    async with opened(dsn, Watch(), context_size=1) as memory:
        await memory.process_memory("我女儿叫灿灿", ANN)
        await memory.process_memory("今天下雨", ANN)
        answer = await memory.process_memory("她今年几岁了？", ANN)
        assert answer["resolved_query"] == "她今年几岁了？"


async def test_end_session_of_a_thread_is_what_it_was(dsn: str) -> None:
    async with opened(dsn, Watch()) as memory:
        assert await memory.end_session(SCOPE, "monday") is False
        with pytest.raises(InvalidInput, match="takes a user id"):
            await memory.end_session(SCOPE)  # type: ignore[call-overload]
        with pytest.raises(InvalidInput, match="takes a user id"):
            await memory.end_session(ANN, "monday")  # type: ignore[call-overload]


async def test_the_resolver_takes_texts(dsn: str) -> None:
    resolver = CoreferenceResolver()
    assert "你喜欢吃桔子吗？" == resolver.resolve_query("你喜欢吃这个吗？", ["桔子熟了", "很甜"])
    events = ["我女儿叫灿灿", "她今年5岁", "她喜欢画画"]
    assert ["灿灿是我的女儿，今年5岁，喜欢画画"] == await resolver.resolve_events(events)
    assert [] == await resolver.resolve_events([])
