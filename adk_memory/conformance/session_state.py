"""Tests state: three stored scopes, one temporary scope, and unchanged values."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from google.adk.events.event_actions import EventActions
from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.sessions.session import Session
from google.genai import types
from pydantic_core import to_jsonable_python

from adk_memory.conformance.samples import WHO, event, reload
from adk_memory.conformance.suite import ServiceTests, each, needs

SCOPED = {"a": 1, "user:b": 2, "app:c": 3, "temp:d": 4}
KEPT = {"a": 1, "user:b": 2, "app:c": 3}

VALUES = {
    "null": None,
    "booleans": [True, False],
    "numbers": [0, -1, 1.5, 0.1 + 0.2, 1e-300, 2**53 + 1, 2**63, 10**30],
    "texts": ["", " ", "我喜欢绿茶", "🦜👍🏽", 'it\'s "quoted" \\ \u2028'],
    "nested": {"a": {"b": [{"c": None}, []], "": {}}, "user:x": "not a scope down here"},
    "long": "x" * 500_000,
}

RICH = {
    "datetime": datetime(2026, 3, 2, 8, 40, tzinfo=UTC),
    "set": {"tea"},
    "tuple": ("tea", 1),
    "bytes": b"tea",
    "uuid": UUID(int=7),
    "decimal": Decimal("1.50"),
    "model": types.Part(text="tea"),
    "nested model": {"parts": [types.Part(text="tea")]},
}


class States(ServiceTests):
    """Written state comes back unchanged, in its own scope only."""

    async def test_every_scope_that_lasts_survives_a_reload(
        self, service: BaseSessionService
    ) -> None:
        created = await service.create_session(session_id="s1", state=SCOPED, **WHO)
        assert {key: created.state[key] for key in KEPT} == KEPT
        assert (await reload(service, "s1")).state == KEPT

    async def test_a_delta_writes_every_scope_that_lasts(self, service: BaseSessionService) -> None:
        created = await service.create_session(session_id="s1", **WHO)
        await _write(service, created, SCOPED)
        assert (await reload(service, "s1")).state == KEPT

    async def test_temporary_state_lives_in_the_session_at_hand_alone(
        self, service: BaseSessionService
    ) -> None:
        """Later agents of the invocation read it; neither the state nor the event stores it."""
        created = await service.create_session(session_id="s1", **WHO)
        appended = await _write(service, created, SCOPED)
        assert created.state == SCOPED
        assert appended.actions.state_delta == KEPT
        found = await reload(service, "s1")
        assert found.state == KEPT
        assert found.events[0].actions.state_delta == KEPT

    async def test_a_delta_replaces_what_it_names_and_no_more(
        self, service: BaseSessionService
    ) -> None:
        state = {"a": {"x": 1}, "b": 1, "user:a": {"x": 1}, "user:b": 1, "app:a": {"x": 1}}
        created = await service.create_session(session_id="s1", state=state, **WHO)
        delta = {"a": {"y": 2}, "user:a": {"y": 2}, "app:a": None}
        await _write(service, created, delta)
        assert created.state == (await reload(service, "s1")).state == {**state, **delta}

    async def test_app_state_is_seen_by_all_users_of_the_app(
        self, service: BaseSessionService
    ) -> None:
        theirs = {**WHO, "user_id": "bob"}
        await service.create_session(session_id="s0", **theirs)
        created = await service.create_session(session_id="s1", state={"app:a": 1}, **WHO)
        await _write(service, created, {"app:b": 2})
        assert (await reload(service, "s0", **theirs)).state == {"app:a": 1, "app:b": 2}
        other = await service.create_session(session_id="s1", app_name="other", user_id="bob")
        assert other.state == {}

    async def test_user_state_is_seen_by_all_sessions_of_the_user(
        self, service: BaseSessionService
    ) -> None:
        await service.create_session(session_id="s0", **WHO)
        created = await service.create_session(
            session_id="s1", state={"user:a": 1, "own": 1}, **WHO
        )
        await _write(service, created, {"user:b": 2})
        assert (await reload(service, "s0")).state == {"user:a": 1, "user:b": 2}
        for who in ({**WHO, "user_id": "bob"}, {**WHO, "app_name": "other"}):
            assert (await service.create_session(session_id="s1", **who)).state == {}

    @needs("get_user_state")
    async def test_user_state_is_read_without_a_session(self, service: BaseSessionService) -> None:
        """The keys have no prefix."""
        created = await service.create_session(session_id="s1", state=SCOPED, **WHO)
        await _write(service, created, {"user:e": [5], "f": 6})
        assert await service.get_user_state(**WHO) == {"b": 2, "e": [5]}
        (await service.get_user_state(**WHO))["e"].append(6)
        await service.delete_session(session_id="s1", **WHO)
        assert await service.get_user_state(**WHO) == {"b": 2, "e": [5]}
        for who in ({**WHO, "user_id": "bob"}, {**WHO, "app_name": "other"}):
            assert await service.get_user_state(**who) == {}

    @each("value", VALUES)
    async def test_a_value_comes_back_as_it_was(
        self, service: BaseSessionService, value: object
    ) -> None:
        state = {"a": value, "user:a": value, "app:a": value}
        created = await service.create_session(session_id="s1", state=state, **WHO)
        assert (await reload(service, "s1")).state == state
        await _write(service, created, {"b": value, "user:b": value, "app:b": value})
        found = await reload(service, "s1")
        assert found.state == {**state, "b": value, "user:b": value, "app:b": value}
        assert found.events[0].actions.state_delta["b"] == value

    @each("value", RICH)
    async def test_a_value_json_cannot_hold_comes_back_as_itself_or_as_json(
        self, service: BaseSessionService, value: object
    ) -> None:
        state = {"a": value, "user:a": value, "app:a": value}
        created = await service.create_session(session_id="s1", state=state, **WHO)
        await _write(service, created, {"b": value, "user:b": value})
        found = (await reload(service, "s1")).state
        assert found.keys() == {"a", "b", "user:a", "user:b", "app:a"}
        assert all(kept in (value, to_jsonable_python(value)) for kept in found.values())

    async def test_a_value_nobody_can_keep_loses_no_other(
        self, service: BaseSessionService
    ) -> None:
        created = await service.create_session(session_id="s1", state={"f": print, "a": 1}, **WHO)
        await _write(service, created, {"g": print, "b": 2})
        found = (await reload(service, "s1")).state
        assert (found["a"], found["b"]) == (1, 2)

    @each("bad", {"NUL": "\x00", "surrogate": "\ud800"})
    async def test_a_character_no_database_takes_loses_no_state(
        self, service: BaseSessionService, bad: str
    ) -> None:
        state = {"a": f"x{bad}y", "b": 1, "user:a": f"x{bad}y"}
        created = await service.create_session(session_id="s1", state=state, **WHO)
        await _write(service, created, {"c": f"x{bad}y", "d": [f"{bad}y"], "e": 2})
        found = (await reload(service, "s1")).state
        assert (found["b"], found["e"]) == (1, 2)
        for text in (found["a"], found["c"], found["user:a"]):
            assert text.startswith("x") and text.endswith("y")

    async def test_the_state_of_the_caller_is_copied(self, service: BaseSessionService) -> None:
        state: dict[str, Any] = {"list": [1], "user:list": [1], "app:list": [1]}
        before = {key: list(value) for key, value in state.items()}
        created = await service.create_session(session_id="s1", state=state, **WHO)
        assert state == before
        for value in (*state.values(), *created.state.values()):
            value.append(2)
        assert (await reload(service, "s1")).state == before

    async def test_state_that_is_read_is_a_copy(self, service: BaseSessionService) -> None:
        state = {"list": [1], "user:list": [1], "app:list": [1]}
        await service.create_session(session_id="s1", state=state, **WHO)
        [listed] = (await service.list_sessions(**WHO)).sessions
        for found in (await reload(service, "s1"), listed):
            for value in found.state.values():
                value.append(2)
            found.state["more"] = 1
        assert (await reload(service, "s1")).state == {
            "list": [1],
            "user:list": [1],
            "app:list": [1],
        }

    async def test_what_many_sessions_write_at_once_is_all_there(
        self, service: BaseSessionService
    ) -> None:
        made = [await service.create_session(session_id=f"s{n}", **WHO) for n in range(8)]
        await asyncio.gather(
            *(_write(service, one, {f"app:{one.id}": 1, f"user:{one.id}": 1}) for one in made)
        )
        written = {f"{scope}:s{n}": 1 for scope in ("app", "user") for n in range(8)}
        assert (await reload(service, "s0")).state == written


async def _write(service: BaseSessionService, session: Session, delta: dict[str, Any]) -> Any:
    actions = EventActions(state_delta=dict(delta))
    return await service.append_event(session, event("", "noted", actions=actions))
