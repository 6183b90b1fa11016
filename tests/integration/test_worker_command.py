"""`hippocampus worker` and `hippocampus jobs`: real workers on one queue, also when killed."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import commands
import psycopg
import pytest
from practised import practised  # noqa: F401
from turns import Clock
from typer.testing import Result
from warm_python import warm_python

from shared_core import MemoryEngine, Scope, open_memory, run_sync
from tests.integration.test_queue import ANN, jobs, told, until_done

pytestmark = pytest.mark.usefixtures("practised")


def python(*arguments: str) -> subprocess.Popen[str]:
    """Start a program without the keys of models."""
    return subprocess.Popen(
        [*warm_python(), *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")},
    )  # fmt: skip


def start(dsn: str, *options: str) -> subprocess.Popen[str]:
    command = ("-m", "shared_core.cli.main", "worker", "--uri", dsn, "--poll", "0.05")
    return python(*command, *options)


def end_of(worker: subprocess.Popen[str], exit_code: int = 0) -> str:
    """Wait for the end of a worker, and return its log."""
    _, log = worker.communicate()
    assert exit_code == worker.returncode, log
    return log


def run(dsn: str, command: str, *options: str) -> Result:
    return commands.run(command, "--uri", dsn, *options, env={"COLUMNS": "200"})


def shown(dsn: str, *options: str) -> str:
    """Return what the command jobs prints."""
    ran = run(dsn, "jobs", *options)
    assert 0 == ran.exit_code, ran.output
    return ran.stdout


@contextmanager
def memory_at(dsn: str, clock: Clock | None = None) -> Iterator[MemoryEngine]:
    memory = open_memory(dsn, worker=False, clock=clock)
    yield memory
    run_sync(memory.close())


def hand_over(dsn: str, threads: Sequence[str], delay_s: float = 0) -> None:
    turns = [told("e1", "I live in Lisbon.")]
    with memory_at(dsn) as memory:
        for thread in threads:
            run_sync(memory.append_events(ANN, thread, turns, later=True, delay_s=delay_s))


def statements(dsn: str) -> set[str]:
    with memory_at(dsn) as memory:
        return {fact.statement for fact in run_sync(memory.facts(ANN))}


def let_fail(dsn: str, error: str, created_at: str = "created_at") -> None:
    """Let all jobs of the queue be dead."""
    dead = f"status = 'failed', attempts = 5, error = %s, created_at = {created_at}"
    with psycopg.connect(dsn, autocommit=True) as superuser:
        superuser.execute(f"UPDATE hippocampus.consolidation_jobs SET {dead}", [error])


def test_once_does_what_is_due_and_ends(dsn):
    hand_over(dsn, ["a", "b"])
    hand_over(dsn, ["tomorrow"], delay_s=86_400)
    log = end_of(start(dsn, "--once"))
    assert "2 jobs done, 0 tries failed" in log
    assert "job" in log and "Lisbon" not in log and "waits for jobs in schema 'hippo" in log
    assert ["completed", "completed", "pending"] == [status for status, _ in jobs(dsn)]
    assert {"User lives in Lisbon."} == statements(dsn)


def conversations(dsn: str) -> list[str]:
    with psycopg.connect(dsn) as connection:
        rows = connection.execute("SELECT status FROM hippocampus.conversations").fetchall()
        return [row[0] for row in rows]


def test_once_ends_the_sessions_that_are_over_and_does_their_jobs(dsn):
    with memory_at(dsn, Clock(datetime.now(UTC) - timedelta(days=1))) as memory:
        for number in range(6):
            run_sync(memory.process_memory("I live in Lisbon.", f"user{number}", app="app"))
    assert ["active"] * 6 == conversations(dsn)
    log = end_of(start(dsn, "--once"))
    assert "6 conversations ended" in log and "6 jobs done, 0 tries failed" in log
    assert ["ended"] * 6 == conversations(dsn)


def test_once_says_by_its_exit_code_that_a_try_failed(dsn):
    hand_over(dsn, ["a"])
    worker = start(dsn, "--once", "--embedder", "google:no-such-model")
    assert "1 tries failed" in end_of(worker, exit_code=1)
    [job] = json.loads(shown(dsn, "--json"))
    assert ("pending", 1) == (job["state"], job["attempts"])
    assert job["error"]


def test_a_model_without_its_key_is_told_at_the_start_or_fails_a_job_in_one_line(dsn):
    hand_over(dsn, ["a"])
    log = end_of(start(dsn, "--llm", "adk:gemini-3.5-flash"), exit_code=1)
    assert 1 == len(log.splitlines())
    assert log.startswith("Error: language model 'gemini-3.5-flash' failed: no valid key")
    assert "GOOGLE_API_KEY" in log
    assert [("pending", 0)] == jobs(dsn)
    [line] = end_of(python("-c", WITHOUT_A_KEY, dsn)).splitlines()
    assert "ModelKeyRefused: language model 'gemini-3.5-flash' failed: no" in line
    assert "valid key" in line and line.endswith(": ValueError")


WITHOUT_A_KEY = """
import asyncio, logging, sys, warnings
from shared_core import open_memory
warnings.simplefilter("ignore")
logging.basicConfig(level=logging.WARNING)
async def main():
    async with open_memory(sys.argv[1], llm="adk:gemini-3.5-flash", worker=False) as memory:
        await memory.jobs.serve(once=True)
