"""Reflectors and the queue: whose work is whose, what futures tell, and what a failure does."""

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from datetime import timedelta
from typing import Any
from unittest import mock
from uuid import UUID, uuid4

import pytest
from langchain_core.messages import HumanMessage

from langgraph_store import DurableReflectionExecutor, PgHippocampusStore as Store
from langgraph_store.executor import ReflectionFailed
from shared_core import JobStatus, JobType, Scope, errors, open_memory, run_sync
from shared_core.core.domain import JsonValue
from shared_core.jobs.stored_jobs import StoredJobs
from shared_core.ports.jobs import Job
from shared_core.storage.postgres.connection.database import Answers, PostgresDatabase
from shared_core.storage.postgres.connection.statements import Step
from tests.integration.test_queue import ANN
from tests.integration.test_queue_rules import embed, execute

EMBED: Any = {"embed": embed, "dims": 2}


def config(thread_id: object = "t", user_id: object = "ann") -> Any:
    return {"configurable": {"thread_id": thread_id, "langgraph_user_id": user_id}}


def said(text: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(text)]}


class Noting:
    """A reflector that notes what it was called with."""

    def __init__(self, answer: object = None) -> None:
        self.answer = answer
        self.seen: list[str] = []
        self.configs: list[dict[str, Any]] = []

    def invoke(self, input: Any, config: Any = None) -> Any:
        self.seen.append(input["messages"][0].text)
        self.configs.append(config["configurable"])
        return self.answer


@pytest.fixture
def store(dsn):
    with Store(dsn, index=EMBED) as open_store:
        yield open_store


@pytest.fixture
async def memory(dsn, clock):
    """A memory without a worker, whose clock the test moves."""
    async with open_memory(dsn, embedder=embed, clock=clock, worker=False) as memory:
        yield memory


@pytest.fixture
def idle(dsn):
    """A store that leaves all work to others."""
    with Store(engine=open_memory(dsn, embedder=embed, worker=False)) as open_store:
        yield open_store
        run_sync(open_store.engine.close())


def served(store: Store) -> int:
    return run_sync(store.engine.jobs.serve(once=True)).done


