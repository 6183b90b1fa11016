"""When sessions of the conversation layer open and end, whoever asks and dies."""

import asyncio
import signal
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from turns import Clock, said
from warm_python import warm_python

import shared_core as core
from tests.integration import talking
from tests.integration.talking import ANN, MORNING, SCOPE, jobs, opened, rows


@pytest.fixture
def clock():
    return Clock(MORNING)


async def test_the_status_and_the_end_are_told_as_documented(clocked, clock, dsn):
    await clocked.process_memory("I live in Lisbon", ANN)
    clock.forward(minutes=20)
    await clocked.process_memory("I like tea", ANN)
    clock.forward(minutes=25)
    status = await clocked.get_session_status(ANN)
    assert status == {"status": "success", "has_active_session": True,
        "session_info": {"event_count": 2, "created_at": "2026-01-22T10:00:00Z",
        "last_active_at": "2026-01-22T10:20:00Z", "time_until_timeout_seconds": 300}}  # fmt: skip
    assert list(status) == ["status", "has_active_session", "session_info"]
    ended = await clocked.end_session(ANN)
    assert ended == {"status": "success", "message": "Session ending, consolidation started",
        "session_info": {"event_count": 2, "duration_seconds": 2700,
        "created_at": "2026-01-22T10:00:00Z", "ended_at": "2026-01-22T10:45:00Z"}}  # fmt: skip
    none = {"status": "success", "message": "No active session", "session_info": None}
    assert await clocked.end_session(ANN) == none
    assert await clocked.end_session(user_id="nobody") == none
    over = {"status": "success", "has_active_session": False, "session_info": None}
    assert await clocked.get_session_status(ANN) == over
    assert [("ending", 2)] == rows(dsn)


async def test_a_session_is_over_after_30_idle_minutes(clocked, clock, dsn):
    await clocked.process_memory("I live in Lisbon", ANN)
    clock.forward(minutes=29, seconds=59)
    await clocked.process_memory("I like tea", ANN)
    clock.forward(minutes=30)
    assert await talking.info(clocked) == {}
    await clocked.process_memory("I have a cat", ANN)
    assert [("ending", 2), ("active", 1)] == rows(dsn)
    assert ["pending"] == jobs(dsn)


async def test_a_session_is_over_after_24_hours_however_active(dsn):
    watch = talking.Watch()
    async with opened(dsn, watch, max_events=1000) as memory:
        for _ in range(50):
            await memory.process_memory("I like tea", ANN)
            watch.advance(minutes=29)
        await memory.process_memory("I like coffee", ANN)
        assert [("ending", 50), ("active", 1)] == rows(dsn)


async def test_a_session_holds_100_inputs(clocked, dsn):
    sessions = core.SessionManager(clocked)
    for _ in range(100):
        await sessions.add_event(ANN, "I like tea")
    assert (await talking.info(clocked)) == {}
    await sessions.add_event(ANN, "I like tea")
    assert [("ending", 100), ("active", 1)] == rows(dsn)


async def test_an_empty_session_goes_without_consolidation(clocked, clock, dsn):
    sessions = core.SessionManager(clocked)
    first = await sessions.get_or_create_session(ANN)
    assert first == await sessions.get_or_create_session(ANN)
    assert (first.status, first.event_count, first.user_id) == (core.SessionStatus.ACTIVE, 0, ANN)
    clock.forward(minutes=31)
    assert 1 == await sessions.check_timeouts()
    assert ([], []) == (rows(dsn), jobs(dsn))
    skipped = await core.SessionConsolidator(clocked).consolidate(first)
    assert (skipped.skipped, skipped.reason) == (True, "empty_session")


async def test_idle_sessions_of_all_users_are_ended_by_whoever_looks(dsn):
    watch = talking.Watch()
    async with opened(dsn, watch) as memory, opened(dsn, watch) as other:
        for user in ("a", "b", "c"):
            await memory.process_memory("I live in Lisbon", user, app="one")
        watch.advance(minutes=29)
        await memory.process_memory("I like tea", "c", app="one")
        watch.advance(minutes=2)
        looks = [one.conversations.expiry.run() for one in (memory, other)]
        assert 2 == sum(await asyncio.gather(*looks))
        assert ["active", "ending", "ending"] == sorted(row[0] for row in rows(dsn))


@pytest.mark.tail
async def test_the_worker_process_ends_and_consolidates(dsn):
    watch = talking.Watch(datetime.now(UTC) - timedelta(hours=1))
    async with opened(dsn, watch) as memory:
        await memory.process_memory("My name is Ana", ANN)
    command = [*warm_python(), "-m", "shared_core.cli.main", "worker", "--uri", dsn, "--once"]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)
    assert 0 == done.returncode, done.stderr
    assert [("ended", 1)] == rows(dsn)
    async with opened(dsn, talking.Watch()) as memory:
        assert ["My name is Ana."] == await talking.statements(memory)


async def test_this_process_ends_an_idle_session_by_itself(dsn):
    settings = core.ConversationSettings(timeout_s=0.2, check_interval_s=0.05)
    async with core.open_memory(dsn, conversation=settings) as memory:
        await memory.process_memory("My name is Ana", ANN)
        async with asyncio.timeout(60):
            while [("ended", 1)] != rows(dsn):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert ["My name is Ana."] == await talking.statements(memory)


async def test_a_session_goes_on_after_a_restart(dsn):
    async with opened(dsn) as memory:
        await memory.process_memory("我女儿叫灿灿", ANN)
    async with opened(dsn) as memory:
        answer = await memory.process_memory("她今年几岁了？", ANN)
        assert answer["resolved_query"] == "灿灿今年几岁了？"
        assert [("active", 2)] == rows(dsn)


