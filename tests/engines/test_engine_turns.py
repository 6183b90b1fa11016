"""Turns, session logs and conversations are written and read on SeekDB as on PostgreSQL."""

import asyncio
import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID, uuid4

import pytest
import storage_calls as stored
from both_engines import NOW, Both
from long_forms import LONG
from turns import said

from shared_core import Conflict, Event, InvalidInput, Scope
from shared_core.core.domain import USER, AsOf, MemoryId, ThreadId
from shared_core.core.namespaces import memories_namespace, scope_path, to_path
from shared_core.ports.conversations import SessionRules, SessionStatus
from shared_core.ports.events import EventRow, KnownTurn, MemoryQuery
from shared_core.ports.jobs import Job, JobPriority, JobType, NewJob
from shared_core.ports.session_logs import NO_CHANGE, Seen, StateChange
from tests import forgetting_calls as calls

THREAD = ThreadId("chat 聊天")
THREADS = tuple(map(ThreadId, ("s", "S", "s ")))
KEYS = ("a", "A", "a ", "á", "\x00", "ｋ")
VALUES = (None, True, 1, 1.0, 1.5, 10**30, "", "é", "🍵", [1, {"b": None}], {"x": {"y": []}})
PAYLOADS = ('{"n":  1.0}', '{"n": 1}', '{"t": "\\u4e0a"}', '{"t": "上🍵"}', "[]", '"x"')
RULES = SessionRules(
    timeout=timedelta(minutes=10), max_duration=timedelta(minutes=30), max_events=5
)
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
    "conversations": "thread_id status event_count created_at last_active_at ends_at ended_at",
}

LOGGED = {**HELD, "events": HELD["events"].removesuffix(" payload")}
"""The payloads of some logs are texts, which no engine tells from JSON here."""


def memory_id(number: int) -> MemoryId:
    return MemoryId(UUID(int=number))


def turn(number: int, text: str, *, logged: bool = False, **given: Any) -> EventRow:
    event = said(number, text, NOW + timedelta(seconds=number), author="ann", **given)
    return EventRow(
        event=event, memory_id=memory_id(number) if text else None, logged=logged,
        value={"metadata": {"emotion": {"arousal": 0.5}}, "Ω": [1.5, None]}, terms=text.split(),
    )  # fmt: skip


def job(number: int, after: timedelta = timedelta(0), **given: Any) -> NewJob:
    kind = JobType.FULL_CONSOLIDATION
    return NewJob(job_id=UUID(int=number), job_type=kind, run_after=NOW + after, **given)


async def append(both: Both, rows: Sequence[EventRow], **given: Any) -> set[str]:
    return await both.same(
        lambda s: s.events.append_events(both.scope, THREAD, rows, None, **given)
    )


async def forgotten(both: Both, *event_ids: str, thread: ThreadId = THREAD) -> int:
    return await both.same(lambda s: calls.forget_turns(s, both.scope, thread, event_ids, both.now))


async def test_turns_are_remembered_once(both):
    soon = timedelta(minutes=5)
    first = [turn(1, "tea 茶 😀", metadata={"a": {"b": 1}}), turn(2, ""), turn(3, "  ")]
    assert await append(both, first, job=job(1, soon, event_count=5)) == {"e1", "e2", "e3"}
    both.now += timedelta(minutes=1)
    again = [turn(3, "other"), turn(4, "coffee", importance=8.5), turn(5, "milk")]
    late = job(2, soon, event_count=5, priority=JobPriority.SESSION_END)
    assert await append(both, again, job=late) == {"e4", "e5"}
    held = await both.left(HELD)
    assert [row["seq"] for row in held["events"]] == [1, 2, 3, 4, 5]
    assert [row["memory_seq"] for row in held["events"]] == [1, 2, 3, 4, 5]
    assert held["memory_access"][0]["forget_at"] is not None
    both.now += timedelta(minutes=1)
    assert await append(both, again, job=job(3, soon)) == set()
    assert await both.left(HELD) == held


