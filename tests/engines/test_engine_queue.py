"""The queue and the tokens of the storage port, the same on both engines."""

import asyncio
from contextlib import aclosing
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import pytest
from storage_calls import stored_jobs
from turns import START as NOW, Clock, said

from shared_core import Conflict, JobRecord, JobStatus, JobType, Scope
from shared_core.core.domain import ThreadId
from shared_core.core.namespaces import to_path
from shared_core.policies import api_tokens
from shared_core.ports.api_tokens import ApiToken
from shared_core.ports.events import EventRow
from shared_core.ports.jobs import Capability, Job, JobFilter, JobPriority, NewJob
from shared_core.ports.storage import Storage

ANN, BOB, CAT = Scope("app", "ann"), Scope("app", "bob"), Scope("other", "cat")
T = ThreadId("t")
ALL = [Capability(kind) for kind in JobType if kind is not JobType.CALLBACK]
LEASE_S = 60.0


def new(after_s: float = 0, **fields: Any) -> NewJob:
    given: dict[str, Any] = {"job_id": uuid4(), "job_type": JobType.DEEP_REFLECTION}
    return NewJob(run_after=NOW + timedelta(seconds=after_s), **given | fields)


class Queue:
    """The jobs of an empty database, and the changes of them."""

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self.storage, self.clock, self.jobs = storage, clock, storage.jobs
        self.changes = stored_jobs(storage)

    async def ask(self, job: NewJob, scope: Scope = ANN, thread: ThreadId | None = T) -> None:
        await self.jobs.enqueue(scope, thread, job)

    async def claim(self, worker: str = "w1", after: Scope | None = None) -> Job | None:
        return await self.jobs.claim_job(worker, LEASE_S, ALL, after)

    async def claimed(self, worker: str = "w1") -> Job:
        job = await self.claim(worker)
        assert job
        return job

    async def only(self, scope: Scope = ANN) -> JobRecord:
        """Return the only job of the thread."""
        [record] = await self.changes.of_threads([(scope, T)])
        return record


def fields(record: object, names: str) -> tuple[object, ...]:
    return tuple(getattr(record, name) for name in names.split())


@pytest.fixture
def queue(storage, storage_clock):
    return Queue(storage, storage_clock)


async def test_a_job_goes_from_asked_to_done(queue):
    asked = new(payload={"note": "火锅", "n": [1, None]})
    await queue.ask(asked)
    assert NOW == await queue.jobs.next_job_at(ALL)
    job = await queue.claim()
    assert job == Job(
        job_id=asked.job_id, scope=ANN, thread_id=T, job_type=asked.job_type, attempts=1,
        payload={"note": "火锅", "n": [1, None]},
    )  # fmt: skip
    assert await queue.claim("w2") is None
    assert await queue.changes.extend(job, "w1", 90)
    assert not await queue.changes.extend(job, "w2", 90)
    assert NOW + timedelta(seconds=90) == await queue.jobs.next_job_at(ALL)
    assert 1 == await queue.jobs.open_jobs([(ANN, T)], ALL)
    queue.clock.forward(3)
    await queue.changes.complete(job, "w2", {})
    assert JobStatus.RUNNING is (await queue.only()).status
    await queue.changes.complete(job, "w1", {"facts": 2})
    expected = (JobStatus.COMPLETED, {"facts": 2}, NOW, queue.clock.now, None, None)
    names = "status result started_at completed_at lease_until error"
    assert expected == fields(await queue.only(), names)
    assert await queue.jobs.next_job_at(ALL) is None
    assert [] == await queue.jobs.list_jobs(JobFilter())


async def test_a_request_joins_the_one_that_waits(queue):
    first = new(60)
    await queue.ask(first)
    queue.clock.forward(30)
    await queue.ask(new(90, priority=JobPriority.MANUAL))
    expected = (first.job_id, NOW + timedelta(seconds=90), 20, NOW)
    assert expected == fields(await queue.only(), "job_id run_after priority created_at")
    queue.clock.forward(530)
    await queue.ask(new(560 + 60))
    assert NOW + timedelta(seconds=600) == (await queue.only()).run_after  # no later than that
    other = new(700, payload={"n": 1})
    await queue.ask(other)
    one = await queue.only()
    assert (other.job_id, NOW) == (one.job_id, one.created_at)
    await queue.ask(other)  # sent again
    assert other.job_id == (await queue.only()).job_id


