"""Tests filters on values: their results, and errors for invalid filters."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest
from langgraph.store.base import PutOp

from langgraph_store.conformance.samples import HERE, Face
from langgraph_store.conformance.suite import StoreTests, each, needs

VALUES: dict[str, dict[str, Any]] = {
    "two": {"n": 2, "tag": "a", "at": {"city": "Rome", "zip": 1}, "list": [1, 2], "ok": True},
    "nine": {"n": 9.5, "tag": "b", "at": {"city": "Oslo", "zip": 2}, "list": ["x"], "ok": False},
    "ten": {"n": 10, "tag": "a", "at": {"city": "Oslo", "zip": 3}, "list": [], "a.b": 1},
    "hundred": {"n": 100, "tag": "c", "at": "Oslo", "list": [2, 1], "gone": None},
}
ALL = set(VALUES)

DOCUMENTED: dict[str, tuple[dict[str, Any], set[str]]] = {
    "equal": ({"n": 10}, {"ten"}),
    "both": ({"tag": "a", "n": 2}, {"two"}),
    "true is not one": ({"ok": 1}, set()),
    "true": ({"ok": True}, {"two"}),
    "list": ({"list": [1, 2]}, {"two"}),
    "nested": ({"at": {"city": "Oslo"}}, {"nine", "ten"}),
    "nested operator": ({"at": {"zip": {"$gte": 2}, "city": "Oslo"}}, {"nine", "ten"}),
    "dotted key": ({"a.b": 1}, {"ten"}),
    "dotted key is no path": ({"at.city": "Oslo"}, set()),
    "missing": ({"nothing": 1}, set()),
    "nothing": ({}, ALL),
    "$eq": ({"tag": {"$eq": "b"}}, {"nine"}),
    "$ne": ({"tag": {"$ne": "a"}}, {"nine", "hundred"}),
    "$ne missing": ({"nothing": {"$ne": 1}}, ALL),
    "$gt": ({"n": {"$gt": 9.5}}, {"ten", "hundred"}),
    "$gte": ({"n": {"$gte": 9.5}}, {"nine", "ten", "hundred"}),
    "$lt": ({"n": {"$lt": 10}}, {"two", "nine"}),
    "$lte": ({"n": {"$lte": 10}}, {"two", "nine", "ten"}),
    "between": ({"n": {"$gt": 2, "$lt": 100}}, {"nine", "ten"}),
    "$gt text": ({"tag": {"$gt": "a"}}, {"nine", "hundred"}),
    "$gt missing": ({"nothing": {"$gt": 1}}, set()),
    "$gt other type": ({"at": {"$gt": 1}}, set()),
}

MORE: dict[str, tuple[dict[str, Any], set[str]]] = {
    "$and": ({"$and": [{"tag": "a"}, {"n": {"$gt": 2}}]}, {"ten"}),
    "$or": ({"$or": [{"tag": "b"}, {"n": 100}]}, {"nine", "hundred"}),
    "$not": ({"$not": {"tag": "a"}}, {"nine", "hundred"}),
    "$in": ({"n": {"$in": [2, 10, "x"]}}, {"two", "ten"}),
    "$nin": ({"tag": {"$nin": ["a", "b"]}}, {"hundred"}),
    "$exists": ({"gone": {"$exists": True}}, {"hundred"}),
    "$exists not": ({"ok": {"$exists": False}}, {"ten", "hundred"}),
    "$contains": ({"list": {"$contains": 2}}, {"two", "hundred"}),
    "$contains text": ({"tag": {"$contains": "a"}}, {"two", "ten"}),
    "nested or": ({"at": {"$or": [{"zip": 1}, {"zip": {"$gt": 2}}]}}, {"two", "ten"}),
}

UNBOUNDED: dict[str, tuple[dict[str, Any], set[str]]] = {
    "$gt -inf": ({"n": {"$gt": -inf}}, ALL),
    "$gte -inf": ({"n": {"$gte": -inf}}, ALL),
    "$lt inf": ({"n": {"$lt": inf}}, ALL),
    "$lte inf": ({"n": {"$lte": inf}}, ALL),
    "between": ({"n": {"$gt": 2, "$lt": inf}}, {"nine", "ten", "hundred"}),
    "$gt inf": ({"n": {"$gt": inf}}, set()),
    "$lt -inf": ({"n": {"$lt": -inf}}, set()),
    "$eq inf": ({"n": {"$eq": inf}}, set()),
    "$ne inf": ({"n": {"$ne": inf}}, ALL),
    "$gt NaN": ({"n": {"$gt": nan}}, set()),
    "$gte NaN": ({"n": {"$gte": nan}}, set()),
    "$lt NaN": ({"n": {"$lt": nan}}, set()),
    "$lte NaN": ({"n": {"$lte": nan}}, set()),
    "NaN": ({"n": nan}, set()),
    "$ne NaN": ({"n": {"$ne": nan}}, ALL),
}

SENSELESS: dict[str, Any] = {
    "unknown": {"n": {"$regex": "x"}},
    "unknown, nested": {"at": {"zip": {"$regex": "x"}}},
    "unknown at the top": {"$nor": [{"n": 1}]},
    "no number": {"n": {"$gt": None}},
    "$and of none": {"$and": "n"},
}


class Filtering(StoreTests):
    """A filter finds all matching items, before limit and offset apply."""

    async def _fill(self, face: Face) -> None:
        await face.batch([PutOp(HERE, key, value, False) for key, value in VALUES.items()])

    @each("case", DOCUMENTED)
    async def test_a_filter_finds_what_it_says(
        self, face: Face, case: tuple[dict[str, Any], set[str]]
    ) -> None:
        condition, expected = case
        await self._fill(face)
        assert set(await face.keys(filter=condition)) == expected

    @each("case", UNBOUNDED)
    async def test_a_filter_compares_with_infinity_and_nan(
        self, face: Face, case: tuple[dict[str, Any], set[str]]
    ) -> None:
        """Every number lies between the infinities, and NaN has no place in any order."""
        condition, expected = case
        await self._fill(face)
        assert set(await face.keys(filter=condition)) == expected

    @needs("operators")
    @each("case", MORE)
    async def test_more_operators_find_what_they_say(
        self, face: Face, case: tuple[dict[str, Any], set[str]]
    ) -> None:
        condition, expected = case
        await self._fill(face)
        assert set(await face.keys(filter=condition)) == expected

    async def test_null_is_a_value_and_a_missing_key_is_none(self, face: Face) -> None:
        await self._fill(face)
        assert await face.keys(filter={"gone": None}) == ["hundred"]
        assert set(await face.keys(filter={"gone": {"$ne": None}})) == ALL - {"hundred"}

    @each("condition", SENSELESS)
    async def test_a_filter_that_makes_no_sense_is_an_error(
        self, face: Face, condition: Any
    ) -> None:
        """An empty result would mean that no item matches."""
        await self._fill(face)
        with pytest.raises(Exception):  # noqa: B017 # the contract names no type
            await face.search(HERE, filter=condition)

    async def test_filters_come_before_limit_and_offset(self, face: Face) -> None:
        await face.batch([PutOp(HERE, f"{n:03}", {"even": n % 2 == 0}, False) for n in range(40)])
        pages = [
            await face.keys(filter={"even": True}, limit=7, offset=at) for at in (0, 7, 14, 21)
        ]
        assert sorted(key for page in pages for key in page) == [f"{n:03}" for n in range(0, 40, 2)]

    async def test_values_and_names_in_a_filter_are_no_sql(self, face: Face) -> None:
        await self._fill(face)
        for text in ("'; DROP TABLE store; --", "%s", "{0}", 'a"b', "\\"):
            assert await face.keys(filter={text: text}) == []
            assert len(await face.keys(filter={"tag": {"$ne": text}})) == 4

    async def test_a_listing_is_newest_first_and_has_no_score(self, face: Face) -> None:
        for key in ("a", "b", "c", "a"):
            await face.put(HERE, key, {"n": 1}, index=False)
        assert await face.keys() == ["a", "c", "b"]
        assert [item.score for item in await face.search(HERE)] == [None] * 3

    async def test_limits_and_offsets_hold(self, face: Face) -> None:
        await self._fill(face)
        assert await face.search(HERE, limit=0) == []
        assert len(await face.search(HERE, limit=1_000_000)) == 4
        assert await face.search(HERE, offset=4) == await face.search(HERE, offset=10**6) == []

    @each("bounds", {"limit": {"limit": -1}, "offset": {"offset": -1}})
    async def test_a_negative_bound_is_an_error(self, face: Face, bounds: dict[str, int]) -> None:
        await self._fill(face)
        with pytest.raises(Exception):  # noqa: B017 # the contract names no type
            await face.search(HERE, **bounds)
