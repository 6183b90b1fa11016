"""Remember, ask, forget."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from shared_core.core.domain import Memory, MemoryKind
from shared_core.engine import MemoryEngine
from shared_core.http import answers, bodies
from shared_core.http.access import Caller, caller_of
from shared_core.http.answers import answers as told
from shared_core.http.json_answers import Json
from shared_core.http.memory_of import memory_of
from shared_core.ports.graph import Edge
from shared_core.ports.recall import Ranking

router = APIRouter(tags=["memories"])

Engine = Annotated[MemoryEngine, Depends(memory_of)]
Who = Annotated[Caller, Depends(caller_of)]


@router.post("/remember", responses=told(answers.Keys))
async def remember(body: bodies.RememberBody, memory: Engine, who: Who) -> Json:
    """Remember texts that came out of no conversation; an existing key is replaced."""
    new = [one if isinstance(one, str) else one.to_memory() for one in body.memories]
    return Json({"keys": await memory.remember(who.scope(body.user_id, body.app), new)})


@router.post("/events", responses=told(answers.NewEvents))
async def append_events(body: bodies.EventsBody, memory: Engine, who: Who) -> Json:
    """Append turns to a conversation and remember them. Sent again, they are known."""
    scope = who.scope(body.user_id, body.app)
    events = [turn.to_event() for turn in body.events]
    new = await memory.append_events(scope, body.thread_id, events, later=body.later)
    return Json({"new": sorted(new)})


@router.post("/recall", responses=told(answers.RecallAnswer))
async def recall(body: bodies.RecallBody, memory: Engine, who: Who) -> Json:
    """Find what answers a question, by meaning, by words and by what stands around, best first."""
    ranking: Ranking = body.ranking
    found = await memory.recall(
        who.scope(body.user_id, body.app),
        body.query,
        limit=body.limit,
        kinds=body.kinds,
        ranking=ranking,
        asked_at=body.asked_at,
        as_of=bodies.moments(body.as_of),
        min_relevance=body.min_relevance,
        distinct=body.distinct,
        diversity=body.diversity,
    )
    return Json(
        {
            "hits": [hit.to_dict() for hit in found],
            "edges": [_edge(one) for one in found.graph_results],
            "degraded": found.degraded,
        }
    )


@router.post("/search", responses=told(answers.Hits))
async def search(body: bodies.SearchBody, memory: Engine, who: Who) -> Json:
    """Find what is nearest to a query by meaning alone; the score is the cosine similarity."""
    found = await memory.search(
        who.scope(body.user_id, body.app),
        body.query,
        body.limit,
        kinds=body.kinds,
        as_of=bodies.moments(body.as_of),
    )
    return Json({"hits": [hit.to_dict() for hit in found]})


@router.post("/context", responses=told(answers.ContextAnswer))
async def context(body: bodies.ContextBody, memory: Engine, who: Who) -> Json:
    """Pack what a model should read before it answers into a budget of tokens."""
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
    return Json(window.to_dict())


@router.get("/memories", responses=told(answers.Memories))
async def list_memories(
    memory: Engine,
    who: Who,
    user_id: bodies.UserId,
    app: bodies.App = None,
    kind: Annotated[MemoryKind | None, Query(description="Only this kind.")] = None,
    limit: bodies.Limit = 50,
    offset: Annotated[int, Query(ge=0, le=100_000)] = 0,
) -> Json:
    """List what is remembered of a user, newest first, a page at a time."""
    found = await memory.list_memories(
        who.scope(user_id, app), kinds=[kind] if kind else None, limit=limit, offset=offset
    )
    return Json({"memories": [_shown(one) for one in found]})


@router.post("/forget", responses=told(answers.Forgotten))
async def forget(body: bodies.ForgetBody, memory: Engine, who: Who) -> Json:
    """Forget memories and what was drawn from them alone; unknown keys are none."""
    gone = await memory.forget(who.scope(body.user_id, body.app), body.keys)
    return Json({"forgotten": gone})


@router.post("/erase", responses=told(answers.Erased))
async def erase(body: bodies.EraseBody, memory: Engine, who: Who) -> Json:
    """Erase everything of a user, or of one thread, and answer the receipt. It cannot be undone."""
    receipt = await memory.erase(who.scope(body.user_id, body.app), body.thread_id)
    return Json({"erased": receipt.counts.get("memories", 0), **receipt.to_dict()})


def _edge(edge: Edge) -> dict[str, object]:
    return {
        "edge_id": str(edge.edge_id),
        "source": edge.subject_entity,
        "relation": edge.relation,
        "target": edge.object_entity,
        "confidence": edge.confidence,
        "valid_from": edge.valid_from.isoformat(),
        "source_event_ids": list(edge.source_event_ids),
    }


def _shown(memory: Memory) -> dict[str, object]:
    return {
        "memory_id": str(memory.memory_id),
        "key": memory.key,
        "kind": memory.kind,
        "text": memory.text,
        "author": memory.author,
        "importance": memory.importance,
        "occurred_at": memory.occurred_at.isoformat(),
        "thread_id": memory.thread_id,
        "source_event_ids": list(memory.source_event_ids),
    }