async def test_a_failed_try_waits_for_its_next_one(queue):
    await queue.ask(new())
    job = await queue.claimed()
    retry_at = NOW + timedelta(seconds=500)
    await queue.changes.give_back(job, "w1", "it broke\0", retry_at)
    await queue.ask(new(5))
    expected = (JobStatus.PENDING, 1, retry_at, "it broke\ufffd")
    assert expected == fields(await queue.only(), "status attempts run_after error")
    assert 1 == await queue.jobs.open_jobs([(ANN, T)], ALL)
    queue.clock.forward(10)
    await queue.ask(new(10, payload={"n": 1}))
    expected = (0, queue.clock.now, None, queue.clock.now)
    assert expected == fields(await queue.only(), "attempts run_after error created_at")


async def test_what_is_given_up_is_kept_and_can_be_tried_again(queue):
    for error in ("first", "second"):
        await queue.ask(new())
        job = await queue.claimed()
        await queue.changes.give_back(job, "w1", error, None, counted=error == "second")
    one = await queue.only()
    expected = (JobStatus.FAILED, "second", 1, NOW)
    assert expected == fields(one, "status error attempts completed_at")
    assert [one] == list(await queue.jobs.list_jobs(JobFilter(app="app", user="ann")))
    assert [] == await queue.jobs.list_jobs(JobFilter(app="app", user="bob"))
    assert [one] == list(await queue.jobs.list_jobs(JobFilter(app="app", job_ids=[one.job_id])))
    assert [] == await queue.jobs.list_jobs(JobFilter(statuses=[JobStatus.PENDING]))
    queue.clock.forward(1)
    assert 1 == await queue.changes.retry([one.job_id, uuid4()])
    assert 0 == await queue.changes.retry([])
    expected = (JobStatus.PENDING, 0, queue.clock.now, None, None)
    names = "status attempts run_after error completed_at"
    assert expected == fields(await queue.only(), names)
    assert 1 == await queue.changes.cancel([one.job_id])
    assert JobStatus.CANCELLED is (await queue.only()).status


async def test_a_silent_worker_loses_its_job(queue):
    await queue.ask(new())
    job = await queue.claimed()
    again = await queue.claim()  # the answer was lost
    assert again == job
    queue.clock.forward(LEASE_S)
    taken = await queue.claim("w2")
    assert taken and (job.job_id, 2) == (taken.job_id, taken.attempts)
    await queue.changes.complete(job, "w1", {})
    assert JobStatus.RUNNING is (await queue.only()).status


async def test_what_a_worker_gives_back_waits_again(queue):
    await queue.ask(new())
    await queue.ask(new(), BOB)
    for worker in ("w1", "w2"):
        assert await queue.claim(worker)
    await queue.ask(new(70))
    queue.clock.forward(1)
    await queue.jobs.release_jobs("w1")
    statuses = [record.status for record in await queue.changes.of_threads([(ANN, T)])]
    assert sorted(statuses) == [JobStatus.CANCELLED, JobStatus.PENDING]  # the newer one waits
    assert JobStatus.RUNNING is (await queue.only(BOB)).status


async def test_one_job_of_a_thread_runs_at_a_time(queue):
    await queue.ask(new())
    await queue.ask(new(job_type=JobType.FAST_REPLAY))
    assert await queue.claim()
    assert await queue.claim("w2") is None
    assert NOW + timedelta(seconds=LEASE_S) == await queue.jobs.next_job_at(ALL)
    with pytest.raises(Conflict, match="another job of thread 't' is running"):
        await queue.changes.start(ANN, T, new(), "w3", LEASE_S)
    assert await queue.changes.start(ANN, ThreadId("none"), new(), "w3", LEASE_S) is None


async def test_tenants_take_turns_after_priority(queue):
    for scope in (ANN, BOB, CAT):
        for place, kind in enumerate((JobType.DEEP_REFLECTION, JobType.FAST_REPLAY)):
            await queue.jobs.enqueue(scope, ThreadId(f"t{place}"), new(-10 + place, job_type=kind))
    await queue.jobs.enqueue(ANN, ThreadId("soon"), new(30, priority=JobPriority.MANUAL))
    await queue.jobs.enqueue(CAT, ThreadId("end"), new(-1, priority=JobPriority.SESSION_END))
    order, after = [], ANN
    while len(order) < 8 and (job := await queue.claim(f"w{len(order)}", after)):
        after = job.scope
        order.append(f"{job.scope.user} {job.thread_id}")
    assert order == ["cat end", "ann t0", "bob t0", "cat t0", "ann t1", "bob t1", "cat t1"]


