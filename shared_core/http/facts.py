"""The routes of facts, and of the runs that write and end them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from shared_core import wire
from shared_core.http import bodies
from shared_core.http.answers import Json, responses
from shared_core.http.routes import Engine, Who

router = APIRouter(tags=["facts"])


@router.get("/facts/{user_id:id}", responses=responses(wire.ListedFacts))
async def list_facts(
    memory: Engine,
    who: Who,
    user_id: bodies.UserId,
    app: bodies.App = None,
    slot: Annotated[bodies.Name | None, Query(description="Only this slot.")] = None,
    history: Annotated[bool, Query(description="Include facts that ended.")] = False,
    why: Annotated[bool, Query(description="Say which turns state, doubt or ended each.")] = False,
) -> Json:
    """List the facts about a user, current ones first, and say why each is held."""
    found = await memory.facts(who.scope(user_id, app), slot or "", history=history, why=why)
    return Json({"facts": [fact.to_dict() for fact in found]})


@router.post("/state", responses=responses(wire.FactAnswer))
async def state_fact(body: bodies.StateBody, memory: Engine, who: Who) -> Json:
    """Store a fact as if the user had stated it.

    It ends another value of a slot that has one value.
    """
    fact = await memory.state_fact(
        who.scope(body.user_id, body.app), body.slot, body.value, subject=body.subject,
        valid_from=body.valid_from,
    )  # fmt: skip
    return Json(fact.to_dict())


@router.post("/retract", responses=responses(wire.FactAnswer))
async def retract_fact(body: bodies.RetractBody, memory: Engine, who: Who) -> Json:
    """End a fact as of a moment. It stays as history."""
    fact = await memory.retract(who.scope(body.user_id, body.app), body.key, at=body.at)
    return Json(fact.to_dict())


@router.post("/restore", responses=responses(wire.FactAnswer))
async def restore_fact(body: bodies.RestoreBody, memory: Engine, who: Who) -> Json:
    """Let a fact that ended hold again, with what ended with it."""
    return Json((await memory.restore(who.scope(body.user_id, body.app), body.key)).to_dict())


@router.get("/runs/{user_id:id}", responses=responses(wire.ListedRuns))
async def list_runs(
    memory: Engine,
    who: Who,
    user_id: bodies.UserId,
    app: bodies.App = None,
    thread_id: bodies.OnlyThread = None,
    limit: bodies.Limit = 50,
) -> Json:
    """List the runs of consolidation, reflection and callers, newest first."""
    found = await memory.runs(who.scope(user_id, app), thread_id=thread_id, limit=limit)
    return Json({"runs": [one.to_dict() for one in found]})


@router.post("/undo-run", responses=responses(wire.Undone))
async def undo_run(body: bodies.UndoBody, memory: Engine, who: Who) -> Json:
    """Undo a run: what it wrote goes, what it ended holds again, its turns are unread again."""
    await memory.undo_run(who.scope(body.user_id, body.app), body.run_id)
    return Json({"undone": str(body.run_id)})
