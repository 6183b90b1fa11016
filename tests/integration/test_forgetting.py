"""What is forgotten is gone, with everything that rested on it alone, whoever works meanwhile.

Turns are forgotten beside an append of the same turn, step by step in both orders. Forgetting runs
by itself, in its time, by one of all workers; a dead one is replaced.
"""

import asyncio
import os
import signal
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import psycopg
import pytest
from every_case import every_case
from postgres_admin import column, execute
from turns import START, Clock, said
from waiting import until
from warm_python import warm_python

from shared_core import Event, InvalidInput, MemoryEngine, NewMemory, Scope, open_memory
from shared_core.core.domain import Extraction
from shared_core.core.namespaces import scope_path
from shared_core.extraction.rule_based import RuleExtractor
from shared_core.ingest.items import WriteItem
from shared_core.jobs.scheduled_task import ScheduledTask
from shared_core.policies.forgetting import forget_turns
from shared_core.ports.operations import Last, Policy, Verb
from shared_core.retention import cleanup
from shared_core.storage.postgres.connection.embedded import describe
from shared_core.storage.postgres.connection.statements import Step
from shared_core.storage.postgres.events import PostgresEvents

ANN = Scope("app", "ann")


async def key_of(memory: MemoryEngine, scope: Scope, text: str) -> str:
    hits = await memory.recall(scope, text, kinds=["episodic"], limit=100)
    return next(hit.memory.key for hit in hits if hit.memory.text == text)


async def test_a_fact_goes_with_the_last_of_its_turns(shared_memory, scope):
    memory, texts = shared_memory, ["I live in Leeds.", "Hello again. I live in Leeds."]
    await memory.append_events(scope, "t", [said(n, text) for n, text in enumerate(texts)])
    await memory.consolidate(scope, "t")
    for sources, text in ((("e0", "e1"), texts[0]), (("e1",), texts[1])):
        [fact] = await memory.facts(scope)
        assert sources == fact.source_event_ids
        await memory.forget(scope, await key_of(memory, scope, text))
    assert [] == await memory.facts(scope, history=True)
    assert [] == await memory.recall(scope, "Leeds")


async def test_a_turn_forgotten_while_it_is_read_leaves_no_fact(shared_dsn, scope):
    class Interrupted(RuleExtractor):
        async def extract(self, events: Sequence[Event], context: Sequence[Event]) -> Extraction:
            drafts = await super().extract(events, context)
            if not forgotten:
                key = await key_of(memory, scope, "I live in Leeds.")
                forgotten.append(await memory.forget(scope, key))
            return drafts

    forgotten: list[int] = []
    async with open_memory(shared_dsn, extractor=Interrupted(), worker=False) as memory:
        turns = [said("a", "I live in Leeds."), said("bb", "I love tea.")]
        await memory.append_events(scope, "t", turns)
        report = await memory.consolidate(scope, "t")
        assert ["User likes tea."] == [fact.statement for fact in await memory.facts(scope)]
        assert (1, "Leeds" in report.summary) == (report.events, False)
        hits = await memory.recall(scope, "Leeds")
        assert [] == [hit for hit in hits if "Leeds" in hit.memory.text]


async def test_a_sweep_deletes_what_expired_below_its_path_only(clocked, clock):
    places = [("a", "b", "x"), ("a", "b", "y"), ("c", "d", "x")]
    tea = {"value": {"text": "tea"}, "ttl_s": 60}
    await clocked.run_item_ops([WriteItem(address=(place, "k"), **tea) for place in places])
    clock.forward(minutes=2)
    assert [1, 1, 1] == [await clocked.sweep_expired(place) for place in (*places[:2], ())]


@pytest.mark.tail
async def test_an_embedded_server_that_was_killed_comes_back(tmp_path):
    async with open_memory(tmp_path) as memory:
        await memory.remember(ANN, "Ann sails.")
        os.kill(describe(tmp_path).pid, signal.SIGKILL)
        await until(lambda: not describe(tmp_path).running)
        assert ["Ann sails."] == [hit.memory.text for hit in await memory.recall(ANN, "sails")]
    assert not describe(tmp_path).running