async def test_a_worker_takes_what_it_can_do(queue):
    callback = {"job_type": JobType.CALLBACK, "performer": "mail"}
    await queue.ask(new(**callback))
    await queue.ask(new(**callback), CAT)
    await queue.ask(new(job_type=JobType.REFLECTION), thread=None)
    mail = [Capability(JobType.CALLBACK, "mail", "other")]
    job = await queue.jobs.claim_job("w1", LEASE_S, mail, None)
    assert job and (CAT, "mail") == (job.scope, job.performer)
    assert await queue.jobs.claim_job("w2", LEASE_S, mail, None) is None
    assert 0 == await queue.jobs.open_jobs([(ANN, T)], ALL)
    assert 1 == await queue.jobs.open_jobs([(ANN, T)], [Capability(JobType.CALLBACK, "mail")])
    names = "pending due running failed due_callbacks oldest_due_s"
    assert (2, 2, 1, 0, 1, 0.0) == fields(await queue.jobs.job_stats(), names)
    job = await queue.claim("w3")
    assert job and (ANN, None, JobType.REFLECTION) == (job.scope, job.thread_id, job.job_type)
    await queue.ask(new(job_type=JobType.REFLECTION), thread=None)
    assert await queue.claim("w4") is None  # one reflection of a user at a time


async def test_workers_never_share_a_job(queue):
    for place in range(12):
        await queue.jobs.enqueue(ANN if place % 2 else BOB, ThreadId(f"t{place}"), new())

    async def work(worker: str) -> list[UUID]:
        done = []
        while (job := await queue.claim(worker)) is not None:
            done.append(job.job_id)
            await queue.changes.complete(job, worker, {})
        return done

    taken = await asyncio.gather(*(work(f"w{place}") for place in range(4)))
    ids = [job_id for some in taken for job_id in some]
    assert (12, 12) == (len(ids), len(set(ids)))


async def test_hints_tell_of_new_jobs(queue):
    await queue.ask(new(5), BOB)
    async with aclosing(queue.jobs.job_hints()) as hints:  # type: ignore[type-var]
        async with asyncio.timeout(30):
            assert await anext(hints) is None
            await queue.ask(new(20))
            assert NOW + timedelta(seconds=20) == await anext(hints)
            await queue.ask(new(10))
            assert NOW + timedelta(seconds=10) == await anext(hints)


async def test_turns_make_a_thread_due_when_they_are_many(queue):
    await queue.ask(new(60))
    turns = [said(n, "a" * size) for n, size in enumerate((100, 100, 200))]
    rows = [EventRow(event=one, memory_id=None, logged=False, value={}, terms=[]) for one in turns]
    await queue.storage.events.append_events(ANN, T, rows, None)
    many = {"event_count": 4, "token_threshold": 101}
    for changes, due_s in ((many, 60), ({"event_count": 3}, 0)):
        await queue.ask(new(60, **changes))
        assert NOW + timedelta(seconds=due_s) == (await queue.only()).run_after
    assert await queue.changes.end_session(ANN, T, new(-5))
    job = await queue.claimed()
    await queue.ask(new(60, token_threshold=100))  # somebody reads it
    await queue.changes.give_back(job, "w1", "again", NOW)
    due = {one.status: one.run_after for one in await queue.changes.of_threads([(ANN, T)])}
    assert {"pending": NOW + timedelta(seconds=60), "cancelled": NOW} == due


# Tokens


async def add(storage: Storage, token: ApiToken, secret_hash: bytes) -> None:
    tenant = to_path((token.app,))
    await storage.transact(tenant, lambda: api_tokens.add_token(token, secret_hash), lock="none")


async def test_tokens_are_kept_and_revoked_once(storage):
    assert not await storage.tokens.tokens(limit=1)
    first = ApiToken(
        token_id="a1", app="app/ü", users=("ann", "火"), label="first", created_at=NOW,
        expires_at=NOW + timedelta(days=1),
    )  # fmt: skip
    later = NOW + timedelta(seconds=1)
    second = ApiToken(token_id="b2", app="other", users=None, label="", created_at=later)
    for _ in range(2):  # a second try finds what the first wrote
        await add(storage, first, b"\x00" * 32)
    await add(storage, second, b"\xff" * 32)
    assert 1 == len(await storage.tokens.tokens(limit=1))
    assert [(first, b"\x00" * 32)] == list(await storage.tokens.tokens("a1"))
    assert [(second, b"\xff" * 32)] == list(await storage.tokens.tokens("b2"))
    assert [] == list(await storage.tokens.tokens("A1"))
    assert [second, first] == api_tokens.newest_first(
        one for one, _ in await storage.tokens.tokens()
    )
    for app, expected in (("app/ü", [first]), ("app", [])):
        [rows] = await storage.read(to_path((app,)), [api_tokens.SELECT_TOKENS])
        assert expected == api_tokens.tokens_of(app, rows)
    for moment in (NOW, later):
        revoking = partial(api_tokens.revoke_token, "a1", moment)
        await storage.transact(to_path(("app/ü",)), revoking, lock="none")
    [(found, _)] = await storage.tokens.tokens("a1")
    assert NOW == found.revoked_at