async def test_an_input_during_consolidation_opens_a_new_session(dsn):
    async with opened(dsn, talking.Watch()) as memory:  # nobody consolidates yet
        await memory.process_memory("我女儿叫灿灿", ANN)
        await memory.end_session(ANN)
        answer = await memory.process_memory("她今年几岁了？", ANN)
        assert answer["resolved_query"] == "她今年几岁了？"
        assert [("ending", 1), ("active", 1)] == rows(dsn)


@pytest.mark.tail
async def test_a_killed_process_loses_nothing_between_end_and_consolidation(dsn):
    code = (
        "import asyncio, os, signal, sys\n"
        "from shared_core import open_memory\n"
        "from shared_core.knowledge import consolidation\n"
        "async def main():\n"
        "    memory = open_memory(sys.argv[1])\n"
        "    async def dies(*given, **named): os.kill(os.getpid(), signal.SIGKILL)\n"
        "    consolidation.apply_run = dies\n"
        "    await memory.process_memory('My name is Ana', 'ann')\n"
        "    await memory.process_memory('I live in Lisbon', 'ann')\n"
        "    await memory.end_session('ann')\n"
        "    await memory.flush(60)\n"
        "asyncio.run(main())\n"
    )
    command = [*warm_python(), "-c", code, dsn]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)
    assert 128 + signal.SIGKILL == done.returncode, done.stderr
    assert [("ending", 2)] == rows(dsn)
    later = talking.Watch(
        datetime.now(UTC) + timedelta(minutes=10)
    )  # the lease of the dead has ended
    async with core.open_memory(dsn, clock=later) as memory:
        await memory.process_memory("Hello there, how are you?", "bob")
        async with asyncio.timeout(60):
            while "ending" in {row[0] for row in rows(dsn)}:
                await memory.flush(10)
        assert ["I live in Lisbon.", "My name is Ana."] == sorted(await talking.statements(memory))


SPEAKER = (
    "import asyncio, sys\n"
    "from shared_core import open_memory\n"
    "async def main():\n"
    "    async with open_memory(sys.argv[1], worker=False) as memory:\n"
    "        async def say(place):\n"
    "            await memory.process_memory(f'I like thing {sys.argv[2]} {place}', 'ann')\n"
    "        await asyncio.gather(*(say(place) for place in range(16)))\n"
    "asyncio.run(main())\n"
)


@pytest.mark.tail
async def test_32_inputs_at_once_from_two_processes_are_one_session(dsn):
    command = [*warm_python(), "-c", SPEAKER, dsn]
    started = [subprocess.Popen([*command, name], stderr=subprocess.PIPE) for name in ("a", "b")]
    for process in started:
        _, log = await asyncio.to_thread(process.communicate)
        assert 0 == process.returncode, log
    assert [("active", 32)] == rows(dsn)
    with psycopg.connect(dsn) as superuser:
        said = superuser.execute("SELECT seq, text FROM hippocampus.events").fetchall()
    assert set(range(1, 33)) == {seq for seq, _ in said}
    told = {f"I like thing {name} {place}" for name in "ab" for place in range(16)}
    assert told == {text for _, text in said}


async def test_inputs_at_once_never_overfill_a_session(dsn):
    async with opened(dsn, talking.Watch(), max_events=5) as memory:
        await asyncio.gather(*(memory.process_memory(f"I like {n}", ANN) for n in range(23)))
        counts = [count for _, count in rows(dsn)]
        assert (23, 5) == (sum(counts), max(counts))
        assert 1 == [status for status, _ in rows(dsn)].count("active")


async def test_ends_at_once_end_once(clocked, dsn):
    await clocked.process_memory("I like tea", ANN)
    ends: Sequence[Any] = await asyncio.gather(*(clocked.end_session(ANN) for _ in range(8)))
    assert 1 == sum(end["session_info"] is not None for end in ends)
    assert ["pending"] == jobs(dsn)


async def test_an_event_that_comes_again_is_stored_once(clocked):
    sessions = core.SessionManager(clocked)
    for _ in range(2):
        await sessions.add_event(ANN, said("e1", "I like tea", MORNING))
    assert ["I like tea"] == [one.text for one in await sessions.get_session_events(ANN)]
    assert [] == list(await sessions.get_session_events("nobody"))


async def test_a_session_is_consolidated_by_hand_once(clocked, dsn):
    sessions, consolidator = core.SessionManager(clocked), core.SessionConsolidator(clocked)
    active = await sessions.add_event(ANN, "My name is Ana")
    with pytest.raises(core.Conflict, match="is active: end it first"):
        await consolidator.consolidate(active)
    ended = await sessions.end_session(ANN)
    result = await consolidator.consolidate(ended)
    assert (1, 1, False) == (result.stored_count, result.total_events, result.skipped)
    assert [("ended", 1)] == rows(dsn)
    assert "consolidated_already" == (await consolidator.consolidate(ended)).reason


async def test_a_run_over_a_session_can_be_undone_and_forgetting_takes_sessions_along(dsn):
    async with opened(dsn) as memory:
        await memory.process_memory("My name is Ana", ANN)
        await memory.end_session(ANN)
        assert await memory.flush(60)
        [run] = await memory.runs(SCOPE)
        await memory.undo_run(SCOPE, run.run_id)
        assert [] == await talking.statements(memory)
        await memory.process_memory("I like tea", ANN)
        await memory.forget_scope(SCOPE)
        assert [] == rows(dsn)
        answer: Any = await memory.process_memory("What is my name?", ANN)
        assert ([], []) == (answer["memories"], answer["relations"])
