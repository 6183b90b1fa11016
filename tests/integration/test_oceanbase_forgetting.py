"""Forgetting removes the same memories on both engines: equal worlds stay equal."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from uuid import UUID, uuid4

import numpy as np
import pytest
from both_engines import NOW, Both, Row, World

from shared_core import Scope
from shared_core.core.domain import ThreadId
from shared_core.core.namespaces import memories_namespace, scope_path
from shared_core.ports.items import VectorRows
from tests import forgetting_calls as calls

THREADS = ("one", "two", "three")
EVENTS = [(thread, f"{thread}{number}") for thread in THREADS for number in range(4)]
WORLDS = 12

Forget = Callable[[Both, Scope, World, random.Random], Awaitable[tuple[int, int]]]

LEFT = {
    "threads": "thread_id version session_started_at",
    "events": "thread_id event_id memory_seq payload",
    "tombstones": "thread_id event_id",
    "memories": "memory_id",
    "memory_sources": "memory_id thread_id event_id basis",
    "memory_bases": "memory_id basis_id",
    "memory_access": "memory_id",
    "facts": "memory_id",
    "edges": "edge_id memory_id",
    "edge_sources": "edge_id thread_id event_id basis",
    "retractions": "retraction_id",
    "runs": "run_id",
    "consolidation_jobs": "job_id",
    "conversations": "thread_id",
    "entity_aliases": "alias_id",
    "extraction_counts": "extractions",
}


def some_world(chance: random.Random) -> World:
    """Return turns, what was drawn from them, and what was drawn from that."""
    world: World = {table: [] for table in ORDER}
    for thread in THREADS:
        world["threads"].append(thread_row(thread, logged=chance.random() < 0.5))
    for place, (thread, event) in enumerate(EVENTS):
        payload = {} if chance.random() < 0.4 else None
        world["events"].append(event_row(thread, event, place, payload))
        add_memory(world, "episodic", thread, [[(thread, event)]])
    for thread in THREADS:
        for superseded in (NOW, NOW, None):
            add_memory(world, "summary", thread, [some_turns(chance)], superseded)
    for number in range(14):
        memory_id = add_memory(world, "semantic", None, some_bases(chance))
        if chance.random() < 0.7:
            add_fact(world, memory_id, number, chance)
        if chance.random() < 0.7:
            add_edge(world, number, memory_id, some_bases(chance))
    for number in range(14, 20):
        add_edge(world, number, None, some_bases(chance))
    ids = [row["memory_id"] for row in world["memories"]]
    for _ in range(6):
        memory_id = add_memory(world, "reflection", None, [])
        for basis_id in chance.sample(ids, 2):
            world["memory_bases"].append({"memory_id": memory_id, "basis_id": basis_id})
    add_run(world, chance)
    return world


ORDER = (
    "threads", "events", "memories", "memory_sources", "memory_bases", "memory_access", "facts",
    "edges", "edge_sources", "runs", "retractions", "consolidation_jobs", "conversations",
    "entity_aliases", "extraction_counts",
)  # fmt: skip


def some_turns(chance: random.Random) -> list[tuple[str, str]]:
    return chance.sample(EVENTS, chance.choice((1, 1, 2, 3)))


def some_bases(chance: random.Random) -> list[list[tuple[str, str]]]:
    return [some_turns(chance) for _ in range(chance.choice((1, 1, 2)))]


def thread_row(thread: str, *, logged: bool) -> Row:
    return {
        "thread_id": thread, "state": {}, "last_seq": 4, "created_at": NOW, "updated_at": NOW,
        "session_started_at": NOW if logged else None,
        "session_updated_at": NOW if logged else None,
    }  # fmt: skip


def event_row(thread: str, event: str, place: int, payload: object) -> Row:
    return {
        "thread_id": thread, "seq": place, "event_id": event, "author": "a", "role": "user",
        "text": event, "metadata": {}, "occurred_at": NOW, "recorded_at": NOW,
        "memory_seq": place, "payload": payload,
    }  # fmt: skip


def add_memory(
    world: World,
    kind: str,
    thread: str | None,
    bases: Sequence[Sequence[tuple[str, str]]],
    superseded_at: datetime | None = None,
) -> UUID:
    memory_id = uuid4()
    world["memories"].append({
        "memory_id": memory_id, "namespace": "/memories/", "key": str(memory_id), "kind": kind,
        "text": "", "value": {}, "terms": "", "term_count": 0, "thread_id": thread,
        "occurred_at": NOW, "created_at": NOW, "updated_at": NOW, "superseded_at": superseded_at,
    })  # fmt: skip
    world["memory_access"].append({"memory_id": memory_id})
    world["memory_sources"] += [
        {"memory_id": memory_id, "thread_id": thread_id, "event_id": event_id, "basis": basis}
        for basis, turns in enumerate(bases)
        for thread_id, event_id in turns
    ]
    return memory_id


def add_fact(world: World, memory_id: UUID, number: int, chance: random.Random) -> None:
    person = chance.choice(("ann", "bo:b@x"))
    slot = chance.choice(("relation.friend", "relation.friend.likes", "likes"))
    world["facts"].append({
        "memory_id": memory_id, "fact_type": "custom", "slot": slot, "key": f"{slot}@{person}",
        "value": "x", "functional": True, "confidence": 1, "extractor": "", "pattern": "",
        "valid_from": NOW - timedelta(days=number), "valid_until": NOW, "recorded_at": NOW,
        "superseded_at": NOW,
    })  # fmt: skip


def add_edge(
    world: World, number: int, memory_id: UUID | None, bases: Sequence[Sequence[tuple[str, str]]]
) -> None:
    edge_id = uuid4()
    world["edges"].append({
        "edge_id": edge_id, "memory_id": memory_id, "subject": "s", "relation": f"r{number}",
        "object": "o", "subject_key": "s", "object_key": "o", "valid_from": NOW,
        "recorded_at": NOW,
    })  # fmt: skip
    world["edge_sources"] += [
        {"edge_id": edge_id, "basis": basis, "thread_id": thread_id, "event_id": event_id}
        for basis, turns in enumerate(bases)
        for thread_id, event_id in turns
    ]


def add_run(world: World, chance: random.Random) -> None:
    """What a run retracted, a job, a conversation, and what is noted of the whole scope."""
    runs = {thread: uuid4() for thread in (*THREADS, None)}
    world["runs"] += [
        {"run_id": run_id, "kind": "x", "thread_id": thread, "extractor": "", "counts": {},
         "started_at": NOW, "finished_at": NOW}
        for thread, run_id in runs.items()
    ]  # fmt: skip
    for person in ("ann", "bo b x", "carl"):
        for slot in ("relation.friend.likes", "relation.friend.likes.food"):
            turns = some_turns(chance)
            thread = turns[0][0]
            world["retractions"].append({
                "retraction_id": uuid4(), "run_id": runs[None], "fact_type": "custom",
                "slot": slot, "subject_key": f"{slot}@{person}", "value": "", "said_at": NOW,
                "thread_id": thread, "event_ids": [event for _, event in turns],
            })  # fmt: skip
    for thread in THREADS:
        world["consolidation_jobs"].append({
            "job_id": uuid4(), "thread_id": thread, "job_type": "fast_replay", "run_after": NOW,
            "result": {}, "created_at": NOW,
        })  # fmt: skip
        world["conversations"].append({
            "thread_id": thread, "status": "ended", "created_at": NOW, "last_active_at": NOW,
            "ends_at": NOW,
        })  # fmt: skip
    world["entity_aliases"].append({
        "alias_id": uuid4(), "alias_key": "a", "alias": "A", "entity_key": "b", "entity": "B",
        "merged_at": NOW,
    })  # fmt: skip
    world["extraction_counts"].append({"extractions": 3})


def vectors_of(scope: Scope, world: World) -> VectorRows:
    addresses = [(memories_namespace(scope), row["key"]) for row in world["memories"]]
    return VectorRows(
        model="m",
        addresses=addresses,
        fields=["text"] * len(addresses),
        vectors=np.ones((len(addresses), 3), dtype=np.float32),
    )


async def with_vectors(both: Both, tenant: str) -> list[UUID]:
    rows = await both.seekdb._database.read(
        lambda tx: tx.rows("SELECT memory_id FROM embeddings_3 WHERE tenant_id = %s", [tenant])
    )
    return [row[0] for row in rows]


async def compared(both: Both, forget: Forget) -> None:
    """Do the same on both engines to the same worlds, and compare what it says and leaves."""
    for storage in (both.postgres, both.seekdb):
        await storage.use_model("m", 3)
    for number in range(WORLDS):
        chance = random.Random(number)
        scope = Scope("app", f"user {number}")
        world = some_world(chance)
        await both.put(scope_path(scope), world)
        await both.same(lambda s, w=world, of=scope: calls.add_vectors(s, of, vectors_of(of, w)))
        first, second = await forget(both, scope, world, chance)
        assert first == second
        left = await both.left(scope_path(scope), LEFT)
        assert len(left["memories"]) == len(world["memories"]) - first
        embedded = await with_vectors(both, scope_path(scope))
        assert sorted(embedded) == sorted(row["memory_id"] for row in left["memories"])


async def test_turns_take_the_same_along(both: Both) -> None:
    async def forget(
        both: Both, scope: Scope, world: World, chance: random.Random
    ) -> tuple[int, int]:
        thread = chance.choice(THREADS)
        events = [f"{thread}{chance.randrange(4)}", f"{thread}{chance.randrange(4)}", "unknown"]
        events = events[: chance.choice((1, 2, 3))]
        return (
            await calls.forget_turns(both.postgres, scope, thread, events, NOW),
            await calls.forget_turns(both.seekdb, scope, thread, events, NOW),
        )

    await compared(both, forget)


async def test_memories_take_the_same_along(both: Both) -> None:
    async def forget(
        both: Both, scope: Scope, world: World, chance: random.Random
    ) -> tuple[int, int]:
        named = chance.sample(world["memories"], chance.choice((1, 2, 5)))
        ids = [row["memory_id"] for row in named]
        named_at = [((scope.app, scope.user, "memories"), str(memory_id)) for memory_id in ids]
        return (
            await calls.forget(both.postgres, named_at, NOW),
            await calls.forget(both.seekdb, named_at, NOW),
        )

    await compared(both, forget)


@pytest.mark.parametrize("whole", [False, True])
async def test_erasing_leaves_the_same(both: Both, whole: bool) -> None:
    async def forget(
        both: Both, scope: Scope, world: World, chance: random.Random
    ) -> tuple[int, int]:
        thread = None if whole else ThreadId(chance.choice(THREADS))
        return (
            await calls.forget_scope(both.postgres, scope, thread, NOW),
            await calls.forget_scope(both.seekdb, scope, thread, NOW),
        )

    await compared(both, forget)


async def test_closing_a_log_leaves_the_same(both: Both) -> None:
    async def forget(
        both: Both, scope: Scope, world: World, chance: random.Random
    ) -> tuple[int, int]:
        for storage in (both.postgres, both.seekdb):
            await calls.close_session(storage, scope, ThreadId("one"), NOW, forget=False)
        return 0, 0

    await compared(both, forget)
