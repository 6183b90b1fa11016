"""Policies on both engines: what they see, what they commit, and for whom they wait."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from operation_rows import (
    ALONE,
    ANA,
    BEN,
    MEMORY,
    NOW,
    memories,
    memory,
    number,
    places,
    rows_of,
    thread,
    until,
    write,
)
from turns import said

from shared_core import Conflict, Scope
from shared_core.core.domain import ThreadId
from shared_core.policies.conversations import end_conversation
from shared_core.ports.conversations import Session, SessionRules, SessionStatus
from shared_core.ports.events import EventRow
from shared_core.ports.items import VectorRows
from shared_core.ports.jobs import JobType, NewJob
from shared_core.ports.operations import (
    Aggregate,
    Delete,
    Insert,
    Last,
    Operation,
    Policy,
    Row,
    Select,
    TenantBusy,
    Update,
    UpdateEach,
    Verb,
    equal,
    one_of,
)
from shared_core.ports.storage import Storage

# Transactions


async def test_a_tenant_reads_and_writes_its_own_rows(five):
    at_two = (equal("memory_id", number(2)),)
    await write(
        five,
        Update("memories", {"text": "changed"}, ()),
        UpdateEach("memories", ("memory_id",), ("importance",), [(number(1), 10)]),
        Insert("memories", MEMORY, [memory(3, text="over")], "update", ("text",)),
        Delete("memories", at_two),
        tenant=BEN,
    )
    assert await places(five) == [1, 2, 3, 4, 5]
    assert await rows_of(five, "memories", "text", where=at_two) == [("text 2",)]
    found = await rows_of(five, "memories", "text", "importance", tenant=ANA, order=("key",))
    assert found == [(f"text {place}", 5) for place in range(1, 6)]
    assert await rows_of(five, "memories", "key", tenant=ALONE) == []


async def test_later_batches_see_earlier_ones(storage):
    def policy() -> Policy[tuple[int, int]]:
        [_, [(before,)]] = yield [memories(1), Select("memories", (Aggregate("count"),))]
        [[(found,)]] = yield [Select("memories", (Aggregate("count"),), (equal("key", "k00001"),))]
        yield Last([memories(2)])
        return before, found

    assert await storage.transact(ANA, policy) == (1, 1)
    assert await places(storage) == [1, 2]


async def test_a_policy_without_a_last_batch_writes_nothing(five):
    """And after the last batch no rows are sent."""
    closed = []

    def ends_with_rows() -> Policy[object]:
        return (yield Last([Select("memories", ("key",))]))

    def changes_its_mind() -> Policy[str]:
        yield [memories(7), thread("t")]
        return "changed its mind"

    def does_nothing() -> Policy[int]:
        return 7
        yield []

    def raises() -> Policy[None]:
        try:
            yield [memories(7)]
            raise LookupError("half-way")
        finally:
            closed.append(True)

    assert await five.transact(ANA, ends_with_rows) == []
    assert await five.transact(ANA, changes_its_mind) == "changed its mind"
    assert await five.transact(ANA, does_nothing) == await five.query(ANA, does_nothing) == 7
    with pytest.raises(LookupError, match="half-way"):
        await five.transact(ANA, raises)
    assert closed == [True]
    assert await places(five) == [1, 2, 3, 4, 5]
    assert await rows_of(five, "threads", "thread_id") == []


async def test_a_query_reads_one_moment(storage):
    loop = asyncio.get_running_loop()
    counts = []

    def reader() -> Policy[None]:
        for _ in range(2):
            [[(count,)]] = yield [Select("memories", (Aggregate("count"),))]
            counts.append(count)
            if len(counts) == 1:
                loop.call_soon_threadsafe(first.set)
                yield from until(written)

    first, written = asyncio.Event(), asyncio.Event()

    async def meanwhile() -> None:
        await first.wait()
        await write(storage, memories(1))
        written.set()

    await asyncio.gather(storage.query(ANA, reader), meanwhile())
    assert counts == [0, 0]
    assert await places(storage) == [1]


async def test_writers_of_a_tenant_wait_for_each_other(storage):
    await write(storage, Insert("extraction_counts", ("extractions",), [(0,)]))

    def policy() -> Policy[None]:
        [[(count,)]] = yield [Select("extraction_counts", ("extractions",))]
        yield Last([Update("extraction_counts", {"extractions": count + 1}, ())])

    await asyncio.gather(*(storage.transact(ANA, policy) for _ in range(20)))
    assert await rows_of(storage, "extraction_counts", "extractions") == [(20,)]


class Held:
    """A policy that holds its tenant until it is let go."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.is_held, self.is_free = asyncio.Event(), asyncio.Event()

    def policy(self) -> Policy[None]:
        yield [Select("threads", ("thread_id",))]
        self._loop.call_soon_threadsafe(self.is_held.set)
        yield from until(self.is_free)
        yield Last([memories(1)])


