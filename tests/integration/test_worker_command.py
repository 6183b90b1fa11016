"""`hippocampus worker` and `hippocampus jobs`: real processes on one queue, also when killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from warm_python import warm_python

from shared_core import MemoryEngine, Scope, open_memory
from tests.integration.test_queue import ANN, jobs, told, until_done

COMMAND = ["-m", "shared_core.cli.main"]


def start(dsn: str, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*warm_python(), *COMMAND, "worker", "--uri", dsn, "--poll", "0.05", *options],
        stderr=subprocess.PIPE,
        text=True,
        env={name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")},
    )


def shown(dsn: str, *options: str) -> str:
    command = [*warm_python(), *COMMAND, "jobs", "--uri", dsn, *options]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


async def hand_over(dsn: str, threads: Sequence[str], delay_s: float = 0) -> None:
    async with open_memory(dsn, worker=False) as memory:
        for thread in threads:
            turn = told("e1", "I live in Lisbon.")
            await memory.append_events(ANN, thread, [turn], later=True, delay_s=delay_s)


async def statements(memory: MemoryEngine) -> set[str]:
    return {fact.statement for fact in await memory.facts(ANN)}


async def test_once_does_what_is_due_and_ends(dsn: str) -> None:
    await hand_over(dsn, ["a", "b"])
    await hand_over(dsn, ["tomorrow"], delay_s=86_400)
    worker = start(dsn, "--once")
    _, log = await asyncio.to_thread(worker.communicate)
    assert 0 == worker.returncode, log
    assert "2 jobs done, 0 tries failed" in log
    assert "job" in log and "Lisbon" not in log
    assert ["completed", "completed", "pending"] == [status for status, _ in jobs(dsn)]
    async with open_memory(dsn, worker=False) as memory:
        assert {"User lives in Lisbon."} == await statements(memory)


def conversations(dsn: str) -> list[str]:
    with psycopg.connect(dsn) as connection:
        rows = connection.execute("SELECT status FROM hippocampus.conversations").fetchall()
        return [row[0] for row in rows]


async def test_once_ends_the_sessions_that_are_over_and_does_their_jobs(dsn: str) -> None:
    yesterday = datetime.now(UTC) - timedelta(days=1)
    async with open_memory(dsn, worker=False, clock=lambda: yesterday) as memory:
        for number in range(6):
            await memory.process_memory("I live in Lisbon.", f"user{number}", app="app")
    assert ["active"] * 6 == conversations(dsn)
    worker = start(dsn, "--once")
    _, log = await asyncio.to_thread(worker.communicate)
    assert 0 == worker.returncode, log
    assert "6 jobs done, 0 tries failed" in log
    assert ["ended"] * 6 == conversations(dsn)


async def test_once_says_by_its_exit_code_that_a_try_failed(dsn: str) -> None:
    await hand_over(dsn, ["a"])
    worker = start(dsn, "--once", "--embedder", "google:no-such-model")
    _, log = await asyncio.to_thread(worker.communicate)
    assert 1 == worker.returncode, log
    assert "1 tries failed" in log
    [job] = json.loads(shown(dsn, "--json"))
    assert ("pending", 1) == (job["state"], job["attempts"])
    assert job["error"]


async def test_a_model_without_its_key_is_told_once_and_at_the_start(dsn: str) -> None:
    await hand_over(dsn, ["a"])
    worker = start(dsn, "--llm", "adk:gemini-3.5-flash")
    _, log = await asyncio.to_thread(worker.communicate)
    assert 1 == worker.returncode, log
    assert 1 == len(log.splitlines())
    assert log.startswith("Error: language model 'gemini-3.5-flash' failed: no valid key")
    assert "GOOGLE_API_KEY" in log
    assert [("pending", 0)] == jobs(dsn)


async def test_a_job_whose_model_lacks_its_key_fails_in_one_line(dsn: str) -> None:
    await hand_over(dsn, ["a"])
    code = (
        "import asyncio, logging, sys\n"
        "from shared_core import open_memory\n"
        "logging.basicConfig(level=logging.WARNING)\n"
        "async def main():\n"
        "    llm = 'adk:gemini-3.5-flash'\n"
        "    async with open_memory(sys.argv[1], llm=llm, worker=False) as memory:\n"
        "        await memory.jobs.serve(once=True)\n"
        "asyncio.run(main())\n"
    )
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    command = [sys.executable, "-W", "ignore", "-c", code, dsn]
    done = subprocess.run(command, capture_output=True, text=True, env=kept, check=True)
    [line] = done.stderr.splitlines()
    assert "failed 1 times: ModelUnavailable: language model 'gemini-3.5-flash' failed: no" in line
    assert "valid key" in line and line.endswith(": ValueError")


async def test_workers_side_by_side_share_the_work_and_stop_when_asked(dsn: str) -> None:
    workers = [start(dsn), start(dsn)]
    for worker in workers:
        assert worker.stderr is not None
        assert "waits for jobs" in await asyncio.to_thread(worker.stderr.readline)
    await hand_over(dsn, [f"t{n}" for n in range(20)])
    await until_done(dsn)
    for number, worker in zip((signal.SIGTERM, signal.SIGINT), workers, strict=True):
        worker.send_signal(number)
    logs = [(await asyncio.to_thread(worker.communicate))[1] for worker in workers]
    assert [0, 0] == [worker.returncode for worker in workers], logs
    assert {("completed", 1)} == set(jobs(dsn))
    async with open_memory(dsn, worker=False) as memory:
        assert {"User lives in Lisbon."} == await statements(memory)


SLOW_WORKER = """
import asyncio, sys
from shared_core import open_memory
from shared_core.cli.work import work

