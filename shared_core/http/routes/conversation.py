"""The plug-in brain: the routes of the conversation layer."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends

from shared_core.engine import MemoryEngine
from shared_core.http import bodies, conversation_answers as answers
from shared_core.http.access import Caller, caller_of
from shared_core.http.answers import answers as told
from shared_core.http.json_answers import Json
from shared_core.http.memory_of import memory_of

router = APIRouter(tags=["conversation"])

Engine = Annotated[MemoryEngine, Depends(memory_of)]
Who = Annotated[Caller, Depends(caller_of)]


@router.post("/process", responses=told(answers.ProcessedInput, example=answers.PROCESSED))
async def process(body: bodies.ProcessBody, memory: Engine, who: Who) -> Json:
    """Take in what a user says, and answer what is known from before that has to do with it."""
    scope = who.scope(body.user_id, body.app)
    answer = await memory.process_memory(
        body.input, scope.user, app=scope.app, event_id=body.event_id
    )
    return Json(answer)


@router.post("/debug", responses=told(answers.DebugAnswer))
async def debug(body: bodies.ProcessBody, memory: Engine, who: Who) -> Json:
    """Show what /process would answer and why, and the session, without taking the input in."""
    scope = who.scope(body.user_id, body.app)
    return Json(await memory.debug_process_memory(body.input, scope.user, app=scope.app))


@router.post("/end-session", responses=told(answers.EndedSession, example=answers.ENDED))
async def end_session(body: bodies.UserBody, memory: Engine, who: Who) -> Json:
    """End the session of a user; what was said is consolidated after the answer."""
    scope = who.scope(body.user_id, body.app)
    return Json(await memory.end_session(scope.user, app=scope.app))


@router.get(
    "/session-status/{user_id:path}",
    responses=told(answers.StatusOfSession, example=answers.STATUS),
)
async def session_status(
    memory: Engine, who: Who, user_id: bodies.UserId, app: bodies.App = None
) -> Json:
    """Show whether a user has an active session, and how it stands."""
    scope = who.scope(user_id, app)
    return Json(await memory.get_session_status(scope.user, app=scope.app))