async def test_a_busy_tenant_is_skipped(storage):
    def policy() -> Policy[str]:
        yield Last([memories(2)])
        return "done"

    assert await storage.transact(BEN, policy, lock="skip") == "done"  # a tenant never seen before
    held = Held()
    holder = asyncio.create_task(storage.transact(ANA, held.policy))
    await held.is_held.wait()
    try:
        with pytest.raises(TenantBusy):
            await storage.transact(ANA, policy, lock="skip")
        with pytest.raises(TenantBusy):
            await storage.transact_all({ANA: policy, "/app/di/": policy}, lock="skip")
        assert await storage.transact("/app/cy/", policy, lock="skip") == "done"
        several = {"/app/di/": policy, "/app/el/": policy}  # tenants never seen before
        assert await storage.transact_all(several, lock="skip") == dict.fromkeys(several, "done")
        assert await storage.transact(ANA, policy, lock="none") == "done"
    finally:
        held.is_free.set()
    await holder
    assert await places(storage) == [1, 2]
    assert await storage.transact(BEN, _one(memories(3)), lock="skip") is None


def _one(*operations: Operation) -> Any:
    def policy() -> Policy[None]:
        yield Last(operations)

    return policy


async def test_rows_that_others_hold_are_left_out(five):
    loop = asyncio.get_running_loop()
    held, free = asyncio.Event(), asyncio.Event()
    first = Select("memories", ("key",), (equal("memory_id", number(1)),), lock="update")

    def holder() -> Policy[list[Row]]:
        [rows] = yield [first]
        loop.call_soon_threadsafe(held.set)
        yield from until(free)
        yield Last([])
        return rows

    holding = asyncio.create_task(five.transact(ANA, holder))
    await held.wait()
    skipping = Select("memories", ("memory_id",), lock="skip", order=("key",), limit=2)

    def policy() -> Policy[list[Row]]:
        [rows] = yield [skipping]
        yield Last([])
        return rows

    try:
        assert await five.transact(ANA, policy, lock="none") == [(number(2),), (number(3),)]
    finally:
        free.set()
    assert await holding == [("k00001",)]
    assert await five.transact(ANA, policy, lock="none") == [(number(1),), (number(2),)]


async def test_policies_of_several_tenants_are_one_transaction(storage):
    def counted(place: int) -> Any:
        def policy() -> Policy[int]:
            [[(count,)]] = yield [Select("memories", (Aggregate("count"),))]
            yield Last([memories(place)])
            return int(count)

        return policy

    def nothing_to_do() -> Policy[int]:
        yield [Select("memories", ("key",))]
        yield [Select("memories", ("key",))]
        return -1

    found = await storage.transact_all(
        {BEN: counted(1), ANA: counted(2), "/app/cy/": nothing_to_do}
    )
    assert found == {BEN: 0, ANA: 0, "/app/cy/": -1}
    assert await places(storage) == [2]
    with pytest.raises(Conflict):
        await storage.transact_all({ANA: counted(3), BEN: counted(1)})
    assert await places(storage) == [2]
    assert await storage.transact_all({}) == {}


async def test_a_policy_runs_again_after_a_deadlock(five):
    """Two policies without locks take two rows in opposite order, each after the other's first."""
    started = 0
    takes = [0, 0]

    def crossing(which: int) -> Any:
        mine, other = number(1 + which), number(2 - which)

        def policy() -> Policy[None]:
            nonlocal started
            started += 1
            row = Update("memories", {"text": f"by {which}"}, (equal("memory_id", mine),))
            yield [row]
            takes[which] += 1
            while not all(takes):
                yield [Select("threads", ("thread_id",))]
            yield Last([Update("memories", {"author": "x"}, (equal("memory_id", other),))])

        return policy

    await asyncio.gather(*(five.transact(ANA, crossing(which), lock="none") for which in (0, 1)))
    assert started > 2
    found = await rows_of(five, "memories", "text", "author", order=("key",), limit=2)
    assert found == [("by 0", "x"), ("by 1", "x")]


