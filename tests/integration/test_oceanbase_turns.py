"""Turns are remembered, read and logged on SeekDB as they are on PostgreSQL."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from both_engines import NOW, Both
from storage_calls import open_session, user_state

from shared_core import Conflict, Event, InvalidInput, Scope
from shared_core.core.domain import AsOf, MemoryId, ThreadId
from shared_core.core.namespaces import memories_namespace, scope_path
from shared_core.ports.events import EventRow, MemoryQuery
from shared_core.ports.items import VectorRows
from shared_core.ports.jobs import JobPriority, JobType, NewJob
from shared_core.ports.session_logs import NO_CHANGE, Seen, StateChange
from shared_core.storage.oceanbase.storage import OceanBaseStorage
from tests import forgetting_calls as calls

SCOPE = Scope("app", "ann")
THREAD = ThreadId("chat 聊天")
TENANT = scope_path(SCOPE)
HELD = {
    "threads": "thread_id state version last_seq last_memory_seq consolidated_seq unread_bytes"
    " created_at updated_at session_started_at session_updated_at last_event_id",
    "events": "thread_id seq event_id author role text metadata occurred_at recorded_at memory_seq"
    " importance expires_at payload",
    "tombstones": "thread_id event_id deleted_at",
    "memories": "memory_id namespace key kind text value term_count author role importance"
    " thread_id run_id occurred_at created_at updated_at expires_at ttl_s superseded_at",
    "memory_sources": "memory_id thread_id event_id basis",
    "memory_access": "memory_id access_count forget_at stage strength pinned_at",
    "consolidation_jobs": "job_id thread_id job_type status priority run_after created_at payload",
    "shared_state": "state updated_at",
}
MODEL = "m"


def memory_id(number: int) -> MemoryId:
    return MemoryId(UUID(int=number))


def turn(number: int, text: str, *, logged: bool = False, **given: Any) -> EventRow:
    event = Event(
        event_id=f"e{number}",
        author="ann",
        role="user",
        text=text,
        occurred_at=NOW + timedelta(seconds=number),
        **given,
    )
    return EventRow(
        event=event,
        memory_id=memory_id(number) if text else None,
        logged=logged,
        value={"metadata": {"emotion": {"arousal": 0.5}}, "Ω": [1.5, None]},
        terms=text.split(),
    )


def vectors_of(numbers: Sequence[int]) -> VectorRows:
    addresses = [(memories_namespace(SCOPE), str(memory_id(number))) for number in numbers]
    return VectorRows(
        model=MODEL,
        addresses=addresses,
        fields=["text"] * len(numbers),
        vectors=np.ones((len(numbers), 3), dtype=np.float32),
    )


def job(number: int, **given: Any) -> NewJob:
    return NewJob(
        job_id=UUID(int=number),
        job_type=JobType.FULL_CONSOLIDATION,
        run_after=NOW + timedelta(minutes=5),
        **given,
    )


async def append(
    both: Both, rows: Sequence[EventRow], vectors: VectorRows | None = None, **given: Any
) -> set[str]:
    return await both.same(lambda s: s.events.append_events(SCOPE, THREAD, rows, vectors, **given))


async def log(both: Both, number: int, text: str, version: int | None) -> None:
    said = turn(number, text).event
    done = await both.same(
        lambda s: s.session_logs.append_session_event(
            SCOPE, THREAD, said, f'{{"text":  "{text}"}}', NO_CHANGE, Seen(version=version)
        )
    )
    assert done.version is not None


async def test_turns_are_remembered_once(both: Both) -> None:
    first = [turn(1, "tea 茶 😀", metadata={"a": {"b": 1}}), turn(2, ""), turn(3, "  ")]
    assert await append(both, first, job=job(1, event_count=5)) == {"e1", "e2", "e3"}
    both.now += timedelta(minutes=1)
    again = [turn(3, "other"), turn(4, "coffee", importance=8.5), turn(5, "milk")]
    late = job(2, event_count=5, priority=JobPriority.SESSION_END)
    assert await append(both, again, job=late) == {"e4", "e5"}
    held = await both.left(TENANT, HELD)
    assert [row["seq"] for row in held["events"]] == [1, 2, 3, 4, 5]
    assert [row["memory_seq"] for row in held["events"]] == [1, 2, 3, 4, 5]
    assert held["memory_access"][0]["forget_at"] is not None
    both.now += timedelta(minutes=1)
    assert await append(both, again, job=job(3)) == set()
    assert await both.left(TENANT, HELD) == held


async def test_no_turn_takes_the_place_of_another(both: Both) -> None:
    await append(both, [turn(1, "tea"), turn(2, "coffee")])
    with both._admin() as admin:
        admin.execute("UPDATE threads SET last_seq = 1")
    await both.seekdb._database.write(lambda tx: tx.run("UPDATE threads SET last_seq = 1"))
    held = await both.left(TENANT, HELD)
    for storage in (both.postgres, both.seekdb):
        with pytest.raises(Conflict):
            await storage.events.append_events(SCOPE, THREAD, [turn(3, "milk")], None)
    assert await both.left(TENANT, HELD) == held


async def test_what_was_forgotten_does_not_come_back(both: Both) -> None:
    await append(both, [turn(1, "tea"), turn(2, "coffee")])
    assert (
        await both.same(
            lambda s: calls.forget_turns(s, SCOPE, THREAD, ["e1", "e9", "\x00"], both.now)
        )
        == 1
    )
    assert await append(both, [turn(1, "tea"), turn(9, "new"), turn(3, "milk")]) == {"e3"}
    known = await both.same(lambda s: s.events.known_turns(SCOPE, THREAD, ["e1", "e2", "e9", "e0"]))
    assert known == {"e1": None, "e2": None, "e9": None}
    await both.left(TENANT, HELD)


async def test_memory_takes_in_what_a_log_holds(both: Both) -> None:
    opened = await both.same(lambda s: open_session(s, SCOPE, THREAD, NO_CHANGE))
    assert opened is not None
    for number in range(1, 5):
        await log(both, number, f"said {number} 茶", opened.version + number - 1)
    await append(both, [turn(9, "not logged")])
    known = await both.same(lambda s: s.events.known_turns(SCOPE, THREAD, ["e1", "e9"]))
    assert known["e1"] == hashlib.sha256("said 1 茶".encode()).digest()
    rows = [turn(3, "", logged=True), turn(1, "redacted"), turn(7, "", logged=True)]
    rows[0] = EventRow(**{**_fields(rows[0]), "memory_id": memory_id(3)})
    both.now += timedelta(minutes=1)
    assert await append(both, rows) == {"e1", "e3"}
    held = await both.left(TENANT, HELD)
    assert [row["text"] for row in held["memories"]] == ["redacted", "said 3 茶", "not logged"]
    said = await both.same(lambda s: s.events.thread_events(SCOPE, THREAD, 2))
    assert [event.event_id for event in said] == ["e3", "e9"]
    assert await both.same(lambda s: calls.forget_turns(s, SCOPE, THREAD, ["e1"], both.now)) == 1
    await both.left(TENANT, HELD)
    history = await both.same(lambda s: s.events.thread_history(SCOPE, THREAD, 9))
    assert [event.event_id for event in history] == ["e2", "e3", "e4", "e9"]
    for forget in (False, True):
        await both.same(
            lambda s, f=forget: calls.close_session(s, SCOPE, THREAD, both.now, forget=f)
        )
        await both.left(TENANT, HELD)


def _fields(row: EventRow) -> dict[str, Any]:
    return {name: getattr(row, name) for name in EventRow.__slots__}


async def test_turns_are_read_as_of_a_moment(both: Both) -> None:
    rows = [turn(n, " " * (n == 2) or f"text {n}") for n in range(1, 5)]
    rows.append(turn(5, "gone", expires_at=NOW + timedelta(seconds=30)))
    await append(both, rows)
    both.now += timedelta(minutes=1)
    await append(both, [turn(6, "later")])
    for as_of in (
        None,
        AsOf(valid=NOW + timedelta(seconds=3)),
        AsOf(known=NOW),
        AsOf(valid=NOW + timedelta(seconds=3), known=NOW - timedelta(seconds=1)),
    ):
        for limit in (0, 2, 9):
            await both.same(
                lambda s, limit=limit, at=as_of: s.events.thread_history(SCOPE, THREAD, limit, at)
            )
        query = MemoryQuery(
            scope=SCOPE,
            namespace=memories_namespace(SCOPE),
            kinds=["episodic", "summary"],
            as_of=as_of,
        )
        await both.same(lambda s, query=query: s.events.list_memories(query, "newest", 3, 1))
    found = await both.same(lambda s: s.events.thread_events(SCOPE, THREAD, 3))
    assert [event.event_id for event in found] == ["e3", "e4", "e6"]


async def test_turns_get_their_vectors_later(both: Both) -> None:
    for storage in (both.postgres, both.seekdb):
        await storage.use_model(MODEL, 3)
    await append(both, [turn(1, "tea"), turn(2, ""), turn(3, "milk")], vectors_of([3]))
    await append(both, [turn(4, "rum")])

    def waiting(storage: Any) -> Any:
        return calls.without_vectors(storage, SCOPE, THREAD, MODEL, 9, both.now)

    found = await both.same(waiting)
    assert [text for _, text in found] == ["tea", "rum"]
    await both.same(lambda s: calls.add_vectors(s, SCOPE, vectors_of([1, 8])))
    assert [text for _, text in await both.same(waiting)] == ["rum"]
    other = await both.same(lambda s: calls.without_vectors(s, SCOPE, THREAD, "other", 2, both.now))
    assert [text for _, text in other] == ["tea", "milk"]


async def test_an_id_that_is_too_long_is_refused(both: Both) -> None:
    long = [turn(1, "tea"), turn(2, "x")]
    object.__setattr__(long[1].event, "event_id", secrets.token_hex(6000))
    for storage in (both.postgres, both.seekdb):
        with pytest.raises(InvalidInput):
            await storage.events.append_events(SCOPE, THREAD, long, None)
        with pytest.raises(InvalidInput):
            await calls.forget_turns(storage, SCOPE, THREAD, [secrets.token_hex(6000)], both.now)
    assert (await both.left(TENANT, HELD))["events"] == []


async def test_states_change_key_by_key(both: Both) -> None:
    change = StateChange(app={"a": 1, "b": {"c": 2}}, user={"u": None}, session={"s": "茶"})
    opened = await both.same(lambda s: open_session(s, SCOPE, THREAD, change))
    assert opened is not None and opened.user_state == {"u": None}
    assert await both.same(lambda s: open_session(s, SCOPE, THREAD, change)) is not None, (
        "sent again"
    )
    both.now += timedelta(minutes=1)
    assert await both.same(lambda s: open_session(s, SCOPE, THREAD, change)) is None
    seen = Seen(version=None, event_id=None, updated_at=NOW)
    more = StateChange(app={"b": 3}, user={"v": [1]}, session={"t": 1.5})
    said = turn(1, "tea").event
    for _ in range(2):
        await both.same(
            lambda s: s.session_logs.append_session_event(
                SCOPE, THREAD, said, '{"x": 1}', more, seen
            )
        )
    await both.same(
        lambda s: s.session_logs.append_session_event(SCOPE, THREAD, said, "{}", more, seen)
    )
    stale = Seen(version=None, event_id="e0", updated_at=NOW)
    after = turn(2, "milk").event
    done = await both.same(
        lambda s: s.session_logs.append_session_event(SCOPE, THREAD, after, "{}", more, stale)
    )
    assert done.version is None
    for user in ("ann", None):
        await both.same(lambda s, user=user: s.session_logs.list_sessions("app", user))
    for limit in (0, None):
        await both.same(
            lambda s, limit=limit: s.session_logs.load_session(
                SCOPE, THREAD, after=NOW, limit=limit
            )
        )
    assert await both.same(lambda s: user_state(s, SCOPE)) == {"u": None, "v": [1]}
    await both.left(TENANT, HELD)


async def test_of_many_who_saw_the_same_one_is_appended(both: Both) -> None:
    storage: OceanBaseStorage = both.seekdb
    opened = await open_session(storage, SCOPE, THREAD, NO_CHANGE)
    assert opened is not None
    done = await asyncio.gather(
        *(
            storage.session_logs.append_session_event(
                SCOPE, THREAD, turn(n, "x").event, "{}", NO_CHANGE, Seen(version=opened.version)
            )
            for n in range(12)
        )
    )
    assert sum(one.version is not None for one in done) == 1


async def test_what_many_say_at_once_is_numbered_without_gaps(both: Both) -> None:
    storage: OceanBaseStorage = both.seekdb
    rows = [[turn(n, f"text {n}"), turn(n // 2, "twice")] for n in range(20, 40)]
    done = await asyncio.gather(
        *(storage.events.append_events(SCOPE, THREAD, r, None) for r in rows)
    )
    assert sum(map(len, done)) == 30
    said = await storage._database.read(
        lambda tx: tx.rows("SELECT seq, memory_seq FROM events ORDER BY seq")
    )
    assert said == [(number, number) for number in range(1, 31)]


async def test_all_users_change_the_state_of_their_application_at_once(both: Both) -> None:
    storage: OceanBaseStorage = both.seekdb
    users = [Scope("app", f"user {n}") for n in range(12)]
    await asyncio.gather(
        *(
            open_session(storage, user, THREAD, StateChange(app={user.user: 1}, user={"x": 1}))
            for user in users
        )
    )
    record = await storage.session_logs.load_session(users[0], THREAD, after=None, limit=None)
    assert record is not None and record.app_state == {user.user: 1 for user in users}
