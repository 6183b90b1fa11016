"""The queue: what was left for later is done once, whatever happens to the process meanwhile."""

import asyncio
import signal
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import psycopg
import pytest
from every_case import every_case
from turns import Clock, said
from waiting import until
from warm_python import warm_python

from shared_core import CallableEmbedder, Event, MemoryEngine, Scope, open_memory
from shared_core.core import timestamps
from shared_core.core.domain import JsonValue
from shared_core.errors import InvalidInput, ModelUnavailable
from shared_core.jobs.runner import Outcome
from shared_core.ports.jobs import Capability, Job, JobStatus, JobType
from shared_core.storage.postgres.connection.database import Answers, PostgresDatabase
from shared_core.storage.postgres.connection.statements import Step

ANN = Scope("app", "ann")


def told(event_id: str, text: str) -> Event:
    return said(event_id, text, datetime.now(UTC))


async def later(memory: MemoryEngine, text: str, key: str = "e1", thread: str = "t") -> set[str]:
    """Append a turn of Ann, and leave the rest to the queue."""
    return await memory.append_events(ANN, thread, [told(key, text)], later=True)


def embed(texts: Sequence[str]) -> list[list[float]]:
    return [[1.0, 2.0] for _ in texts]


@pytest.fixture
async def idle(dsn):
    """An open memory without a worker, with a model that costs nothing."""
    async with open_memory(dsn, embedder=embed, worker=False) as memory:
        yield memory


@pytest.fixture
def now():
    """A clock that stands at the present: the server's clock tells when a job is due."""
    return Clock(datetime.now(UTC))


def execute(dsn: str, query: str) -> list[tuple[Any, ...]]:
    """Run a statement as the superuser; return its rows."""
    with psycopg.connect(dsn, autocommit=True) as superuser:
        cursor = superuser.execute(query)
        return cursor.fetchall() if cursor.description else []


def jobs(dsn: str) -> list[tuple[Any, ...]]:
    columns = "SELECT status, attempts FROM hippocampus.consolidation_jobs"
    return execute(dsn, f"{columns} ORDER BY created_at")


async def statements(memory: MemoryEngine) -> set[str]:
    return {fact.statement for fact in await memory.facts(ANN)}


async def test_what_is_left_for_later_is_found_by_words_now_and_by_meaning_then(memory, dsn):
    await memory.append_events(ANN, "t", [told("e1", "I live in Lisbon.")], later=True)
    [hit] = await memory.recall(ANN, "Lisbon", kinds=["episodic"])
    assert "I live in Lisbon." == hit.memory.text
    assert await memory.flush(60)
    [hit] = await memory.recall(ANN, "Which city is home?", kinds=["episodic"])
    assert hit.parts["similarity"] > 0.2
    assert {"User lives in Lisbon."} == await statements(memory)
    assert [("completed", 1)] == jobs(dsn)


@pytest.mark.both_engines
async def test_machines_whose_clocks_differ_share_the_queue(dsn, monkeypatch):
    """A job is due by the server's clock, and a lease ends by it."""
    work = [Capability(JobType.FULL_CONSOLIDATION)]
    claimed: list[Job | None] = []
    for ahead in (timedelta(hours=3), timedelta(0), timedelta(minutes=20)):
        clock = partial(lambda ahead: datetime.now(UTC) + ahead, ahead)
        monkeypatch.setattr(timestamps, "system_clock", clock)
        async with open_memory(dsn, worker=False) as memory:
            if not claimed:
                await later(memory, "tea")
                [waiting] = await memory.jobs.list()
                assert timedelta(minutes=1) > abs(waiting.run_after - datetime.now(UTC))
            claimed.append(await memory._storage.jobs.claim_job(f"{ahead}", 300, work, None))
    assert [True, False, False] == [bool(job) for job in claimed]


@pytest.mark.both_engines
async def test_work_that_is_cancelled_keeps_nobody_waiting(idle):
    """At any moment: before its claim is answered, at work, or before its result is stored."""
    await idle.append_events(ANN, "t", [told("e1", "I live in Lisbon.")])
    for delay_s in [0, 0, 0.002, 0.005, 0.01, 0.02]:
        working = asyncio.create_task(idle.jobs.run(ANN, "t"))
        await asyncio.sleep(delay_s)
        working.cancel()
        await asyncio.wait([working])
        assert [] == await idle.jobs.list(ANN, thread_id="t", statuses=[JobStatus.RUNNING])
    assert JobStatus.COMPLETED is (await idle.jobs.run(ANN, "t")).status