async def test_no_turn_takes_the_place_of_another(both):
    await append(both, [turn(1, "tea"), turn(2, "coffee")])
    await both.change("UPDATE threads SET last_seq = 1 WHERE tenant_id = %s")
    held = await both.left(HELD)
    for storage in both.storages:
        with pytest.raises(Conflict):
            await storage.events.append_events(both.scope, THREAD, [turn(3, "milk")], None)
    assert await both.left(HELD) == held


async def test_what_was_forgotten_does_not_come_back(both):
    await append(both, [turn(1, "tea"), turn(2, "coffee")])
    assert await forgotten(both, "e1", "e9", "\x00") == 1
    assert await append(both, [turn(1, "tea"), turn(9, "new"), turn(3, "milk")]) == {"e3"}
    asked = ["e1", "e2", "e9", "e0"]
    known = await both.same(lambda s: s.events.known_turns(both.scope, THREAD, asked))
    coffee = KnownTurn(hashlib.sha256(b"coffee").digest(), is_remembered=True)
    assert known == {"e1": KnownTurn(None, False), "e2": coffee, "e9": KnownTurn(None, False)}
    await both.left(HELD)


async def test_memory_takes_in_what_a_log_holds(both):
    scope = both.scope
    opened = await both.same(lambda s: stored.open_session(s, scope, THREAD, NO_CHANGE))
    assert opened is not None
    for number in range(1, 5):
        one = turn(number, f"said {number} 茶").event
        seen = Seen(version=opened.version + number - 1)
        given = (scope, THREAD, one, f'{{"text":  "{one.text}"}}', NO_CHANGE, seen)
        done = await both.same(lambda s, g=given: s.session_logs.append_session_event(*g))
        assert done.version is not None
    await append(both, [turn(9, "not logged")])
    known = await both.same(lambda s: s.events.known_turns(scope, THREAD, ["e1", "e9"]))
    assert known["e1"] == KnownTurn(hashlib.sha256("said 1 茶".encode()).digest(), False)
    third = replace(turn(3, "", logged=True), memory_id=memory_id(3))
    both.now += timedelta(minutes=1)
    rows = [third, turn(1, "redacted"), turn(7, "", logged=True)]
    assert await append(both, rows) == {"e1", "e3"}
    held = await both.left(HELD)
    assert [row["text"] for row in held["memories"]] == ["redacted", "said 3 茶", "not logged"]
    last = await both.same(lambda s: s.events.thread_events(scope, THREAD, 2))
    assert [event.event_id for event in last] == ["e3", "e9"]
    assert await forgotten(both, "e1") == 1
    history = await both.same(lambda s: s.events.thread_history(scope, THREAD, 9))
    assert [event.event_id for event in history] == ["e2", "e3", "e4", "e9"]
    for forget in (False, True):
        await both.same(
            lambda s, f=forget: calls.close_session(s, scope, THREAD, both.now, forget=f)
        )
        await both.left(HELD)


async def test_turns_are_read_as_of_a_moment(both):
    rows = [turn(n, " " * (n == 2) or f"text {n}") for n in range(1, 5)]
    rows.append(turn(5, "gone", expires_at=NOW + timedelta(seconds=30)))
    await append(both, rows)
    both.now += timedelta(minutes=1)
    await append(both, [turn(6, "later")])
    namespace = memories_namespace(both.scope)
    valid, known = NOW + timedelta(seconds=3), NOW - timedelta(seconds=1)
    moments = (AsOf(valid=valid), AsOf(known=NOW), AsOf(valid=valid, known=known))
    for as_of in (None, *moments):
        for limit in (0, 2, 9):
            asked = (both.scope, THREAD, limit, as_of)
            await both.same(lambda s, a=asked: s.events.thread_history(*a))
        for given in ({"kinds": ["episodic", "summary"]}, {"thread_id": THREAD, "contains": "T 4"}):
            query = MemoryQuery(scope=both.scope, namespace=namespace, as_of=as_of, **given)
            await both.same(lambda s, q=query: s.events.list_memories(q, "newest", 3, 1))
            await both.same(lambda s, q=query: s.events.count_memories(q, [NOW - timedelta(1)]))
    found = await both.same(lambda s: s.events.thread_events(both.scope, THREAD, 3))
    assert [event.event_id for event in found] == ["e3", "e4", "e6"]


