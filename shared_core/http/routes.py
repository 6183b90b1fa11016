"""The routes, by area, and the values that they share."""

from __future__ import annotations

import time
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Request
from fastapi.routing import APIRoute

from shared_core import __version__, wire
from shared_core.core.domain import USER, Scope
from shared_core.engine import MemoryEngine
from shared_core.errors import NotFound
from shared_core.http import bodies
from shared_core.http.access import Caller, caller_of
from shared_core.http.answers import Json, responses
from shared_core.http.problems import ProblemError
from shared_core.ports.events import BucketUnit, SliceOrder
from shared_core.ports.graph import Edge
from shared_core.ports.jobs import JobRecord, JobStatus, JobType
from shared_core.profiles.service import diff_json, memory_json, update_json, version_json

health = APIRouter(tags=["health"])
conversation = APIRouter(tags=["conversation"])
memories = APIRouter(tags=["memories"])
profiles = APIRouter(tags=["profiles"])
knowledge_graph = APIRouter(tags=["graph"])
jobs = APIRouter(prefix="/jobs", tags=["jobs"])
ROUTERS = (conversation, memories, profiles, knowledge_graph, jobs)
"""The routers that need access; health needs no token."""

READY_S = 1.0
"""Seconds that a successful check of the database is reused."""


async def memory_of(request: Request) -> MemoryEngine:
    """Return the memory that the application of a request serves."""
    memory: MemoryEngine = request.app.state.memory
    return memory


Engine = Annotated[MemoryEngine, Depends(memory_of)]
Who = Annotated[Caller, Depends(caller_of)]


async def known_parameters(request: Request) -> None:
    """Raise ProblemError for a query parameter that is unknown or given twice.

    A misspelt parameter would widen the request, and of two it is unclear which one counts.
    """
    route = request.scope["route"]
    assert isinstance(route, APIRoute)
    known = {field.alias for field in route.dependant.query_params}
    if unknown := sorted(set(request.query_params) - known):
        takes = f"this path takes {', '.join(sorted(known))}" if known else "this path takes none"
        raise ProblemError(
            422, "invalid-input", f"There is no parameter {unknown[0][:100]!r}: {takes}."
        )
    names = [name for name, _ in request.query_params.multi_items()]
    if len(names) > len(set(names)):
        twice = next(name for name in names if names.count(name) > 1)
        raise ProblemError(422, "invalid-input", f"The parameter {twice!r} is given twice.")


def target(who: Caller, user_id: str | None, app: str | None) -> tuple[Scope | None, str | None]:
    """Return the scope of a user, or the application of a request about all its users.

    Raises ProblemError for a request about all users if the token is for some users.
    """
    if user_id is not None:
        return who.scope(user_id, app), None
    if who.users is not None:
        raise ProblemError(403, "forbidden", "This token is for some users: name one by user_id.")
    return None, who.app_named(app)


@health.get("/health", responses=responses(wire.Health))
async def check_health() -> Json:
    """Return 200 while the server answers."""
    return Json({"status": "ok", "version": __version__})


@health.get("/health/live", responses=responses(wire.Health))
async def check_liveness() -> Json:
    """Return 200 while the server answers."""
    return await check_health()


@health.get("/health/ready", responses=responses(wire.Health))
async def check_readiness(request: Request, memory: Engine) -> Json:
    """Return 200 once the bundled model is loaded and while the database answers, else 503.

    The first call loads the model and answers when that is done or has failed.
    """
    await memory.load_model()
    state = request.app.state
    if time.monotonic() >= getattr(state, "ready_until", 0.0):
        await memory.tokens.any()
        state.ready_until = time.monotonic() + READY_S
    return Json({"status": "ok", "version": __version__})


@conversation.post("/process", responses=responses(wire.ProcessAnswer))
async def process(body: bodies.ProcessBody, memory: Engine, who: Who) -> Json:
    """Store a message of a user and return related memories from earlier messages."""
    scope = who.scope(body.user_id, body.app)
    answer = await memory.process_memory(
        body.input, scope.user, app=scope.app, event_id=body.event_id
    )
    return Json(answer)