@pytest.mark.both_engines
async def test_a_worker_that_is_cancelled_keeps_no_job(idle):
    async def perform(job: Job) -> dict[str, JsonValue]:
        return await asyncio.Future()

    idle.jobs.learn(perform, JobType.FULL_CONSOLIDATION)
    await later(idle, "tea")
    for delay_s in [0, 0.002, 0.005, 0.01, 0.02]:
        serving = asyncio.create_task(idle.jobs.serve(once=True))
        await asyncio.sleep(delay_s)
        serving.cancel()
        await asyncio.wait([serving])
        [job] = await idle.jobs.list()
        assert JobStatus.PENDING is job.status


@pytest.mark.both_engines
async def test_a_job_that_another_one_follows_at_once_is_no_unknown_thread(memory, monkeypatch):
    """Of the finished jobs of a thread only the last is kept."""
    await memory.append_events(ANN, "t", [told("e1", "I live in Lisbon.")])
    run_now = memory._worker.run_now

    async def followed(job: Job, worker_id: str, *, tries: int) -> Outcome:
        outcome = await run_now(job, worker_id, tries=tries)
        monkeypatch.undo()
        await memory.jobs.run(ANN, "t")
        return outcome

    monkeypatch.setattr(memory._worker, "run_now", followed)
    assert JobStatus.COMPLETED is (await memory.jobs.run(ANN, "t")).status


async def test_requests_that_wait_for_one_thread_become_one(idle, dsn):
    for n in range(5):
        await later(idle, f"tea {n}", f"e{n}")
    assert [("pending", 0)] == jobs(dsn)
    async with open_memory(dsn, embedder=embed) as memory:
        assert await memory.flush(60)
        assert [("completed", 1)] == jobs(dsn)


async def test_what_a_process_left_is_done_by_whoever_writes_next(idle, dsn):
    await later(idle, "I live in Lisbon.")
    async with open_memory(dsn, embedder=embed) as memory:
        await memory.append_events(ANN, "other", [told("e2", "Nothing much.")])
        await until_done(dsn)
        assert {"User lives in Lisbon."} == await statements(memory)


async def test_who_writes_all_the_time_still_gets_facts(dsn, monkeypatch):
    monkeypatch.setattr("shared_core.ingest.events.EMBED_BATCH", 4)
    monkeypatch.setattr("shared_core.ingest.events.EMBED_BATCHES", 1)
    monkeypatch.setattr("shared_core.knowledge.consolidation.WINDOW", 5)
    async with open_memory(dsn) as memory:
        for n in range(12):  # more than two windows
            await later(memory, f"I live in Lisbon, house {n}.", f"e{n}")
        assert await memory.flush(60)
        assert 12 == len(await memory.list_memories(ANN, kinds=["episodic"]))
        hits = await memory.recall(ANN, "Lisbon house", kinds=["episodic"], limit=12)
        assert all("similarity" in hit.parts for hit in hits)
        assert any("Lisbon" in fact.statement for fact in await memory.facts(ANN))


CRASHING = """
import asyncio, os, signal, sys
from shared_core import CallableEmbedder, Scope, open_memory
from tests.turns import said

def embed(texts):
    if "before" == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)
    return [[1.0, 2.0]] * len(texts)

async def main():
    memory = open_memory(sys.argv[1], embedder=CallableEmbedder(embed, model="tiny"))
    await memory.open()
    turn = said("e1", "I live in Lisbon.")
    await memory.append_events(Scope("app", "ann"), "t", [turn], later=True)
    if "after" == sys.argv[2]:
        while not await memory.facts(Scope("app", "ann")):
            await asyncio.sleep(0.001)
        os.kill(os.getpid(), signal.SIGKILL)
    await memory.flush()

asyncio.run(main())
"""


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.tail
async def test_a_job_of_a_killed_process_is_done_once_by_the_next(dsn, moment):
    """Killed in the middle of embedding, or as soon as its facts are there."""
    killed = subprocess.run([*warm_python(), "-c", CRASHING, dsn, moment], check=False)
    assert killed.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL)
    execute(dsn, "UPDATE hippocampus.consolidation_jobs SET lease_until = now()")
    async with open_memory(dsn, embedder=CallableEmbedder(embed, model="tiny")) as memory:
        await later(memory, "Nothing much.", "e2")
        await until_done(dsn)
        assert {"User lives in Lisbon."} == await statements(memory)
        found = await memory.recall(ANN, "Lisbon", kinds=["episodic"])
        assert all("similarity" in hit.parts for hit in found)
    assert {"completed"} == {status for status, _ in jobs(dsn)}


