"""The knowledge graph."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from shared_core.core.domain import USER
from shared_core.engine import MemoryEngine
from shared_core.http import answers, bodies
from shared_core.http.access import Caller, caller_of
from shared_core.http.answers import answers as told
from shared_core.http.json_answers import Json
from shared_core.http.memory_of import memory_of

router = APIRouter(tags=["graph"])


@router.get("/graph/{user_id:path}", responses=told(answers.GraphAnswer))
async def graph(
    memory: Annotated[MemoryEngine, Depends(memory_of)],
    who: Annotated[Caller, Depends(caller_of)],
    user_id: bodies.UserId,
    app: bodies.App = None,
    entity: Annotated[
        bodies.Name, Query(description="Where to begin; the user by default.")
    ] = USER,
    depth: Annotated[int, Query(ge=1, le=3, description="So many relations away.")] = 2,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> Json:
    """Show the relations around an entity that hold now, nearest and newest first."""
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
