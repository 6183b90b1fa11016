"""Counts the extractions of a user, and enqueues a reflection at every interval of them."""

from __future__ import annotations

from datetime import datetime

from shared_core.policies.batches import Found, Reads
from shared_core.policies.jobs import JOBS, JobWork
from shared_core.ports.jobs import JobStatus, JobType, NewJob, ReflectionDue
from shared_core.ports.operations import Insert, Operation, Select, Verb, equal


def select_count(due: ReflectionDue | None) -> Reads:
    """Return what reads the number of extractions."""
    return {"extractions": Select("extraction_counts", ("extractions",))} if due else {}


def select_waiting(due: ReflectionDue | None, found: Found) -> Reads:
    """Return what reads whether a reflection is pending, if the extraction ends an interval."""
    if due is None or _counted(found) % due.interval:
        return {}
    work = JobWork(None, str(JobType.REFLECTION), None).condition()
    is_pending = equal("status", str(JobStatus.PENDING))
    return {"waiting": Select(JOBS, ("job_id",), (*work, is_pending), limit=1)}


def count_extraction(
    due: ReflectionDue | None, found: Found, later: Found, now: datetime
) -> list[Operation]:
    """Return what counts an extraction, and enqueues a reflection at every interval.

    found, later: rows of select_count() and select_waiting().
    """
    if due is None:
        return []
    count = _counted(found)
    operations: list[Operation] = [
        Insert("extraction_counts", ("extractions",), [(count,)], "update", ("extractions",))
    ]
    if count % due.interval == 0 and not later["waiting"]:
        job = NewJob(job_id=due.job_id, job_type=JobType.REFLECTION, run_after=now)
        operations.append(Verb("enqueue", (None, job)))
    return operations


def _counted(found: Found) -> int:
    """Return the number of extractions with this one."""
    return 1 + sum(int(row[0]) for row in found["extractions"])
