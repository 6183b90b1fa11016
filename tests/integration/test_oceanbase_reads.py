"""The graph and stretches of time on SeekDB: every read says what PostgreSQL says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any

import fact_calls
import pytest
from copied_rows import copied
from seekdb_databases import SeekdbDatabases

from shared_core import AsOf, Conflict, Event, MemoryEngine, Scope, open_memory
from shared_core.context.service import summary_of_thread
from shared_core.core.domain import ThreadId
from shared_core.core.ids import uuid7
from shared_core.core.namespaces import memories_namespace
from shared_core.ports.events import MemoryQuery
from shared_core.storage.oceanbase.storage import OceanBaseStorage

ANN = Scope("app", "ann")
START = datetime(2026, 3, 1, 9, tzinfo=UTC)
DAY = timedelta(days=1)
LATER = START + 30 * DAY
TOLD = [
    (0, "I live in Rome."),
    (1, "I work at Google and I like tea."),
    (2, "My sister Mia lives in Berlin."),
    (3, "我喜欢喝茶。"),
    (5, "I moved to Paris."),
    (6, "I don't like tea anymore."),
    (8, "我搬到北京了。"),
]
RELATED = [
    ("Mia", "knows", "Bob", 0), ("Bob", "knows", "Cleo", 1), ("Cleo", "knows", "Dan", 2),
    ("Dan", "knows", "Mia", 3), ("Bob", "likes", "tea", 3), ("user", "knows", "Bob", 4),
    ("Café Zoë", "located_in", "Rome", 5), ("小安", "knows", "Bob", 6), ("Bob", "knows", "Bob", 6),
    ("Bob", "works_at", "Initech", 7), ("Bob", "works_at", "Acme", 9),
    ("Bobby", "likes", "jazz", 9),
]  # fmt: skip
MOMENTS = [
    None, AsOf(), AsOf(valid=START + 4 * DAY), AsOf(known=START + 4 * DAY),
    AsOf(valid=START + 8 * DAY, known=START + 9.5 * DAY), AsOf(known=START + 12.5 * DAY),
    AsOf(valid=START - DAY),
]  # fmt: skip


@pytest.fixture(autouse=True)
def dsn_of_postgres(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever engine the other tests run on, dsn is of PostgreSQL here, and uri of SeekDB."""
    monkeypatch.delenv("HIPPOCAMPUS_TEST_ENGINE", raising=False)


@pytest.fixture
async def memory(dsn: str) -> AsyncIterator[MemoryEngine]:
    """Facts that began, ended and came back, and a graph with a ring, aliases and a retraction."""
    now = [START]
    async with open_memory(dsn, clock=lambda: now[0], worker=False) as memory:
        for day, text in TOLD:
            now[0] = START + day * DAY + timedelta(hours=2)
            said = Event(
                event_id=f"e{day}", author="ann", role="user", text=text,
                occurred_at=START + day * DAY,
            )  # fmt: skip
            await memory.append_events(ANN, "told", [said])
            await memory.consolidate(ANN, "told")
        for subject, relation, object_, day in RELATED:
            now[0] = START + day * DAY + timedelta(hours=3)
            await memory.graph.add(ANN, subject, relation, object_)
        now[0] = START + 11 * DAY
        await memory.graph.merge_aliases(ANN, "Bob", ["Bobby", "小安"])
        now[0] = START + 12 * DAY
        ended = await memory.graph.retract(ANN, "Cleo", "knows", "Dan")
        now[0] = START + 13 * DAY
        await memory.graph.restore(ANN, ended.closed[0])
        await memory.graph.retract(ANN, "Dan", "knows", "Mia")
        await memory.graph.unmerge_aliases(ANN, "Bob", ["小安"])
        now[0] = LATER
        yield memory


@pytest.fixture
def uri(seekdb: SeekdbDatabases) -> Iterator[str]:
    yield from seekdb.lend()


@pytest.fixture
async def oceanbase(memory: MemoryEngine, dsn: str, uri: str) -> AsyncIterator[OceanBaseStorage]:
    """A copy of all that the memory holds."""
    async with copied(dsn, uri, lambda: LATER) as storage:
        yield storage


async def same(first: Any, second: Any, verb: str, *args: Any, **options: Any) -> Any:
    """Return what a verb says on both, which must be the same."""
    expected = await attrgetter(verb)(first)(*args, **options)
    assert expected == await attrgetter(verb)(second)(*args, **options), (args, options)
    return expected


async def alike(read: Callable[..., Awaitable[Any]], first: Any, second: Any, *args: Any) -> Any:
    """Return what a policy reads on both, which must be the same."""
    expected = await read(first, ANN, LATER, *args)
    assert expected == await read(second, ANN, LATER, *args), args
    return expected