asyncio.run(main())
"""


def test_workers_side_by_side_share_the_work_and_stop_when_asked(dsn):
    workers = [start(dsn), start(dsn)]
    for worker in workers:
        assert worker.stderr is not None
        assert "waits for jobs" in worker.stderr.readline()
    hand_over(dsn, [f"t{n}" for n in range(10)])
    run_sync(until_done(dsn))
    for number, worker in zip((signal.SIGTERM, signal.SIGINT), workers, strict=True):
        worker.send_signal(number)
    for worker in workers:
        end_of(worker)
    assert {("completed", 1)} == set(jobs(dsn))
    assert {"User lives in Lisbon."} == statements(dsn)


SLOW_WORKER = """
import asyncio, logging, sys
from shared_core import open_memory
from shared_core.cli.work import work

async def embed(texts):
    print("begun", file=sys.stderr, flush=True)
    await asyncio.to_thread(sys.stdin.readline)  # until the test writes a line, or nothing more
    return [[1.0, 2.0] for _ in texts]

logging.basicConfig(level=logging.INFO)
memory = open_memory(sys.argv[1], embedder=embed)
sys.exit(asyncio.run(work(memory, once=False, poll_s=0.05)))
"""


def wait_for(worker: subprocess.Popen[str], words: str) -> None:
    assert worker.stderr is not None
    log = ""
    while words not in log:
        line = worker.stderr.readline()
        assert line, log
        log += line


@pytest.mark.parametrize(
    ("signals", "exit_code", "state"),
    [
        ([signal.SIGTERM], 0, ("completed", 1)),
        ([signal.SIGTERM, signal.SIGTERM], 1, ("pending", 1)),
        ([signal.SIGKILL], -9, ("running", 1)),
    ],
)
def test_a_worker_that_is_stopped_finishes_its_job_or_gives_it_back(dsn, signals, exit_code, state):
    hand_over(dsn, ["t"])
    worker = python("-c", SLOW_WORKER, dsn)
    wait_for(worker, "begun")
    for number, words in zip(signals, ("stopping", "went back"), strict=False):
        worker.send_signal(number)
        if number == signal.SIGTERM:
            wait_for(worker, words)
        else:
            worker.stderr.read()  # until the program is dead, which still reads its stdin
    end_of(worker, exit_code)  # which closes what embed() reads
    assert [state] == jobs(dsn)
    if "running" == state[0]:  # what a killed worker had is taken over when its lease ends
        with psycopg.connect(dsn, autocommit=True) as superuser:
            superuser.execute("UPDATE hippocampus.consolidation_jobs SET lease_until = now()")
        end_of(start(dsn, "--once"))
        assert [("completed", 2)] == jobs(dsn)


def test_jobs_are_shown_by_state_with_age_tries_and_error(dsn):
    assert "Nothing waits, and nothing failed.\n" == shown(dsn)
    hand_over(dsn, ["given-up"])
    let_fail(dsn, "ModelUnavailable: out of quota", "now() - interval '3 hours'")
    hand_over(dsn, ["quiet"], delay_s=600)
    table = shown(dsn)
    assert "out of quota" in table and "3 h" in table and "in 9 min" in table
    waiting, failed = json.loads(shown(dsn, "--json"))
    assert ("pending", "quiet", 0) == (waiting["state"], waiting["thread"], waiting["attempts"])
    assert ("failed", "given-up", 5) == (failed["state"], failed["thread"], failed["attempts"])
    assert failed["age_s"] > 10_000
    assert Scope(failed["app"], failed["user"]) == ANN


def test_jobs_are_chosen_put_back_and_cancelled(dsn):
    hand_over(dsn, ["one", "two"])
    let_fail(dsn, "ValueError at mine.py:7")
    hand_over(dsn, ["quiet"], delay_s=600)

    def ids(*options: str) -> dict[str, str]:
        return {job["thread"]: job["job_id"] for job in json.loads(shown(dsn, "--json", *options))}

    failed = ids("--status", "failed")
    assert {"one", "two"} == set(failed)
    assert {"one", "two", "quiet"} == set(ids("--app", "app", "--user", "ann"))
    assert {} == ids("--app", "app", "--user", "bob") == ids("--app", "other")
    table = shown(dsn)
    assert "1 pending (0 due), 0 running, 2 dead" in table and failed["one"][-6:] in table
    assert "1 put back\n" == shown(dsn, "--retry", failed["one"])
    assert "0 put back\n" == shown(dsn, "--retry", "all", "--app", "other")
    assert "1 put back\n" == shown(dsn, "--retry", "all")
    assert {"one", "two", "quiet"} == set(ids("--status", "pending"))
    assert "1 cancelled\n" == shown(dsn, "--cancel", ids()["quiet"][-12:])
    assert {"one", "two"} == set(ids())
    assert "1 cancelled\n" == shown(dsn, "--cancel", ids()["two"][:-4])
    for wrong in (["--retry", "nothing"], ["--cancel", "-"], ["--user", "ann"]):
        refused = run(dsn, "jobs", *wrong)
        assert 1 == refused.exit_code and refused.stderr.startswith("Error: ")


def test_callbacks_are_no_work_of_a_worker(dsn):
    with memory_at(dsn) as memory:
        run_sync(memory.jobs.ask(ANN, "t", {}, name="episodes"))
    log = end_of(start(dsn, "--once"))
    assert "0 jobs done" in log and "1 callbacks are due and were not run" in log
    assert [("pending", 0)] == jobs(dsn)
    assert "episodes" in shown(dsn) and "1 of them for a process that has" in shown(dsn)
    [job] = json.loads(shown(dsn, "--json"))
    assert ("callback", "episodes") == (job["type"], job["performer"])
    findings = json.loads(run(dsn, "doctor", "--json").stdout)["findings"]
    [queue] = [found for found in findings if "queue" == found["check"]]
    assert "0 jobs are due" in queue["found"] and "1 wait for a process" in queue["found"]
    assert "worker --once" not in queue["advice"] and "reflector" in queue["advice"]