@conversation.post("/debug", responses=responses(wire.DebugAnswer))
async def debug(body: bodies.ProcessBody, memory: Engine, who: Who) -> Json:
    """Show what /process would answer and why, and the session, without storing the message."""
    scope = who.scope(body.user_id, body.app)
    return Json(await memory.debug_process_memory(body.input, scope.user, app=scope.app))


@conversation.post("/end-session", responses=responses(wire.EndedSessionAnswer))
async def end_session(body: bodies.UserBody, memory: Engine, who: Who) -> Json:
    """End the session of a user. It is consolidated after the answer."""
    scope = who.scope(body.user_id, body.app)
    return Json(await memory.end_session(scope.user, app=scope.app))


@conversation.get("/session-status/{user_id:id}", responses=responses(wire.SessionStatusAnswer))
async def show_session_status(
    memory: Engine, who: Who, user_id: bodies.UserId, app: bodies.App = None
) -> Json:
    """Show whether a user has an active session, its age and its length."""
    scope = who.scope(user_id, app)
    return Json(await memory.get_session_status(scope.user, app=scope.app))


@memories.post("/remember", responses=responses(wire.Keys))
async def remember(body: bodies.RememberBody, memory: Engine, who: Who) -> Json:
    """Store memories that are not part of a conversation. An existing key is replaced."""
    new = [one if isinstance(one, str) else one.to_memory() for one in body.memories]
    return Json({"keys": await memory.remember(who.scope(body.user_id, body.app), new)})


@memories.post("/events", responses=responses(wire.NewEvents))
async def append_events(body: bodies.EventsBody, memory: Engine, who: Who) -> Json:
    """Append turns to a conversation. A turn sent again with other words replaces the first."""
    scope = who.scope(body.user_id, body.app)
    events = [turn.to_event() for turn in body.events]
    new = await memory.append_events(scope, body.thread_id, events, later=body.later)
    gone = [one.to_dict() for one in new.set_aside]
    return Json({"new": sorted(new), "edited": sorted(new.edited), "set_aside": gone})


@memories.post("/recall", responses=responses(wire.RecallAnswer))
async def recall(body: bodies.RecallBody, memory: Engine, who: Who) -> Json:
    """Find the memories that answer a question, by meaning, words and context, best first."""
    found = await memory.recall(
        who.scope(body.user_id, body.app),
        body.query,
        limit=body.limit,
        kinds=body.kinds,
        ranking=body.ranking,
        asked_at=body.asked_at,
        as_of=bodies.moments(body.as_of),
        min_relevance=body.min_relevance,
        distinct=body.distinct,
        diversity=body.diversity,
    )
    return Json(
        {
            "hits": [hit.to_dict(explain=body.explain) for hit in found],
            "edges": [_edge_json(one) for one in found.graph_results],
            "degraded": found.degraded,
        }
    )


@memories.post("/search", responses=responses(wire.Hits))
async def search(body: bodies.SearchBody, memory: Engine, who: Who) -> Json:
    """Find memories by meaning alone. The score is the cosine similarity."""
    found = await memory.search(
        who.scope(body.user_id, body.app),
        body.query,
        body.limit,
        kinds=body.kinds,
        as_of=bodies.moments(body.as_of),
    )
    return Json({"hits": [hit.to_dict() for hit in found]})


@memories.post("/context", responses=responses(wire.ContextAnswer))
async def assemble_context(body: bodies.ContextBody, memory: Engine, who: Who) -> Json:
    """Return the prompt that a model reads before it answers, within a token budget."""
    window = await memory.context_window(
        who.scope(body.user_id, body.app),
        body.thread_id,
        body.query,
        system_prompt=body.system_prompt,
        max_tokens=body.max_tokens,
        instructions=body.instructions,
        profile=body.profile,
        as_of=bodies.moments(body.as_of),
    )
    return Json(window.to_dict(explain=body.explain))