SHARING = """
import asyncio, sys
from shared_core import Scope, open_memory
from tests.turns import said

async def main():
    async with open_memory(sys.argv[1], embedder=lambda texts: [[1.0]] * len(texts)) as memory:
        texts = ("I live in Lisbon.", "The tram is late.", "The soup is hot.")
        for n in range(8):
            turns = [said(f"{n}{text}", text) for text in texts]
            await memory.append_events(Scope("app", "ann"), f"t{n}", turns, later=True)
        assert await memory.flush(100)

asyncio.run(main())
"""


@pytest.mark.tail
async def test_two_processes_share_the_work_and_nothing_is_doubled(dsn):
    both = [subprocess.Popen([*warm_python(), "-c", SHARING, dsn]) for _ in range(2)]
    assert [0, 0] == [await asyncio.to_thread(process.wait) for process in both]
    await until_done(dsn)
    count = "SELECT kind, count(*) FROM hippocampus.memories GROUP BY kind ORDER BY kind"
    assert [("episodic", 24), ("semantic", 1), ("summary", 8)] == execute(dsn, count)


async def test_a_failing_job_is_tried_again_and_its_reason_is_kept(dsn):
    errors = [ModelUnavailable("out of quota")]

    def failing(texts: list[str]) -> list[list[float]]:
        if errors:
            raise errors.pop()
        return embed(texts)

    async with open_memory(dsn, embedder=failing, worker=False) as memory:
        await later(memory, "I live in Lisbon.")
        assert 1 == (await memory.jobs.serve(once=True)).failed
        [job] = await memory.jobs.list()
        assert (JobStatus.PENDING, 1) == (job.status, job.attempts)
        assert "out of quota" in (job.error or "")
        execute(dsn, "UPDATE hippocampus.consolidation_jobs SET run_after = now()")
        assert 1 == (await memory.jobs.serve(once=True)).done
        assert {"User lives in Lisbon."} == await statements(memory)


async def test_closing_gives_a_job_in_work_back_to_the_queue(dsn):
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def slow(texts: list[str]) -> list[list[float]]:
        loop.call_soon_threadsafe(begun.set)
        return await asyncio.Future()

    memory = open_memory(dsn, embedder=slow)
    await later(memory, "I live in Lisbon.")
    await begun.wait()
    await memory.close()
    assert [("pending", 1)] == jobs(dsn)


async def until_done(dsn: str) -> None:
    """Return when no job is left to do."""
    await until(lambda: not {status for status, _ in jobs(dsn)} & {"pending", "running"})


async def test_of_the_work_done_on_a_thread_the_last_is_kept(memory, dsn):
    for n in range(3):
        await later(memory, f"tea {n}", f"e{n}")
        assert await memory.flush(60)
    assert [("completed", 1)] == jobs(dsn)


async def test_a_newer_turn_moves_the_job_and_flush_does_not_wait_for_it(dsn):
    async with open_memory(dsn) as memory:
        turn = told("e1", "I live in Lisbon.")
        await memory.append_events(ANN, "t", [turn], later=True, delay_s=60)
        [first] = await memory.jobs.list()
        await memory.append_events(ANN, "t", [told("e2", "I like tea.")], later=True, delay_s=60)
        [second] = await memory.jobs.list()
        assert first.job_id == second.job_id and first.run_after < second.run_after
        assert [("pending", 0)] == jobs(dsn)
        assert await memory.flush(60)
        assert {"User lives in Lisbon.", "User likes tea."} == await statements(memory)
        assert [("completed", 1)] == jobs(dsn)


async def test_a_thread_that_never_rests_is_worked_on_all_the_same(clocked, clock):
    for n in range(30):
        await clocked.append_events(ANN, "t", [said(n, "tea")], later=True, delay_s=10)
        clock.forward(5)
    [job] = await clocked.jobs.list()
    assert timedelta(seconds=100) == job.run_after - job.created_at


async def test_turns_that_come_again_ask_for_no_work_that_was_done(dsn):
    async with open_memory(dsn, embedder=embed) as memory:
        turn = told("e1", "I live in Lisbon.")
        assert {"e1"} == await memory.append_events(ANN, "t", [turn], later=True)
        assert await memory.flush(60)
        for unseen in (False, True):
            again = await memory.append_events(ANN, "t", [turn], later=True, unseen=unseen)
            assert set() == again
        assert [("completed", 1)] == jobs(dsn)
        many = [turn, *(told(f"m{n}", f"tea {n}") for n in range(30))]
        assert 30 == len(await memory.append_events(ANN, "t", many, later=True))
        await memory.forget_turns(ANN, "t", ["e1"])
        for unseen in (False, True):
            again = await memory.append_events(ANN, "t", [turn], later=True, unseen=unseen)
            assert set() == again


