"""Tests appending and reading events: none is lost, doubled, changed or reordered."""

from __future__ import annotations

import asyncio
import time

import pytest
from google.adk.errors import StaleSessionError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.sessions.session import Session

from adk_memory.conformance.event_shapes import SHAPES
from adk_memory.conformance.samples import WHO, event, reload
from adk_memory.conformance.suite import ServiceTests, each

PAST = 1_700_000_000.0


class Events(ServiceTests):
    """A session returns its events unchanged and in order, and refuses stale writers."""

    async def test_an_appended_event_is_returned_and_kept(
        self, service: BaseSessionService
    ) -> None:
        created = await service.create_session(session_id="s1", **WHO)
        appended = event("e1", "tea", timestamp=float(round(time.time()) + 5))
        assert await service.append_event(created, appended) == appended
        found = await reload(service, "s1")
        assert created.events == found.events == [appended]
        assert created.last_update_time == found.last_update_time == appended.timestamp

    async def test_a_partial_event_is_returned_and_not_kept(
        self, service: BaseSessionService
    ) -> None:
        created = await service.create_session(session_id="s1", **WHO)
        piece = event("e1", "te", partial=True, actions=EventActions(state_delta={"a": 1}))
        assert await service.append_event(created, piece) == piece
        found = await reload(service, "s1")
        assert (created.events, found.events, found.state) == ([], [], {})

    async def test_an_event_that_is_delivered_again_is_kept_once(
        self, service: BaseSessionService
    ) -> None:
        """A caller that lost the reply of a call must be able to repeat it."""
        created = await service.create_session(session_id="s1", **WHO)
        appended = event("e1", "tea")
        for _ in range(2):
            await service.append_event(created, appended)
        found = await reload(service, "s1")
        await service.append_event(found, appended.model_copy(deep=True))
        assert created.events == found.events == (await reload(service, "s1")).events == [appended]

    async def test_one_event_id_in_two_sessions_is_two_events(
        self, service: BaseSessionService
    ) -> None:
        for name in ("s1", "s2"):
            created = await service.create_session(session_id=name, **WHO)
            await service.append_event(created, event("e1", name))
        for name in ("s1", "s2"):
            assert _texts(await reload(service, name)) == [name]

    async def test_an_event_of_an_unknown_session_is_refused(
        self, service: BaseSessionService
    ) -> None:
        """SessionNotFoundError is a ValueError."""
        await service.create_session(session_id="s1", **WHO)
        unknown = Session(id="s2", last_update_time=time.time(), **WHO)
        with pytest.raises(ValueError):
            await service.append_event(unknown, event("e1", "tea"))
        assert await service.get_session(session_id="s2", **WHO) is None

    @each("shape", SHAPES)
    async def test_an_event_comes_back_as_it_was(
        self, service: BaseSessionService, shape: Event
    ) -> None:
        created = await service.create_session(session_id="s1", **WHO)
        before = shape.model_copy(deep=True)
        appended = await service.append_event(created, shape.model_copy(deep=True))
        [found] = (await reload(service, "s1")).events
        assert appended == before
        assert found == before

    async def test_an_event_that_changes_later_is_kept_as_it_was(
        self, service: BaseSessionService
    ) -> None:
        created = await service.create_session(session_id="s1", **WHO)
        appended = event("e1", "tea")
        await service.append_event(created, appended)
        appended.author = "changed"
        found = await reload(service, "s1")
        assert found.events[0].author == "user"
        found.events[0].author = "changed"
        found.events.clear()
        assert [e.author for e in (await reload(service, "s1")).events] == ["user"]

    @each("bad", {"NUL": "\x00", "surrogate": "\ud800"})
    async def test_a_character_no_database_takes_loses_no_event(
        self, service: BaseSessionService, bad: str
    ) -> None:
        created = await service.create_session(session_id="s1", **WHO)
        await service.append_event(created, event("e1", f"tea {bad} with milk"))
        await service.append_event(created, event("e2", "thanks"))
        first, second = _texts(await reload(service, "s1"))
        assert first.startswith("tea ") and first.endswith(" with milk")
        assert second == "thanks"

    async def test_events_of_one_moment_keep_their_order(self, service: BaseSessionService) -> None:
        created = await service.create_session(session_id="s1", **WHO)
        ids = [f"e{n}" for n in range(9, 0, -1)]
        for name in ids:
            await service.append_event(created, event(name, "tea", timestamp=PAST))
        assert _ids(await reload(service, "s1")) == _ids(created) == ids
        assert _ids(await reload(service, "s1", recent=3)) == ids[-3:]

    async def test_events_keep_their_order_when_a_clock_goes_back(
        self, service: BaseSessionService
    ) -> None:
        """An answer must follow its question, even if the clocks of two hosts differ."""
        created = await service.create_session(session_id="s1", **WHO)
        for name, moment in (("question", PAST + 10), ("answer", PAST + 5), ("thanks", PAST + 20)):
            await service.append_event(created, event(name, "tea", timestamp=moment))
        ids = ["question", "answer", "thanks"]
        assert _ids(await reload(service, "s1")) == _ids(created) == ids
        assert _ids(await reload(service, "s1", recent=2)) == ids[-2:]

    @each("case", {
        "none of them": (0, None, []),
        "one": (1, None, ["e5"]),
        "three": (3, None, ["e3", "e4", "e5"]),
        "more than there are": (99, None, ["e1", "e2", "e3", "e4", "e5"]),
        "from a moment on": (None, PAST + 3, ["e3", "e4", "e5"]),
        "from between two": (None, PAST + 2.5, ["e3", "e4", "e5"]),
        "from before all": (None, PAST, ["e1", "e2", "e3", "e4", "e5"]),
        "from zero": (None, 0.0, ["e1", "e2", "e3", "e4", "e5"]),
        "from after all": (None, PAST + 6, []),
        "few of many after": (2, PAST + 2, ["e4", "e5"]),
        "many of few after": (4, PAST + 4, ["e4", "e5"]),
        "none after": (0, PAST + 2, []),
    })  # fmt: skip
    async def test_a_session_is_read_in_part(
        self, service: BaseSessionService, case: tuple[int | None, float | None, list[str]]
    ) -> None:
        """The state is complete, however few events are loaded."""
        recent, after, expected = case
        created = await service.create_session(session_id="s1", **WHO)
        for n in range(1, 6):
            actions = EventActions(state_delta={f"k{n}": n})
            appended = event(f"e{n}", "tea", timestamp=PAST + n, actions=actions)
            await service.append_event(created, appended)
        found = await reload(service, "s1", recent=recent, after=after)
        assert _ids(found) == expected
        assert found.state == {f"k{n}": n for n in range(1, 6)}
        assert found.last_update_time == created.last_update_time

    async def test_a_session_that_was_read_in_part_goes_on(
        self, service: BaseSessionService
    ) -> None:
        created = await service.create_session(session_id="s1", **WHO)
        for name in ("e1", "e2"):
            await service.append_event(created, event(name, "tea"))
        for recent, name in ((0, "e3"), (1, "e4")):
            found = await reload(service, "s1", recent=recent)
            await service.append_event(found, event(name, "tea"))
        assert _ids(await reload(service, "s1")) == ["e1", "e2", "e3", "e4"]

    async def test_a_session_that_went_over_the_wire_goes_on(
        self, service: BaseSessionService
    ) -> None:
        created = await service.create_session(session_id="s1", **WHO)
        await service.append_event(created, event("e1", "tea"))
        sent = Session.model_validate_json(created.model_dump_json())
        await service.append_event(sent, event("e2", "tea"))
        assert _ids(await reload(service, "s1")) == ["e1", "e2"]

    @each("step", {"later": 1.0, "in the same moment": 0.0})
    async def test_who_writes_to_an_outdated_session_is_told(
        self, service: BaseSessionService, step: float
    ) -> None:
        created = await service.create_session(session_id="s1", **WHO)
        await service.append_event(created, event("e1", "tea", timestamp=PAST))
        one, two = await reload(service, "s1"), await reload(service, "s1")
        await service.append_event(one, event("e2", "tea", timestamp=PAST + step))
        late = EventActions(state_delta={"late": 1, "user:late": 1})
        with pytest.raises(StaleSessionError):
            await service.append_event(
                two, event("e3", "tea", timestamp=PAST + 2 * step, actions=late)
            )
        found = await reload(service, "s1")
        assert (_ids(found), found.state) == (["e1", "e2"], {})
        await service.append_event(found, event("e4", "tea"))
        assert _ids(await reload(service, "s1")) == ["e1", "e2", "e4"]

    async def test_what_is_appended_at_once_is_all_there_in_order(
        self, service: BaseSessionService
    ) -> None:
        """Tools that run in parallel append to one session object."""
        created = await service.create_session(session_id="s1", **WHO)
        events = [event(f"e{n}", "tea", actions=EventActions(state_delta={f"k{n}": n}))
                  for n in range(24)]  # fmt: skip
        await asyncio.gather(*(service.append_event(created, one) for one in events))
        found = await reload(service, "s1")
        assert _ids(found) == _ids(created) == [one.id for one in events]
        assert found.state == created.state == {f"k{n}": n for n in range(24)}
        await service.append_event(created, event("last", "tea"))


def _ids(session: Session) -> list[str]:
    return [event.id for event in session.events]


def _texts(session: Session) -> list[str]:
    contents = (event.content for event in session.events if event.content)
    return ["".join(part.text or "" for part in content.parts or []) for content in contents]
