"""Tests times to live, in minutes and fractions of them, with the clock of this machine."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

from langgraph_store.conformance.factories import Factory
from langgraph_store.conformance.samples import HERE, INDEX, Face
from langgraph_store.conformance.suite import StoreTests, needs

SHORT = 0.02
"""A time to live of 1.2 seconds."""
SHORT_S = SHORT * 60


class Expiring(StoreTests):
    """Expired items are not read; a read restarts the time to live, unless disabled."""

    @needs("ttl")
    async def test_an_expired_item_is_nowhere(self, face: Face) -> None:
        await face.put(HERE, "short", {"text": "tea"}, ttl=SHORT)
        await face.put(("conformance", "bob"), "long", {"text": "tea"}, ttl=60)
        assert await face.get(HERE, "short", refresh_ttl=False) is not None
        await asyncio.sleep(SHORT_S * 1.3)
        assert await face.get(HERE, "short") is None
        assert await face.keys(("conformance",)) == ["long"]
        assert await face.keys(("conformance",), query="tea") == ["long"]
        assert await face.list_namespaces() == [("conformance", "bob")]

    @needs("ttl", "sweeping")
    async def test_an_expired_item_is_read_until_it_is_swept(
        self, configured: Factory, mode: str
    ) -> None:
        """ "omit_expired" is off unless it is asked for."""
        async with configured(index=INDEX, ttl={"refresh_on_read": False}) as store:
            face = Face(store, mode)
            await face.put(HERE, "short", {"text": "tea"}, ttl=SHORT)
            await asyncio.sleep(SHORT_S * 1.3)
            assert await face.value("short") == {"text": "tea"}
            assert await face.keys() == await face.keys(query="tea") == ["short"]
            assert await face.list_namespaces() == [HERE]
            for _ in range(10):  # the clock of a store may show whole seconds
                swept: Any = await asyncio.to_thread(store.sweep_ttl)
                if inspect.isawaitable(swept):
                    await swept
                if await face.get(HERE, "short") is None:
                    break
                await asyncio.sleep(SHORT_S * 0.2)
            assert await face.get(HERE, "short") is None
            assert await face.list_namespaces() == []

    @needs("ttl")
    async def test_expired_items_take_no_place_on_a_page(self, face: Face) -> None:
        for key in "abcd":
            ttl = SHORT if key in "bc" else 60
            await face.put(HERE, key, {"n": 1}, index=False, ttl=ttl)
        await asyncio.sleep(SHORT_S * 1.3)
        assert await face.keys(limit=2) == ["d", "a"]
        assert await face.keys(limit=2, offset=2) == []

    @needs("ttl")
    async def test_reading_brings_nothing_back_that_expired(self, face: Face) -> None:
        await face.put(HERE, "k", {"n": 1}, index=False, ttl=SHORT)
        await asyncio.sleep(SHORT_S * 1.3)
        for _ in range(2):
            assert await face.get(HERE, "k", refresh_ttl=True) is None
            assert await face.search(HERE, refresh_ttl=True) == []

    @needs("ttl")
    async def test_reading_gives_the_full_time_again(self, face: Face) -> None:
        for key in ("got", "found"):
            await face.put((*HERE, key), key, {"n": 1}, ttl=SHORT, index=False)
        for _ in range(4):
            await asyncio.sleep(SHORT_S * 0.4)
            assert await face.get((*HERE, "got"), "got") is not None
            assert await face.keys((*HERE, "found")) == ["found"]

    @needs("ttl")
    async def test_a_read_may_leave_the_time_as_it_is(self, face: Face) -> None:
        await face.put(HERE, "k", {"n": 1}, ttl=SHORT, index=False)
        for _ in range(4):
            await asyncio.sleep(SHORT_S * 0.4)
            await face.get(HERE, "k", refresh_ttl=False)
            await face.search(HERE, refresh_ttl=False)
        assert await face.get(HERE, "k") is None

    @needs("ttl")
    async def test_a_put_without_a_time_to_live_is_for_ever(self, face: Face) -> None:
        await face.put(HERE, "k", {"n": 1}, ttl=SHORT, index=False)
        await face.put(HERE, "k", {"n": 2}, index=False, ttl=None)
        await asyncio.sleep(SHORT_S * 1.3)
        assert await face.value("k") == {"n": 2}

    @needs("ttl")
    async def test_a_key_that_expired_can_be_put_again(self, face: Face) -> None:
        await face.put(HERE, "k", {"n": 1}, ttl=SHORT, index=False)
        await asyncio.sleep(SHORT_S * 1.3)
        await face.put(HERE, "k", {"n": 2}, index=False)
        assert await face.value("k") == {"n": 2}
