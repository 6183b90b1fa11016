"""The routes that list applications, users and the receipts of erasures."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from shared_core import wire
from shared_core.core.domain import Scope
from shared_core.http import bodies
from shared_core.http.answers import Json, responses
from shared_core.http.routes import Engine, Who, target

router = APIRouter(tags=["directory"])


@router.get("/applications", responses=responses(wire.Applications))
async def list_applications(memory: Engine, who: Who) -> Json:
    """List the applications with data, sorted; with a token, its application alone."""
    found = await memory.transfer.applications() if who.app is None else [who.app]
    return Json({"applications": list(found)})


@router.get("/users", responses=responses(wire.ListedUsers))
async def list_users(
    memory: Engine,
    who: Who,
    app: bodies.App = None,
    contains: Annotated[
        bodies.Part, Query(description="A part of the user id, in upper or lower case.")
    ] = "",
    limit: bodies.Limit = 50,
    after: Annotated[
        bodies.OwnerName | None, Query(description="The last user of the page before.")
    ] = None,
) -> Json:
    """List the users of an application who have memories; with a token, those it is for.

    They are sorted as stored. Each comes with the number of memories and the time of the newest.
    """
    of_app = who.app_named(app)
    found = await memory.users(
        of_app, contains=contains, limit=limit, among=who.users,
        after=None if after is None else Scope(of_app, after),
    )  # fmt: skip
    return Json({"users": [one.to_dict() for one in found]})


@router.get("/erasures", responses=responses(wire.Receipts))
async def list_erasures(
    memory: Engine,
    who: Who,
    user_id: bodies.OptionalUserId = None,
    app: bodies.App = None,
    limit: bodies.LongLimit = 100,
) -> Json:
    """List the receipts of the erasures of a user or an application, newest first."""
    scope, of_app = target(who, user_id, app)
    found = await memory.erasures(scope, app=of_app)
    shown = [{**one.to_dict(), "is_intact": one.is_intact} for one in found[:limit]]
    return Json({"receipts": shown})
