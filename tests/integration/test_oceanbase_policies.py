"""A policy reaches what is written while it is set, on SeekDB as on PostgreSQL."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

import pytest

from shared_core.storage.oceanbase import retention_timing as timing
from shared_core.storage.oceanbase.connection.transactions import Row, Transaction
from shared_core.storage.oceanbase.retention import OceanBaseRetention
from tests.integration.retention_world import ANN, BOB, World, opened_world


@pytest.fixture
async def world(seekdb_dsn: str) -> AsyncIterator[World]:
    async with opened_world(seekdb_dsn) as found:
        yield found


class Writer:
    """Stops a writer between reading the policies and committing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.has_read, self.goes_on = threading.Event(), threading.Event()
        self.is_awaited = threading.Event()
        counters, lock = timing.counters, Transaction.lock

        def paused(*given: Any) -> Any:
            if not self.has_read.is_set():
                self.has_read.set()
                assert self.goes_on.wait(60)
            return counters(*given)

        def noticed(tx: Transaction, *tenants: str) -> None:
            if self.has_read.is_set() and "/app/ann/" in tenants:
                self.is_awaited.set()
            lock(tx, *tenants)

        monkeypatch.setattr(timing, "counters", paused)
        monkeypatch.setattr(Transaction, "lock", noticed)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("place", ["all", "app", "user"])
async def test_a_policy_reaches_what_is_committed_while_it_is_set(
    world: World, monkeypatch: pytest.MonkeyPatch, known: bool, place: str
) -> None:
    places: dict[str, dict[str, Any]] = {"all": {}, "app": {"app": "app"}, "user": {"scope": ANN}}
    given = places[place]
    await world.memory.retention.set_policy({"episodic": None}, **given)
    await world.say("another", scope=BOB)
    if known:
        await world.say("first")
    writer = Writer(monkeypatch)
    writing = asyncio.ensure_future(world.say("second"))
    await world.until(writer.has_read.is_set)
    policy = asyncio.ensure_future(world.memory.retention.set_policy("sensitive", **given))
    await world.until(lambda: policy.done() or writer.is_awaited.is_set())
    writer.goes_on.set()
    await asyncio.gather(writing, policy)
    world.go(365)
    assert {"demoted": 2 if known else 1} == await world.run(ANN)


async def test_all_writers_are_waited_for_page_by_page(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shared_core.storage.oceanbase.retention.LOCKED_AT_ONCE", 1)
    await world.say("one")
    await world.say("two", scope=BOB)
    asked: list[str] = []
    lock_free = Transaction.lock_free

    def noted(tx: Transaction, tenants: Iterable[str]) -> set[str]:
        asked.extend(names := list(tenants))
        return lock_free(tx, names)

    monkeypatch.setattr(Transaction, "lock_free", noted)
    assert 2 == await world.memory.retention.set_policy("sensitive", app="app")
    assert ["/app/", "/app/ann/", "/app/bob/"] == asked[:3]


@pytest.mark.parametrize("since", ["before", "after"])
async def test_who_waits_for_one_user_holds_no_other(
    world: World, monkeypatch: pytest.MonkeyPatch, since: str
) -> None:
    """since: somebody writes to BOB before the writers are waited for, or only after that."""
    await world.say("one")
    await world.say("two", scope=BOB)
    written, is_reached, end = threading.Event(), threading.Event(), threading.Event()
    rows = Transaction.rows

    def holding(tx: Transaction) -> None:
        tx.lock("/app/bob/")
        written.set()
        assert end.wait(60)

    def noticed(tx: Transaction, sql: str, values: Sequence[object] = ()) -> list[Row]:
        if sql.endswith("FOR UPDATE") and "/app/bob/" in values and written.is_set():
            is_reached.set()
        return rows(tx, sql, values)

    storage: Any = world.memory._storage
    waited, writing = OceanBaseRetention._wait_for_writers, list[Any]()

    async def busy() -> None:
        writing.append(asyncio.ensure_future(storage._database.write(holding)))
        await world.until(written.is_set)

    async def then_busy(self: Any, path: str) -> None:
        await waited(self, path)
        await busy()

    if since == "before":
        await busy()
    else:
        monkeypatch.setattr(OceanBaseRetention, "_wait_for_writers", then_busy)
    monkeypatch.setattr(Transaction, "rows", noticed)
    policy = asyncio.ensure_future(world.memory.retention.set_policy("sensitive", app="app"))
    await world.until(is_reached.is_set)
    free = await storage._database.write(lambda tx: tx.lock_free(["/app/ann/"]))
    is_done = policy.done()
    end.set()
    await asyncio.gather(policy, *writing)
    assert {"/app/ann/"} == free and not is_done
    world.go(365)
    assert {"demoted": 1} == await world.run(ANN)
    assert {"demoted": 1} == await world.run(BOB)
