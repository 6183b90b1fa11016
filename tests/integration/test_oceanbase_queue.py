"""The queue of the storage port, the same on both engines."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from standing_clock import NOW, StandingClock
from storage_calls import stored_jobs

from shared_core import Conflict, Scope
from shared_core.core.domain import ThreadId
from shared_core.core.namespaces import scope_path
from shared_core.ports.jobs import (
    Capability,
    Job,
    JobFilter,
    JobPriority,
    JobRecord,
    JobStatus,
    JobType,
    NewJob,
)
from shared_core.ports.storage import Storage

ANN, BOB, CAT = Scope("app", "ann"), Scope("app", "bob"), Scope("other", "cat")
T = ThreadId("t")
ALL = [Capability(kind) for kind in JobType if kind is not JobType.CALLBACK]
LEASE_S = 60.0


def new(after_s: float = 0, **fields: Any) -> NewJob:
    given: dict[str, Any] = {
        "job_id": uuid4(),
        "job_type": JobType.DEEP_REFLECTION,
        "run_after": NOW + timedelta(seconds=after_s),
    }
    return NewJob(**given | fields)


async def claim(storage: Storage, worker: str = "w1", after: Scope | None = None) -> Job | None:
    return await storage.jobs.claim_job(worker, LEASE_S, ALL, after)


async def only(storage: Storage, scope: Scope = ANN) -> JobRecord:
    [record] = await stored_jobs(storage).of_threads([(scope, T)])
    return record


async def test_a_job_goes_from_asked_to_done(
    storage: Storage, storage_clock: StandingClock
) -> None:
    asked = new(payload={"note": "火锅", "n": [1, None]})
    await storage.jobs.enqueue(ANN, T, asked)
    assert NOW == await storage.jobs.next_job_at(ALL)
    job = await claim(storage)
    assert job == Job(
        job_id=asked.job_id, scope=ANN, thread_id=T, job_type=asked.job_type, attempts=1,
        payload={"note": "火锅", "n": [1, None]},
    )  # fmt: skip
    assert await claim(storage, "w2") is None
    assert await stored_jobs(storage).extend(job, "w1", 90)
    assert not await stored_jobs(storage).extend(job, "w2", 90)
    assert NOW + timedelta(seconds=90) == await storage.jobs.next_job_at(ALL)
    assert 1 == await storage.jobs.open_jobs([(ANN, T)], ALL)
    storage_clock.forward(3)
    await stored_jobs(storage).complete(job, "w2", {})
    assert JobStatus.RUNNING is (await only(storage)).status
    await stored_jobs(storage).complete(job, "w1", {"facts": 2})
    done = await only(storage)
    assert (JobStatus.COMPLETED, {"facts": 2}, NOW, storage_clock.now, None, None) == (
        done.status, done.result, done.started_at, done.completed_at, done.lease_until, done.error
    )  # fmt: skip
    assert await storage.jobs.next_job_at(ALL) is None
    assert [] == await storage.jobs.list_jobs(JobFilter())


async def test_of_a_thread_one_done_job_is_kept(
    storage: Storage, storage_clock: StandingClock
) -> None:
    for _ in range(3):
        await storage.jobs.enqueue(ANN, T, new())
        job = await claim(storage)
        assert job
        await stored_jobs(storage).complete(job, "w1", {})
        storage_clock.forward(1)
    assert job.job_id == (await only(storage)).job_id


async def test_a_request_joins_the_one_that_waits(
    storage: Storage, storage_clock: StandingClock
) -> None:
    first = new(60)
    await storage.jobs.enqueue(ANN, T, first)
    storage_clock.forward(30)
    await storage.jobs.enqueue(ANN, T, new(90, priority=JobPriority.MANUAL))
    one = await only(storage)
    assert (first.job_id, NOW + timedelta(seconds=90), 20, NOW) == (
        one.job_id, one.run_after, one.priority, one.created_at
    )  # fmt: skip
    storage_clock.forward(530)
    await storage.jobs.enqueue(ANN, T, new(560 + 60))
    assert NOW + timedelta(seconds=600) == (await only(storage)).run_after  # no later than that
    other = new(700, payload={"n": 1})
    await storage.jobs.enqueue(ANN, T, other)
    one = await only(storage)
    assert (other.job_id, NOW) == (one.job_id, one.created_at)
    await storage.jobs.enqueue(ANN, T, other)  # sent again
    assert other.job_id == (await only(storage)).job_id


async def test_a_failed_try_waits_for_its_next_one(
    storage: Storage, storage_clock: StandingClock
) -> None:
    await storage.jobs.enqueue(ANN, T, new())
    job = await claim(storage)
    assert job
    retry_at = NOW + timedelta(seconds=500)
    await stored_jobs(storage).give_back(job, "w1", "it broke\0", retry_at)
    await storage.jobs.enqueue(ANN, T, new(5))
    one = await only(storage)
    assert (JobStatus.PENDING, 1, retry_at, "it broke\ufffd") == (
        one.status, one.attempts, one.run_after, one.error
    )  # fmt: skip
    assert 1 == await storage.jobs.open_jobs([(ANN, T)], ALL)
    assert retry_at == (await only(storage)).run_after
    storage_clock.forward(10)
    await storage.jobs.enqueue(ANN, T, new(10, payload={"n": 1}))
    one = await only(storage)
    assert (0, storage_clock.now, None, storage_clock.now) == (
        one.attempts, one.run_after, one.error, one.created_at
    )  # fmt: skip


async def test_what_is_given_up_is_kept_and_can_be_tried_again(
    storage: Storage, storage_clock: StandingClock
) -> None:
    for error in ("first", "second"):
        await storage.jobs.enqueue(ANN, T, new())
        job = await claim(storage)
        assert job
        await stored_jobs(storage).give_back(job, "w1", error, None, counted=error == "second")
    one = await only(storage)
    assert (JobStatus.FAILED, "second", 1, NOW) == (
        one.status, one.error, one.attempts, one.completed_at
    )  # fmt: skip
    assert [one] == list(await storage.jobs.list_jobs(JobFilter(app="app", user="ann")))
    assert [] == await storage.jobs.list_jobs(JobFilter(app="app", user="bob"))
    assert [one] == list(await storage.jobs.list_jobs(JobFilter(app="app", job_ids=[one.job_id])))
    assert [] == await storage.jobs.list_jobs(JobFilter(statuses=[JobStatus.PENDING]))
    storage_clock.forward(1)
    assert 1 == await stored_jobs(storage).retry([one.job_id, uuid4()])
    assert 0 == await stored_jobs(storage).retry([])
    one = await only(storage)
    assert (JobStatus.PENDING, 0, storage_clock.now, None, None) == (
        one.status, one.attempts, one.run_after, one.error, one.completed_at
    )  # fmt: skip
    assert 1 == await stored_jobs(storage).cancel([one.job_id])
    assert JobStatus.CANCELLED is (await only(storage)).status


async def test_a_cancelled_job_is_lost_to_its_worker(storage: Storage) -> None:
    await storage.jobs.enqueue(ANN, T, new())
    job = await claim(storage)
    assert job
    assert 1 == await stored_jobs(storage).cancel([job.job_id])
    assert not await stored_jobs(storage).extend(job, "w1", 10)
    await stored_jobs(storage).complete(job, "w1", {})
    assert JobStatus.CANCELLED is (await only(storage)).status
    await stored_jobs(storage).give_back(job, "w1", "late", None)
    assert [] == list(await stored_jobs(storage).of_threads([(ANN, T)]))


async def test_a_silent_worker_loses_its_job(
    storage: Storage, storage_clock: StandingClock
) -> None:
    await storage.jobs.enqueue(ANN, T, new())
    job = await claim(storage)
    assert job
    again = await claim(storage)  # the answer was lost
    assert again == job
    storage_clock.forward(LEASE_S)
    taken = await claim(storage, "w2")
    assert taken and (job.job_id, 2) == (taken.job_id, taken.attempts)
    await stored_jobs(storage).complete(job, "w1", {})
    assert JobStatus.RUNNING is (await only(storage)).status


async def test_what_a_worker_gives_back_waits_again(
    storage: Storage, storage_clock: StandingClock
) -> None:
    await storage.jobs.enqueue(ANN, T, new())
    await storage.jobs.enqueue(BOB, T, new())
    for worker in ("w1", "w2"):
        assert await claim(storage, worker)
    await storage.jobs.enqueue(ANN, T, new(70))
    storage_clock.forward(1)
    await storage.jobs.release_jobs("w1")
    statuses = [record.status for record in await stored_jobs(storage).of_threads([(ANN, T)])]
    assert sorted(statuses) == [JobStatus.CANCELLED, JobStatus.PENDING]  # the newer one waits
    assert JobStatus.RUNNING is (await only(storage, BOB)).status


async def test_one_job_of_a_thread_runs_at_a_time(storage: Storage) -> None:
    await storage.jobs.enqueue(ANN, T, new())
    await storage.jobs.enqueue(ANN, T, new(job_type=JobType.FAST_REPLAY))
    assert await claim(storage)
    assert await claim(storage, "w2") is None
    assert NOW + timedelta(seconds=LEASE_S) == await storage.jobs.next_job_at(ALL)
    with pytest.raises(Conflict, match="another job of thread 't' is running"):
        await stored_jobs(storage).start(ANN, T, new(), "w3", LEASE_S)
    assert await stored_jobs(storage).start(ANN, ThreadId("none"), new(), "w3", LEASE_S) is None


async def test_a_job_is_started_at_once(storage: Storage, storage_clock: StandingClock) -> None:
    await storage.jobs.enqueue(ANN, T, new(job_type=JobType.FAST_REPLAY))
    assert await claim(storage)
    storage_clock.forward(LEASE_S)  # its worker was silent
    asked = new(payload={"a": 1})
    started = await stored_jobs(storage).start(ANN, T, asked, "w2", LEASE_S)
    assert started and (asked.job_id, 1, {"a": 1}) == (
        started.job_id, started.attempts, started.payload
    )  # fmt: skip
    assert started == await stored_jobs(storage).start(ANN, T, asked, "w2", LEASE_S)
    found = {one.job_type: one.status for one in await stored_jobs(storage).of_threads([(ANN, T)])}
    assert {"fast_replay": "pending", "deep_reflection": "running"} == found
    await stored_jobs(storage).complete(started, "w2", {})


async def test_tenants_take_turns_after_priority(storage: Storage) -> None:
    for scope in (ANN, BOB, CAT):
        for place, kind in enumerate((JobType.DEEP_REFLECTION, JobType.FAST_REPLAY)):
            await storage.jobs.enqueue(
                scope, ThreadId(f"t{place}"), new(-10 + place, job_type=kind)
            )
    await storage.jobs.enqueue(ANN, ThreadId("soon"), new(30, priority=JobPriority.MANUAL))
    await storage.jobs.enqueue(CAT, ThreadId("end"), new(-1, priority=JobPriority.SESSION_END))
    order, after = [], ANN
    for worker in range(8):
        job = await claim(storage, f"w{worker}", after)
        if job is None:
            break
        after = job.scope
        order.append((job.scope.user, job.thread_id))
    assert order == [
        ("cat", "end"), ("ann", "t0"), ("bob", "t0"), ("cat", "t0"), ("ann", "t1"), ("bob", "t1"),
        ("cat", "t1"),
    ]  # fmt: skip


async def test_a_worker_takes_what_it_can_do(storage: Storage) -> None:
    callback = {"job_type": JobType.CALLBACK, "performer": "mail"}
    await storage.jobs.enqueue(ANN, T, new(**callback))
    await storage.jobs.enqueue(CAT, T, new(**callback))
    await storage.jobs.enqueue(ANN, None, new(job_type=JobType.REFLECTION))
    mail = [Capability(JobType.CALLBACK, "mail", "other")]
    job = await storage.jobs.claim_job("w1", LEASE_S, mail, None)
    assert job and (CAT, "mail") == (job.scope, job.performer)
    assert await storage.jobs.claim_job("w2", LEASE_S, mail, None) is None
    assert 0 == await storage.jobs.open_jobs([(ANN, T)], ALL)
    any_app = [Capability(JobType.CALLBACK, "mail")]
    assert 1 == await storage.jobs.open_jobs([(ANN, T)], any_app)
    stats = await storage.jobs.job_stats()
    assert (2, 2, 1, 0, 1, 0.0) == (
        stats.pending, stats.due, stats.running, stats.failed, stats.due_callbacks,
        stats.oldest_due_s,
    )  # fmt: skip
    job = await claim(storage, "w3")
    assert job and (ANN, None, JobType.REFLECTION) == (job.scope, job.thread_id, job.job_type)
    await storage.jobs.enqueue(ANN, None, new(job_type=JobType.REFLECTION))
    assert await claim(storage, "w4") is None  # one reflection of a user at a time


async def test_workers_never_share_a_job(storage: Storage) -> None:
    for place in range(12):
        await storage.jobs.enqueue(ANN if place % 2 else BOB, ThreadId(f"t{place}"), new())

    async def work(worker: str) -> list[UUID]:
        done = []
        while (job := await claim(storage, worker)) is not None:
            done.append(job.job_id)
            await stored_jobs(storage).complete(job, worker, {})
        return done

    taken = await asyncio.gather(*(work(f"w{place}") for place in range(4)))
    ids = [job_id for some in taken for job_id in some]
    assert (12, 12) == (len(ids), len(set(ids)))


async def test_an_unread_thread_is_asked_for_once_it_ends(storage: Storage) -> None:
    assert not await stored_jobs(storage).end_session(ANN, T, new())
    await storage.jobs.enqueue(ANN, T, new(60))
    assert not await stored_jobs(storage).end_session(ANN, T, new())
    assert NOW + timedelta(seconds=60) == (await only(storage)).run_after


async def test_hints_tell_of_new_jobs(storage: Storage) -> None:
    await storage.jobs.enqueue(BOB, T, new(5))
    async with aclosing(storage.jobs.job_hints()) as hints:  # type: ignore[type-var]
        async with asyncio.timeout(30):
            assert await anext(hints) is None
            await storage.jobs.enqueue(ANN, T, new(20))
            assert NOW + timedelta(seconds=20) == await anext(hints)
            await storage.jobs.enqueue(ANN, T, new(10))
            assert NOW + timedelta(seconds=10) == await anext(hints)


async def test_turns_make_a_thread_due_when_they_are_many(storage: Storage) -> None:
    await storage.jobs.enqueue(ANN, T, new(60))
    await _unread(storage, 3, 400)
    for changes, due_s in (
        ({"event_count": 4, "token_threshold": 101}, 60),
        ({"event_count": 3}, 0),
    ):
        await storage.jobs.enqueue(ANN, T, new(60, **changes))
        assert NOW + timedelta(seconds=due_s) == (await only(storage)).run_after
    assert await stored_jobs(storage).end_session(ANN, T, new(-5))
    job = await claim(storage)
    assert job
    await storage.jobs.enqueue(ANN, T, new(60, token_threshold=100))  # somebody reads it
    await stored_jobs(storage).give_back(job, "w1", "again", NOW)
    due = {one.status: one.run_after for one in await stored_jobs(storage).of_threads([(ANN, T)])}
    assert {"pending": NOW + timedelta(seconds=60), "cancelled": NOW} == due


async def _unread(storage: Storage, turns: int, size: int) -> None:
    """Let a thread have turns that no run has read."""
    dsn, tenant = await storage.dsn(), scope_path(ANN)
    if dsn.startswith("seekdb:"):
        database: Any = storage
        await database._database.write(
            lambda tx: tx.run(
                "UPDATE threads SET last_memory_seq = %s, unread_bytes = %s WHERE tenant_id = %s",
                [turns, size, tenant],
            )
        )
        return
    import psycopg

    with psycopg.connect(dsn) as superuser:
        superuser.execute(
            "UPDATE hippocampus.threads SET last_memory_seq = %s, unread_bytes = %s"
            " WHERE tenant_id = %s",
            (turns, size, tenant),
        )