@memories.get("/memories", responses=responses(wire.Memories))
async def list_memories(
    memory: Engine,
    who: Who,
    user_id: bodies.UserId,
    app: bodies.App = None,
    kind: bodies.Kind = None,
    thread_id: bodies.OnlyThread = None,
    contains: bodies.Part = "",
    begin: bodies.Begin = None,
    end: bodies.End = None,
    limit: bodies.Limit = 50,
    offset: bodies.Offset = 0,
) -> Json:
    """List the memories of a user, newest first, one page at a time."""
    found = await memory.list_memories(
        who.scope(user_id, app),
        kinds=[kind] if kind else None,
        thread_id=thread_id,
        contains=contains,
        begin=begin,
        end=end,
        limit=limit,
        offset=offset,
    )
    return Json({"memories": [one.to_dict() for one in found]})


@memories.get("/memories/count", responses=responses(wire.MemoryCount))
async def count_memories(
    memory: Engine,
    who: Who,
    user_id: bodies.UserId,
    app: bodies.App = None,
    kind: bodies.Kind = None,
    thread_id: bodies.OnlyThread = None,
    contains: bodies.Part = "",
    begin: bodies.Begin = None,
    end: bodies.End = None,
) -> Json:
    """Count the memories that the list of memories has on all its pages."""
    count = await memory.count_memories(
        who.scope(user_id, app),
        kinds=[kind] if kind else None,
        thread_id=thread_id,
        contains=contains,
        begin=begin,
        end=end,
    )
    return Json({"count": count})


@memories.get("/memory/{user_id:id}", responses=responses(wire.MemoryDetailAnswer))
async def show_memory(
    memory: Engine, who: Who, user_id: bodies.UserId, key: bodies.MemoryKey, app: bodies.App = None
) -> Json:
    """Show one memory: its turns, its retention, its vectors, and what was derived from it."""
    return Json((await memory.memory(who.scope(user_id, app), key)).to_dict())


@memories.get("/timeline/{user_id:id}", responses=responses(wire.Timeline))
async def show_timeline(
    memory: Engine,
    who: Who,
    user_id: bodies.UserId,
    app: bodies.App = None,
    when: bodies.TimeWords = None,
    begin: bodies.TimeWords = None,
    end: bodies.TimeWords = None,
    query: Annotated[
        bodies.SomeQuery | None, Query(description="Most relevant first, with scores.")
    ] = None,
    kind: bodies.Kind = None,
    order: Annotated[SliceOrder, Query(description="Without a query.")] = "newest",
    limit: bodies.Limit = 50,
    offset: bodies.Offset = 0,
    bucket: Annotated[
        BucketUnit | None, Query(description="Count the memories of each part of the period.")
    ] = None,
    zone: Annotated[
        bodies.Name | None, Query(description="Time zone of the words.", examples=["Asia/Shanghai"])
    ] = None,
    asked_at: bodies.AskedAt = None,
    explain: bodies.Explain = False,
) -> Json:
    """List the memories of a period, and count them by hour, day, week, month or year."""
    found = await memory.slice(
        who.scope(user_id, app), when, begin=begin, end=end, query=query,
        kinds=[kind] if kind else None, order=order, limit=limit, offset=offset, bucket=bucket,
        zone=zone, asked_at=asked_at,
    )  # fmt: skip
    return Json(found.to_dict(explain=explain))


@memories.post("/forget", responses=responses(wire.Forgotten))
async def forget(body: bodies.KeysBody, memory: Engine, who: Who) -> Json:
    """Remove memories and everything derived from them alone. Unknown keys are ignored."""
    gone = await memory.forget(who.scope(body.user_id, body.app), body.keys)
    return Json({"forgotten": gone})


