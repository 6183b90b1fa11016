"""Tests concurrent callers: event loops, threads, and sync calls inside a running loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from langgraph.store.base import BaseStore, GetOp, PutOp

from langgraph_store.conformance.samples import HERE
from langgraph_store.conformance.suite import StoreTests, each, instead_of, needs

SYNC_CALLS: dict[str, Callable[[BaseStore], Any]] = {
    "put": lambda store: store.put(HERE, "k", {"n": 1}),
    "get": lambda store: store.get(HERE, "k"),
    "delete": lambda store: store.delete(HERE, "k"),
    "search": lambda store: store.search(HERE),
    "list": lambda store: store.list_namespaces(),
    "batch": lambda store: store.batch([GetOp(HERE, "k")]),
}


class Serving(StoreTests):
    """A graph runs sync nodes in threads and async ones on its loop, on the same store."""

    @needs("sync", "async", "sync_on_loop")
    async def test_a_sync_call_works_inside_a_running_loop(self, store: BaseStore) -> None:
        store.put(HERE, "k", {"n": 1}, index=False)
        item = await store.aget(HERE, "k")
        assert item is not None and item == store.get(HERE, "k")

    @needs("async")
    @instead_of("sync_on_loop")
    @each("call", SYNC_CALLS)
    async def test_a_sync_call_on_the_loop_of_the_store_is_refused(
        self, store: BaseStore, call: Callable[[BaseStore], Any]
    ) -> None:
        """It would block the loop that it waits for. From a thread it works."""
        await store.aput(HERE, "k", {"n": 1}, index=False)
        with pytest.raises(asyncio.InvalidStateError):
            call(store)
        assert await store.aget(HERE, "k") is not None
        await asyncio.to_thread(call, store)

    @needs("async")
    async def test_it_serves_a_second_event_loop(self, store: BaseStore) -> None:
        await store.aput(HERE, "a", {"n": 1}, index=False)
        other = asyncio.to_thread(lambda: asyncio.run(store.aput(HERE, "b", {"n": 2}, index=False)))
        await other
        assert len(await store.asearch(HERE)) == 2

    @needs("sync", "async")
    async def test_threads_and_the_loop_use_it_at_once(self, store: BaseStore) -> None:
        def one_by_one(name: str) -> None:
            for n in range(20):
                store.put(HERE, f"{name}{n}", {"n": n}, index=False)
                assert store.get(HERE, f"{name}{n}") is not None

        async def at_once(name: str) -> None:
            await asyncio.gather(
                *(store.aput(HERE, f"{name}{n}", {"n": n}, index=False) for n in range(20))
            )

        await asyncio.gather(
            *(asyncio.to_thread(one_by_one, name) for name in "abc"), at_once("d"), at_once("e")
        )
        assert len(await store.asearch(HERE, limit=1000)) == 100

    @needs("async")
    async def test_a_bad_call_leaves_those_made_with_it_alone(self, store: BaseStore) -> None:
        """A store may batch concurrent calls."""
        calls: list[Any] = [
            store.aput(HERE, str(n), {"n": n if n != 3 else object()}, index=False)
            for n in range(6)
        ]
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert [isinstance(result, Exception) for result in results] == [n == 3 for n in range(6)]
        assert len(await store.asearch(HERE)) == 5

    @needs("async")
    async def test_many_writers_of_one_key_leave_one_item(self, store: BaseStore) -> None:
        async def write(n: int) -> None:
            keys = "abc" if n % 2 else "cba"
            await store.abatch([PutOp(HERE, key, {"text": f"writer {n} {key}"}) for key in keys])

        await asyncio.gather(*(write(n) for n in range(6)))
        assert sorted(item.key for item in await store.asearch(HERE)) == ["a", "b", "c"]
