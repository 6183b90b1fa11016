"""A session that ends while a turn comes in: the turn is in one session, and both count right."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest
from operation_rows import rows_of, until
from standing_clock import NOW

from shared_core import Event, Scope
from shared_core.core.domain import ThreadId
from shared_core.core.namespaces import scope_path
from shared_core.policies.conversations import end_conversation
from shared_core.ports.conversations import Session, SessionRules, SessionStatus
from shared_core.ports.jobs import JobType, NewJob
from shared_core.ports.operations import Last, Policy
from shared_core.ports.storage import Storage

SCOPE = Scope("app", "ann")
RULES = SessionRules(timeout=timedelta(hours=1), max_duration=timedelta(days=1), max_events=9)
JOB = NewJob(job_id=UUID(int=1), job_type=JobType.DEEP_REFLECTION, run_after=NOW)


def said(number: int) -> Event:
    text = f"turn {number}"
    return Event(event_id=f"e{number}", author="ann", role="user", text=text, occurred_at=NOW)


async def hear(storage: Storage, number: int) -> Session:
    new_id = ThreadId(f"conversation:{number}")
    heard = await storage.conversations.hear_turn(
        SCOPE, new_id, said(number), RULES, 0, [], once=False
    )
    assert heard.stored
    return heard.session


@pytest.mark.parametrize("turns", [0, 1])
async def test_a_turn_that_comes_while_a_session_ends_is_in_the_next_one(
    storage: Storage, turns: int
) -> None:
    for number in range(turns):
        await hear(storage, number)
    loop = asyncio.get_running_loop()
    is_held, may_end = asyncio.Event(), asyncio.Event()

    def ending() -> Policy[Session | None]:
        policy = end_conversation(SCOPE, JOB, RULES, NOW, if_over=False)
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

    ends = asyncio.create_task(storage.transact(scope_path(SCOPE), ending))
    await is_held.wait()
    hearing = asyncio.create_task(hear(storage, 7))
    await asyncio.sleep(0)
    may_end.set()
    ended, active = await ends, await hearing
    assert (ended is not None) == bool(turns)
    found = await rows_of(
        storage, "conversations", "thread_id", "status", "event_count", tenant=scope_path(SCOPE)
    )
    assert (active.session_id, SessionStatus.ACTIVE, 1) in found
    assert len(found) == turns + 1
    events = await rows_of(storage, "events", "thread_id", "event_id", tenant=scope_path(SCOPE))
    assert (active.session_id, "e7") in events
    assert len(events) == turns + 1
