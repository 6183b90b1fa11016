"""Tests times to live, in minutes and fractions of them, with the clock of this machine."""

from __future__ import annotations

import asyncio

from langgraph_store.conformance.samples import HERE, Face
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
