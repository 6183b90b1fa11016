"""Forgetting by policies: the same calls on both engines, told and written the same."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar, get_args

import pytest
from seekdb_databases import SeekdbDatabases
from whole_user import START, WholeClock, populate, write_the_rest

from shared_core import Conflict, RetentionPolicy, Scope, open_memory
from shared_core.core.domain import MemoryKind
from shared_core.core.retention_policy import STAGES
from shared_core.jobs.scheduled_task import ScheduledTask
from shared_core.ports.retention import Kept, Revival, Weak
from shared_core.ports.storage import Storage
from shared_core.ports.transfer import ExportScope
from shared_core.settings import Settings
from shared_core.storage import open_storage
from shared_core.transfer.lines import LineReader
from tests.integration.retention_calls import Calls

ANA = Scope("app", "ana/ü%")
TENANT = "/app/ana%2Fü%25/"
WHOSE = ExportScope(app="app", user="ana/ü%", path=TENANT)
T = TypeVar("T")
_made: list[str] = []


class Pair:
    """One user on both engines, with one clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = START + timedelta(days=600)
        self.storages: list[Storage] = []

    @property
    def calls(self) -> list[Calls]:
        return [Calls(storage, lambda: self.now) for storage in self.storages]

    async def same(self, call: Callable[[Calls], Awaitable[T]]) -> T:
        """Return what both say, and check that they say and hold the same."""
        first, second = [await call(calls) for calls in self.calls]
        assert _rounded(first) == _rounded(second)
        held = [await lines_of(storage) for storage in self.storages]
        assert held[0] == held[1]
        return first

    async def refused(self, call: Callable[[Calls], Awaitable[object]], told: str) -> None:
        for calls in self.calls:
            with pytest.raises(Conflict, match=told):
                await call(calls)


def _rounded(told: Any) -> Any:
    """Return what a storage told, strengths to 9 digits: so far do both formulas agree."""
    if isinstance(told, Kept):
        return replace(told, strength=round(told.strength, 9))
    if isinstance(told, list | tuple):
        return [_rounded(one) for one in told]
    return told


async def lines_of(storage: Storage) -> list[str]:
    async with storage.transfer.snapshot(WHOSE, vectors=True) as snapshot:
        return [f"{row.table} {row.text}" async for row in snapshot.rows]


@pytest.fixture
async def pair(
    request: pytest.FixtureRequest, postgres_dsn: str, seekdb: SeekdbDatabases
) -> AsyncIterator[Pair]:
    if not _made:
        clock = WholeClock()
        source = request.getfixturevalue("dsn_of_source")
        async with open_memory(source, clock=clock, worker=False) as memory:
            await populate(memory, ANA, clock)
            write_the_rest(source, TENANT)
            _made.extend([line async for line in memory.export(ANA, vectors=True)])
    pair, lent = Pair(), seekdb.lend()
    for uri in (postgres_dsn, next(lent)):
        async with open_memory(uri, worker=False) as memory:
            await memory.import_lines(_made)
        storage = open_storage(Settings(uri=uri, home=Path()), lambda: pair.now)
        await storage.open()
        pair.storages.append(storage)
    yield pair
    for storage in pair.storages:
        await storage.close()
    next(lent, None)


async def ids_of(pair: Pair) -> list[Any]:
    weak = Weak(threshold=1.1, min_age_days=0, decay_rate=5)
    return list(await pair.same(lambda calls: calls.weak(ANA, weak)))


async def test_an_import_holds_the_same(pair: Pair) -> None:
    reader = LineReader("it")
    assert sum(len(batch.lines) for batch in reader.batches(_made)) == len(_made) - 2
    await pair.same(lambda calls: calls.retention_rules(ANA))


async def test_memories_go_through_their_stages(pair: Pair) -> None:
    policy = RetentionPolicy(
        decay_rate=0.07, threshold=0.2, archive_threshold=0.3, archive_after_days=3,
        erase_threshold=0.5, erase_after_days=4,
    )  # fmt: skip
    rules = dict.fromkeys(get_args(MemoryKind), policy)
    await pair.same(lambda calls: calls.set_rules("/app/", rules))
    assert rules != await pair.same(lambda calls: calls.retention_rules(ANA))
    await pair.same(lambda calls: calls.set_rules(TENANT, None))
    assert rules == await pair.same(lambda calls: calls.retention_rules(ANA))
    for path in ("/app/", TENANT):
        looked = 1
        while looked:
            looked, _ = await pair.same(lambda calls, path=path: calls.retime(path, 7))
    assert [] == await pair.same(lambda calls: calls.retimings())
    days = (0.0, 1.0, 5.5, 400.0)
    for _ in range(8):
        now = pair.now
        rows, leaving = await counted(pair, now, days)
        assert rows and leaving
        await pair.same(lambda calls, now=now: calls.due(None, "app", now, 5))
        await pair.same(lambda calls, now=now: calls.due(ANA, None, now, 100))
        await pair.same(lambda calls, now=now: calls.forget_faded(None, now, 100))
        await pair.same(lambda calls, now=now: calls.forget_faded(ANA, now, 100))
        await pair.same(lambda calls: calls.staged(ANA, STAGES, None, 50, 1))
        pair.now += timedelta(days=2, microseconds=3)
    rest = await pair.same(lambda calls: calls.due(None, None, pair.now, 100))
    assert [] != await ids_of(pair) or rest


