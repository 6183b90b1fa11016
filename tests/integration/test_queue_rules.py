"""The rules of the queue: fair turns, one job per thread, triggers, and bad jobs and rows."""

import asyncio
import logging
import re
import subprocess
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Any

import httpx
import psycopg
import pytest
from every_case import every_case
from waiting import until
from warm_python import warm_python

from shared_core import (
    ExtractionStrategy,
    MemoryConsolidationWorker,
    MemoryEngine,
    Scope,
    open_memory,
)
from shared_core.core.domain import JsonValue
from shared_core.core.timestamps import system_clock
from shared_core.errors import InvalidInput, ModelQuotaExceeded, NotFound, StorageUnavailable
from shared_core.http.app import create_app
from shared_core.jobs.runner import JobRunner, Outcome
from shared_core.ports.jobs import Capability, Job, JobStatus, JobType
from tests.integration.test_queue import (
    ANN,
    embed,
    execute,
    idle,
    jobs,
    later,
    now,
    statements,
    told,
    until_done,
)

__all__ = ["idle", "now"]
LATER = ExtractionStrategy(delay_s=600, event_count=None, token_threshold=None)


def listening(dsn: str) -> list[tuple[Any, ...]]:
    where = "query LIKE 'LISTEN%' AND datname = current_database()"
    return execute(dsn, f"SELECT pid FROM pg_stat_activity WHERE {where}")


def done_order(seen: list[tuple[str, str]]) -> Callable[[Job], Awaitable[dict[str, JsonValue]]]:
    async def perform(job: Job) -> dict[str, JsonValue]:
        seen.append((job.scope.user, job.thread_id or ""))
        return {}

    return perform


async def test_a_tenant_with_many_jobs_does_not_keep_others_waiting(idle):
    seen: list[tuple[str, str]] = []
    idle.jobs.learn(done_order(seen))
    for user, count in (("big", 20), ("ann", 2), ("zoe", 2)):
        for n in range(count):
            await idle.jobs.ask(Scope("app", user), f"t{n:02}", {})
    assert 24 == (await idle.jobs.serve(once=True)).done
    assert ["ann", "big", "zoe", "ann", "big", "zoe"] == [user for user, _ in seen[:6]]
    assert [f"t{n:02}" for n in range(20)] == [thread for user, thread in seen if "big" == user]


async def test_what_is_asked_for_by_hand_goes_first_and_a_session_end_next(idle):
    seen: list[tuple[str, str]] = []
    turn = told("e1", "tea")
    await idle.append_events(ANN, "turn", [turn], later=True)
    await idle.append_events(ANN, "end", [turn], later=True, session_end=True)
    await idle.append_events(Scope("app", "zoe"), "hand", [turn], later=True)
    await idle.jobs.request(Scope("app", "zoe"), "hand")
    idle.jobs.learn(done_order(seen), JobType.FULL_CONSOLIDATION)
    await idle.jobs.serve(once=True)
    assert ["hand", "end", "turn"] == [thread for _, thread in seen]


async def test_two_jobs_of_one_thread_never_run_at_once(dsn):
    running: list[str] = []
    most = 0

    async def perform(job: Job) -> dict[str, JsonValue]:
        nonlocal most
        running.append(job.job_type)
        most = max(most, len(running))
        await asyncio.sleep(0.1)
        running.remove(job.job_type)
        return {}

    async with open_memory(dsn, worker=False) as one, open_memory(dsn, worker=False) as other:
        await later(one, "tea")
        for job_type in (JobType.FAST_REPLAY, JobType.DEEP_REFLECTION):
            await one.jobs.request(ANN, "t", job_type)
        stop = asyncio.Event()
        for memory in (one, other):
            for job_type in JobType:
                memory.jobs.learn(perform, job_type)
        serves = (memory.jobs.serve(stop, poll_s=0.02) for memory in (one, other))
        serving = [asyncio.create_task(one) for one in serves]
        await until_done(dsn)
        stop.set()
        assert 3 == sum([(await tally).done for tally in serving])
    assert 1 == most


