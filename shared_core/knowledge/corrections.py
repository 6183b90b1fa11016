"""What a caller knows better than what was read: a fact has ended, or holds after all."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

from shared_core.core.domain import Scope
from shared_core.core.ids import uuid7
from shared_core.core.namespaces import scope_path, storable
from shared_core.core.timestamps import check_moment
from shared_core.errors import Conflict, InvalidInput, NotFound
from shared_core.knowledge.fact_planning import opposite_slot
from shared_core.ports.facts import NamedMemory, Restoration
from shared_core.ports.runs import Fact, RunPlan
from shared_core.ports.storage import Clock, Storage


async def retract(
    storage: Storage, clock: Clock, scope: Scope, name: Fact | UUID | str, at: datetime | None
) -> Fact:
    """End a fact as of a moment, by default now, and return it as it is then.

    name: the fact itself, its key or memory id. What says the same, or rests on it, ends with it.
    Raises NotFound, InvalidInput for what is no fact or a moment it cannot end at, Conflict if it
    has ended.
    """
    fact, _ = await _named(storage, scope, name)
    now = clock()
    if fact.valid_until is not None and fact.valid_until <= now:
        raise Conflict(
            f"{fact.statement!r} has ended already, at {fact.valid_until.isoformat()}: restore it"
            " first to give it another end"
        )
    until = max(now, fact.valid_from) if at is None else _end_of(fact, at, now)
    plan = RunPlan(
        run_id=uuid7(),
        kind="retraction",
        scope=scope,
        thread_id=None,
        extractor="caller",
        started_at=now,
        close=[(fact.memory_id, until)],
        ended=[fact.memory_id],
        counts={"closed": 1},
    )
    try:
        await storage.apply_run(plan)
    except Conflict as error:
        raise Conflict(
            f"{fact.statement!r} was changed or forgotten at the same time: try again"
        ) from error
    return replace(fact, valid_until=until, superseded_at=now)


async def restore(storage: Storage, scope: Scope, name: Fact | UUID | str) -> Fact:
    """Let a fact that ended hold again, and return it as it is then.

    What ended with it comes back as well. Raises NotFound, InvalidInput for what is no fact,
    Conflict if it holds, or if a current fact, or edge, cannot hold beside it, and names that one.
    """
    fact, place = await _named(storage, scope, name)
    if fact.valid_until is None or fact.superseded_at is None:
        raise Conflict(f"{fact.statement!r} has not ended: there is nothing to restore")
    keys = [place]
    if opposite := opposite_slot(fact.slot):
        keys.append(opposite + place.removeprefix(fact.slot))
    for rival in await storage.facts_in_place(scope, fact.fact_type, keys):
        if rival.memory_id != fact.memory_id:
            raise Conflict(
                f"{fact.statement!r} cannot hold beside {rival.statement!r}, which holds since"
                f" {rival.valid_from.isoformat()}: retract that first, its key is {rival.key}"
            )
    for edge in await storage.edges_in_place(scope, fact.memory_id):
        raise Conflict(
            f"{fact.statement!r} cannot hold beside the edge ({edge.subject}) -[{edge.relation}]->"
            f" ({edge.object}) of the graph: end that first with graph.retract(scope,"
            f" {edge.subject!r}, {edge.relation!r}, {edge.object!r})"
        )
    restoration = Restoration(
        run_id=uuid7(),
        scope=scope,
        memory_id=fact.memory_id,
        closed_at=fact.superseded_at,
        keys=keys,
    )
    await storage.restore_fact(restoration)
    return replace(fact, valid_until=None, superseded_at=None)


async def _named(storage: Storage, scope: Scope, given: Fact | UUID | str) -> tuple[Fact, str]:
    scope_path(scope)
    if not isinstance(given, Fact | UUID | str):
        raise InvalidInput(
            f"a fact is named by itself, its key or its memory id, e.g. as text, not by {given!r}"
        )
    name = given.key if isinstance(given, Fact) else str(given)
    found: NamedMemory | None = None
    if storable(name):
        found = await storage.named_memory(scope, name)
    if found is None:
        raise NotFound(
            f"there is no memory {name!r} of {scope}: facts(scope, history=True) lists all facts,"
            " and Fact.key is the key of each"
        )
    if found.fact is None:
        raise InvalidInput(
            f"{name!r} is no fact but a memory of kind {found.kind!r}: only facts end and hold"
            " again; forget() deletes any memory"
        )
    return found.fact, found.place


def _end_of(fact: Fact, at: datetime, now: datetime) -> datetime:
    check_moment(at, "at")
    if at < fact.valid_from:
        raise InvalidInput(
            f"{fact.statement!r} holds since {fact.valid_from.isoformat()} and cannot have ended"
            f" before, at {at.isoformat()}: forget() it if it never held"
        )
    if at > now:
        raise InvalidInput(f"at must not be in the future, as {at.isoformat()} is: retract it then")
    return at.astimezone(UTC)
