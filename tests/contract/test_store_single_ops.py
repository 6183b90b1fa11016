"""Single async operations started at once share batches, and each still stands for itself."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from langgraph_store import PgHippocampusStore
from langgraph_store.single_ops import MAX_BATCH
from shared_core import InvalidInput, ModelUnavailable, StorageUnavailable, open_memory
from shared_core.ports.items import Item, ItemOp, ItemQuery, ItemResult

pytestmark = pytest.mark.both_engines

HERE = ("single", "alice", "notes")


def embed(texts: list[str]) -> list[list[float]]:
    if any("poison" in text for text in texts):
        raise OSError("no")
    return [[1.0, float(len(text))] for text in texts]


@pytest.fixture
def store(dsn):
    """A store whose engine has one connection and notes the sizes of its batches."""
    engine = open_memory(dsn, embedder=embed, pool_size=1)
    with PgHippocampusStore(engine=engine) as store:
        yield store
    asyncio.run(engine.close())


@pytest.fixture
def batches(store, monkeypatch):
    """How many operations each batch had that the engine was given."""
    sizes: list[int] = []
    run = store.engine.run_item_ops

    async def noting(ops: Sequence[ItemOp]) -> list[ItemResult]:
        sizes.append(len(ops))
        return await run(ops)

    monkeypatch.setattr(store.engine, "run_item_ops", noting)
    return sizes


async def test_one_alone_is_one_operation_and_thousands_at_once_are_a_few_batches(store, batches):
    await store.aput(HERE, "k", {"n": 1})
    assert {"n": 1} == (await store.aget(HERE, "k")).value
    assert [1, 1] == batches
    batches.clear()
    many = 2 * MAX_BATCH + 1
    await asyncio.gather(*(store.aput(HERE, f"k{n}", {"n": n}, index=False) for n in range(many)))
    found = await asyncio.gather(*(store.aget(HERE, f"k{n}") for n in range(many)))
    assert list(range(many)) == [item.value["n"] for item in found if item]
    assert 2 * [MAX_BATCH, MAX_BATCH, 1] == batches


async def test_the_last_write_wins_and_reads_see_what_was_before(store):
    await store.aput(HERE, "k", {"n": 0})
    *_, read = await asyncio.gather(
        store.aput(HERE, "k", {"n": 1}), store.aput(HERE, "gone", {"n": 1}),
        store.aput(HERE, "k", {"n": 2}), store.adelete(HERE, "gone"), store.aget(HERE, "k"),
    )  # fmt: skip
    assert {"n": 0} == read.value
    assert {"n": 2} == (await store.aget(HERE, "k")).value
    assert await store.aget(HERE, "gone") is None


async def test_searches_without_a_query_are_batches_with_an_answer_each(store, batches):
    users = [("single", user, "notes") for user in ("ana", "王芳", "o'hara")]
    for user in users:
        await store.aput(user, "k", {"of": user[1]}, index=False)
        await store.aput(user, "other", {"of": "nobody"}, index=False)
    batches.clear()
    wanted = [(user, owner[1]) for user in users for owner in users] * 4
    found = await asyncio.gather(
        *(store.asearch(user, filter={"of": owner}) for user, owner in wanted),
        store.asearch(users[0], filter={"$wrong": 1}),
        store.asearch(("single",), filter={"of": "nobody"}),
        store.asearch(users[0], limit=-1),
        return_exceptions=True,
    )
    assert [len(set(wanted)) + 3] == batches  # equal ones run once
    *pages, wrong, above, negative = found
    found_keys = [[(item.namespace, item.key) for item in page] for page in pages]
    assert [[(user, "k")] if user[1] == owner else [] for user, owner in wanted] == found_keys
    assert isinstance(wrong, InvalidInput) and "$wrong" in str(wrong)
    assert isinstance(negative, InvalidInput) and "limit" in str(negative)
    assert {*users} == {item.namespace for item in above}


async def test_a_search_that_takes_too_long_fails_alone(store, monkeypatch):
    await store.aput(HERE, "k", {"n": 1}, index=False)
    items = store.engine._storage.items
    find = items.find_items

    async def slow(queries: Sequence[ItemQuery]) -> Sequence[Sequence[Item]]:
        if any(query.filter == {"n": 7} for query in queries):
            raise StorageUnavailable("it took longer than allowed")
        return await find(queries)

    monkeypatch.setattr(items, "find_items", slow)
    searches = [store.asearch(HERE, filter={"n": n}) for n in range(9)]
    found = await asyncio.gather(*searches, return_exceptions=True)
    assert isinstance(found[7], StorageUnavailable)
    assert [0, 1, 0, 0, 0, 0, 0, 0] == [len(one) for one in found if one is not found[7]]


async def test_each_fails_alone_with_its_own_error(store):
    unfit: Any = {"n": object()}
    done = await asyncio.gather(
        store.aput(HERE, "a", {"text": "fine"}), store.aput(HERE, "b", {"text": "poison"}),
        store.aput(HERE, "c", unfit), store.aput(HERE, "d", {"text": "fine too"}, ttl=-1),
        store.aget(HERE, "\x00"), store.aput(HERE, "e", {"text": "fine as well"}),
        return_exceptions=True,
    )  # fmt: skip
    kinds = [None if error is None else type(error) for error in done]
    assert [None, ModelUnavailable, InvalidInput, InvalidInput, None, None] == kinds
    assert "'c'" in str(done[2])
    assert "'d'" in str(done[3])
    assert [True, True] == [await store.aget(HERE, key) is not None for key in ("a", "e")]


async def test_what_fails_all_is_raised_by_each(store, monkeypatch):
    async def down(ops: Sequence[ItemOp]) -> list[ItemResult]:
        raise StorageUnavailable("down")

    monkeypatch.setattr(store.engine, "run_item_ops", down)
    reads = [store.aget(HERE, str(n)) for n in range(3)]
    done = await asyncio.gather(*reads, return_exceptions=True)
    assert 3 * ["down"] == [str(error) for error in done]


@pytest.mark.parametrize("who", [0, 1])
async def test_who_gives_up_takes_nothing_from_the_others(store, who):
    for iterations in range(6):
        key = f"k{iterations}"
        calls = [asyncio.create_task(store.aput(HERE, f"{key}/{n}", {"n": n})) for n in range(3)]
        for _ in range(iterations):
            await asyncio.sleep(0)
        calls[who].cancel()
        done = await asyncio.gather(*calls, return_exceptions=True)
        others = [n for n in range(3) if n != who]
        assert [None, None] == [done[n] for n in others]
        assert None not in await asyncio.gather(*(store.aget(HERE, f"{key}/{n}") for n in others))


async def test_work_that_nobody_waits_for_ends(store, monkeypatch):
    begun, ended = asyncio.Event(), asyncio.Event()

    async def endless(ops: Sequence[ItemOp]) -> list[ItemResult]:
        begun.set()
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()
        return []

    monkeypatch.setattr(store.engine, "run_item_ops", endless)
    calls = [asyncio.create_task(store.aget(HERE, str(n))) for n in range(3)]
    await begun.wait()
    for call in calls[:2]:
        call.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not ended.is_set()
    calls[2].cancel()
    await asyncio.wait_for(ended.wait(), 10)


def test_loops_in_several_threads_work_at_once(store):
    async def work(thread: int) -> None:
        for turn in range(3):
            keys = [f"{thread}/{turn}/{n}" for n in range(40)]
            await asyncio.gather(*(store.aput(HERE, key, {"key": key}) for key in keys))
            found = await asyncio.gather(*(store.aget(HERE, key) for key in keys))
            assert keys == [item.value["key"] for item in found if item]

    def run(thread: int) -> None:
        for _ in range(2):  # a new loop each time
            asyncio.run(work(thread))

    with ThreadPoolExecutor(6) as threads:
        for done in [threads.submit(run, number) for number in range(6)]:
            done.result(timeout=60)


def test_a_loop_that_died_leaves_nothing_to_the_next(store):
    dead = asyncio.new_event_loop()
    lost = dead.create_task(store.aput(HERE, "lost", {"n": 1}))
    dead.call_soon(dead.stop)
    dead.run_forever()
    assert not lost.done()
    asyncio.run(store.aput(HERE, "k", {"n": 1}))
    assert store.get(HERE, "k") is not None
    lost.cancel()
    dead.run_until_complete(asyncio.wait([lost]))
    dead.close()
