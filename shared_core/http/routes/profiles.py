"""Profiles: who a user or an agent is, with versions."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from shared_core.engine import MemoryEngine
from shared_core.http import bodies, profile_bodies as about
from shared_core.http.access import Caller, caller_of
from shared_core.http.answers import answers as told
from shared_core.http.json_answers import Json
from shared_core.http.memory_of import memory_of
from shared_core.profiles.by_agent import diff_json, memory_json, update_json, version_json

router = APIRouter(tags=["profiles"])

Engine = Annotated[MemoryEngine, Depends(memory_of)]
Who = Annotated[Caller, Depends(caller_of)]


@router.post("/profile-update", responses=told(about.ProfileUpdated))
async def update_profile(body: about.ProfileUpdateBody, memory: Engine, who: Who) -> Json:
    """Remember a conversation and update the profile from it, in one transaction."""
    scope = who.scope(body.user_id, body.app)
    desk = memory.profiles.desk(scope, body.agent_id, body.subject)
    return Json(update_json(*await desk.update(body.conversation())))


@router.post("/profile-rollback", responses=told(about.ProfileAnswer))
async def roll_back_profile(body: about.ProfileRollbackBody, memory: Engine, who: Who) -> Json:
    """Make a new version that says what an earlier one said; what was forgotten stays forgotten."""
    scope = who.scope(body.user_id, body.app)
    desk = memory.profiles.desk(scope, body.agent_id, body.subject)
    return Json(memory_json(await desk.rollback(body.version)))


@router.get("/profile/{user_id:path}", responses=told(about.ProfileAnswer))
async def show_profile(
    memory: Engine,
    who: Who,
    user_id: bodies.UserId,
    app: bodies.App = None,
    agent_id: about.AgentId = None,
    subject: about.Subject = "user",
    version: Annotated[about.Version | None, Query(description="The newest if left out.")] = None,
    language: about.Language = None,
) -> Json:
    """Show the profile of a user, as an agent knows them, or that of the agent itself."""
    desk = memory.profiles.desk(who.scope(user_id, app), agent_id, subject)
    return Json(memory_json(await desk.show(version), language))


@router.get("/profile-versions/{user_id:path}", responses=told(about.ProfileVersions))
async def list_profile_versions(
    memory: Engine,
    who: Who,
    user_id: bodies.UserId,
    app: bodies.App = None,
    agent_id: about.AgentId = None,
    subject: about.Subject = "user",
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Json:
    """List the versions of a profile that are kept, newest first."""
    desk = memory.profiles.desk(who.scope(user_id, app), agent_id, subject)
    return Json({"versions": [version_json(one) for one in await desk.versions(limit)]})


@router.get("/profile-diff/{user_id:path}", responses=told(about.ProfileDiffAnswer))
async def compare_profile_versions(
    memory: Engine,
    who: Who,
    user_id: bodies.UserId,
    from_version: Annotated[about.Version, Query(examples=[1])],
    to_version: Annotated[about.Version, Query(examples=[2])],
    app: bodies.App = None,
    agent_id: about.AgentId = None,
    subject: about.Subject = "user",
) -> Json:
    """Show what changed from one version of a profile to another, in either direction."""
    desk = memory.profiles.desk(who.scope(user_id, app), agent_id, subject)
    return Json(diff_json(await desk.diff(from_version, to_version)))
