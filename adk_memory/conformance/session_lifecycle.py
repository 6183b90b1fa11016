"""Tests creating, getting, listing and deleting sessions."""

from __future__ import annotations

import asyncio
import time

import pytest
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.sessions.base_session_service import BaseSessionService

from adk_memory.conformance.samples import (
    NEIGHBOURS,
    ODD_IDS,
    WHO,
    event,
    in_another_loop,
    owner,
    reload,
)
from adk_memory.conformance.suite import ServiceTests, each, needs

OTHERS = {"user": {**WHO, "user_id": "bob"}, "app": {**WHO, "app_name": "other"}}


class Lifecycle(ServiceTests):
    """A session belongs to one app and one user, and disappears when it is deleted."""

    async def test_a_session_has_the_id_it_was_given(self, service: BaseSessionService) -> None:
        created = await service.create_session(session_id="s1", state={"a": 1}, **WHO)
        found = await reload(service, "s1")
        assert created.id == "s1" and (created.events, found.events) == ([], [])
        assert (found.id, found.app_name, found.user_id) == ("s1", *WHO.values())
        assert created.state == found.state == {"a": 1}

    async def test_a_new_session_was_updated_now(self, service: BaseSessionService) -> None:
        created = await service.create_session(session_id="s1", **WHO)
        assert abs(created.last_update_time - time.time()) < 60
        assert (await reload(service, "s1")).last_update_time == created.last_update_time

    @each("blank", {"none": None, "empty": "", "spaces": " \t"})
    async def test_a_session_without_an_id_gets_one_of_its_own(
        self, service: BaseSessionService, blank: str | None
    ) -> None:
        ids = [(await service.create_session(session_id=blank, **WHO)).id for _ in range(2)]
        assert ids[0] != ids[1] and all(id_.strip() for id_ in ids)
        assert (await reload(service, ids[0])).id == ids[0]

    async def test_an_id_with_spaces_around_it_is_found_again(
        self, service: BaseSessionService
    ) -> None:
        """The service may strip the spaces or keep them in the id."""
        created = await service.create_session(session_id=" s1 ", **WHO)
        await service.append_event(created, event("e1", "tea"))
        for session_id in (created.id, " s1 "):
            assert [e.id for e in (await reload(service, session_id)).events] == ["e1"]

    async def test_an_id_that_is_taken_is_refused(self, service: BaseSessionService) -> None:
        await service.create_session(session_id="s1", state={"a": 1, "user:b": 1}, **WHO)
        with pytest.raises(AlreadyExistsError):
            await service.create_session(session_id="s1", state={"a": 2, "user:b": 2}, **WHO)
        assert (await reload(service, "s1")).state == {"a": 1, "user:b": 1}

    async def test_of_many_who_create_one_session_at_once_one_wins(
        self, service: BaseSessionService
    ) -> None:
        made = await asyncio.gather(
            *(service.create_session(session_id="s1", **WHO) for _ in range(8)),
            return_exceptions=True,
        )
        assert sorted(type(one).__name__ for one in made) == ["AlreadyExistsError"] * 7 + [
            "Session"
        ]

    async def test_an_unknown_session_is_none(self, service: BaseSessionService) -> None:
        assert await service.get_session(session_id="s1", **WHO) is None
        await service.create_session(session_id="s1", **WHO)
        for who in ({**WHO, "user_id": "bob"}, {**WHO, "app_name": "other"}):
            assert await service.get_session(session_id="s1", **who) is None
        assert await service.get_session(session_id="s2", **WHO) is None

    @each("other", OTHERS)
    async def test_one_session_id_of_two_owners_is_two_sessions(
        self, service: BaseSessionService, other: dict[str, str]
    ) -> None:
        for who, text in ((WHO, "mine"), (other, "theirs")):
            made = await service.create_session(session_id="s1", state={"a": text}, **who)
            await service.append_event(made, event("e1", text))
        for who, text in ((WHO, "mine"), (other, "theirs")):
            found = await reload(service, "s1", **who)
            assert found.state == {"a": text}
            assert found.events[0].content == event("e1", text).content
        await service.delete_session(session_id="s1", **other)
        assert len((await reload(service, "s1")).events) == 1

    @each("odd", ODD_IDS)
    async def test_any_id_is_an_id(self, service: BaseSessionService, odd: str) -> None:
        who = owner(odd, odd)
        state = {"a": 1, "app:b": 2, "user:c": 3}
        created = await service.create_session(session_id=odd, state=state, **who)
        appended = event(odd, "tea", author=odd, invocation_id=odd)
        await service.append_event(created, appended)
        found = await reload(service, odd, **who)
        assert (found.id, found.events, found.state) == (odd, [appended], state)
        listed = await service.list_sessions(**who)
        assert [one.id for one in listed.sessions] == [odd]
        await service.delete_session(session_id=odd, **who)
        assert await service.get_session(session_id=odd, **who) is None

    @each("pair", NEIGHBOURS)
    async def test_ids_that_look_alike_are_kept_apart(
        self, service: BaseSessionService, pair: tuple[tuple[str, str], tuple[str, str]]
    ) -> None:
        mine, theirs = (owner(app, user) for app, user in pair)
        await service.create_session(session_id="s1", state={"user:a": 1}, **mine)
        assert await service.get_session(session_id="s1", **theirs) is None
        assert (await service.list_sessions(**theirs)).sessions == []
        await service.delete_session(session_id="s1", **theirs)
        assert (await service.create_session(session_id="s2", **theirs)).state == {}
        assert (await reload(service, "s1", **mine)).state == {"user:a": 1}

    async def test_a_list_has_the_oldest_update_first(self, service: BaseSessionService) -> None:
        made = [await service.create_session(session_id=n, **WHO) for n in ("b", "c", "a")]
        later = float(round(time.time()) + 60)
        for n, one in enumerate((made[1], made[0], made[2])):
            await service.append_event(one, event("e1", "tea", timestamp=later + n))
        listed = await service.list_sessions(**WHO)
        assert [one.id for one in listed.sessions] == ["c", "b", "a"]
        assert [one.last_update_time for one in listed.sessions] == [later, later + 1, later + 2]

    async def test_a_list_has_state_and_no_events(self, service: BaseSessionService) -> None:
        state = {"a": 1, "user:b": 2, "app:c": 3}
        created = await service.create_session(session_id="s1", state=state, **WHO)
        await service.append_event(created, event("e1", "tea"))
        [listed] = (await service.list_sessions(**WHO)).sessions
        assert (listed.events, listed.state) == ([], state)
        assert (listed.app_name, listed.user_id) == (WHO["app_name"], WHO["user_id"])

    async def test_a_list_is_of_one_user_or_of_all(self, service: BaseSessionService) -> None:
        for user in ("alice", "bob"):
            await service.create_session(
                app_name="app", user_id=user, session_id="s1", state={"user:name": user}
            )
        await service.create_session(app_name="other", user_id="alice", session_id="s9")
        listed = (await service.list_sessions(app_name="app")).sessions
        assert [(one.user_id, one.state) for one in listed] == [
            ("alice", {"user:name": "alice"}),
            ("bob", {"user:name": "bob"}),
        ]
        listed = (await service.list_sessions(app_name="app", user_id="bob")).sessions
        assert [one.user_id for one in listed] == ["bob"]
        assert (await service.list_sessions(app_name="app", user_id="carol")).sessions == []
        assert (await service.list_sessions(app_name="none")).sessions == []

    async def test_a_deleted_session_is_gone(self, service: BaseSessionService) -> None:
        created = await service.create_session(session_id="s1", state={"a": 1}, **WHO)
        await service.append_event(created, event("e1", "tea"))
        await service.create_session(session_id="s2", **WHO)
        await service.delete_session(session_id="s1", **WHO)
        assert await service.get_session(session_id="s1", **WHO) is None
        assert [one.id for one in (await service.list_sessions(**WHO)).sessions] == ["s2"]
        with pytest.raises(ValueError):
            await service.append_event(created, event("e2", "tea"))

    async def test_the_id_of_a_deleted_session_starts_anew(
        self, service: BaseSessionService
    ) -> None:
        created = await service.create_session(session_id="s1", state={"a": 1}, **WHO)
        await service.append_event(created, event("e1", "tea"))
        await service.delete_session(session_id="s1", **WHO)
        await service.create_session(session_id="s1", **WHO)
        found = await reload(service, "s1")
        assert (found.state, found.events) == ({}, [])

    async def test_a_deleted_session_leaves_the_state_of_app_and_user(
        self, service: BaseSessionService
    ) -> None:
        state = {"a": 1, "user:b": 2, "app:c": 3}
        await service.create_session(session_id="s1", state=state, **WHO)
        await service.delete_session(session_id="s1", **WHO)
        created = await service.create_session(session_id="s2", **WHO)
        assert created.state == {"user:b": 2, "app:c": 3}

    async def test_deleting_an_unknown_session_changes_nothing(
        self, service: BaseSessionService
    ) -> None:
        await service.delete_session(session_id="s1", **WHO)
        await service.create_session(session_id="s1", **WHO)
        for unknown in ("s2", "", "%"):
            await service.delete_session(session_id=unknown, **WHO)
        assert (await reload(service, "s1")).id == "s1"

    async def test_a_service_works_from_one_event_loop_after_another(
        self, service: BaseSessionService
    ) -> None:
        """`Runner.run()` starts a thread and a loop for every call."""
        await service.create_session(session_id="s1", **WHO)

        async def work() -> int:
            found = await reload(service, "s1")
            await service.append_event(found, event("", "tea"))
            return len((await reload(service, "s1")).events)

        assert [await in_another_loop(work) for _ in range(3)] == [1, 2, 3]
        assert await work() == 4

    async def test_what_is_not_supported_says_so(self, service: BaseSessionService) -> None:
        for _ in self.unsupported:
            with pytest.raises(NotImplementedError):
                await service.get_user_state(**WHO)

    @needs("get_user_state")
    async def test_a_user_without_state_has_none(self, service: BaseSessionService) -> None:
        assert await service.get_user_state(**WHO) == {}
        await service.create_session(session_id="s1", state={"a": 1, "app:b": 2}, **WHO)
        assert await service.get_user_state(**WHO) == {}