async def test_the_users_of_an_application_are_listed_with_what_they_hold(both):
    scopes = [both.scope, *(Scope(both.scope.app, user) for user in ("Ann", "bob", "a%"))]
    for number, scope in enumerate(scopes):
        rows = [turn(n, f"text {n}") for n in range(number + 1)]
        await both.same(lambda s, w=scope, r=rows: s.events.append_events(w, THREAD, r, None))
    path, after = to_path((both.scope.app,)), ""
    found: list[str] = []
    while some := await both.same(lambda s, a=after: s.events.tenants(path, a, 3)):
        assert len(some) <= 3
        found += [one for one in some if one != path]
        after = some[-1]
    assert found == sorted(map(scope_path, scopes))
    queries = [MemoryQuery(scope=one, namespace=memories_namespace(one)) for one in scopes]
    held = await both.same(lambda s: s.events.holdings(path, queries))
    expected = [(n + 1, NOW + timedelta(seconds=n)) for n in range(4)]
    assert [(one.memories, one.newest_at) for one in held] == expected


async def test_an_id_that_is_too_long_is_refused(both):
    long = [turn(1, "tea"), turn(2, "x")]
    object.__setattr__(long[1].event, "event_id", secrets.token_hex(6000))
    for storage in both.storages:
        with pytest.raises(InvalidInput):
            await storage.events.append_events(both.scope, THREAD, long, None)
        with pytest.raises(InvalidInput):
            name = secrets.token_hex(6000)
            await calls.forget_turns(storage, both.scope, THREAD, [name], both.now)
    assert (await both.left(HELD))["events"] == []


