"""When a memory leaves its stage is known from its writing on, and put off by each reading."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import get_args

import psycopg
import pytest

from shared_core import Event, InvalidInput, MemoryEngine, NewMemory, Scope, open_memory
from shared_core.core.decay import forget_at, initial_strength
from shared_core.core.domain import MemoryId, MemoryKind
from shared_core.core.retention_policy import FADING, POLICIES, Traits
from shared_core.ports.retention import Accesses, Kept, NewAccesses
from tests.integration.retention_world import kept as kept_by_id

ANN = Scope("app", "ann")
START = datetime(2026, 3, 1, 9, tzinfo=UTC)
DAY = timedelta(days=1)


def said(event_id: str, text: str, importance: float = 5.0) -> Event:
    return Event(event_id=event_id, author="user", role="user", text=text, occurred_at=START,
                 importance=importance)  # fmt: skip


async def kept(memory: MemoryEngine, text: str) -> Kept:
    listed = await memory.list_memories(ANN)
    [memory_id] = [one.memory_id for one in listed if one.text == text]
    return await kept_by_id(memory, memory_id)


@pytest.fixture
def now() -> Iterator[list[datetime]]:
    yield [START]


async def test_a_turn_knows_when_it_fades(dsn: str, now: list[datetime]) -> None:
    async with open_memory(dsn, clock=lambda: now[0], worker=False) as memory:
        await memory.append_events(ANN, "t", [said("a", "I sail."), said("b", "I ski.", 10)])
        for text, importance in (("I sail.", 5), ("I ski.", 10)):
            initial = initial_strength(importance)
            found = await kept(memory, text)
            assert forget_at(initial=initial, last_used_at=START) == found.forget_at
            assert ("kept", initial, 0, START) == (
                found.stage, found.strength, found.access_count, found.used_at)  # fmt: skip


async def test_reading_puts_it_off_with_the_same_batch(dsn: str, now: list[datetime]) -> None:
    async with open_memory(dsn, clock=lambda: now[0], worker=False) as memory:
        await memory.append_events(ANN, "t", [said("a", "I sail.")])
        for reads in (1, 2, 3):
            now[0] += DAY
            before = await kept(memory, "I sail.")
            await memory.recall(ANN, "sail")
            await memory.flush()
            found = await kept(memory, "I sail.")
            assert found.forget_at and before.forget_at and found.forget_at > before.forget_at
            assert found.forget_at == forget_at(
                initial=0.7, last_used_at=now[0], created_at=START, accesses=reads
            )


async def test_what_is_outright_does_not_fade_and_a_summary_written_again_begins_anew(
    dsn: str, now: list[datetime]
) -> None:
    async with open_memory(dsn, clock=lambda: now[0], worker=False) as memory:
        await memory.remember(
            ANN, ["Ann sails.", NewMemory(text="About Ann.", kind="summary", key="k")]
        )
        assert (await kept(memory, "Ann sails.")).forget_at is None
        first = await kept(memory, "About Ann.")
        now[0] += 10 * DAY
        await memory.remember(ANN, NewMemory(text="Of Ann.", kind="summary", key="k"))
        again = await kept(memory, "Of Ann.")
        assert (first.memory_id, START) == (again.memory_id, again.created_at)
        assert again.forget_at == forget_at(initial=0.7, last_used_at=now[0], created_at=START)


async def test_a_strength_of_ones_own_is_stored(dsn: str, now: list[datetime]) -> None:
    def strength(traits: Traits) -> float | None:
        return {"episodic": 0.3, "summary": 1.0}.get(traits.kind)

    async with open_memory(dsn, clock=lambda: now[0], worker=False, strength=strength) as memory:
        await memory.append_events(ANN, "t", [said("a", "I sail.")])
        await memory.remember(ANN, NewMemory(text="About Ann.", kind="summary"))
        await memory.remember(ANN, NewMemory(text="Ann sails.", kind="reflection"))
        for text, initial in (("I sail.", 0.3), ("About Ann.", 1.0), ("Ann sails.", 0.7)):
            found = await kept(memory, text)
            assert initial == found.strength
            assert forget_at(initial=initial, last_used_at=START) == found.forget_at
    async with open_memory(dsn, worker=False, strength=lambda traits: 1.5) as memory:
        with pytest.raises(InvalidInput, match="strength must return a number from 0 to 1"):
            await memory.append_events(ANN, "t", [said("b", "I ski.")])


async def test_arousal_and_importance_that_a_run_finds_out_count(
    dsn: str, now: list[datetime]
) -> None:
    async with open_memory(dsn, clock=lambda: now[0], worker=False) as memory:
        text = "I am so furious, my boss fired me today and I hate him!!!"
        await memory.append_events(ANN, "t", [said("a", text)])
        await memory.consolidate(ANN, "t")
        [turn] = await memory.list_memories(ANN, kinds=["episodic"])
        found = await kept_by_id(memory, turn.memory_id)
        assert found.arousal > 0
        assert found.forget_at == forget_at(
            initial=found.strength, last_used_at=START, arousal=found.arousal
        )


async def test_counters_and_clocks_that_are_off_do_no_harm(dsn: str, now: list[datetime]) -> None:
    async with open_memory(dsn, clock=lambda: now[0], worker=False) as memory:
        await memory.append_events(ANN, "t", [said("a", "I sail.")])
        memory_id = MemoryId((await kept(memory, "I sail.")).memory_id)
        future, past = START + 3650 * DAY, START - 3650 * DAY
        for count, moment in ((10**9, past), (2 * 10**9, future), (10**9, START)):
            await memory._storage.accesses.add_accesses(
                [NewAccesses(ANN, memory_id, Accesses(count, moment))]
            )
        found = await kept(memory, "I sail.")
        assert (2**31 - 1, future) == (found.access_count, found.used_at)
        assert found.forget_at == forget_at(
            initial=0.7, last_used_at=future, created_at=START, accesses=2**31 - 1
        )


async def test_what_holds_where_no_policy_is_stored_is_the_default_one(
    dsn: str, now: list[datetime]
) -> None:
    async with open_memory(dsn, worker=False) as memory:
        for scope in (ANN, None):
            default = POLICIES["default"]
            rules = {kind: default if kind in FADING else None for kind in get_args(MemoryKind)}
            assert rules == await memory.retention.policy(scope)
    with psycopg.connect(dsn) as superuser:
        assert [] == superuser.execute("TABLE hippocampus.retention_policies").fetchall()


@pytest.mark.parametrize("place", ["all", "app", "user", "another app", "another user"])
async def test_a_user_writes_and_reads_by_the_nearest_policy(
    dsn: str, now: list[datetime], place: str
) -> None:
    slow, other = POLICIES["knowledge"], Scope("app", "bob")
    async with open_memory(dsn, clock=lambda: now[0], worker=False) as memory:
        if place == "all":
            await memory.retention.set_policy(slow)
        elif place.endswith("app"):
            await memory.retention.set_policy(slow, app="app" if place == "app" else "ap")
        else:
            await memory.retention.set_policy(slow, ANN if place == "user" else other)
        policy = POLICIES["default"] if place.startswith("another") else slow
        await memory.append_events(ANN, "t", [said("a", "I sail.")])
        for reads in (0, 1):
            assert (await kept(memory, "I sail.")).forget_at == forget_at(
                initial=0.7, last_used_at=START, accesses=reads, policy=policy
            )
            await memory.recall(ANN, "sail")
            await memory.flush()


async def test_what_a_run_replaced_stays_for_its_undo(dsn: str, now: list[datetime]) -> None:
    async with open_memory(dsn, clock=lambda: now[0], worker=False) as memory:
        for event_id, text in (("a", "I live in Leeds."), ("b", "I moved to Rome.")):
            await memory.append_events(ANN, "t", [said(event_id, text)])
            await memory.consolidate(ANN, "t")
    with psycopg.connect(dsn) as superuser:
        rows = superuser.execute(
            "SELECT m.kind, m.superseded_at IS NULL, a.forget_at IS NOT NULL"
            " FROM hippocampus.memories m LEFT JOIN hippocampus.memory_access a"
            " USING (tenant_id, memory_id) WHERE m.kind IN ('summary', 'episodic')"
        ).fetchall()
    assert {("episodic", True, True), ("summary", True, True), ("summary", False, False)} == set(
        rows
    )
