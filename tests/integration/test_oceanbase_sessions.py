"""Session logs on SeekDB are what they are on PostgreSQL: opened, written, read, closed, erased."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any
from uuid import UUID

import pytest
from both_engines import NOW, Both
from storage_calls import open_session, user_state

from shared_core import Event, Scope
from shared_core.core.domain import MemoryId, ThreadId
from shared_core.core.namespaces import scope_path, to_path
from shared_core.ports.events import EventRow
from shared_core.ports.session_logs import Seen, StateChange
from tests import forgetting_calls as calls

SCOPES = tuple(Scope("app", user) for user in ("ann", "Ann", "ann ", "安"))
THREADS = tuple(map(ThreadId, ("s", "S", "s ")))
KEYS = ("a", "A", "a ", "á", "\x00", "ｋ")
VALUES = (None, True, 1, 1.0, 1.5, 10**30, "", "é", "🍵", [1, {"b": None}], {"x": {"y": []}})
PAYLOADS = ('{"n":  1.0}', '{"n": 1}', '{"t": "\\u4e0a"}', '{"t": "上🍵"}', "[]", '"x"')
HELD = {
    "threads": "thread_id state version last_seq last_memory_seq unread_bytes created_at updated_at"
    " session_started_at session_updated_at last_event_id",
    "events": "thread_id seq event_id author role text occurred_at recorded_at memory_seq",
    "memories": "memory_id text",
    "tombstones": "thread_id event_id",
    "shared_state": "state updated_at",
}


class RandomLogs:
    """What is random comes from one seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.memories = 0

    def state(self) -> dict[str, Any]:
        chosen = self.random.sample(KEYS, self.random.randrange(3))
        return {key: self.random.choice(VALUES) for key in chosen}

    def change(self) -> StateChange:
        return StateChange(app=self.state(), user=self.state(), session=self.state())

    def event(self) -> Event:
        minutes = self.random.randrange(-2, 3)
        return Event(
            event_id=self.random.choice(("e1", "e2", "E1", "e1 ", "e3", "e4")),
            author=self.random.choice(("ann", "bot ")),
            role=self.random.choice(("user", "agent")),
            text=self.random.choice(("", " ", "tea", "茶 🍵")),
            occurred_at=NOW + timedelta(minutes=minutes, microseconds=minutes % 2),
        )

    def row(self) -> EventRow:
        self.memories += 1
        return EventRow(
            event=self.event(),
            memory_id=MemoryId(UUID(int=self.memories)),
            logged=self.random.random() < 0.5,
            value={},
            terms=["tea"],
        )

    def seen(self, version: int | None) -> Seen:
        if version is not None and self.random.random() < 0.7:
            return Seen(version=version)
        return Seen(
            version=None,
            event_id=self.random.choice((None, "e1", "E1", "e1 ", "e2")),
            updated_at=self.random.choice((None, NOW, NOW + timedelta(minutes=2))),
        )


async def reads(both: Both, world: RandomLogs) -> None:
    for scope in SCOPES:
        await both.same(lambda s, w=scope: user_state(s, w))
        for thread in THREADS:
            for after in (None, NOW):
                limit = world.random.choice((None, 0, 1, 3))
                await both.same(
                    lambda s, w=scope, t=thread, a=after, n=limit: s.session_logs.load_session(
                        w, t, after=a, limit=n
                    )
                )
    for user in (None, *(scope.user for scope in SCOPES), "nobody"):
        await both.same(lambda s, u=user: s.session_logs.list_sessions("app", u))
    for app in ("App", "app ", "ap"):
        await both.same(lambda s, a=app: s.session_logs.list_sessions(a, None))


async def step(both: Both, world: RandomLogs) -> None:
    scope, thread = world.random.choice(SCOPES[:3]), world.random.choice(THREADS)
    change, event = world.change(), world.event()
    held = await both.same(
        lambda s: s.session_logs.load_session(scope, thread, after=None, limit=None)
    )
    match world.random.choice("ooaaaaaaaamxy"):
        case "o":
            await both.same(lambda s: open_session(s, scope, thread, change))
        case "a":
            seen = world.seen(held.version if held else None)
            payload = world.random.choice(PAYLOADS)
            await both.same(
                lambda s: s.session_logs.append_session_event(
                    scope, thread, event, payload, change, seen
                )
            )
        case "m":
            rows = [*{row.event.event_id: row for row in (world.row(), world.row())}.values()]
            await both.same(lambda s: s.events.append_events(scope, thread, rows, None))
        case "x":
            forget = world.random.random() < 0.5
            await both.same(
                lambda s: calls.close_session(s, scope, thread, both.now, forget=forget)
            )
        case _:
            await both.same(lambda s: calls.forget_turns(s, scope, thread, ["e1", "e2"], both.now))


@pytest.mark.parametrize("seed", range(4))
async def test_any_course_is_the_same(both: Both, seed: int) -> None:
    world = RandomLogs(seed)
    for number in range(60):
        both.now = NOW + timedelta(seconds=number // 2)
        await step(both, world)
        if number % 10 == 9:
            await reads(both, world)
            for tenant in (*map(scope_path, SCOPES), to_path(("app",))):
                await both.left(tenant, HELD)


async def test_the_same_opening_may_be_sent_twice(both: Both) -> None:
    for _ in range(2):
        opened = await both.same(lambda s: open_session(s, SCOPES[0], THREADS[0], StateChange()))
        assert opened is not None
    both.now += timedelta(microseconds=1)
    assert None is await both.same(
        lambda s: open_session(s, SCOPES[0], THREADS[0], StateChange(user={"a": 1}))
    )
    await both.left(scope_path(SCOPES[0]), HELD)