async def test_what_many_do_at_once_is_done_one_after_the_other(both):
    """On SeekDB: turns are numbered without gaps, and of those who saw the same one goes on."""
    storage, scope = both.seekdb, both.scope
    rows = [[turn(n, f"text {n}"), turn(n // 2, "twice")] for n in range(20, 40)]
    done = await asyncio.gather(*(storage.events.append_events(scope, THREAD, r, None)
                                  for r in rows))  # fmt: skip
    assert sum(map(len, done)) == 30
    numbers = "SELECT seq, memory_seq FROM events WHERE tenant_id = %s ORDER BY seq"
    numbered = await storage._database.read(lambda tx: tx.rows(numbers, [both.tenant]))
    assert numbered == [(number, number) for number in range(1, 31)]
    log = ThreadId("log")
    opened = await stored.open_session(storage, scope, log, NO_CHANGE)
    assert opened is not None
    seen = Seen(version=opened.version)
    logged = await asyncio.gather(
        *(storage.session_logs.append_session_event(scope, log, turn(n, "x").event, "{}", NO_CHANGE,
                                                    seen) for n in range(12))
    )  # fmt: skip
    assert sum(one.version is not None for one in logged) == 1
    users = [Scope(scope.app, f"user {n}") for n in range(12)]
    states = [StateChange(app={user.user: 1}, user={"x": 1}) for user in users]
    await asyncio.gather(
        *(stored.open_session(storage, one, THREAD, state)
          for one, state in zip(users, states, strict=True))
    )  # fmt: skip
    record = await storage.session_logs.load_session(users[0], THREAD, after=None, limit=None)
    assert record is not None and record.app_state == {user.user: 1 for user in users}
    rules = replace(RULES, max_events=99)
    heard = await asyncio.gather(
        *(storage.conversations.hear_turn(scope, ThreadId(f"c{n}"), turn(n // 2, "hi").event, rules,
                                          3, [], once=False) for n in range(24))
    )  # fmt: skip
    assert all(one.stored for one in heard)
    assert len({one.session.session_id for one in heard}) == 1
    assert max(one.session.event_count for one in heard) == 12


# Session logs


class RandomLogs:
    """What is random comes from one seed."""

    def __init__(self, seed: int, app: str) -> None:
        self.random = Random(seed)
        self.scopes = [Scope(app, user) for user in ("ann", "Ann", "ann ", "安")]
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
        row, event = turn(self.memories, "tea"), self.event()
        return replace(row, event=event, logged=self.random.random() < 0.5)

    def seen(self, version: int | None) -> Seen:
        if version is not None and self.random.random() < 0.7:
            return Seen(version=version)
        return Seen(
            version=None,
            event_id=self.random.choice((None, "e1", "E1", "e1 ", "e2")),
            updated_at=self.random.choice((None, NOW, NOW + timedelta(minutes=2))),
        )


async def logs_are_read(both: Both, world: RandomLogs) -> None:
    for scope in world.scopes:
        await both.same(lambda s, w=scope: stored.user_state(s, w))
        for thread in THREADS:
            for after in (None, NOW):
                limit = world.random.choice((None, 0, 1, 3))
                await both.same(
                    lambda s, w=scope, t=thread, a=after, n=limit: s.session_logs.load_session(
                        w, t, after=a, limit=n
                    )
                )
    app = both.scope.app
    for user in (None, *(scope.user for scope in world.scopes), "nobody"):
        await both.same(lambda s, u=user: s.session_logs.list_sessions(app, u))
    for other in (app.title(), f"{app} ", app[:-1]):
        await both.same(lambda s, a=other: s.session_logs.list_sessions(a, None))


async def log_step(both: Both, world: RandomLogs) -> None:
    scope, thread = world.random.choice(world.scopes[:3]), world.random.choice(THREADS)
    change, event = world.change(), world.event()
    held = await both.same(
        lambda s: s.session_logs.load_session(scope, thread, after=None, limit=None)
    )
    match world.random.choice("ooaaaaaaaamxy"):
        case "o":
            await both.same(lambda s: stored.open_session(s, scope, thread, change))
        case "a":
            seen = world.seen(held.version if held else None)
            given = (scope, thread, event, world.random.choice(PAYLOADS), change, seen)
            await both.same(lambda s: s.session_logs.append_session_event(*given))
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


@pytest.mark.parametrize("seed", range(4 if LONG else 1))
async def test_any_course_of_logs_is_the_same(both, seed):
    """Each call on `both` asserts that the engines answer and hold the same."""
    world = RandomLogs(seed, both.scope.app)
    for number in range(60):
        both.now = NOW + timedelta(seconds=number // 2)
        await log_step(both, world)
        if number % 20 == 19:
            await logs_are_read(both, world)
            for tenant in (*map(scope_path, world.scopes), to_path((both.scope.app,))):
                await both.left(LOGGED, tenant)


# Conversations


async def heard(
    both: Both, said: Event, number: int, context: int = 3, *, once: bool, kin: Sequence[str] = ()
) -> Any:
    given = (both.scope, ThreadId(f"conversation:{number}"), said, RULES, context, kin)
    return await both.same(lambda s: s.conversations.hear_turn(*given, once=once))


async def ended(both: Both, number: int, *, if_over: bool = False) -> Any:
    return await both.same(
        lambda s: stored.end_conversation(s, both.scope, job(number), RULES, if_over=if_over)
    )


async def status_of(both: Both, thread: str) -> SessionStatus | None:
    one = await both.same(lambda s: stored.conversation_of_thread(s, both.scope, ThreadId(thread)))
    return one.status if one else None


@pytest.mark.parametrize("seed", range(3 if LONG else 1))
async def test_any_course_of_conversations_is_the_same(both, seed):
    chance, scope = Random(seed), both.scope
    for number in range(30):
        both.now += timedelta(minutes=chance.choice((0, 1, 4, 11)))
        said = turn(chance.randrange(max(1, number - 2), number + 2), f"茶 {number}").event
        earlier = ThreadId(f"conversation:{chance.randrange(number + 1)}")
        match chance.choice("hhhhhheixt"):
            case "h":
                once = chance.random() < 0.7
                await heard(both, said, number, chance.choice((0, 3)), once=once)
            case "x":
                await both.same(lambda s, i=earlier: calls.forget_scope(s, scope, i, both.now))
            case "t":
                await forgotten(both, said.event_id, thread=earlier)
            case step:
                await ended(both, number, if_over=step == "i")
        active = await both.same(lambda s: stored.active_conversation(s, scope))
        whose = active.session_id if active else None
        await both.same(lambda s, w=whose: s.conversations.around_input(scope, w, 3, ["has_son"]))
        for storage in both.storages:
            over, _ = await storage.conversations.conversations_over(1000)
            assert (scope in over) == (active is not None and active.ends_at <= both.now)
        if number % 10 == 9:
            await both.left(HELD)


async def test_those_that_are_over_are_told_in_order_and_no_more_than_asked(both):
    both.now = NOW - timedelta(days=900)  # before those of other tests
    scopes = [Scope(both.scope.app, user) for user in "cab"]
    for number, scope in enumerate(scopes):
        both.now += timedelta(minutes=number != 2)
        given = (scope, ThreadId("conversation:1"), turn(1, "hi").event, RULES, 0, [])
        await both.same(lambda s, g=given: s.conversations.hear_turn(*g, once=True))
    begun = both.now
    for after, limit, expected in ((10, 9, "cab"), (10, 2, "ca"), (9, 9, "c"), (8, 9, "")):
        both.now = begun + timedelta(minutes=after)
        over, ends_at = await both.same(lambda s, n=limit: s.conversations.conversations_over(n))
        assert [one.user for one in over] == [*expected]
        assert ends_at == begun + timedelta(minutes=9)


async def test_a_turn_that_an_earlier_one_had_is_not_said_again(both):
    async def told(said: Event, number: int, *, once: bool) -> tuple[bool, ThreadId | None]:
        one = await heard(both, said, number, once=once)
        return one.stored, one.earlier

    first, turns = ThreadId("conversation:1"), [turn(n, f"茶 {n}").event for n in range(4)]
    for number in (1, 2, 3):
        assert (True, None) == await told(turns[number], 1, once=True)
    await ended(both, 1)
    assert (True, first) == await told(turns[3], 2, once=True)
    assert (True, None) == await told(replace(turns[3], text="茶 3 "), 2, once=True)
    await forgotten(both, "e2", thread=first)
    assert (True, first) == await told(replace(turns[2], text="else"), 3, once=True)
    assert (True, None) == await told(turns[1], 3, once=False)
    await both.left(HELD)


def waiting(number: int, thread: str, kind: str, **given: object) -> dict[str, object]:
    """Return the row of a job that waits."""
    return {
        "job_id": UUID(int=number), "thread_id": thread, "job_type": kind, "run_after": NOW,
        "created_at": NOW, "result": {}, "priority": 20, **given,
    }  # fmt: skip


async def given_back(both: Both, job_id: UUID, thread: ThreadId, retry_at: datetime | None) -> None:
    """Let a worker take the consolidation of a thread, and give it back or up."""
    claimed = "UPDATE consolidation_jobs SET status = 'running', worker_id = 'w', attempts = 1"
    await both.change(f"{claimed} WHERE job_type = 'full_consolidation' AND tenant_id = %s")
    taken = Job(job_id=job_id, scope=both.scope, thread_id=thread, attempts=1,
                job_type=JobType.FULL_CONSOLIDATION)  # fmt: skip
    await both.same(lambda s: stored.stored_jobs(s).give_back(taken, "w", "no", retry_at))


async def test_what_ends_is_consolidated_once_and_is_over_when_its_jobs_are(both):
    await heard(both, turn(1, "hi").event, 1, once=True)
    late = waiting(9, "conversation:1", "full_consolidation", run_after=NOW + timedelta(days=1))
    two = uuid4()  # jobs are cancelled by id alone, whoever's they are
    other = waiting(two.int, "conversation:1", "deep_reflection")
    await both.put({"consolidation_jobs": [late, other]})
    session = await ended(both, 1)
    assert session is not None and session.status == SessionStatus.ENDING
    held = (await both.left(HELD))["consolidation_jobs"]
    due = {row["job_id"].int: (row["run_after"], row["priority"]) for row in held}
    assert {two.int, 9} == due.keys() and due[9] == (NOW, 20)  # the one that waited is due now
    await given_back(both, UUID(int=9), session.session_id, None)
    assert await status_of(both, session.session_id) == SessionStatus.ENDING
    assert 1 == await both.same(lambda s: stored.stored_jobs(s).cancel([two]))
    assert await status_of(both, session.session_id) == SessionStatus.ENDED
    for done, status in enumerate((SessionStatus.ENDING, SessionStatus.ENDED)):
        await both.change("UPDATE conversations SET status = 'ending' WHERE tenant_id = %s")
        await both.change("UPDATE threads SET consolidated_seq = %s WHERE tenant_id = %s", done)
        await both.same(lambda s: stored.finish_conversation(s, both.scope, session.session_id))
        assert await status_of(both, session.session_id) == status
    assert await status_of(both, "no") is None
    await both.left(HELD)


@pytest.mark.parametrize(
    ("jobs", "cancelled", "status"),
    [(1, 0, SessionStatus.ENDED), (1, 1, SessionStatus.ENDED), (2, 1, SessionStatus.ENDING),
     (2, 2, SessionStatus.ENDED)],
)  # fmt: skip
async def test_a_conversation_has_ended_with_the_last_of_its_jobs(both, jobs, cancelled, status):
    """cancelled: how many of its jobs; with none, its job is given up after a second try."""
    ids = [uuid4(), uuid4()]  # jobs are cancelled by id alone, whoever's they are
    await heard(both, turn(1, "hi").event, 1, once=True)
    thread = (await ended(both, ids[0].int)).session_id
    if jobs == 2:
        await both.put({"consolidation_jobs": [waiting(ids[1].int, thread, "deep_reflection")]})
    if cancelled:
        assert cancelled == await both.same(lambda s: stored.stored_jobs(s).cancel(ids[:cancelled]))
    else:
        await given_back(both, ids[0], thread, NOW)
        assert await status_of(both, thread) == SessionStatus.ENDING
        await given_back(both, ids[0], thread, None)
    assert await status_of(both, thread) == status
    await both.left(HELD)


async def test_the_kin_of_the_user_are_told(both):
    named = [("is_called", "Old"), ("is_called", "Ann"), ("has_sister", "Bea"),
             ("has_sister", "Past"), ("has_sister", "Gone"), ("has_brother", "Carl"),
             ("has_dog", "Rex")]  # fmt: skip
    edges: list[dict[str, Any]] = [
        {
            "edge_id": UUID(int=number), "subject": USER, "relation": relation, "object": name,
            "subject_key": USER, "object_key": name.lower(), "recorded_at": NOW,
            "valid_from": NOW + timedelta(days=number), "superseded_at": None, "valid_until": None,
        }
        for number, (relation, name) in enumerate(named, 1)
    ]  # fmt: skip
    edges[3]["valid_until"], edges[4]["superseded_at"] = NOW + timedelta(days=9), NOW
    await both.put({"edges": edges})
    told = await heard(both, turn(1, "hi").event, 1, once=True, kin=["has_sister", "has_brother"])
    assert (told.user_name, told.kin) == ("Ann", ("carl", "bea"))