@every_case(
    ({"kind": "nonsense"}, "kind 'nonsense'"),
    ({"importance": 11}, "importance"),
    ({"occurred_at": datetime(2026, 1, 1)}, "occurred_at has no time zone"),  # noqa: DTZ001
    ({"expires_at": datetime(2026, 1, 1)}, "expires_at has no time zone"),  # noqa: DTZ001
    ({"occurred_at": datetime.fromisoformat("0001-01-01T00:00+14:00")}, "out of range"),
)  # fmt: skip
async def test_a_memory_that_cannot_be_is_refused(memory_fields, complaint, shared_memory, scope):
    with pytest.raises(InvalidInput, match=complaint):
        await shared_memory.remember(scope, ["tea", NewMemory(text="tea", **memory_fields)])  # type: ignore[arg-type]
    assert [] == await shared_memory.recall(scope, "tea")


async def test_odd_turns_and_limits_are_refused(shared_memory, scope):
    with pytest.raises(InvalidInput, match="role 'assistant'"):
        await shared_memory.append_events(scope, "t", [said("a", "tea", role="assistant")])
    with pytest.raises(InvalidInput, match="limit"):
        await shared_memory.recall(scope, "tea", limit=10**19)
    mixed = [NewMemory(text="tea", importance=7), NewMemory(text="coffee")]
    assert 2 == len(await shared_memory.remember(scope, mixed))


GATE = 4712
WAIT = Step("gate", f"SELECT pg_advisory_xact_lock({GATE})".encode(), {})
WAITING = (
    "SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database"
    " WHERE locktype = 'advisory' AND NOT granted AND datname = current_database()"
)


def forgotten_at_the_gate(event_ids: Sequence[str]) -> Policy[int]:
    """Forget turns, and wait for the gate before the last batch."""
    policy = forget_turns("t", event_ids, START)
    batch = next(policy)
    while not isinstance(batch, Last):
        batch = policy.send((yield batch))
    yield [Verb("gate", ())]
    yield batch
    try:
        policy.send([])
    except StopIteration as end:
        return int(end.value)
    raise AssertionError("a batch after Last")


async def waiting(admin: psycopg.Connection[Any], number: int, task: asyncio.Task[Any]) -> None:
    """Return when so many wait for locks, or a task is done."""
    await until(lambda: task.done() or admin.execute(WAITING).fetchall() >= [(number,)])


COUNTS = (
    "SELECT (SELECT count(*) FROM hippocampus.memories WHERE text = 'I sail.'),"
    " (SELECT count(*) FROM hippocampus.events WHERE event_id = 'e1'),"
    " (SELECT count(*) FROM hippocampus.tombstones WHERE event_id = 'e1')"
)


@pytest.mark.parametrize("first", ["forgotten", "appended"])
@pytest.mark.parametrize("is_known", [True, False], ids=["thread", "new thread"])
async def test_a_turn_forgotten_and_appended_at_the_same_time_is_gone(
    dsn, is_known, first, monkeypatch
):
    turn = said("e1", "I sail.")
    steps = PostgresEvents.append_steps

    def gated(self: PostgresEvents, *given: Any) -> list[Step]:
        begin, *append = steps(self, *given)
        return [begin, WAIT, *append]

    async with open_memory(dsn, worker=False) as memory:
        await memory.open()
        if is_known:
            await memory.append_events(ANN, "t", [said("e0", "I sail.")])
            await memory.forget_turns(ANN, "t", ["e0"])
            await memory.append_events(ANN, "t", [said("e2", "I ski.")])
        storage: Any = memory._storage
        storage.transact.__self__.verbs["gate"] = lambda _: [WAIT]
        if first == "appended":
            monkeypatch.setattr(PostgresEvents, "append_steps", gated)
        with psycopg.connect(dsn, autocommit=True) as admin:

            async def both(one: Any, other: Any) -> list[Any]:
                admin.execute(f"SELECT pg_advisory_lock({GATE})")
                tasks = []
                for number, work in enumerate((one, other), 1):
                    tasks.append(asyncio.create_task(work))
                    await waiting(admin, number, tasks[-1])
                admin.execute(f"SELECT pg_advisory_unlock({GATE})")
                return [await task for task in tasks]

            appending = memory.append_events(ANN, "t", [turn])
            if first == "appended":
                done = await both(appending, memory.forget_turns(ANN, "t", ["e1"]))
                assert [{"e1"}, 1] == done
            else:
                forgotten = partial(forgotten_at_the_gate, ["e1"])
                done = await both(storage.transact(scope_path(ANN), forgotten), appending)
                assert [0, set()] == done
            assert admin.execute(COUNTS).fetchall() == [(0, 0, 1)]


