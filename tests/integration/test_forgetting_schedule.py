"""Forgetting runs by itself, in its time, by one of all workers; a dead one is replaced."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from shared_core import Event, InvalidInput, MemoryEngine, Scope, open_memory
from shared_core.jobs.scheduled_task import ScheduledTask
from shared_core.retention import cleanup
from shared_core.settings import load_settings

ANN = Scope("app", "ann")
START = datetime(2026, 3, 1, 9, tzinfo=UTC)


@pytest.fixture(autouse=True)
def every_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIPPOCAMPUS_CLEANUP_HOURS", "24")


@dataclass
class Clock:
    now: datetime = START

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def memory(dsn: str, clock: Clock) -> AsyncIterator[MemoryEngine]:
    async with open_memory(dsn, clock=clock, worker=False) as memory:
        yield memory


async def say(memory: MemoryEngine, text: str, at: datetime) -> None:
    await memory.append_events(
        ANN, "t", [Event(event_id=text, author="user", role="user", text=text, occurred_at=at)]
    )


def demoted(dsn: str) -> int:
    with psycopg.connect(dsn) as superuser:
        row = superuser.execute("SELECT count(demoted_at) FROM hippocampus.memories").fetchone()
    assert row
    return int(row[0])


async def test_it_is_done_once_a_day_by_one_of_many(
    dsn: str, memory: MemoryEngine, clock: Clock
) -> None:
    async with open_memory(dsn, clock=clock, worker=False) as other:
        engines = (memory, other, memory, other)
        for days, expected in ((0, 1), (0.9, 0), (0.2, 1)):
            clock.now += timedelta(days=days)
            ran = await asyncio.gather(*(one.retention.schedule.run_if_due() for one in engines))
            assert expected == sum(report is not None for report in ran)
        last = await other.retention.schedule.last()
    assert last and (clock.now, clock.now + timedelta(days=1)) == (last.done_at, last.next_at)
    assert {"demoted": 0, "archived": 0, "erased": 0, "retimed": 0, "batches": 0} == last.result


async def test_a_worker_that_died_at_it_is_replaced_when_its_lease_is_over(
    memory: MemoryEngine, clock: Clock
) -> None:
    assert await ScheduledTask(memory._storage, "forget_faded").take("dead", clock.now, 600)
    assert await memory.retention.schedule.run_if_due() is None
    clock.now += timedelta(seconds=601)
    assert await memory.retention.schedule.run_if_due() is not None
    assert not await ScheduledTask(memory._storage, "forget_faded").keep("dead", clock.now, 600)


async def test_who_lost_its_turn_ends_after_its_batch(
    memory: MemoryEngine, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:

    async def lost() -> bool:
        return False

    for number in range(5):
        await say(memory, f"I sail {number} boats.", START)
    clock.now += timedelta(days=20)
    report = await cleanup.forget_faded(memory._storage, clock, None, None, goes_on=lost, batch=2)
    assert (1, 2) == (report.batches, report.total)


async def test_a_process_that_writes_looks_in_the_background(
    dsn: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleanup, "FIRST_LOOK_S", 0.0)
    async with open_memory(dsn, clock=clock) as memory:
        await say(memory, "I sail.", START)
        await memory.retention.schedule.stop()
        clock.now += timedelta(days=20)
        memory.retention.schedule._look_at = 0.0
        await say(memory, "I ski.", clock.now)
        for _ in range(500):
            if demoted(dsn):
                break
            await asyncio.sleep(0.02)
    assert 1 == demoted(dsn)


@pytest.mark.parametrize("text", ["", "off"])
async def test_nothing_is_forgotten_unless_it_is_asked_for(
    text: str, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIPPOCAMPUS_CLEANUP_HOURS", text)
    async with open_memory(dsn) as memory:
        assert await memory.retention.schedule.run_if_due() is None
        assert await memory.retention.schedule.last() is None


@pytest.mark.parametrize("text", ["0", "-1", "soon", "nan", "inf", "1e9"])
def test_hours_that_are_none_are_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIPPOCAMPUS_CLEANUP_HOURS", text)
    with pytest.raises(InvalidInput, match="HIPPOCAMPUS_CLEANUP_HOURS must be a number of hours"):
        load_settings("embedded")


async def test_the_worker_command_forgets(dsn: str) -> None:
    then = datetime.now(UTC) - timedelta(days=21)
    async with open_memory(dsn, clock=lambda: then, worker=False) as memory:
        await say(memory, "I sail.", then)
    command = [sys.executable, "-m", "shared_core.cli.main", "worker", "--uri", dsn, "--once"]
    for told in (True, False):
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)
        assert 0 == done.returncode, done.stderr
        assert told == ("1 demoted, 0 archived, 0 erased" in done.stderr), done.stderr
    assert 1 == demoted(dsn)
    command.remove("--once")
    with psycopg.connect(dsn) as superuser:
        superuser.execute("UPDATE hippocampus.memories SET demoted_at = NULL")
        superuser.execute("UPDATE hippocampus.memory_access SET stage = 0, staged_at = NULL,"
                          " forget_at = '2020-01-01'")  # fmt: skip
        superuser.execute("UPDATE hippocampus.schedules SET next_at = '2020-01-01'")
    serving = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    for _ in range(1000):
        if demoted(dsn):
            break
        await asyncio.sleep(0.03)
    serving.terminate()
    assert 0 == await asyncio.to_thread(serving.wait, 60)
    assert 1 == demoted(dsn)