def wait(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_payload_goes_to_the_reflector_of_its_application_alone(store, idle):
    shops, banks = Noting("shop"), Noting("bank")
    DurableReflectionExecutor(store, app="shop", reflector=shops)
    DurableReflectionExecutor(store, app="ban", reflector=shops)
    of_bank = DurableReflectionExecutor(idle, app="bank", reflector=banks)
    future = of_bank.submit(said("My balance is 5."), config())
    assert 0 == served(store)
    assert 1 == served(idle)
    assert "bank" == future.result(30)
    assert ([], ["My balance is 5."]) == (shops.seen, banks.seen)


def test_two_reflectors_of_an_application_have_names(idle):
    facts, moods = Noting("facts"), Noting("moods")
    one = DurableReflectionExecutor(idle, app="app", reflector=facts)
    with pytest.raises(errors.Conflict, match="another name"):
        DurableReflectionExecutor(idle, app="app", reflector=moods)
    other = DurableReflectionExecutor(idle, app="app", reflector=moods, name="moods")
    futures = [one.submit(said("One."), config()), other.submit(said("Two."), config())]
    assert 2 == served(idle)
    assert ["facts", "moods"] == [future.result(30) for future in futures]
    assert (["One."], ["Two."]) == (facts.seen, moods.seen)
    one.shutdown()
    DurableReflectionExecutor(idle, app="app", reflector=facts)  # the name is free again
    with pytest.raises(errors.InvalidInput, match="shut down"):
        one.submit(said("Three."), config())


def test_a_reflector_of_many_applications_has_a_name(store, idle):
    def tenant(config: Any, context: Any) -> str:
        return str(config["configurable"]["tenant"])

    with pytest.raises(errors.InvalidInput, match="name="):
        DurableReflectionExecutor(store, app=tenant, reflector=Noting())
    every, own = Noting("every"), Noting("own")
    DurableReflectionExecutor(store, app=tenant, reflector=every, name="every")
    asking = DurableReflectionExecutor(idle, app=tenant, reflector=own, name="every")
    of_b: Any = {"configurable": {"tenant": "b", "thread_id": "t", "user_id": "ann"}}
    asking.submit(said("From b."), of_b)
    DurableReflectionExecutor(idle, app="b", reflector=own).submit(said("Own."), config())
    served(store)  # or the store's own worker did it
    wait(lambda: every.seen)
    assert (["From b."], []) == (every.seen, own.seen)


def test_closing_the_store_ends_the_waiting_and_stays_closed(store):
    executor = DurableReflectionExecutor(store, app="app")
    future = executor.submit(said("I live in Lisbon."), config(), after_seconds=300)
    time.sleep(0.2)
    store.close()
    with pytest.raises(CancelledError):
        future.result(10)
    time.sleep(1.5)
    assert not store.engine._lifecycle.is_open


def test_a_sweeper_does_not_open_what_was_closed(dsn):
    engine = open_memory(dsn, embedder=embed)
    store = Store(engine=engine)
    store.setup()
    swept: list[bool] = []
    sweep = store._sweep

    async def noted() -> int:
        swept.append(engine._lifecycle.is_open)
        return await sweep()

    store._sweep = noted  # type: ignore[method-assign]
    store.start_ttl_sweeper(0.1 / 60)
    wait(lambda: swept)
    run_sync(engine.close())  # whoever made the engine closes it
    count = len(swept)
    wait(lambda: len(swept) > count + 1)
    assert not engine._lifecycle.is_open
    run_sync(engine.open())
    assert engine._lifecycle.is_open
    store.stop_ttl_sweeper()
    run_sync(engine.close())


def test_a_reflector_left_behind_does_not_open_what_was_closed(dsn):
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()
    raised: list[BaseException] = []
    store = Store(dsn, index=EMBED)
    store.setup()

    class Slow:
        def invoke(self, input: Any, config: Any = None) -> None:
            begun.set()
            go_on.wait(60)
            try:
                store.put(("a", "b"), "key", {"text": "late"})
            except errors.StorageUnavailable as error:
                raised.append(error)
            ended.set()

    DurableReflectionExecutor(store, app="app", reflector=Slow()).submit(said("Hi."), config())
    assert begun.wait(60)
    run_sync(store.engine.close(drain_s=0))
    go_on.set()
    assert ended.wait(60)
    assert ["the memory was closed"] == [str(error).partition(",")[0] for error in raised]
    assert not store.engine._lifecycle.is_open
    assert [("pending",)] == execute(dsn, "SELECT status FROM hippocampus.consolidation_jobs")


def test_what_a_crashed_process_left_is_done_without_a_new_submission(dsn, idle):
    left = DurableReflectionExecutor(idle, app="app", reflector=Noting())
    left.submit(said("One."), config("t1"))
    seen = Noting()
    with Store(dsn, index=EMBED) as opened_before:
        DurableReflectionExecutor(opened_before, app="app", reflector=seen)
        wait(lambda: ["One."] == seen.seen)
    left.submit(said("Two."), config("t2"))
    late = Store(dsn, index=EMBED)
    DurableReflectionExecutor(late, app="app", reflector=seen)
    with late:
        wait(lambda: ["One.", "Two."] == seen.seen)


async def test_a_new_payload_begins_anew(memory, clock):
    seen: list[tuple[JsonValue, int]] = []

    async def perform(job: Job) -> dict[str, JsonValue]:
        seen.append(((job.payload or {})["n"], job.attempts))
        raise ValueError("away")

    memory.jobs.learn(perform)
    first = await memory.jobs.ask(ANN, "t", {"n": 1}, delay_s=10)
    for _ in range(3):
        clock.forward(1000)
        await memory.jobs.serve(once=True)
    [job] = await memory.jobs.list()
    assert (3, first) == (job.attempts, job.job_id)
    second = await memory.jobs.ask(ANN, "t", {"n": 2}, delay_s=10)
    [job] = await memory.jobs.list()
    assert (0, None, second, clock.now) == (job.attempts, job.error, job.job_id, job.created_at)
    assert timedelta(seconds=10) == job.run_after - clock.now
    clock.forward(10)
    await memory.jobs.serve(once=True)
    assert ([1, 2, 3], (2, 1)) == ([tries for _, tries in seen[:3]], seen[3])


async def test_a_callback_that_fails_is_tried_for_minutes(memory, clock):
    async def perform(job: Job) -> dict[str, JsonValue]:
        raise ValueError("away")

    memory.jobs.learn(perform)
    await memory.jobs.ask(ANN, "t", {})
    for _ in range(5):
        await memory.jobs.serve(once=True)
        [job] = await memory.jobs.list()
        clock.now = job.run_after
    assert JobStatus.FAILED is job.status
    assert timedelta(minutes=10) < clock.now - clock.start < timedelta(hours=1)


async def test_a_new_payload_while_the_old_is_never_tried_waits_ten_delays_at_most(memory, clock):
    for n in range(30):
        await memory.jobs.ask(ANN, "t", {"n": n}, delay_s=10)
        clock.forward(5)
    [job] = await memory.jobs.list()
    assert timedelta(seconds=100) == job.run_after - job.created_at


def test_what_nobody_waits_for_is_not_kept(store):
    reflector = Noting("done")
    executor = DurableReflectionExecutor(store, app="app", reflector=reflector)
    for n in range(5):
        executor.submit(said(f"{n}"), config(f"t{n}"), after_seconds=0.2).cancel()
    wait(lambda: 5 == len(reflector.seen))
    assert run_sync(store.engine.flush(60))
    assert ({}, {}) == (executor._reflected, executor._futures)


def test_a_future_tells_of_its_own_payload(store, idle):
    """Also when another process does the next one of the thread."""
    here, there = Noting("here"), Noting(["there"])
    executor = DurableReflectionExecutor(idle, app="app", reflector=here)
    executor.submit(said("First."), config()).cancel()
    assert 1 == served(idle)
    future = executor.submit(said("Second."), config())
    DurableReflectionExecutor(store, app="app", reflector=there)
    assert {"returned": 1} == future.result(30)
    assert (["First."], ["Second."]) == (here.seen, there.seen)


def test_a_payload_replaced_by_another_process_is_not_waited_for(dsn, idle):
    executor = DurableReflectionExecutor(idle, app="app", reflector=Noting())
    old = executor.submit(said("Old."), config(), after_seconds=0.5)
    with Store(engine=open_memory(dsn, embedder=embed, worker=False)) as other:
        executor = DurableReflectionExecutor(other, app="app", reflector=Noting())
        executor.submit(said("New."), config(), after_seconds=300)
        with pytest.raises(CancelledError):
            old.result(30)
        run_sync(other.engine.close())


def test_uuids_of_a_config_reach_the_reflector(store):
    reflector = Noting("done")
    executor = DurableReflectionExecutor(store, app="app", reflector=reflector)
    user, thread = uuid4(), uuid4()
    assert "done" == executor.submit(said("Hi."), config(thread, user)).result(30)
    [seen] = reflector.configs
    assert (str(thread), str(user)) == (seen["thread_id"], seen["langgraph_user_id"])


def test_many_futures_ask_the_queue_rarely(store, monkeypatch):
    executor = DurableReflectionExecutor(store, app="app", reflector=Noting())
    for n in range(30):
        executor.submit(said("Hi."), config(f"t{n}"), after_seconds=300)
    time.sleep(0.5)
    asked: list[object] = []
    run = PostgresDatabase.run

    async def counted(self: PostgresDatabase, scope: str, *steps: Step, **options: Any) -> Answers:
        asked.append(steps)
        return await run(self, scope, *steps, **options)

    monkeypatch.setattr(PostgresDatabase, "run", counted)
    time.sleep(2)
    assert len(asked) <= 3
    executor.shutdown()
    assert not executor._futures


@pytest.mark.parametrize(("error", "told"), [
    (SystemExit(1), ""), (KeyboardInterrupt(), ""), (StopIteration(), ""),
    (ValueError("out of tokens"), ".*out of tokens"),
])  # fmt: skip
def test_a_reflector_that_fails_or_tries_to_end_the_process_only_fails(dsn, store, error, told):
    class Failing:
        def invoke(self, input: Any, config: Any = None) -> None:
            raise error

    executor = DurableReflectionExecutor(store, app="app", reflector=Failing())
    future = executor.submit(said("Hi."), config())
    query = "SELECT status, attempts FROM hippocampus.consolidation_jobs"
    wait(lambda: [("pending", 1)] == execute(dsn, query))
    execute(dsn, "UPDATE hippocampus.consolidation_jobs SET attempts = 4, run_after = now()")
    store.engine._worker.wake()
    with pytest.raises(ReflectionFailed, match=f"failed after all retries{told}"):
        future.result(30)
    assert ["failed"] == [job.status for job in run_sync(store.engine.jobs.list())]
    with Store(dsn, index=EMBED) as other:
        assert other.get(("a", "b"), "nothing") is None


async def test_a_callback_that_calls_exit_ends_no_worker(memory):
    async def perform(job: Job) -> dict[str, JsonValue]:
        if "bad" == job.thread_id:
            sys.exit("done with it")
        return {}

    memory.jobs.learn(perform)
    for thread in ("bad", "good"):
        await memory.jobs.ask(ANN, thread, {})
    tally = await memory.jobs.serve(once=True)
    assert (1, 1) == (tally.done, tally.failed)
    [job] = await memory.jobs.list()
    assert "SystemExit" in (job.error or "") and "done with it" not in (job.error or "")


def test_shutting_down_waits_for_no_other_process(idle):
    with DurableReflectionExecutor(idle, app="app") as executor:
        future = executor.submit(said("I live in Lisbon."), config())
    assert not future.done()
    assert 1 == served(idle)
    assert 1 == future.result(30)["events"]


def test_shutting_down_waits_so_long_at_most(store):
    release = threading.Event()

    class Slow:
        def invoke(self, input: Any, config: Any = None) -> None:
            release.wait(60)

    executor = DurableReflectionExecutor(store, app="app", reflector=Slow())
    future = executor.submit(said("Hi."), config(), after_seconds=300)
    executor.shutdown(timeout_s=0.5)
    assert not future.done()
    release.set()
    executor.shutdown()
    assert future.done()


def test_the_same_messages_are_tried_again_after_a_give_up(dsn):
    broken = True

    def flaky(texts: list[str]) -> list[list[float]]:
        if broken:
            raise RuntimeError("broken")
        return embed(texts)

    index: Any = {"embed": flaky, "dims": 2}
    with Store(dsn, index=index) as store:
        executor = DurableReflectionExecutor(store, app="app")
        payload = {"messages": [HumanMessage("I live in Lisbon.", id="1")]}
        first: Future[Any] = executor.submit(payload, config())
        query = "SELECT attempts FROM hippocampus.consolidation_jobs WHERE status = 'pending'"
        wait(lambda: [(1,)] == execute(dsn, query))
        execute(dsn, "UPDATE hippocampus.consolidation_jobs SET attempts = 4, run_after = now()")
        store.engine._worker.wake()
        with pytest.raises(ReflectionFailed):
            first.result(30)
        broken = False
        assert 1 == executor.submit(payload, config()).result(30)["events"]
        assert 1 == executor.submit(payload, config()).result(30)["events"]  # nothing is unread


async def test_a_watch_survives_a_moment_without_the_database(dsn, monkeypatch):
    monkeypatch.setattr("shared_core.jobs.queue.OUTAGE", lambda state: 0.01)
    read = StoredJobs.of_threads
    away = [True]

    async def sometimes(self: StoredJobs, threads: Any) -> Any:
        if away:
            away.pop()
            raise errors.StorageUnavailable("away")
        return await read(self, threads)

    monkeypatch.setattr(StoredJobs, "of_threads", sometimes)
    async with open_memory(dsn, embedder=embed) as memory:
        memory.jobs.learn(mock.AsyncMock(return_value={}))
        job_id: UUID = await memory.jobs.ask(ANN, "t", {})
        over = memory.jobs.watch(ANN, "t", JobType.CALLBACK, job_id)
        record = await asyncio.wait_for(asyncio.wrap_future(over), 30)
        assert JobStatus.COMPLETED is record.status
        assert (Scope("app", "ann"), "reflector") == (record.scope, record.performer)
    assert not away
