"""The routes of retention: statistics, policies, faded memories and pins."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict

from fastapi import APIRouter

from shared_core import wire
from shared_core.core.domain import Scope
from shared_core.core.retention_policy import Rules
from shared_core.engine import MemoryEngine
from shared_core.http import bodies
from shared_core.http.access import Caller
from shared_core.http.answers import Json, responses
from shared_core.http.routes import Engine, Who, target

router = APIRouter(tags=["retention"])


@router.get("/retention-stats", responses=responses(wire.RetentionStatsAnswer))
async def show_retention_stats(
    memory: Engine, who: Who, user_id: bodies.OptionalUserId = None, app: bodies.App = None
) -> Json:
    """Show how the memories of a user or an application score, and how many fade soon.

    It reads each of these memories once.
    """
    scope, of_app = target(who, user_id, app)
    return Json((await memory.retention.stats(scope, app=of_app)).to_dict())


@router.get("/retention-policy", responses=responses(wire.RetentionPolicies))
async def show_retention_policy(
    memory: Engine, who: Who, user_id: bodies.OptionalUserId = None, app: bodies.App = None
) -> Json:
    """Show the policy of each kind of memory that holds for a user or an application."""
    scope, of_app = target(who, user_id, app)
    return Json({"policy": _rules_json(await memory.retention.policy(scope, app=of_app))})


@router.post("/retention-policy", responses=responses(wire.RetentionPolicySet))
async def set_retention_policy(body: bodies.RetentionPolicyBody, memory: Engine, who: Who) -> Json:
    """Set how the memories of a user or an application fade. It replaces the policy set there."""
    scope, of_app = target(who, body.user_id, body.app)
    retimed = await memory.retention.set_policy(body.rule(), scope, app=of_app, never=body.never)
    rules = await memory.retention.policy(scope, app=of_app)
    return Json({"retimed": retimed, "policy": _rules_json(rules)})


@router.get("/faded/{user_id:id}", responses=responses(wire.FadedMemories))
async def list_faded(
    memory: Engine,
    who: Who,
    user_id: bodies.UserId,
    app: bodies.App = None,
    kind: bodies.Kind = None,
    limit: bodies.Limit = 50,
    offset: bodies.Offset = 0,
) -> Json:
    """List the memories that have faded out of recall, latest first."""
    found = await memory.retention.list_faded(
        who.scope(user_id, app), kinds=[kind] if kind else None, limit=limit, offset=offset
    )
    return Json({"memories": [one.to_dict() for one in found]})


@router.post("/revive", responses=responses(wire.ChangedMemories))
async def revive(body: bodies.KeysBody, memory: Engine, who: Who) -> Json:
    """Bring faded memories back into recall, as if they were read now."""
    return await _each_key(memory, body, who, memory.retention.revive)


@router.post("/pin", responses=responses(wire.ChangedMemories))
async def pin(body: bodies.KeysBody, memory: Engine, who: Who) -> Json:
    """Protect memories from fading. Faded ones come back into recall."""
    return await _each_key(memory, body, who, memory.retention.pin)


@router.post("/unpin", responses=responses(wire.ChangedMemories))
async def unpin(body: bodies.KeysBody, memory: Engine, who: Who) -> Json:
    """Let pinned memories fade again by their policy."""
    return await _each_key(memory, body, who, memory.retention.unpin)


async def _each_key(
    memory: MemoryEngine,
    body: bodies.KeysBody,
    who: Caller,
    verb: Callable[[Scope, Sequence[str]], Awaitable[int]],
) -> Json:
    scope = who.scope(body.user_id, body.app)
    unknown = await memory.retention.unknown_keys(scope, body.keys)
    return Json({"changed": await verb(scope, body.keys), "unknown": list(unknown)})


def _rules_json(rules: Rules) -> dict[str, object]:
    return {kind: None if rule is None else asdict(rule) for kind, rule in rules.items()}
