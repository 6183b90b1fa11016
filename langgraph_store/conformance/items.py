"""Tests single items: values, keys, times, deletion."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from langgraph.store.base import InvalidNamespaceError

from langgraph_store.conformance.samples import HERE, ODD_LABELS, Face
from langgraph_store.conformance.suite import StoreTests, each

VALUES: dict[str, dict[str, Any]] = {
    "empty": {},
    "nested": {"a": {"b": [1, None, True, {"c": "ü"}]}},
    "numbers": {"int": 2**53 + 1, "float": 0.1, "small": -1e-9, "zero": 0},
    "null": {"k": None},
    "keys": {"a.b": 1, "": 2, "$gt": 3, "a b": 4, "0": 5},
    "texts": {"t": 'tab\t newline\n quote" back\\slash 👍🏽 用户'},
    "big": {"text": "tea", "blob": "x" * 10_000_000},
}

UNSTORABLE = {
    "NaN": {"n": float("nan")},
    "datetime": {"at": datetime(2026, 1, 1, tzinfo=UTC)},
    "bytes": {"b": b"x"},
    "object": {"o": object()},
}

BAD_LABELS = {"empty": "", "dot": "a.b", "NUL": "a\x00b", "number": 7}


class Keeping(StoreTests):
    """A store reads and writes an item by its namespace and key."""

    @each("value", VALUES)
    async def test_a_value_comes_back_as_it_was(self, face: Face, value: dict[str, Any]) -> None:
        await face.put(HERE, "k", value)
        item = await face.get(HERE, "k")
        assert item is not None and item.value == value
        assert (item.key, tuple(item.namespace)) == ("k", HERE)

    async def test_what_is_missing_is_none(self, face: Face) -> None:
        assert await face.get(HERE, "k") is None
        await face.delete(HERE, "k")
        await face.put(HERE, "k", {"n": 1})
        await face.delete(HERE, "k")
        assert await face.get(HERE, "k") is None
        assert await face.search(HERE) == []

    async def test_any_text_is_a_key(self, face: Face) -> None:
        for key in ODD_LABELS.values():
            await face.put(HERE, key, {"key": key}, index=False)
        assert set(await face.keys(limit=100)) == set(ODD_LABELS.values())
        for key in ODD_LABELS.values():
            assert await face.value(key) == {"key": key}
            await face.delete(HERE, key)
            assert await face.get(HERE, key) is None

    async def test_any_text_without_a_dot_is_a_label(self, face: Face) -> None:
        places = [("odd", label, "end") for label in ODD_LABELS.values()]
        for place in places:
            await face.put(place, "k", {"label": place[1]}, index=False)
        for place in places:
            assert await face.value("k", place) == {"label": place[1]}
            assert [tuple(item.namespace) for item in await face.search(place[:2])] == [place]
            if "*" not in place[1]:
                assert await face.list_namespaces(prefix=place[:2]) == [place]

    @each("label", BAD_LABELS)
    async def test_what_is_no_label_is_refused(self, face: Face, label: Any) -> None:
        for call in (
            lambda: face.put(("a", label), "k", {}),
            lambda: face.get(("a", label), "k"),
            lambda: face.search(("a", label)),
        ):
            with pytest.raises(InvalidNamespaceError):
                await call()
        assert await face.list_namespaces() == []

    async def test_the_root_langgraph_and_no_root_at_all_are_refused(self, face: Face) -> None:
        for place in ((), ("langgraph",), ("langgraph", "a")):
            with pytest.raises(InvalidNamespaceError):
                await face.put(place, "k", {})

    async def test_a_list_is_a_namespace_too(self, face: Face) -> None:
        await face.put(["a", "b"], "k", {"n": 1})
        assert await face.value("k", ["a", "b"]) == await face.value("k", ("a", "b")) == {"n": 1}
        assert await face.keys(["a"]) == ["k"]

    async def test_a_value_belongs_to_the_store(self, face: Face) -> None:
        value = {"list": [1]}
        await face.put(HERE, "k", value)
        value["list"].append(2)
        kept = await face.value("k")
        assert kept == {"list": [1]}
        kept["list"].append(3)
        assert await face.value("k") == {"list": [1]}

    @each("value", UNSTORABLE)
    async def test_what_json_cannot_hold_is_refused(
        self, face: Face, value: dict[str, Any]
    ) -> None:
        with pytest.raises(Exception):  # noqa: B017 # any error: nothing may be stored
            await face.put(HERE, "k", value)
        assert await face.get(HERE, "k") is None

    async def test_nul_in_a_value_does_not_lose_it(self, face: Face) -> None:
        await face.put(HERE, "k", {"text": "tea\x00leaf", "n": 1})
        assert (await face.value("k"))["n"] == 1

    async def test_nul_in_a_key_is_refused_or_kept(self, face: Face) -> None:
        try:
            await face.put(HERE, "a\x00b", {"n": 1})
        except ValueError:
            assert await face.keys() == []
        else:
            assert await face.value("a\x00b") == {"n": 1}

    async def test_an_update_keeps_the_birth_and_moves_the_time(self, face: Face) -> None:
        stamps = []
        for n in range(3):
            await face.put(HERE, "k", {"n": n})
            item = await face.get(HERE, "k")
            assert item is not None
            stamps.append((item.created_at, item.updated_at))
            await asyncio.sleep(0.002)
        assert len({created for created, _ in stamps}) == 1
        assert stamps[0][1] < stamps[1][1] < stamps[2][1]

    async def test_times_carry_their_offset_and_are_now(self, face: Face) -> None:
        await face.put(HERE, "k", {})
        [item] = await face.search(HERE)
        for moment in (item.created_at, item.updated_at):
            assert moment.utcoffset() is not None
            assert abs(datetime.now(UTC) - moment) < timedelta(minutes=5)

    async def test_found_items_can_be_written_as_json(self, face: Face) -> None:
        await face.put(HERE, "k", {"n": 1})
        [item] = await face.search(HERE)
        shown = item.dict()
        assert (shown["key"], shown["value"], list(shown["namespace"])) == ("k", {"n": 1}, [*HERE])
        assert isinstance(shown["created_at"], str)
