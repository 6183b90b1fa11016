"""Forgetting a turn beside an append of the same turn, step by step in both orders."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import psycopg
import pytest

from shared_core import Event, MemoryEngine, Scope, open_memory
from shared_core.core.namespaces import scope_path
from shared_core.policies.forgetting import forget_turns
from shared_core.ports.operations import Last, Policy, Verb
from shared_core.storage.postgres.connection.statements import Step
from shared_core.storage.postgres.events import PostgresEvents

ANN = Scope("app", "ann")
NOW = datetime(2026, 3, 1, tzinfo=UTC)
GATE = 4712
WAIT = Step("gate", f"SELECT pg_advisory_xact_lock({GATE})".encode(), {})
WAITING = (
    "SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database"
    " WHERE locktype = 'advisory' AND NOT granted AND datname = current_database()"
)


def turn(event_id: str) -> Event:
    return Event(event_id=event_id, author="ann", role="user", text="I sail.", occurred_at=NOW)


def forgotten_at_the_gate(event_ids: Sequence[str]) -> Policy[int]:
    """Forget turns, and wait for the gate before the last batch."""
    policy = forget_turns("t", event_ids, NOW)
    batch = next(policy)
    while not isinstance(batch, Last):
        batch = policy.send((yield batch))
    yield [Verb("gate", ())]
    yield batch
    try:
        policy.send([])
    except StopIteration as end:
        return int(end.value)
    raise AssertionError("a batch after Last")


async def waiting(admin: psycopg.Connection[Any], count: int, task: asyncio.Task[Any]) -> None:
    """Return when so many wait for locks, or a task is done."""
    while not task.done():
        [(found,)] = admin.execute(WAITING).fetchall()
        if found >= count:
            return
        await asyncio.sleep(0.01)


def counts(admin: psycopg.Connection[Any]) -> list[tuple[int, ...]]:
    """Return the numbers of memories, events and tombstones of the turn."""
    return admin.execute(
        "SELECT (SELECT count(*) FROM hippocampus.memories WHERE text = 'I sail.'),"
        " (SELECT count(*) FROM hippocampus.events WHERE event_id = 'e1'),"
        " (SELECT count(*) FROM hippocampus.tombstones WHERE event_id = 'e1')"
    ).fetchall()


async def opened(memory: MemoryEngine, is_known: bool) -> Any:
    """Return the storage, with a thread that has another turn if it is known."""
    await memory.open()
    if is_known:
        await memory.append_events(ANN, "t", [turn("e0")])
        await memory.forget_turns(ANN, "t", ["e0"])
        await memory.append_events(ANN, "t", [Event(
            event_id="e2", author="ann", role="user", text="I ski.", occurred_at=NOW,
        )])  # fmt: skip
    storage: Any = memory._storage
    storage.transact.__self__.verbs["gate"] = lambda _: [WAIT]
    return storage


@pytest.mark.parametrize("is_known", [True, False], ids=["thread", "new thread"])
async def test_an_append_that_begins_while_its_turn_is_forgotten_adds_nothing(
    dsn: str, is_known: bool
) -> None:
    async with open_memory(dsn, worker=False) as memory:
        storage = await opened(memory, is_known)
        with psycopg.connect(dsn, autocommit=True) as admin:
            admin.execute(f"SELECT pg_advisory_lock({GATE})")
            forgotten = partial(forgotten_at_the_gate, ["e1"])
            forgetting = asyncio.create_task(storage.transact(scope_path(ANN), forgotten))
            await waiting(admin, 1, forgetting)
            appending = asyncio.create_task(memory.append_events(ANN, "t", [turn("e1")]))
            await waiting(admin, 2, appending)
            admin.execute(f"SELECT pg_advisory_unlock({GATE})")
            assert (0, set()) == (await forgetting, await appending)
            assert counts(admin) == [(0, 0, 1)]


@pytest.mark.parametrize("is_known", [True, False], ids=["thread", "new thread"])
async def test_a_turn_that_is_forgotten_while_it_is_appended_goes(
    dsn: str, is_known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_memory(dsn, worker=False) as memory:
        await opened(memory, is_known)
        steps = PostgresEvents.append_steps

        def gated(self: PostgresEvents, *given: Any) -> list[Step]:
            begin, *append = steps(self, *given)
            return [begin, WAIT, *append]

        monkeypatch.setattr(PostgresEvents, "append_steps", gated)
        with psycopg.connect(dsn, autocommit=True) as admin:
            admin.execute(f"SELECT pg_advisory_lock({GATE})")
            appending = asyncio.create_task(memory.append_events(ANN, "t", [turn("e1")]))
            await waiting(admin, 1, appending)
            forgetting = asyncio.create_task(memory.forget_turns(ANN, "t", ["e1"]))
            await waiting(admin, 2, forgetting)
            admin.execute(f"SELECT pg_advisory_unlock({GATE})")
            assert ({"e1"}, 1) == (await appending, await forgetting)
            assert counts(admin) == [(0, 0, 1)]
