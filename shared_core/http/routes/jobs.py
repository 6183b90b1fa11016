"""The queue, of one application."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Query

from shared_core.core.domain import Scope
from shared_core.engine import MemoryEngine
from shared_core.errors import NotFound
from shared_core.http import answers, bodies
from shared_core.http.access import Caller, caller_of
from shared_core.http.answers import answers as told
from shared_core.http.json_answers import Json
from shared_core.http.memory_of import memory_of
from shared_core.http.problems import ProblemError
from shared_core.ports.jobs import JobRecord, JobStatus, JobType

router = APIRouter(prefix="/jobs", tags=["jobs"])

Engine = Annotated[MemoryEngine, Depends(memory_of)]
Who = Annotated[Caller, Depends(caller_of)]


@router.get("", responses=told(answers.Jobs))
async def list_jobs(
    memory: Engine,
    who: Who,
    user_id: Annotated[bodies.Name | None, Query(description="Only this user's.")] = None,
    app: bodies.App = None,
    thread_id: Annotated[bodies.Name | None, Query(description="Only of this thread.")] = None,
    status: Annotated[JobStatus | None, Query(description="Only in this state.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Json:
    """List jobs that run, wait, or were given up; of a thread, or in a state, all of those."""
    if user_id is None and who.users is not None:
        raise ProblemError(403, "forbidden", "This token is for some users: name one, ?user_id=...")
    scope = None if user_id is None else who.scope(user_id, app)
    found = await memory.jobs.list(
        scope,
        app=who.app_named(app),
        thread_id=thread_id,
        statuses=None if status is None else [status],
        limit=limit,
    )
    return Json({"jobs": [_shown(job) for job in found]})


@router.post("", status_code=202, responses=told(answers.Accepted, 202))
async def ask_for_work(body: bodies.JobBody, memory: Engine, who: Who) -> Json:
    """Ask for work on a thread, or for a reflection on a user; it goes before what waits."""
    scope = who.scope(body.user_id, body.app)
    thread_id = body.thread_id if isinstance(body, bodies.ThreadJobBody) else None
    await memory.jobs.request(scope, thread_id, JobType(body.job_type))
    return Json({"status": "accepted"}, 202)


@router.get("/{job_id}", responses=told(answers.JobAnswer))
async def show_job(job_id: UUID, memory: Engine, who: Who, app: bodies.App = None) -> Json:
    """Show one job, whatever its state."""
    return Json(_shown(await _own_job(memory, who, app, job_id)))


@router.post("/{job_id}/retry", responses=told(answers.Changed))
async def retry_job(job_id: UUID, memory: Engine, who: Who, app: bodies.App = None) -> Json:
    """Put back a job that was given up."""
    job = await _own_job(memory, who, app, job_id)
    return Json({"changed": await memory.jobs.retry([job.job_id])})


@router.post("/{job_id}/cancel", responses=told(answers.Changed))
async def cancel_job(job_id: UUID, memory: Engine, who: Who, app: bodies.App = None) -> Json:
    """Cancel a job that waits or runs; what it has stored until then stays."""
    job = await _own_job(memory, who, app, job_id)
    return Json({"changed": await memory.jobs.cancel([job.job_id])})


async def _own_job(memory: MemoryEngine, who: Caller, app: str | None, job_id: UUID) -> JobRecord:
    found = await memory.jobs.list(app=who.app_named(app), statuses=[*JobStatus], job_id=job_id)
    # Whose it is is not told to others: for them there is none.
    if not found or (who.users is not None and found[0].scope.user not in who.users):
        raise NotFound(f"there is no job {job_id}")
    return found[0]


def _shown(job: JobRecord) -> dict[str, object]:
    scope: Scope = job.scope
    return {
        "job_id": str(job.job_id),
        "user_id": scope.user,
        "thread_id": job.thread_id,
        "job_type": job.job_type.value,
        "status": job.status.value,
        "performer": job.performer,
        "attempts": job.attempts,
        "created_at": job.created_at.isoformat(),
        "run_after": job.run_after.isoformat(),
        "completed_at": job.completed_at.isoformat() if job.completed_at else None,
        "error": job.error,
    }
