"""Performs jobs: embed, consolidate and sweep a thread, or reflect on a user."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from shared_core.core.domain import JsonValue
from shared_core.core.ids import uuid7
from shared_core.errors import ModelQuotaExceeded, ModelUnavailable
from shared_core.ingest import events as ingest
from shared_core.jobs.retries import MAX_ATTEMPTS
from shared_core.jobs.runner import Perform
from shared_core.knowledge.consolidation import RunReport
from shared_core.knowledge.service import Runs
from shared_core.lifecycle import Handle
from shared_core.ports.jobs import OF_A_THREAD, Capability, Job, JobType, NewJob

log = logging.getLogger("hippocampus")


SWEEP = 1000
"""Maximum number of expired memories deleted by one job."""
REFLECTED = 50
"""Number of the newest memories of a user that a reflection reads."""


class ConsolidationJobs:
    """Performs jobs with the same runs as the verbs of the engine."""

    def __init__(self, handle: Handle, runs: Runs) -> None:
        self._handle = handle
        self._runs = runs

    def performers(self) -> Mapping[Capability, Perform]:
        """Return the performer of each type of job."""
        of_threads = dict.fromkeys(map(Capability, OF_A_THREAD), self.perform)
        return {**of_threads, Capability(JobType.REFLECTION): self.reflect}

    async def perform(self, job: Job) -> dict[str, JsonValue]:
        """Perform a job on a thread; enqueue another for the rest, if any."""
        assert job.thread_id is not None
        storage = await self._handle.storage()
        embedded = await ingest.embed_waiting(
            storage, self._handle.embedding, job.scope, job.thread_id
        )
        report = await self._consolidated(job)
        if report.more or embedded == ingest.EMBED_BATCH * ingest.EMBED_BATCHES:
            rest = NewJob(job_id=uuid7(), job_type=job.job_type, run_after=self._handle.clock())
            await storage.jobs.enqueue(job.scope, job.thread_id, rest)
        await storage.items.sweep_expired((job.scope.app, job.scope.user), SWEEP)
        result: dict[str, JsonValue] = {
            "embedded": embedded,
            "events": report.events,
            "facts": report.facts_opened,
        }
        if report.run_id is None:
            result["message"] = "No events to consolidate"
        return result

    async def reflect(self, job: Job) -> dict[str, JsonValue]:
        """Reflect on the user of a job."""
        report = await self._runs.reflect(job.scope, REFLECTED)
        return {"reflections": report.reflections_generated}

    async def _consolidated(self, job: Job) -> RunReport:
        """Do a run; at the last attempt use rules if the model fails, so that no turn is lost."""
        assert job.thread_id is not None
        try:
            return await self._runs.consolidate_next(
                job.scope, job.thread_id, job_type=job.job_type
            )
        except ModelQuotaExceeded:
            raise
        except ModelUnavailable as error:
            if job.attempts < MAX_ATTEMPTS or not self._runs.by_model:
                raise
            log.warning("job %s goes on by rules: %s", job.job_id, type(error).__name__)
            return await self._runs.consolidate_next(
                job.scope, job.thread_id, job_type=job.job_type, by_rules=True
            )