# Verbs


def _vectors_of(place: int) -> Any:
    return VectorRows(
        addresses=[(("app", "ana", "facts"), f"k{place:05}")],
        fields=["text"],
        vectors=np.array([[1, 2, 3]], dtype=np.float32),
        model="m",
    )


async def _has_vector(storage: Storage, place: int) -> bool:
    found = await storage.reembedding.embedded_otherwise("another model", None, 100)
    return any(one.memory_id == number(place) for one in found)


async def test_vectors_go_with_their_memories(new_storage):
    await write(new_storage, memories(*range(1, 6)))
    await new_storage.use_model("m", 3)
    await write(new_storage, Verb("add_vectors", (_vectors_of(1),)), Verb("add_vectors", (None,)))
    assert await _has_vector(new_storage, 1)
    moved = Update("embeddings", {"memory_id": number(2)}, (equal("memory_id", number(1)),))
    await write(new_storage, moved)
    assert [await _has_vector(new_storage, place) for place in (1, 2)] == [False, True]
    await write(new_storage, Delete("embeddings", (one_of("memory_id", [number(2), number(3)]),)))
    assert not await _has_vector(new_storage, 2)
    await write(new_storage, Verb("add_vectors", (_vectors_of(4),)))
    await write(new_storage, Delete("memories", (equal("memory_id", number(4)),)))
    assert await places(new_storage) == [1, 2, 3, 5]


async def test_a_policy_yields_verbs(storage):
    turns = [
        EventRow(event=said(str(place), f"turn {place}", NOW), memory_id=number(place),
                 logged=False, value={}, terms=["turn"])
        for place in (1, 2)
    ]  # fmt: skip
    job = NewJob(job_id=number(9), job_type=JobType.FAST_REPLAY, run_after=NOW)

    def policy() -> Policy[tuple[Sequence[Row], Sequence[Row]]]:
        [first] = yield [Verb("append_turns", ("t", turns[:1]))]
        [second] = yield [Verb("append_turns", ("t", turns))]
        yield Last([Verb("enqueue", ("t", job))])
        return first, second

    assert await storage.transact(ANA, policy) == ([("1",)], [("2",)])
    assert await places(storage) == [1, 2]
    found = await rows_of(storage, "consolidation_jobs", "job_id", "status", "result", "attempts")
    assert found == [(number(9), "pending", {}, 0)]


# A turn that comes in while a session ends is in one session, and both count right

SESSIONS = Scope("app", "ana")
RULES = SessionRules(timeout=timedelta(hours=1), max_duration=timedelta(days=1), max_events=9)
JOB = NewJob(job_id=UUID(int=1), job_type=JobType.DEEP_REFLECTION, run_after=NOW)


async def hear(storage: Storage, place: int) -> Session:
    new_id = ThreadId(f"conversation:{place}")
    heard = await storage.conversations.hear_turn(
        SESSIONS, new_id, said(place, f"turn {place}", NOW), RULES, 0, [], once=False
    )
    assert heard.stored
    return heard.session


@pytest.mark.parametrize("turns", [0, 1])
async def test_a_turn_that_comes_while_a_session_ends_is_in_the_next_one(storage, turns):
    for place in range(turns):
        await hear(storage, place)
    loop = asyncio.get_running_loop()
    is_held, may_end = asyncio.Event(), asyncio.Event()

    def ending() -> Policy[Session | None]:
        policy = end_conversation(SESSIONS, JOB, RULES, NOW, if_over=False)
        rows = yield next(policy)
        loop.call_soon_threadsafe(is_held.set)
        yield from until(may_end)
        try:
            last = policy.send(rows)
            assert isinstance(last, Last)
            rows = yield last
            policy.send(rows)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        raise AssertionError

    ends = asyncio.create_task(storage.transact(ANA, ending))
    await is_held.wait()
    hearing = asyncio.create_task(hear(storage, 7))
    await asyncio.sleep(0)
    may_end.set()
    ended, active = await ends, await hearing
    assert (ended is not None) == bool(turns)
    found = await rows_of(
        storage, "conversations", "thread_id", "status", "event_count", tenant=ANA
    )
    assert (active.session_id, SessionStatus.ACTIVE, 1) in found
    assert len(found) == turns + 1
    events = await rows_of(storage, "events", "thread_id", "event_id", tenant=ANA)
    assert (active.session_id, "e7") in events
    assert len(events) == turns + 1