@memories.post("/erase", responses=responses(wire.Erased))
async def erase(body: bodies.EraseBody, memory: Engine, who: Who) -> Json:
    """Erase all data of a user or a thread, and return the receipt. This cannot be undone."""
    receipt = await memory.erase(who.scope(body.user_id, body.app), body.thread_id)
    return Json({"erased": receipt.counts.get("memories", 0), **receipt.to_dict()})


def _edge_json(edge: Edge) -> dict[str, object]:
    return {
        "edge_id": str(edge.edge_id),
        "source": edge.subject_entity,
        "relation": edge.relation,
        "target": edge.object_entity,
        "confidence": edge.confidence,
        "valid_from": edge.valid_from.isoformat(),
        "source_event_ids": list(edge.source_event_ids),
    }


@profiles.post("/profile-update", responses=responses(wire.ProfileUpdated))
async def update_profile(body: bodies.ProfileUpdateBody, memory: Engine, who: Who) -> Json:
    """Store a conversation and update the profile from it, in one transaction."""
    profile = memory.profiles.of(who.scope(body.user_id, body.app), body.agent_id, body.subject)
    return Json(update_json(*await profile.update(body.conversation())))


@profiles.post("/profile-rollback", responses=responses(wire.ProfileAnswer))
async def roll_back_profile(body: bodies.ProfileRollbackBody, memory: Engine, who: Who) -> Json:
    """Store an earlier version as a new one. Forgotten memories stay forgotten."""
    profile = memory.profiles.of(who.scope(body.user_id, body.app), body.agent_id, body.subject)
    return Json(memory_json(await profile.rollback(body.version)))


@profiles.get("/profile/{user_id:id}", responses=responses(wire.ProfileAnswer))
async def show_profile(
    memory: Engine,
    who: Who,
    user_id: bodies.UserId,
    app: bodies.App = None,
    agent_id: bodies.AgentId = None,
    subject: bodies.Subject = "user",
    version: Annotated[bodies.Version | None, Query(description="Default: the newest.")] = None,
    language: bodies.Language = None,
) -> Json:
    """Show the profile that an agent keeps of a user, or the profile of the agent itself."""
    profile = memory.profiles.of(who.scope(user_id, app), agent_id, subject)
    return Json(memory_json(await profile.show(version), language))


@profiles.get("/profile-versions/{user_id:id}", responses=responses(wire.ProfileVersions))
async def list_profile_versions(
    memory: Engine,
    who: Who,
    user_id: bodies.UserId,
    app: bodies.App = None,
    agent_id: bodies.AgentId = None,
    subject: bodies.Subject = "user",
    limit: bodies.LongLimit = 100,
) -> Json:
    """List the stored versions of a profile, newest first."""
    profile = memory.profiles.of(who.scope(user_id, app), agent_id, subject)
    return Json({"versions": [version_json(one) for one in await profile.versions(limit)]})


@profiles.get("/profile-diff/{user_id:id}", responses=responses(wire.ProfileDiffAnswer))
async def compare_profile_versions(
    memory: Engine,
    who: Who,
    user_id: bodies.UserId,
    from_version: Annotated[bodies.Version, Query(description="The first version.", examples=[1])],
    to_version: Annotated[bodies.Version, Query(description="The second version.", examples=[2])],
    app: bodies.App = None,
    agent_id: bodies.AgentId = None,
    subject: bodies.Subject = "user",
) -> Json:
    """Show the changes from one version of a profile to another, in either direction."""
    profile = memory.profiles.of(who.scope(user_id, app), agent_id, subject)
    return Json(diff_json(await profile.diff(from_version, to_version)))


