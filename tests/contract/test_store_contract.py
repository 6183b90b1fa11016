"""What PgHippocampusStore keeps to beyond the suite for all stores: its clock, rows and callers."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from langgraph.store.base import PutOp

from langgraph_store import PgHippocampusStore as Store
from langgraph_store.conformance.samples import INDEX, word_vectors
from shared_core import open_memory, run_sync

HERE = ("memories", "alice")


@pytest.fixture
def ours(dsn, clock):
    """Our store, whose time stands still."""
    engine = open_memory(dsn, embedder=word_vectors, clock=clock)
    fields: Any = {"fields": INDEX["fields"]}
    yield Store(engine=engine, index=fields)
    run_sync(engine.close())


def rows(dsn: str, table: str = "memories") -> int:
    with psycopg.connect(dsn) as superuser:
        return superuser.execute(f"SELECT FROM hippocampus.{table}").rowcount


def test_a_put_keeps_the_birth_and_raises_the_update_time(ours):
    stamps = []
    for n in range(3):
        ours.put(HERE, "k", {"n": n})
        item = ours.get(HERE, "k")
        stamps.append((item.created_at, item.updated_at))
    assert len({created for created, _ in stamps}) == 1
    assert stamps[0][1] < stamps[1][1] < stamps[2][1]


async def test_a_put_without_time_to_live_is_for_ever(ours, clock):
    ours.ttl_config = {"default_ttl": 1.0, "refresh_on_read": False, "omit_expired": True}
    await ours.aput(HERE, "default", {"n": 1})
    await ours.aput(HERE, "ever", {"n": 1}, ttl=0.1)
    await ours.aput(HERE, "ever", {"n": 2}, ttl=None)
    clock.forward(minutes=2)
    assert ["ever"] == [item.key for item in await ours.asearch(HERE)]
    assert await ours.engine.sweep_expired() == 1


def together(*jobs: Callable[[], Any]) -> list[Any]:
    """Run all jobs at once, each in a thread; raise what one raises."""
    start = threading.Barrier(len(jobs))
    with ThreadPoolExecutor(len(jobs)) as threads:
        running = [threads.submit(lambda job=job: (start.wait(), job())[1]) for job in jobs]
        return [job.result(timeout=30) for job in running]


def test_one_store_serves_one_loop_after_the_other(ours):
    for n in range(3):
        asyncio.run(ours.aput(HERE, str(n), {"text": "tea"}))
    assert len(asyncio.run(ours.asearch(HERE, query="tea"))) == 3


def test_one_store_serves_two_loops_and_six_threads_at_once(ours):
    async def many(name: str) -> None:
        await asyncio.gather(*(ours.aput(HERE, f"{name}{n}", {"n": n}) for n in range(25)))

    def one_by_one(name: str) -> None:
        for n in range(25):
            ours.put(HERE, f"{name}{n}", {"n": n})
            assert ours.get(HERE, f"{name}{n}") is not None

    loops = [lambda name=name: asyncio.run(many(name)) for name in "ab"]
    together(*loops, *(lambda name=name: one_by_one(name) for name in "cdefgh"))
    assert len(ours.search(HERE, limit=1000)) == 8 * 25


def test_many_writers_of_one_key_leave_one_item_with_one_vector(ours, dsn):
    def writer(n: int) -> None:
        for _ in range(12):
            ours.put(HERE, "same", {"text": f"writer {n}"})

    together(*(lambda n=n: writer(n) for n in range(8)))
    assert (rows(dsn), rows(dsn, "embeddings")) == (1, 1)
    [item] = ours.search(HERE, query="writer")
    assert ours.search(HERE, query=item.value["text"])[0].score == pytest.approx(1, abs=1e-3)


def test_batches_over_the_same_keys_in_any_order_do_not_block_each_other(ours):
    def writer(step: int) -> None:
        for n in range(12):
            ops = [PutOp(HERE, str(key), {"n": n}) for key in range(30)][::step]
            ours.batch([*ops, PutOp(HERE, "gone", None)])

    together(*(lambda n=n: writer(1 if n % 2 else -1) for n in range(8)))
    assert {item.value["n"] for item in ours.search(HERE, limit=100)} == {11}