class Refusing:
    """An embedder that answers so many times with an error."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)

    async def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        if self.errors:
            raise self.errors.pop(0)
        return embed(texts)


@pytest.mark.parametrize(
    "error", [ModelQuotaExceeded("no more for now", retry_after_s=1), StorageUnavailable("away")]
)
async def test_what_is_not_the_fault_of_a_job_counts_as_no_try(dsn, now, error):
    model = Refusing(*[error] * 7)
    async with open_memory(dsn, embedder=model, clock=now, worker=False) as memory:
        await later(memory, "I live in Lisbon.")
        for _ in range(7):
            tally = await memory.jobs.serve(once=True)
            assert (0, 1) == (tally.done, tally.failed)
            [job] = await memory.jobs.list()
            assert (JobStatus.PENDING, 0) == (job.status, job.attempts)
            assert type(error).__name__ in (job.error or "")
            assert job.run_after > now()
            now.now = job.run_after + timedelta(seconds=1)
        assert 1 == (await memory.jobs.serve(once=True)).done
    assert [("completed", 1)] == jobs(dsn)


async def test_a_model_that_takes_no_more_is_left_alone_and_other_work_goes_on(dsn, now):
    seen: list[tuple[str, str]] = []
    model = Refusing(ModelQuotaExceeded("no more", retry_after_s=100))
    async with open_memory(dsn, embedder=model, clock=now, worker=False) as memory:
        memory.jobs.learn(done_order(seen))
        for thread in ("t1", "t2"):
            await later(memory, "I live in Lisbon.", thread=thread)
        await memory.jobs.ask(ANN, "zz", {})
        tally = await memory.jobs.serve(once=True)
        assert (1, 1) == (tally.done, tally.failed)
        assert [("ann", "zz")] == seen
        assert {0} == {job.attempts for job in await memory.jobs.list()}
        now.forward(111)
        assert 2 == (await memory.jobs.serve(once=True)).done


async def test_a_models_pause_grows_whatever_other_work_is_done(dsn, now):
    model = Refusing(*[ModelQuotaExceeded("no more")] * 6)
    waits = []
    async with open_memory(dsn, embedder=model, clock=now, worker=False) as memory:
        memory.jobs.learn(done_order([]))
        await later(memory, "I live in Lisbon.")
        for _ in range(6):
            await memory.jobs.serve(once=True)
            [job] = await memory.jobs.list()
            waits.append((job.run_after - now()).total_seconds())
            await memory.jobs.ask(ANN, "zz", {})
            assert 1 == (await memory.jobs.serve(once=True)).done
            now.now = job.run_after + timedelta(seconds=1)
    assert waits[-1] > 4 * waits[0]


async def test_poison_is_tried_later_each_time_and_given_up(dsn, now):
    async def perform(job: Job) -> dict[str, JsonValue]:
        raise ValueError("cannot read 'I live in Lisbon.'")

    waits: list[float] = []
    async with open_memory(dsn, clock=now, worker=False) as memory:
        await later(memory, "I live in Lisbon.")
        memory.jobs.learn(perform, JobType.FULL_CONSOLIDATION)
        for attempt in range(1, 6):
            await memory.jobs.serve(once=True)
            [job] = await memory.jobs.list()
            assert attempt == job.attempts
            waits.append((job.run_after - now()).total_seconds())
            now.now = job.run_after
        assert JobStatus.FAILED is job.status
        assert "ValueError at test_queue_rules.py" in (job.error or "")
        assert "Lisbon" not in (job.error or "")
        assert sorted(waits[:4]) == waits[:4] and 2 <= waits[0] <= 3 and waits[3] >= 16
        stats = await memory.jobs.stats()
        assert (0, 0, 1) == (stats.pending, stats.running, stats.failed)
        assert 1 == await memory.jobs.retry([job.job_id])
        [job] = await memory.jobs.list()
        assert (JobStatus.PENDING, 0, None) == (job.status, job.attempts, job.error)


async def test_a_new_turn_does_not_hurry_a_job_that_failed(dsn):
    model = Refusing(ModelQuotaExceeded("no more", retry_after_s=500))
    async with open_memory(dsn, embedder=model, worker=False) as memory:
        await later(memory, "tea")
        await memory.jobs.serve(once=True)
        [before] = await memory.jobs.list()
        await later(memory, "tea", "e2")
        [after] = await memory.jobs.list()
        assert before.run_after == after.run_after


@pytest.mark.parametrize(
    ("strategy", "texts"),
    [
        (ExtractionStrategy(delay_s=600, event_count=4, token_threshold=None), ["tea"] * 4),
        (ExtractionStrategy(delay_s=600, event_count=None, token_threshold=100), ["x" * 120] * 4),
        (
            ExtractionStrategy(delay_s=600, event_count=None, token_threshold=100),
            ["我住在里斯本，喜欢喝茶。" * 3] * 4,
        ),
    ],
)
async def test_enough_turns_or_tokens_are_worked_on_at_once(dsn, now, strategy, texts):
    options = {"embedder": embed, "clock": now, "strategy": strategy}
    async with open_memory(dsn, worker=False, **options) as memory:
        for lap in range(2):
            for n, text in enumerate(texts):
                [*before] = await memory.jobs.list()
                assert all(job.run_after > now() for job in before)
                now.forward(1)
                await later(memory, text, f"{lap}-{n}")
            [job] = await memory.jobs.list()
            assert job.run_after <= now()
            assert 1 == (await memory.jobs.serve(once=True)).done  # and counts anew


async def test_the_end_of_a_session_is_worked_on_at_once(dsn):
    async with open_memory(dsn, embedder=embed, worker=False, strategy=LATER) as memory:
        turn = told("e1", "I live in Lisbon.")
        assert not await memory.end_session(ANN, "t")
        await memory.append_events(ANN, "t", [turn], later=True)
        assert 0 == (await memory.jobs.serve(once=True)).done
        deaf = ExtractionStrategy(delay_s=600, on_session_end=False)
        await memory.append_events(ANN, "t", [turn], later=True, session_end=True, strategy=deaf)
        assert 0 == (await memory.jobs.serve(once=True)).done
        await memory.append_events(ANN, "t", [turn], later=True, session_end=True)  # known already
        assert 1 == (await memory.jobs.serve(once=True)).done
        assert not await memory.end_session(ANN, "t")
        turn = told("e2", "I like tea.")
        await memory.append_events(ANN, "t", [turn], later=True, session_end=True)
        assert 1 == (await memory.jobs.serve(once=True)).done
        assert {"User lives in Lisbon.", "User likes tea."} == await statements(memory)
        turn = told("e3", "I have a dog.")
        await memory.append_events(ANN, "t", [turn], session_end=True)
        assert 1 == (await memory.jobs.serve(once=True)).done
        assert not await memory.end_session(ANN, "t")


REFLECTING = """
import asyncio, sys
from shared_core import ExtractionStrategy, Scope, open_memory
from shared_core.core.domain import Conclusions
from shared_core.extraction.rule_based import RuleExtractor
from tests.turns import said