@knowledge_graph.get("/graph/{user_id:id}", responses=responses(wire.GraphAnswer))
async def show_graph(
    memory: Engine,
    who: Who,
    user_id: bodies.UserId,
    app: bodies.App = None,
    entity: Annotated[
        bodies.Name, Query(description="Entity to start from. Default: the user.")
    ] = USER,
    depth: Annotated[int, Query(ge=1, le=3, description="Maximum distance in relations.")] = 2,
    limit: Annotated[int, Query(ge=1, le=500, description="Maximum number of relations.")] = 100,
) -> Json:
    """Show the current relations around an entity, nearest and newest first."""
    around = await memory.graph.neighbourhood(
        who.scope(user_id, app), entity, depth=depth, limit=limit
    )
    return Json(
        {
            "status": "success",
            "user_id": user_id,
            "entities": [{"name": name, "hops": hops} for name, hops in around.entities.items()],
            "relations": [
                {
                    "source": edge.subject_entity,
                    "relation": edge.relation,
                    "target": edge.object_entity,
                    "hops": edge.hops,
                    "confidence": edge.confidence,
                    "valid_from": edge.valid_from.isoformat(),
                }
                for edge in around.edges
            ],
            "metadata": {"has_more": around.more},
        }
    )


@jobs.get("", responses=responses(wire.Jobs))
async def list_jobs(
    memory: Engine,
    who: Who,
    user_id: Annotated[bodies.Name | None, Query(description="Only jobs of this user.")] = None,
    app: bodies.App = None,
    thread_id: bodies.OnlyThread = None,
    status: Annotated[JobStatus | None, Query(description="Only jobs in this state.")] = None,
    limit: bodies.LongLimit = 100,
) -> Json:
    """List the jobs that run, wait or are dead; with thread_id or status, all matching jobs."""
    scope, of_app = target(who, user_id, app)
    found = await memory.jobs.list(
        scope,
        app=of_app,
        thread_id=thread_id,
        statuses=None if status is None else [status],
        limit=limit,
    )
    return Json({"jobs": [_job_json(job) for job in found]})


@jobs.post("", status_code=202, responses=responses(wire.Accepted, 202))
async def request_job(body: bodies.JobBody, memory: Engine, who: Who) -> Json:
    """Queue a job on a thread, or a reflection on a user, ahead of the waiting jobs."""
    scope = who.scope(body.user_id, body.app)
    thread_id = body.thread_id if isinstance(body, bodies.ThreadJobBody) else None
    await memory.jobs.request(scope, thread_id, JobType(body.job_type))
    return Json({"status": "accepted"}, 202)


@jobs.get("/{job_id}", responses=responses(wire.JobAnswer))
async def show_job(job_id: bodies.JobId, memory: Engine, who: Who, app: bodies.App = None) -> Json:
    """Show one job, whatever its state."""
    return Json(_job_json(await _own_job(memory, who, app, job_id)))


@jobs.post("/{job_id}/retry", responses=responses(wire.Changed))
async def retry_job(job_id: bodies.JobId, memory: Engine, who: Who, app: bodies.App = None) -> Json:
    """Put a dead job back into the queue."""
    job = await _own_job(memory, who, app, job_id)
    return Json({"changed": await memory.jobs.retry([job.job_id])})


@jobs.post("/{job_id}/cancel", responses=responses(wire.Changed))
async def cancel_job(
    job_id: bodies.JobId, memory: Engine, who: Who, app: bodies.App = None
) -> Json:
    """Cancel a job that waits or runs. What it has stored so far stays."""
    job = await _own_job(memory, who, app, job_id)
    return Json({"changed": await memory.jobs.cancel([job.job_id])})


async def _own_job(memory: MemoryEngine, who: Caller, app: str | None, job_id: UUID) -> JobRecord:
    found = await memory.jobs.list(app=who.app_named(app), statuses=[*JobStatus], job_id=job_id)
    # A job of another user is reported like a missing one, so that its existence stays private.
    if not found or (who.users is not None and found[0].scope.user not in who.users):
        raise NotFound(f"there is no job {job_id}")
    return found[0]


def _job_json(job: JobRecord) -> dict[str, object]:
    return {
        "job_id": str(job.job_id),
        "user_id": job.scope.user,
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
