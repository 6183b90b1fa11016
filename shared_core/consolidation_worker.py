"""MemoryConsolidationWorker: consolidates a thread of one user by hand, as a job of the queue."""

from __future__ import annotations

from shared_core.core.domain import Scope
from shared_core.engine import MemoryEngine
from shared_core.ports.jobs import JobRecord, JobType


class MemoryConsolidationWorker:
    """Consolidates threads of a scope when it is told to.

    worker = MemoryConsolidationWorker(memory, Scope("my-app", "alice"))
    job = await worker.consolidate("monday", JobType.FAST_REPLAY)
    print(job.status, job.result, job.error)
    """

    def __init__(self, memory: MemoryEngine, scope: Scope) -> None:
        self._memory = memory
        self._scope = scope

    async def consolidate(
        self, thread_id: str, job_type: JobType = JobType.FULL_CONSOLIDATION
    ) -> JobRecord:
        """Consolidate a thread now, in this process, and return the job as it ended.

        FAST_REPLAY sums the thread up, DEEP_REFLECTION draws facts from what is new in it,
        FULL_CONSOLIDATION does both. Another job of the thread that runs is waited for. A failed
        job is not repeated; its error says why. Raises NotFound for a thread that is not there.
        """
        return await self._memory.jobs.run(self._scope, thread_id, job_type)