class Reflecting(RuleExtractor):
    async def reflect(self, memories, held, now):
        print("reflected", flush=True)
        return Conclusions()

async def main():
    rule = ExtractionStrategy(reflection_interval=4)
    async with open_memory(sys.argv[1], embedder=lambda t: [[1.0]] * len(t),
                           extractor=Reflecting(), strategy=rule) as memory:
        for n in range(6):
            turn, thread = said("e", f"I live in Lisbon, {n}."), f"{sys.argv[2]}{n}"
            await memory.append_events(Scope("app", "ann"), thread, [turn], later=True)
            assert await memory.flush(100)

asyncio.run(main())
"""


@pytest.mark.tail
async def test_every_so_many_extractions_ask_for_one_reflection(dsn):
    """Of all threads and processes together, each counted once."""
    commands = [[*warm_python(), "-c", REFLECTING, dsn, name] for name in "ab"]
    both = [subprocess.Popen(one, stdout=subprocess.PIPE, text=True) for one in commands]
    told_by = [(await asyncio.to_thread(process.communicate))[0] for process in both]
    await until_done(dsn)
    assert 3 == "".join(told_by).count("reflected")
    assert [(12,)] == execute(dsn, "SELECT extractions FROM hippocampus.extraction_counts")
    async with open_memory(dsn, embedder=lambda texts: [[1.0]] * len(texts)) as memory:
        await memory.forget_scope(ANN)
    assert [] == execute(dsn, "SELECT FROM hippocampus.extraction_counts")


async def test_consolidating_by_hand_returns_the_job(dsn):
    async with open_memory(dsn, embedder=embed, worker=False, strategy=LATER) as memory:
        worker = MemoryConsolidationWorker(memory, ANN)
        with pytest.raises(NotFound, match="nowhere"):
            await worker.consolidate("nowhere")
        for key, text in enumerate(("I live in Lisbon.", "The tram is late.", "Thanks!")):
            await later(memory, text, str(key))
        assert JobStatus.COMPLETED is (await worker.consolidate("t", JobType.FAST_REPLAY)).status
        assert set() == await statements(memory)
        assert 1 == len(await memory.list_memories(ANN, kinds=["summary"]))
        deep = await worker.consolidate("t", JobType.DEEP_REFLECTION)
        assert (JobType.DEEP_REFLECTION, 1) == (deep.job_type, deep.result["facts"])
        assert {"User lives in Lisbon."} == await statements(memory)
        full = await worker.consolidate("t")
        assert "No events to consolidate" == full.result["message"]
        assert full.started_at and full.completed_at and full.started_at <= full.completed_at
        assert full.error is None
        for refused in (JobType.CALLBACK, JobType.REFLECTION, "nap"):
            with pytest.raises(InvalidInput, match="full_consolidation"):
                await worker.consolidate("t", refused)  # type: ignore[arg-type]


async def test_consolidating_by_hand_waits_for_the_job_in_work_and_tells_a_failure(dsn):
    model = Refusing(RuntimeError("broken"))
    async with open_memory(dsn, embedder=model, worker=False) as memory:
        await later(memory, "I live in Lisbon.")
        taken = "status = 'running', worker_id = 'x', lease_until = now() + interval '600 s'"
        execute(dsn, f"UPDATE hippocampus.consolidation_jobs SET {taken}")
        asked = asyncio.create_task(MemoryConsolidationWorker(memory, ANN).consolidate("t"))
        await asyncio.sleep(0.3)
        assert not asked.done()
        execute(dsn, "UPDATE hippocampus.consolidation_jobs SET lease_until = now()")
        record = await asked
        assert JobStatus.FAILED is record.status
        assert record.error
        assert JobStatus.COMPLETED is (await memory.jobs.run(ANN, "t")).status


async def test_a_job_in_work_is_finished_when_the_memory_closes(dsn):
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def slow(texts: list[str]) -> list[list[float]]:
        loop.call_soon_threadsafe(begun.set)
        await asyncio.sleep(0.5)
        return embed(texts)

    memory = open_memory(dsn, embedder=slow)
    for thread in ("t1", "t2"):
        await later(memory, "I live in Lisbon.", thread=thread)
    await begun.wait()
    await memory.close(drain_s=60)
    assert ["completed", "pending"] == sorted(status for status, _ in jobs(dsn))


async def test_a_cancelled_job_is_not_done_and_one_in_work_ends(dsn):
    ended = asyncio.Event()

    async def perform(job: Job) -> dict[str, JsonValue]:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()
        return {}

    async with open_memory(dsn, worker=False, strategy=LATER) as memory:
        await later(memory, "tea")
        [waiting] = await memory.jobs.list()
        assert 1 == await memory.jobs.cancel([waiting.job_id])
        assert [] == await memory.jobs.list()
        memory._worker._lease_s = 0.3
        memory.jobs.learn(perform)
        await memory.jobs.ask(ANN, "t", {})
        stop = asyncio.Event()
        serving = asyncio.create_task(memory.jobs.serve(stop, poll_s=0.02))
        await until(lambda: "running" in {status for status, _ in jobs(dsn)})
        [running] = await memory.jobs.list()
        assert 1 == await memory.jobs.cancel([running.job_id])
        await ended.wait()
        stop.set()
        assert 0 == (await serving).done


@pytest.mark.parametrize("asks", [False, True])
async def test_a_job_whose_code_cancels_itself_fails_as_any_other(idle, asks):
    runs, stop = 0, asyncio.Event()

    async def perform(job: Job) -> dict[str, JsonValue]:
        nonlocal runs
        runs += 1
        if runs == 2:  # it was given back at once
            stop.set()
        task = asyncio.current_task()
        if asks and task:
            task.cancel()
            await asyncio.sleep(0)
        raise asyncio.CancelledError

    idle.jobs.learn(perform)
    await idle.jobs.ask(ANN, "t", {})
    tally = await idle.jobs.serve(stop, once=True)
    assert (1, 0, 1) == (runs, tally.done, tally.failed)
    [job] = await idle.jobs.list()
    assert (JobStatus.PENDING, 1) == (job.status, job.attempts)
    assert "its code was cancelled" in (job.error or "")


HINTED = """
import asyncio, sys
from shared_core import open_memory
from shared_core.jobs import worker