@pytest.fixture
def every_day(monkeypatch):
    monkeypatch.setenv("HIPPOCAMPUS_CLEANUP_HOURS", "24")


def demoted(dsn: str) -> int:
    return int(column(dsn, "SELECT count(demoted_at) FROM hippocampus.memories")[0])


@pytest.mark.usefixtures("every_day")
async def test_it_is_done_once_a_day_by_one_of_many(dsn, clocked, clock):
    async with open_memory(dsn, clock=clock, worker=False) as other:
        engines = (clocked, other, clocked, other)
        for days, expected in ((0, 1), (0.9, 0), (0.2, 1)):
            clock.forward(days=days)
            ran = await asyncio.gather(*(one.retention.schedule.run_if_due() for one in engines))
            assert expected == sum(report is not None for report in ran)
        last = await other.retention.schedule.last()
    assert last and (clock.now, clock.now + timedelta(days=1)) == (last.done_at, last.next_at)
    assert {"demoted": 0, "archived": 0, "erased": 0, "retimed": 0, "batches": 0} == last.result


@pytest.mark.usefixtures("every_day")
async def test_a_worker_that_died_at_it_is_replaced_when_its_lease_is_over(clocked, clock):
    task = ScheduledTask(clocked._storage, "forget_faded")
    assert await task.take("dead", clock.now, 600)
    assert await clocked.retention.schedule.run_if_due() is None
    clock.forward(601)
    assert await clocked.retention.schedule.run_if_due() is not None
    assert not await task.keep("dead", clock.now, 600)


@pytest.mark.usefixtures("every_day")
async def test_who_lost_its_turn_ends_after_its_batch(clocked, clock):
    async def lost() -> bool:
        return False

    await clocked.append_events(ANN, "t", [said(n, f"I sail {n} boats.") for n in range(5)])
    clock.forward(days=20)
    report = await cleanup.forget_faded(clocked._storage, clock, None, None, goes_on=lost, batch=2)
    assert (1, 2) == (report.batches, report.total)


@pytest.mark.usefixtures("every_day")
async def test_a_process_that_writes_looks_in_the_background(dsn, clock, monkeypatch):
    monkeypatch.setattr(cleanup, "FIRST_LOOK_S", 0.0)
    async with open_memory(dsn, clock=clock) as memory:
        await memory.append_events(ANN, "t", [said("a", "I sail.")])
        await memory.retention.schedule.stop()
        clock.forward(days=20)
        memory.retention.schedule._look_at = 0.0
        await memory.append_events(ANN, "t", [said("b", "I ski.", clock.now)])
        await until(lambda: demoted(dsn))
    assert 1 == demoted(dsn)


@pytest.mark.parametrize("text", ["", "off"])
async def test_nothing_is_forgotten_unless_it_is_asked_for(text, dsn, monkeypatch):
    monkeypatch.setenv("HIPPOCAMPUS_CLEANUP_HOURS", text)
    async with open_memory(dsn) as memory:
        assert await memory.retention.schedule.run_if_due() is None
        assert await memory.retention.schedule.last() is None


@pytest.mark.tail
@pytest.mark.usefixtures("every_day")
async def test_the_worker_command_forgets(dsn):
    then = Clock(datetime.now(UTC) - timedelta(days=21))
    async with open_memory(dsn, clock=then, worker=False) as memory:
        await memory.append_events(ANN, "t", [said("a", "I sail.", then.now)])
    command = [*warm_python(), "-m", "shared_core.cli.main", "worker", "--uri", dsn]
    for told in (True, False):
        once = [*command, "--once"]
        done = await asyncio.to_thread(subprocess.run, once, capture_output=True, text=True)
        assert 0 == done.returncode, done.stderr
        assert told == ("1 demoted, 0 archived, 0 erased" in done.stderr), done.stderr
    assert 1 == demoted(dsn)
    execute(
        dsn, "SET search_path TO hippocampus; UPDATE memories SET demoted_at = NULL;"
        " UPDATE memory_access SET stage = 0, staged_at = NULL, forget_at = '2020-01-01';"
        " UPDATE schedules SET next_at = '2020-01-01'",
    )  # fmt: skip
    serving = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    await until(lambda: demoted(dsn) or serving.poll() is not None)
    serving.terminate()
    assert 0 == await asyncio.to_thread(serving.wait, 60)
    assert 1 == demoted(dsn)