async def embed(texts):
    print("begun", flush=True)
    await asyncio.sleep(float(sys.argv[2]))
    return [[1.0, 2.0] for _ in texts]

memory = open_memory(sys.argv[1], embedder=embed)
sys.exit(asyncio.run(work(memory, once=False, poll_s=0.05)))
"""


@pytest.mark.parametrize(
    ("signals", "seconds", "exit_code", "state"),
    [
        ([signal.SIGTERM], "0.4", 0, ("completed", 1)),
        ([signal.SIGTERM, signal.SIGTERM], "60", 1, ("pending", 1)),
        ([signal.SIGKILL], "60", -9, ("running", 1)),
    ],
)
async def test_a_worker_that_is_stopped_finishes_its_job_or_gives_it_back(
    dsn: str, signals: list[int], seconds: str, exit_code: int, state: tuple[str, int]
) -> None:
    await hand_over(dsn, ["t"])
    worker = subprocess.Popen(
        [sys.executable, "-c", SLOW_WORKER, dsn, seconds], stdout=subprocess.PIPE, text=True
    )
    assert worker.stdout is not None
    assert "begun\n" == await asyncio.to_thread(worker.stdout.readline)
    for number in signals:
        worker.send_signal(number)
        time.sleep(0.2)
    await asyncio.to_thread(worker.communicate)
    assert exit_code == worker.returncode
    assert [state] == jobs(dsn)
    if "running" == state[0]:  # what a killed worker had is taken over when its lease ends
        with psycopg.connect(dsn, autocommit=True) as superuser:
            superuser.execute("UPDATE hippocampus.consolidation_jobs SET lease_until = now()")
        next_one = start(dsn, "--once")
        _, log = await asyncio.to_thread(next_one.communicate)
        assert 0 == next_one.returncode, log
        assert [("completed", 2)] == jobs(dsn)


async def test_jobs_are_shown_by_state_with_age_tries_and_error(dsn: str) -> None:
    assert "Nothing waits, and nothing failed.\n" == shown(dsn)
    await hand_over(dsn, ["given-up"])
    with psycopg.connect(dsn, autocommit=True) as superuser:
        superuser.execute(
            "UPDATE hippocampus.consolidation_jobs SET status = 'failed', attempts = 5,"
            " error = 'ModelUnavailable: out of quota', created_at = now() - interval '3 hours'"
        )
    await hand_over(dsn, ["quiet"], delay_s=600)
    table = shown(dsn)
    assert "out of quota" in table and "3 h" in table and "in 9 min" in table
    waiting, failed = json.loads(shown(dsn, "--json"))
    assert ("pending", "quiet", 0) == (waiting["state"], waiting["thread"], waiting["attempts"])
    assert ("failed", "given-up", 5) == (failed["state"], failed["thread"], failed["attempts"])
    assert failed["age_s"] > 10_000
    assert Scope(failed["app"], failed["user"]) == ANN


async def test_jobs_are_chosen_put_back_and_cancelled(dsn: str) -> None:
    await hand_over(dsn, ["one", "two"])
    with psycopg.connect(dsn, autocommit=True) as superuser:
        superuser.execute(
            "UPDATE hippocampus.consolidation_jobs SET status = 'failed', attempts = 5,"
            " error = 'ValueError at mine.py:7'"
        )
    await hand_over(dsn, ["quiet"], delay_s=600)

    def ids(*options: str) -> dict[str, str]:
        return {job["thread"]: job["job_id"] for job in json.loads(shown(dsn, "--json", *options))}

    failed = ids("--status", "failed")
    assert {"one", "two"} == set(failed)
    assert {"one", "two", "quiet"} == set(ids("--app", "app", "--user", "ann"))
    assert {} == ids("--app", "app", "--user", "bob") == ids("--app", "other")
    assert "1 pending (0 due), 0 running, 2 dead" in shown(dsn)
    assert failed["one"][-6:] in shown(dsn)
    assert "1 put back\n" == shown(dsn, "--retry", failed["one"])
    assert "0 put back\n" == shown(dsn, "--retry", "all", "--app", "other")
    assert "1 put back\n" == shown(dsn, "--retry", "all")
    assert {"one", "two", "quiet"} == set(ids("--status", "pending"))
    assert "1 cancelled\n" == shown(dsn, "--cancel", ids()["quiet"][-12:])
    assert {"one", "two"} == set(ids())
    again = shown(dsn, "--cancel", ids()["two"][:-4])
    assert "1 cancelled\n" == again
    for wrong in (["--retry", "nothing"], ["--cancel", "-"], ["--user", "ann"]):
        command = [*warm_python(), *COMMAND, "jobs", "--uri", dsn, *wrong]
        refused = subprocess.run(command, capture_output=True, text=True, check=False)
        assert 1 == refused.returncode and refused.stderr.startswith("Error: ")


async def test_callbacks_are_no_work_of_a_worker(dsn: str) -> None:
    async with open_memory(dsn, worker=False) as memory:
        await memory.jobs.ask(ANN, "t", {}, name="episodes")
    worker = start(dsn, "--once")
    _, log = await asyncio.to_thread(worker.communicate)
    assert 0 == worker.returncode, log
    assert "0 jobs done" in log and "1 callbacks are due and were not run" in log
    assert [("pending", 0)] == jobs(dsn)
    assert "episodes" in shown(dsn) and "1 of them for a process that has" in shown(dsn)
    [job] = json.loads(shown(dsn, "--json"))
    assert ("callback", "episodes") == (job["type"], job["performer"])
    command = [*warm_python(), *COMMAND, "doctor", "--uri", dsn, "--json"]
    told = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    [queue] = [found for found in json.loads(told)["findings"] if "queue" == found["check"]]
    assert "0 jobs are due" in queue["found"] and "1 wait for a process" in queue["found"]
    assert "worker --once" not in queue["advice"] and "reflector" in queue["advice"]