async def test_turns_that_are_likely_unseen_take_one_round_trip(idle, dsn, monkeypatch):
    trips: list[object] = []
    run = PostgresDatabase.run

    async def counted(self: PostgresDatabase, scope: str, *steps: Step, **options: Any) -> Answers:
        trips.append(steps)
        return await run(self, scope, *steps, **options)

    monkeypatch.setattr(PostgresDatabase, "run", counted)
    turns = [said(n, f"tea {n}") for n in range(2)]
    assert {"e0", "e1"} == await idle.append_events(ANN, "t", turns, later=True, unseen=True)
    assert 1 == len(trips)
    assert [("pending", 0)] == jobs(dsn)


async def test_a_job_that_takes_longer_than_its_lease_is_done_once(dsn):
    calls = 0

    async def slow(texts: list[str]) -> list[list[float]]:
        nonlocal calls
        calls += 1
        await asyncio.sleep(1)
        return embed(texts)

    stop = asyncio.Event()
    async with open_memory(dsn, embedder=slow) as one, open_memory(dsn, embedder=slow) as other:
        for memory in (one, other):
            memory._worker._lease_s = 0.6
        turns = [told(text, text) for text in ("Nothing much.", "Thanks!", "The tram is late.")]
        await one.append_events(ANN, "t", turns, later=True)
        serving = asyncio.create_task(other.jobs.serve(stop, poll_s=0.05))
        assert await one.flush(60)
        stop.set()
        tally = await serving
    assert [("completed", 1)] == jobs(dsn)
    assert 0 == tally.done or 1 == tally.done
    assert 2 == calls  # the turns, and the summary


async def test_work_that_another_worker_took_over_is_ended(dsn):
    begun, ended, loop = asyncio.Event(), asyncio.Event(), asyncio.get_running_loop()

    async def slow(texts: list[str]) -> list[list[float]]:
        loop.call_soon_threadsafe(begun.set)
        try:
            return await asyncio.Future()
        finally:
            loop.call_soon_threadsafe(ended.set)

    async with open_memory(dsn, embedder=slow) as memory:
        memory._worker._lease_s = 0.3
        await later(memory, "Nothing much.")
        await begun.wait()
        execute(dsn, "UPDATE hippocampus.consolidation_jobs SET worker_id = 'another'")
        await ended.wait()
        held = execute(dsn, "SELECT worker_id, status FROM hippocampus.consolidation_jobs")
        assert [("another", "running")] == held


async def test_a_job_that_kills_every_worker_is_given_up(idle, dsn):
    await later(idle, "Nothing much.")
    taken = "status = 'running', attempts = 5, worker_id = 'x', lease_until = now()"
    execute(dsn, f"UPDATE hippocampus.consolidation_jobs SET {taken}")
    tally = await idle.jobs.serve(once=True)
    assert (0, 1) == (tally.done, tally.failed)
    [record] = await idle.jobs.list()
    assert ("failed", 6) == (record.status, record.attempts)
    assert "died" in (record.error or "")


async def test_a_memory_without_a_worker_leaves_the_work_to_others(idle, dsn):
    await later(idle, "I live in Lisbon.")
    assert not await idle.flush(0.2)
    assert [("pending", 0)] == jobs(dsn)
    async with open_memory(dsn, embedder=embed) as other:
        assert 1 == (await other.jobs.serve(once=True)).done
    assert await idle.flush(60)


async def test_a_new_turn_wakes_a_worker_that_waits_for_another(dsn, monkeypatch):
    """It would wait until tomorrow."""
    monkeypatch.setattr("shared_core.jobs.worker.LONGEST_SLEEP_S", 86_400)
    async with open_memory(dsn, embedder=embed) as memory:
        slow = [told("e1", "I like tea.")]
        await memory.append_events(ANN, "slow", slow, later=True, delay_s=86_400)
        await asyncio.sleep(0.2)
        await later(memory, "I live in Lisbon.")
        await until(lambda: ("completed", 1) in jobs(dsn))
        assert {"User lives in Lisbon."} == await statements(memory)


@every_case(-1, float("nan"), float("inf"), "soon", 1e12)
async def test_a_delay_that_is_none_is_refused(delay_s, memory):
    with pytest.raises(InvalidInput, match="delay_s"):
        await memory.append_events(ANN, "t", [told("e1", "x")], later=True, delay_s=delay_s)