async def test_the_graph_is_walked_alike(memory: MemoryEngine, oceanbase: OceanBaseStorage) -> None:
    postgres: Any = memory._storage
    met = 0
    for as_of in MOMENTS:
        for depth, limit in ((1, 50), (2, 50), (4, 50), (3, 4), (2, 1)):
            keys = ["bob", "user", "小安", "nobody", "bobby"]
            walks = await same(postgres, oceanbase, "graph.walk", ANN, keys, depth, limit, as_of)
            met += sum(len(walk.edges) for walk in walks)
        for key in ("bob", "user", "mia", "bobby", "nobody"):
            for limit in (50, 2):
                await alike(fact_calls.edges_of, postgres, oceanbase, key, limit, as_of)
        for matching in ("", "bob", "cafe", "zoe", "安", "%"):
            for limit in (100, 3):
                await alike(fact_calls.entities, postgres, oceanbase, matching, limit, as_of)
    assert met > 100


async def test_what_a_change_must_know_is_alike(
    memory: MemoryEngine, oceanbase: OceanBaseStorage
) -> None:
    postgres: Any = memory._storage
    for subject, relation, value in (
        ("bob", "works_at", "acme"), ("bobby", "knows", "小安"), ("user", "lives_in", "paris"),
        ("user", "likes", "tea"), ("nobody", "knows", "bob"),
    ):  # fmt: skip
        for alone in (True, False):
            names, now = (subject, relation, value), datetime.now(UTC)
            spells = await fact_calls.spells(postgres, ANN, now, *names, alone=alone)
            assert spells == await fact_calls.spells(oceanbase, ANN, now, *names, alone=alone)
            for spell in spells.spells:
                assert await alike(fact_calls.edge_of, postgres, oceanbase, spell.edge_id)
    assert await alike(fact_calls.edge_of, postgres, oceanbase, uuid7()) is None
    for keys in (["bob"], ["bobby"], ["小安"], []):
        expected = await fact_calls.aliases(postgres, ANN, keys)
        assert expected == await fact_calls.aliases(oceanbase, ANN, keys)


async def test_what_ended_is_restored_alike(
    memory: MemoryEngine, oceanbase: OceanBaseStorage
) -> None:
    postgres: Any = memory._storage
    edges = {
        one.edge.object: one.edge
        for one in await fact_calls.edges_of(postgres, ANN, LATER, "user", 50, None)
    }
    taken, free = edges["Rome"], edges["tea"]
    assert taken.superseded_at and free.superseded_at and free.fact_id
    for storage in (postgres, oceanbase):
        with pytest.raises(Conflict, match="another edge has taken its place"):
            await fact_calls.restore_edge(storage, ANN, LATER, taken, uuid7())
        await fact_calls.restore_edge(storage, ANN, LATER, free, uuid7())
        with pytest.raises(Conflict, match="holds, or is gone"):
            await fact_calls.restore_edge(storage, ANN, LATER, free, uuid7())
    before = AsOf(known=LATER - DAY)
    for as_of in (None, before):
        await alike(fact_calls.edges_of, postgres, oceanbase, "user", 50, as_of)
        query = MemoryQuery(scope=ANN, namespace=memories_namespace(ANN), as_of=as_of)
        await same(postgres, oceanbase, "events.list_memories", query, "newest", 50, 0)


async def test_names_are_merged_once(memory: MemoryEngine, oceanbase: OceanBaseStorage) -> None:
    [alias] = await fact_calls.aliases(oceanbase, ANN, ["bob"])
    again = replace(alias, alias_id=uuid7())
    for storage in (memory._storage, oceanbase):
        with pytest.raises(Conflict, match="changed the aliases"):
            await fact_calls.change_aliases(storage, ANN, LATER, uuid7(), [], [again])
        with pytest.raises(Conflict, match="changed the aliases"):
            await fact_calls.change_aliases(storage, ANN, LATER, uuid7(), [uuid7()], [])
        await fact_calls.change_aliases(storage, ANN, LATER, uuid7(), [alias.alias_id], [])
    for storage in (memory._storage, oceanbase):
        assert [] == await fact_calls.aliases(storage, ANN, ["bob"])


@pytest.mark.parametrize("as_of", MOMENTS, ids=str)
async def test_stretches_of_time_are_alike(
    memory: MemoryEngine, oceanbase: OceanBaseStorage, as_of: AsOf | None
) -> None:
    postgres: Any = memory._storage
    bounds = [START + timedelta(hours=5.5 * n, minutes=7 * (n % 3)) for n in range(-1, 60)]
    for begin, end in ((None, None), (START + DAY, START + 6 * DAY), (LATER, None)):
        for kinds in (None, ["semantic"], []):
            query = MemoryQuery(
                scope=ANN, namespace=memories_namespace(ANN), begin=begin, end=end, kinds=kinds,
                as_of=as_of,
            )  # fmt: skip
            for order in ("newest", "oldest"):
                for limit, offset in ((50, 0), (3, 2)):
                    await same(
                        postgres, oceanbase, "events.list_memories", query, order, limit, offset
                    )
            await same(postgres, oceanbase, "events.count_memories", query, bounds)
    for thread in (ThreadId("told"), ThreadId("nothing")):
        summary = [
            await summary_of_thread(one, ANN, thread, as_of, await memory.now())
            for one in (postgres, oceanbase)
        ]
        assert summary[0] == summary[1]
