"""Conversations open, go on and end on SeekDB as they do on PostgreSQL."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from both_engines import NOW, Both
from storage_calls import (
    active_conversation,
    conversation_of_thread,
    end_conversation,
    finish_conversation,
    open_conversation,
    stored_jobs,
)

from shared_core import Event, Scope
from shared_core.core.domain import USER, ThreadId
from shared_core.core.namespaces import scope_path
from shared_core.knowledge.run_rows import apply_run
from shared_core.ports.conversations import SessionRules, SessionStatus
from shared_core.ports.jobs import Capability, JobPriority, JobType, NewJob
from shared_core.ports.runs import Passage, RunPlan
from shared_core.storage.oceanbase.storage import OceanBaseStorage
from tests import forgetting_calls as calls

SCOPE = Scope("app", "ann")
TENANT = scope_path(SCOPE)
RULES = SessionRules(
    timeout=timedelta(minutes=10), max_duration=timedelta(minutes=30), max_events=5
)
HELD = {
    "conversations": "thread_id status event_count created_at last_active_at ends_at ended_at",
    "threads": "thread_id last_seq last_memory_seq consolidated_seq unread_bytes created_at"
    " updated_at",
    "tombstones": "thread_id event_id",
    "events": "thread_id seq event_id text metadata memory_seq recorded_at",
    "consolidation_jobs": "job_id thread_id job_type status priority run_after created_at",
}


def said(number: int, **given: Any) -> Event:
    return Event(
        event_id=f"e{number}",
        author="ann",
        role="user",
        text=f"茶 {number}",
        occurred_at=NOW,
        **given,
    )


def job(number: int) -> NewJob:
    return NewJob(
        job_id=UUID(int=number),
        job_type=JobType.FULL_CONSOLIDATION,
        run_after=NOW,
        priority=JobPriority.SESSION_END,
    )


def edge(number: int, relation: str, name: str, **given: Any) -> dict[str, Any]:
    return {
        "edge_id": UUID(int=number), "subject": USER, "relation": relation, "object": name,
        "subject_key": USER, "object_key": name.lower(), "recorded_at": NOW,
        "valid_from": NOW + timedelta(days=number), "superseded_at": None, "valid_until": None,
        **given,
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
async def test_any_course_is_the_same(both: Both, seed: int) -> None:
    chance = random.Random(seed)
    for number in range(25):
        both.now += timedelta(minutes=chance.choice((0, 1, 4, 11)))
        new_id = ThreadId(f"conversation:{number}")
        turn = said(chance.randrange(max(1, number - 2), number + 2))
        step = chance.choice("hhhhhhoeifcxt")
        earlier = ThreadId(f"conversation:{chance.randrange(number + 1)}")
        if step == "h":
            context, once = chance.choice((0, 3)), chance.random() < 0.7
            await both.same(
                lambda s, t=turn, i=new_id, c=context, o=once: s.conversations.hear_turn(
                    SCOPE, i, t, RULES, c, [], once=o
                )
            )
        elif step == "o":
            await both.same(lambda s, i=new_id: open_conversation(s, SCOPE, i, RULES))
        elif step == "f":
            await both.same(lambda s, i=earlier: finish_conversation(s, SCOPE, i))
        elif step == "c":
            await read_to_the_end(both, number)
        elif step == "x":
            await both.same(lambda s, i=earlier: calls.forget_scope(s, SCOPE, i, both.now))
        elif step == "t":
            await both.same(
                lambda s, i=earlier, e=turn.event_id: calls.forget_turns(s, SCOPE, i, [e], both.now)
            )
        else:
            await both.same(
                lambda s, n=number, over=step == "i": end_conversation(
                    s, SCOPE, job(n), RULES, if_over=over
                )
            )
        active = await both.same(lambda s: active_conversation(s, SCOPE))
        whose = active.session_id if active else None
        await both.same(
            lambda s, w=whose: s.conversations.around_input(SCOPE, w, 3, ["has_sister"])
        )
        await both.same(lambda s: s.conversations.conversations_over(9))
        await both.same(lambda s, i=earlier: conversation_of_thread(s, SCOPE, i))
        await both.left(TENANT, HELD)


async def read_to_the_end(both: Both, number: int) -> None:
    """Consolidate all that was said in one of the threads that are there."""
    threads = (await both.left(TENANT, HELD))["threads"]
    for row in threads[-1:]:
        read = Passage(mark=row["consolidated_seq"], to=row["last_memory_seq"])
        plan = RunPlan(
            run_id=UUID(int=9_000 + number), kind=JobType.FULL_CONSOLIDATION, scope=SCOPE,
            thread_id=row["thread_id"], extractor="rules", started_at=both.now, read=read,
        )  # fmt: skip
        await both.same(lambda s, p=plan: apply_run(s, p, lambda: both.now))


async def test_a_turn_that_an_earlier_one_had_is_not_said_again(both: Both) -> None:
    async def heard(turn: Event, number: int, *, once: bool) -> tuple[bool, ThreadId | None]:
        new_id = ThreadId(f"conversation:{number}")
        one = await both.same(
            lambda s: s.conversations.hear_turn(SCOPE, new_id, turn, RULES, 3, [], once=once)
        )
        return one.stored, one.earlier

    first = ThreadId("conversation:1")
    for number in (1, 2, 3):
        assert (True, None) == await heard(said(number), 1, once=True)
    await both.same(lambda s: end_conversation(s, SCOPE, job(1), RULES, if_over=False))
    assert (True, first) == await heard(said(3), 2, once=True)
    assert (True, None) == await heard(replace(said(3), text="茶 3 "), 2, once=True)
    await both.same(lambda s: calls.forget_turns(s, SCOPE, first, ["e2"], both.now))
    assert (True, first) == await heard(replace(said(2), text="else"), 3, once=True)
    assert (True, None) == await heard(said(1), 3, once=False)
    await both.left(TENANT, HELD)


@pytest.mark.parametrize("gives_up", [True, False])
async def test_what_is_given_up_has_ended(both: Both, gives_up: bool) -> None:
    thread = ThreadId("conversation:1")
    await both.same(
        lambda s: s.conversations.hear_turn(SCOPE, thread, said(1), RULES, 3, [], once=True)
    )
    await both.same(lambda s: end_conversation(s, SCOPE, job(1), RULES, if_over=False))
    if gives_up:
        can = [Capability(JobType.FULL_CONSOLIDATION)]
        taken = await both.same(lambda s: s.jobs.claim_job("w", 60.0, can, None))
        assert taken is not None
        await both.same(lambda s: stored_jobs(s).give_back(taken, "w", "no", both.now))
        ending = await both.same(lambda s: conversation_of_thread(s, SCOPE, thread))
        assert ending is not None and ending.status == SessionStatus.ENDING
        await both.same(lambda s: s.jobs.claim_job("w", 60.0, can, None))
        await both.same(lambda s: stored_jobs(s).give_back(taken, "w", "no", None))
    else:
        assert 1 == await both.same(lambda s: stored_jobs(s).cancel([UUID(int=1)]))
    ended = await both.same(lambda s: conversation_of_thread(s, SCOPE, thread))
    assert ended is not None and ended.status == SessionStatus.ENDED
    await both.left(TENANT, HELD)


@pytest.mark.parametrize("cancelled", [1, 2])
async def test_it_has_ended_when_all_its_jobs_are_cancelled_at_once(
    both: Both, cancelled: int
) -> None:
    thread = ThreadId("conversation:1")
    reflecting = {
        "job_id": UUID(int=2), "thread_id": thread, "job_type": "deep_reflection",
        "run_after": NOW, "created_at": NOW, "result": {}, "priority": 20,
    }  # fmt: skip
    await both.same(
        lambda s: s.conversations.hear_turn(SCOPE, thread, said(1), RULES, 3, [], once=True)
    )
    await both.same(lambda s: end_conversation(s, SCOPE, job(1), RULES, if_over=False))
    await both.put(TENANT, {"consolidation_jobs": [reflecting]})
    ids = [UUID(int=number + 1) for number in range(cancelled)]
    assert cancelled == await both.same(lambda s: stored_jobs(s).cancel(ids))
    found = await both.same(lambda s: conversation_of_thread(s, SCOPE, thread))
    assert found is not None
    assert found.status == (SessionStatus.ENDED if cancelled == 2 else SessionStatus.ENDING)
    await both.left(TENANT, HELD)


async def test_what_ends_is_consolidated_once(both: Both) -> None:
    thread = ThreadId("conversation:1")
    waiting = {
        "job_id": UUID(int=9), "thread_id": thread, "job_type": "full_consolidation",
        "run_after": NOW + timedelta(days=1), "created_at": NOW, "result": {}, "priority": 20,
    }  # fmt: skip
    await both.same(
        lambda s: s.conversations.hear_turn(SCOPE, thread, said(1), RULES, 3, [], once=True)
    )
    await both.put(TENANT, {"consolidation_jobs": [waiting]})
    ended = await both.same(lambda s: end_conversation(s, SCOPE, job(1), RULES, if_over=False))
    assert ended is not None and ended.status == SessionStatus.ENDING
    held = await both.left(TENANT, HELD)
    assert [(row["run_after"], row["priority"]) for row in held["consolidation_jobs"]] == [
        (NOW, 20)
    ]
    for done in (0, 1):
        await _consolidated(both, done)
        await both.same(lambda s: finish_conversation(s, SCOPE, thread))
        found = await both.same(lambda s: conversation_of_thread(s, SCOPE, thread))
        assert found is not None and (found.status == SessionStatus.ENDED) == bool(done)
    assert await both.same(lambda s: conversation_of_thread(s, SCOPE, ThreadId("no"))) is None


async def _consolidated(both: Both, seq: int) -> None:
    change = "UPDATE threads SET consolidated_seq = %s"
    with both._admin() as admin:
        admin.execute(change, [seq])
    await both.seekdb._database.write(lambda tx: tx.run(change, [seq]))


async def test_the_kin_of_the_user_are_told(both: Both) -> None:
    edges = [
        edge(1, "is_called", "Old"),
        edge(2, "is_called", "Ann"),
        edge(3, "has_sister", "Bea"),
        edge(4, "has_sister", "Past", valid_until=NOW + timedelta(days=9)),
        edge(5, "has_sister", "Gone", superseded_at=NOW),
        edge(6, "has_brother", "Carl"),
        edge(7, "has_dog", "Rex"),
    ]
    await both.put(TENANT, {"edges": edges})
    heard = await both.same(
        lambda s: s.conversations.hear_turn(
            SCOPE, ThreadId("c"), said(1), RULES, 3, ["has_sister", "has_brother"], once=True
        )
    )
    assert (heard.user_name, heard.kin) == ("Ann", ("carl", "bea"))


async def test_what_many_say_at_once_is_one_conversation(both: Both) -> None:
    storage: OceanBaseStorage = both.seekdb
    rules = SessionRules(timeout=RULES.timeout, max_duration=RULES.max_duration, max_events=99)
    heard = await asyncio.gather(
        *(
            storage.conversations.hear_turn(
                SCOPE, ThreadId(f"c{n}"), said(n // 2), rules, 3, [], once=False
            )
            for n in range(24)
        )
    )
    assert all(one.stored for one in heard)
    assert len({one.session.session_id for one in heard}) == 1
    assert max(one.session.event_count for one in heard) == 12