async def counted(pair: Pair, now: datetime, days: tuple[float, ...]) -> tuple[Any, Any]:
    """Return the numbers of a moment, which are added up in another order by each engine."""
    found = []
    for calls in pair.calls:
        rows, leaving = await calls.stats("app", now, days)
        sums: dict[Any, list[float]] = {}
        for row in rows:
            key = (row.kind, row.fades, row.stage, row.bucket)
            some = sums.setdefault(key, [0, 0.0, 0])
            some[0] += row.count
            some[1] += row.score_sum
            some[2] += row.pinned
        found.append(
            ({key: [one[0], round(one[1], 9), one[2]] for key, one in sums.items()}, leaving)
        )
    assert found[0] == found[1]
    return found[0]


async def test_what_is_pinned_stays(pair: Pair) -> None:
    ids = await ids_of(pair)
    assert ids
    for pinned in (True, True, False, False):
        for some in (ids[:4], ids[2:6], []):
            await pair.same(
                lambda calls, some=some, pinned=pinned: calls.set_pinned(ANA, some, pinned)
            )
        await pair.same(lambda calls: calls.kept(ANA, ids))
        await pair.same(lambda calls: calls.forget_faded(ANA, pair.now, 100))
        pair.now += timedelta(days=1)
    names = ["cello", "nobody", str(ids[0]), str(ids[1]).upper(), "\0"]
    await pair.same(lambda calls: calls.named_ids(ANA, names))
    unknown = await pair.same(lambda calls: calls.unknown_names(ANA, names))
    assert unknown == ["nobody", "\0"]


async def test_what_comes_back_is_as_it_was(pair: Pair) -> None:
    faded = await pair.same(lambda calls: calls.staged(ANA, STAGES[1:], None, 100, 0))
    stages = {one.stage for one in faded}
    assert "archived" in stages
    ids = [one.memory_id for one in faded]
    found = await pair.same(lambda calls: calls.out_of_recall(ANA, ids))
    away = [one for one in found if one.text is not None][:3] + [
        one for one in found if one.text is None
    ][:2]  # fmt: skip
    terms = {one.memory_id: ["some", "words", "some"] for one in away if one.is_wordless}
    back = await pair.same(
        lambda calls: calls.revive_memories(ANA, Revival(faded=away, terms=terms, vectors=None))
    )
    assert {one.memory_id for one in away} == set(back)
    await pair.refused(
        lambda calls: calls.revive_memories(ANA, Revival(faded=away, terms=terms, vectors=None)),
        "moved on meanwhile",
    )
    await pair.same(lambda calls: calls.kept(ANA, ids))


@pytest.mark.parametrize("decay_rate", [None, 0.2])
async def test_what_is_weak_goes_at_once(pair: Pair, decay_rate: float | None) -> None:
    weak = Weak(threshold=0.6, min_age_days=3, decay_rate=decay_rate)
    ids = await pair.same(lambda calls: calls.weak(ANA, weak))
    assert ids
    averages = [await calls.average_score(ANA, weak) for calls in pair.calls]
    assert averages[0][0] == averages[1][0]
    assert averages[0][1] == pytest.approx(averages[1][1], abs=1e-9)
    gone = [set(await calls.forget_weak(ANA, weak, [*ids, *ids[:1]])) for calls in pair.calls]
    assert gone[0] == gone[1] == set(ids)
    assert [] == await pair.same(lambda calls: calls.weak(ANA, weak))


async def test_a_task_is_done_by_one_at_a_time(pair: Pair) -> None:
    now = pair.now
    later = now + timedelta(seconds=50)
    assert await pair.same(lambda calls: ScheduledTask(calls.storage, "t").last()) is None
    assert await pair.same(lambda calls: ScheduledTask(calls.storage, "t").take("w1", now, 60))
    assert not await pair.same(
        lambda calls: ScheduledTask(calls.storage, "t").take("w2", later, 60)
    )
    assert await pair.same(lambda calls: ScheduledTask(calls.storage, "t").keep("w1", later, 60))
    assert not await pair.same(
        lambda calls: ScheduledTask(calls.storage, "t").keep("w2", later, 60)
    )
    await pair.same(
        lambda calls: ScheduledTask(calls.storage, "t").end("w2", later, later, {"not": "mine"})
    )
    await pair.same(
        lambda calls: ScheduledTask(calls.storage, "t").end("w1", later, later, {"n": 1})
    )
    turn = await pair.same(lambda calls: ScheduledTask(calls.storage, "t").last())
    assert turn and (later, later, {"n": 1}) == (turn.next_at, turn.done_at, turn.result)
    assert not await pair.same(lambda calls: ScheduledTask(calls.storage, "t").take("w2", now, 60))
    assert await pair.same(lambda calls: ScheduledTask(calls.storage, "t").take("w2", later, 60))
    await pair.same(lambda calls: ScheduledTask(calls.storage, "other").take("w1", now, 60))
    await pair.same(lambda calls: ScheduledTask(calls.storage, "t").drop())
    assert await pair.same(lambda calls: ScheduledTask(calls.storage, "t").last()) is None
    assert await pair.same(lambda calls: ScheduledTask(calls.storage, "other").last())
    for storage in pair.storages:
        ahead = await storage.retention.ahead_of_server(
            datetime.now(START.tzinfo) + timedelta(days=2)
        )
        assert timedelta(days=2) - timedelta(seconds=5) < ahead < timedelta(days=2, seconds=5)