worker.LONGEST_SLEEP_S = 600

async def main():
    memory = open_memory(sys.argv[1], embedder=lambda texts: [[1.0, 2.0]] * len(texts))
    async with memory:
        print("open", flush=True)
        await memory.jobs.serve(asyncio.Event(), poll_s=600)

asyncio.run(main())
"""


async def test_a_worker_that_rests_hears_of_jobs_of_other_processes(idle, dsn):
    """It looks by itself every ten minutes only, and is killed in the end."""
    worker = subprocess.Popen([*warm_python(), "-c", HINTED, dsn], stdout=subprocess.PIPE)
    assert worker.stdout is not None
    await asyncio.to_thread(worker.stdout.readline)
    try:
        await until(lambda: listening(dsn))
        for n, delay_s in enumerate((0, 1, 0)):
            turn = told(f"e{n}", "I live in Lisbon.")
            await idle.append_events(ANN, f"t{n}", [turn], later=True, delay_s=delay_s)
            await until_done(dsn)
    finally:
        worker.kill()
        await asyncio.to_thread(worker.communicate)


async def test_a_worker_without_hints_looks_often_and_says_so_once(idle, dsn, monkeypatch, caplog):
    monkeypatch.setattr("shared_core.storage.postgres.jobs.PROOF_S", 0.1)
    monkeypatch.setattr("shared_core.jobs.worker.RELISTEN_S", 0.1)
    # As a transaction pooler: it takes LISTEN, and what is sent to another channel never comes.
    monkeypatch.setattr("shared_core.storage.postgres.jobs.LISTEN", "LISTEN elsewhere")
    stop = asyncio.Event()
    serving = asyncio.create_task(idle.jobs.serve(stop, poll_s=0.05))
    await until(lambda: "no hints" in caplog.text)
    await later(idle, "tea")
    await until_done(dsn)
    await asyncio.sleep(0.3)  # it listens again meanwhile
    stop.set()
    await serving
    assert 1 == len([record for record in caplog.records if "no hints" in record.message])


async def test_hints_come_back_after_the_listening_connection_was_lost(idle, dsn, monkeypatch):
    monkeypatch.setattr("shared_core.jobs.worker.RELISTEN_S", 0.05)
    stop = asyncio.Event()
    serving = asyncio.create_task(idle.jobs.serve(stop, poll_s=0.2))
    for n in range(2):
        await until(lambda: listening(dsn))
        await later(idle, "tea", thread=f"t{n}")
        await until_done(dsn)
        [[lost]] = listening(dsn)
        execute(dsn, f"SELECT pg_terminate_backend({lost})")
        await until(lambda lost=lost: (lost,) not in listening(dsn))  # type: ignore[misc]
    stop.set()
    assert 2 == (await serving).done


@every_case(
    {"delay_s": -1}, {"event_count": 0}, {"token_threshold": 1.5},
    {"reflection_interval": True}, {"on_session_end": "yes"},
)  # fmt: skip
def test_a_strategy_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        ExtractionStrategy(**wrong)


async def failing(job: Job) -> dict[str, JsonValue]:
    raise ValueError("never")


async def test_flush_tells_that_what_another_left_failed_here(dsn):
    async with open_memory(dsn, worker=False) as idle:
        await later(idle, "I live in Lisbon.")
    async with open_memory(dsn) as memory:
        memory.jobs.learn(failing, JobType.FULL_CONSOLIDATION)
        assert not await memory.flush(60)
        assert not await memory.flush(60)
        async with open_memory(dsn, worker=False) as other:
            assert JobStatus.COMPLETED is (await other.jobs.run(ANN, "t")).status
            [waiting] = await other.jobs.list()
            await other.jobs.cancel([waiting.job_id])
        assert await memory.flush(60)


async def test_flush_tells_that_another_gave_up_what_it_took_over(dsn, now):
    async with (
        open_memory(dsn, clock=now, worker=False) as idle,
        open_memory(dsn, clock=now, worker=False) as other,
    ):
        other.jobs.learn(failing, JobType.FULL_CONSOLIDATION)
        await later(idle, "I live in Lisbon.")
        while [job for job in await other.jobs.list() if job.is_open]:
            await other.jobs.serve(once=True)
            now.forward(60)
        assert [("failed", 5)] == jobs(dsn)
        assert not await idle.flush(60)
        assert await idle.flush(60)
        await later(idle, "I like tea.", "e2")
        assert 1 == (await idle.jobs.serve(once=True)).done
        assert await idle.flush(60)


BAD = Scope("a", "ana")
TENANTS = ["/a/ana/x/", "/a/", "/a//", "/a/ana", "/a/ana%2/"]
"""Tenants that are not the path of an application and a user."""
Execute = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture
def as_admin(request, dsn, on_engine):
    """Runs a statement as an administrator; the table of jobs accepts any tenant meanwhile."""
    if on_engine == "postgres":
        with psycopg.connect(dsn, options="-c search_path=hippocampus", autocommit=True) as admin:
            admin.execute("ALTER TABLE consolidation_jobs DROP CONSTRAINT tenant_labels")

            def on_postgres(statement: str) -> list[tuple[Any, ...]]:
                cursor = admin.execute(statement)
                return cursor.fetchall() if cursor.description else []

            yield on_postgres
        return
    with request.getfixturevalue("seekdb").connection(dsn) as cursor:

        def on_seekdb(statement: str) -> list[tuple[Any, ...]]:
            cursor.execute(statement)
            return list(cursor.fetchall())

        [[_, table]] = on_seekdb("SHOW CREATE TABLE consolidation_jobs")
        name, condition = re.findall(r"CONSTRAINT `(\w+)` CHECK (.+?),?\n", table)[0]
        on_seekdb(f"ALTER TABLE consolidation_jobs DROP CONSTRAINT {name}")
        yield on_seekdb
        on_seekdb("DELETE FROM consolidation_jobs")  # the next test gets the same tables
        on_seekdb(f"ALTER TABLE consolidation_jobs ADD CONSTRAINT {name} CHECK {condition}")


async def done(job: Job) -> dict[str, JsonValue]:
    return {"done": 1}


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


async def hand_over(memory: MemoryEngine, as_admin: Execute, *tenants: str) -> None:
    """Enqueue a reflection for each tenant, and one for ANN, which is due last."""
    for tenant in tenants:
        await memory.jobs.request(BAD, None, JobType.REFLECTION)
        update = f"UPDATE consolidation_jobs SET tenant_id = '{tenant}'"
        as_admin(f"{update} WHERE tenant_id = '/a/ana/'")
    await memory.jobs.request(ANN, None, JobType.REFLECTION)


@pytest.mark.both_engines
async def test_a_worker_buries_jobs_it_cannot_read_and_goes_on(idle, as_admin, caplog):
    idle.jobs.learn(done, JobType.REFLECTION)
    await hand_over(idle, as_admin, *TENANTS)
    tally = await idle.jobs.serve(once=True)
    assert (1, len(TENANTS)) == (tally.done, tally.failed)
    rows = as_admin("SELECT tenant_id, error FROM consolidation_jobs WHERE status = 'failed'")
    dead = {_text(tenant): _text(error) for tenant, error in rows}
    assert set(TENANTS) == set(dead)
    assert all("cannot be read" in error and tenant in error for tenant, error in dead.items())
    for tenant in TENANTS:
        [line] = [one.message for one in caplog.records if f"tenant {tenant!r}" in one.message]
        assert "cannot be read" in line
    [ours] = await idle.jobs.list(statuses=[*JobStatus])
    assert (ANN, JobStatus.COMPLETED) == (ours.scope, ours.status)


@pytest.mark.both_engines
async def test_a_background_worker_outlives_a_job_it_cannot_read(dsn, as_admin):
    async with open_memory(dsn, worker=False) as idle:
        await hand_over(idle, as_admin, TENANTS[0])
    async with open_memory(dsn) as memory:
        memory.jobs.learn(done, JobType.REFLECTION)
        await memory.append_events(ANN, "t", [], later=True, session_end=True)
        assert await memory.flush(60)
        jobs = await memory.jobs.list(statuses=[*JobStatus])
        assert JobStatus.COMPLETED in {one.status for one in jobs if one.thread_id is None}


@pytest.mark.both_engines
async def test_jobs_are_listed_beside_one_that_cannot_be_read(idle, as_admin, caplog):
    await hand_over(idle, as_admin, TENANTS[0])
    assert [ANN] == [job.scope for job in await idle.jobs.list()]
    [line] = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert "is not listed" in line.message and TENANTS[0] in line.message
    transport = httpx.ASGITransport(create_app(idle))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await client.get("/jobs", params={"app": "app"})
    assert (200, ["ann"]) == (
        answer.status_code, [job["user_id"] for job in answer.json()["jobs"]]
    )  # fmt: skip


MOMENTS = {
    "postgres": ["infinity", "-infinity", "294000-01-01", "4000-01-01 BC"],
    "seekdb": ["9999-12-31 23:59:59.999999", "0001-01-01", "0000-00-00"],
}
"""The ends of what a column of each engine holds, of which Python knows the years 1 to 9999."""


@pytest.mark.both_engines
async def test_a_moment_that_python_does_not_know_hides_no_jobs(idle, as_admin, on_engine):
    idle.jobs.learn(done, JobType.REFLECTION)
    for moment in MOMENTS[on_engine]:
        await hand_over(idle, as_admin, "/a/ben/")
        moved = f"run_after = '{moment}', created_at = '{moment}'"
        as_admin(f"UPDATE consolidation_jobs SET {moved} WHERE tenant_id = '/a/ben/'")
        assert {"ann", "ben"} == {job.scope.user for job in await idle.jobs.list()}
        stats = await idle.jobs.stats()
        assert stats.oldest_due_s is not None and isfinite(stats.oldest_due_s)
        tally = await idle.jobs.serve(once=True)
        assert 0 == tally.failed < tally.done
        as_admin("DELETE FROM consolidation_jobs")


async def test_conversations_end_beside_one_whose_user_cannot_be_read(dsn, caplog):
    yesterday = datetime.now(UTC) - timedelta(days=1)
    async with open_memory(dsn, worker=False, clock=lambda: yesterday) as memory:
        for user in ("ana", "ben"):
            await memory.process_memory("tea", user, app="a")
    with psycopg.connect(dsn, options="-c search_path=hippocampus") as admin:
        admin.execute("ALTER TABLE conversations DROP CONSTRAINT tenant_labels")
        admin.execute("SET session_replication_role = replica")  # no foreign keys
        update = f"UPDATE conversations SET tenant_id = '{TENANTS[0]}'"
        admin.execute(f"{update} WHERE tenant_id = '/a/ana/'")
    async with open_memory(dsn, worker=False) as memory:
        assert 1 == await memory.conversations.expiry.run()
    logged = [one.message for one in caplog.records if TENANTS[0] in one.message]
    assert logged and all("a conversation that is over is left out" in one for one in logged)


DEEP = "[" * 5_000 + "]" * 5_000
MANY_DIGITS = f'{{"n": {"9" * 5_000}}}'


@pytest.mark.both_engines
async def test_a_payload_that_cannot_be_read_is_a_reason(idle, as_admin, on_engine):
    """A column of PostgreSQL holds no broken JSON."""
    idle.jobs.learn(done, JobType.REFLECTION)
    for value in ("{", "[]", DEEP, MANY_DIGITS)[on_engine == "postgres" :]:
        await idle.jobs.request(ANN, None, JobType.REFLECTION)
        as_admin(f"UPDATE consolidation_jobs SET payload = '{value}'")
        assert 1 == (await idle.jobs.serve(once=True)).failed, value[:20]
        [job] = await idle.jobs.list()
        assert JobStatus.FAILED is job.status
        assert job.error and "cannot be read" in job.error
        as_admin("DELETE FROM consolidation_jobs")


async def test_a_worker_outlives_code_that_returns_no_result(idle):
    results: list[Any] = [None, [1], {"at": object()}]

    async def perform(job: Job) -> Any:
        return results[-1]

    idle.jobs.learn(perform)
    while results:
        await idle.jobs.ask(ANN, "t", {})
        assert 1 == (await idle.jobs.serve(once=True)).failed
        [job] = await idle.jobs.list()
        assert JobStatus.PENDING is job.status
        assert job.error and "its " in job.error
        await idle.jobs.cancel([job.job_id])
        results.pop()


async def test_a_job_whose_code_was_unregistered_meanwhile_goes_back(idle):
    await idle.jobs.ask(ANN, "t", {})
    storage = idle._storage
    job = await storage.jobs.claim_job("w", 300, [Capability(JobType.CALLBACK, "reflector")], None)
    assert job
    assert Outcome.LOST is await JobRunner(storage, system_clock, {}).run(job, "w", 300)
    [job_now] = await idle.jobs.list()
    assert (JobStatus.PENDING, 0) == (job_now.status, job_now.attempts)
