"""One bad job, or one bad row of the queue, never ends a worker and never hides other jobs."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Any

import httpx
import psycopg
import pytest

from shared_core import JobType, MemoryEngine, Scope, open_memory
from shared_core.core.domain import JsonValue
from shared_core.core.timestamps import system_clock
from shared_core.http.app import create_app
from shared_core.jobs.runner import JobRunner, Outcome
from shared_core.ports.jobs import Capability, Job, JobStatus
from tests.integration.test_queue import ANN

BAD = Scope("a", "ana")
TENANTS = ["/a/ana/x/", "/a/", "/a//", "/a/ana", "/a/ana%2/"]
"""Tenants that are not the path of an application and a user."""

Execute = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture
def execute(request: pytest.FixtureRequest, dsn: str, on_engine: str) -> Iterator[Execute]:
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


def dead_jobs(execute: Execute) -> dict[str, str]:
    """Return the reason of each dead job by its tenant."""
    rows = execute("SELECT tenant_id, error FROM consolidation_jobs WHERE status = 'failed'")
    return {_text(tenant): _text(error) for tenant, error in rows}


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


async def hand_over(memory: MemoryEngine, execute: Execute, *tenants: str) -> None:
    """Enqueue a reflection for each tenant, and one for ANN, which is due last."""
    for tenant in tenants:
        await memory.jobs.request(BAD, None, JobType.REFLECTION)
        execute(f"UPDATE consolidation_jobs SET tenant_id = '{tenant}' WHERE tenant_id = '/a/ana/'")
    await memory.jobs.request(ANN, None, JobType.REFLECTION)


@pytest.mark.both_engines
async def test_a_worker_buries_jobs_it_cannot_read_and_goes_on(
    dsn: str, execute: Execute, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_memory(dsn, worker=False) as memory:
        memory.jobs.learn(done, JobType.REFLECTION)
        await hand_over(memory, execute, *TENANTS)
        tally = await memory.jobs.serve(once=True)
        assert (1, len(TENANTS)) == (tally.done, tally.failed)
        dead = dead_jobs(execute)
        assert set(TENANTS) == set(dead)
        assert all("cannot be read" in error and tenant in error for tenant, error in dead.items())
        for tenant in TENANTS:
            [line] = [one.message for one in caplog.records if f"tenant {tenant!r}" in one.message]
            assert "cannot be read" in line
        [ours] = await memory.jobs.list(statuses=[*JobStatus])
        assert (ANN, JobStatus.COMPLETED) == (ours.scope, ours.status)


@pytest.mark.both_engines
async def test_a_background_worker_outlives_a_job_it_cannot_read(
    dsn: str, execute: Execute
) -> None:
    async with open_memory(dsn, worker=False) as idle:
        await hand_over(idle, execute, TENANTS[0])
    async with open_memory(dsn) as memory:
        memory.jobs.learn(done, JobType.REFLECTION)
        await memory.append_events(ANN, "t", [], later=True, session_end=True)
        assert await memory.flush(60)
        jobs = await memory.jobs.list(statuses=[*JobStatus])
        assert JobStatus.COMPLETED in {one.status for one in jobs if one.thread_id is None}


@pytest.mark.both_engines
async def test_jobs_are_listed_beside_one_that_cannot_be_read(
    dsn: str, execute: Execute, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_memory(dsn, worker=False) as memory:
        await hand_over(memory, execute, TENANTS[0])
        assert [ANN] == [job.scope for job in await memory.jobs.list()]
        [line] = [one for one in caplog.records if one.levelno == logging.WARNING]
        assert "is not listed" in line.message and TENANTS[0] in line.message
        transport = httpx.ASGITransport(create_app(memory))
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
async def test_a_moment_that_python_does_not_know_hides_no_jobs(
    dsn: str, execute: Execute, on_engine: str
) -> None:
    async with open_memory(dsn, worker=False) as memory:
        memory.jobs.learn(done, JobType.REFLECTION)
        for moment in MOMENTS[on_engine]:
            await hand_over(memory, execute, "/a/ben/")
            execute(
                f"UPDATE consolidation_jobs SET run_after = '{moment}', created_at = '{moment}'"
                " WHERE tenant_id = '/a/ben/'"
            )
            assert {"ann", "ben"} == {job.scope.user for job in await memory.jobs.list()}
            stats = await memory.jobs.stats()
            assert stats.oldest_due_s is not None and isfinite(stats.oldest_due_s)
            tally = await memory.jobs.serve(once=True)
            assert 0 == tally.failed < tally.done
            execute("DELETE FROM consolidation_jobs")


async def test_conversations_end_beside_one_whose_user_cannot_be_read(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    yesterday = datetime.now(UTC) - timedelta(days=1)
    async with open_memory(dsn, worker=False, clock=lambda: yesterday) as memory:
        for user in ("ana", "ben"):
            await memory.process_memory("tea", user, app="a")
    with psycopg.connect(dsn, options="-c search_path=hippocampus") as admin:
        admin.execute("ALTER TABLE conversations DROP CONSTRAINT tenant_labels")
        admin.execute("SET session_replication_role = replica")  # no foreign keys
        admin.execute(
            f"UPDATE conversations SET tenant_id = '{TENANTS[0]}' WHERE tenant_id = '/a/ana/'"
        )
    async with open_memory(dsn, worker=False) as memory:
        assert 1 == await memory.conversations.expiry.run()
    logged = [one.message for one in caplog.records if TENANTS[0] in one.message]
    assert logged and all("a conversation that is over is left out" in one for one in logged)


DEEP = "[" * 5_000 + "]" * 5_000
LONG = f'{{"n": {"9" * 5_000}}}'


@pytest.mark.both_engines
@pytest.mark.parametrize("value", ["{", "[]", DEEP, LONG], ids=["broken", "list", "deep", "long"])
async def test_a_payload_that_cannot_be_read_is_a_reason(
    dsn: str, execute: Execute, on_engine: str, value: str
) -> None:
    if on_engine == "postgres" and value == "{":
        pytest.skip("a column of PostgreSQL holds no broken JSON")
    async with open_memory(dsn, worker=False) as memory:
        memory.jobs.learn(done, JobType.REFLECTION)
        await memory.jobs.request(ANN, None, JobType.REFLECTION)
        execute(f"UPDATE consolidation_jobs SET payload = '{value}'")
        assert 1 == (await memory.jobs.serve(once=True)).failed
        [job] = await memory.jobs.list()
        assert JobStatus.FAILED is job.status
        assert job.error and "cannot be read" in job.error


@pytest.mark.parametrize("result", [None, [1], {"at": object()}])
async def test_a_worker_outlives_code_that_returns_no_result(dsn: str, result: Any) -> None:
    async def perform(job: Job) -> Any:
        return result

    async with open_memory(dsn, worker=False) as memory:
        memory.jobs.learn(perform)
        await memory.jobs.ask(ANN, "t", {})
        assert 1 == (await memory.jobs.serve(once=True)).failed
        [job] = await memory.jobs.list()
        assert JobStatus.PENDING is job.status
        assert job.error and "its " in job.error


async def test_a_job_whose_code_was_unregistered_meanwhile_goes_back(dsn: str) -> None:
    async with open_memory(dsn, worker=False) as memory:
        await memory.jobs.ask(ANN, "t", {})
        storage = memory._storage
        known = [Capability(JobType.CALLBACK, "reflector")]
        job = await storage.jobs.claim_job("w", 300, known, None)
        assert job
        assert Outcome.LOST is await JobRunner(storage, system_clock, {}).run(job, "w", 300)
        [job_now] = await memory.jobs.list()
        assert (JobStatus.PENDING, 0) == (job_now.status, job_now.attempts)
