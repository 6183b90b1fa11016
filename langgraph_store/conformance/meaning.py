"""Tests search by meaning: embedded fields, results, order and paging."""

from __future__ import annotations

import math
import random
from typing import Any

from langgraph.store.base import PutOp

from langgraph_store.conformance.factories import Factory
from langgraph_store.conformance.samples import HERE, Face, plane_vectors
from langgraph_store.conformance.suite import StoreTests, each, needs

DOCUMENT = {
    "zebra": "plain", "title": "zebra", "meta": {"name": "zebra", "deep": {"name": "zebra"}},
    "tags": ["ape", "zebra"], "rows": [{"text": "ape"}, {"text": "zebra"}], "n": 7,
}  # fmt: skip

PATHS = {
    "field": ["title"], "nested": ["meta.name"], "deeper": ["meta.deep.name"],
    "every": ["rows[*].text"], "first": ["tags[0]", "tags[1]"], "last": ["rows[-1].text"],
    "several": ["{n,title}"], "several nested": ["{n,meta.name}"], "wildcard": ["meta.*"],
    "whole": ["$"], "two": ["nothing", "title"],
}  # fmt: skip

DISTANCES: dict[str, tuple[str, list[str], list[float]]] = {
    "cosine": ("cosine", ["short", "long", "other"], [1, 10 / math.sqrt(101), 0]),
    "l2": ("l2", ["short", "other", "long"], [0, -math.sqrt(2), -math.sqrt(82)]),
    "inner product": ("inner_product", ["long", "short", "other"], [10, 1, 0]),
}


class MeaningSearching(StoreTests):
    """A query finds near items. Vectors count the words of the texts."""

    @needs("index")
    async def test_a_query_finds_the_nearest_first(self, face: Face) -> None:
        for key, text in {"a": "red tea", "b": "green tea leaves", "c": "old car"}.items():
            await face.put(HERE, key, {"text": text})
        found = await face.search(HERE, query="green tea")
        assert [item.key for item in found][:2] == ["b", "a"]
        scores = [item.score or 0.0 for item in found]
        assert scores == sorted(scores, reverse=True)
        assert math.isclose(scores[0], 2 / math.sqrt(6), abs_tol=0.01)

    @needs("index", "distances")
    @each("case", DISTANCES)
    async def test_vectors_rank_by_the_distance_of_the_configuration(
        self, configured: Factory, mode: str, case: tuple[str, list[str], list[float]]
    ) -> None:
        """A score is larger where an item is nearer: distances have a negative sign."""
        distance, order, scores = case
        index = {"dims": 2, "embed": plane_vectors, "fields": ["at"], "distance_type": distance}
        async with configured(index=index) as store:
            face = Face(store, mode)
            for key, place in {"long": "10 1", "short": "1 0", "other": "0 1"}.items():
                await face.put(HERE, key, {"at": place})
            found = await face.search(HERE, query="1 0")
            assert [item.key for item in found] == order
            for item, score in zip(found, scores, strict=True):
                assert math.isclose(item.score or 0, score, abs_tol=0.02)

    @needs("index")
    async def test_items_without_a_vector_fill_a_page(self, face: Face) -> None:
        await self._fill_half(face)
        found = await face.search(HERE, query="tea", limit=10)
        assert [item.score is None for item in found] == [False] * 6 + [True] * 4

    @needs("index")
    async def test_pages_of_a_query_hold_items_without_a_vector_once(self, face: Face) -> None:
        await self._fill_half(face)
        pages = [await face.keys(query="tea", limit=5, offset=at) for at in (0, 5, 10)]
        assert [len(page) for page in pages] == [5, 5, 2]
        assert len({key for page in pages for key in page}) == 12

    async def _fill_half(self, face: Face) -> None:
        for n in range(6):
            await face.put(HERE, f"near {n}", {"text": f"tea {n}"})
            await face.put(HERE, f"bare {n}", {"n": n}, index=False)

    @needs("index")
    async def test_a_query_stays_below_its_namespace(self, face: Face) -> None:
        for n in range(3):
            await face.put(("space", str(n), "notes"), f"k{n}", {"text": "green tea"})
        assert await face.keys(("space", "1"), query="tea") == ["k1"]
        assert len(await face.keys(("space",), query="tea")) == 3
        assert await face.keys(("spac",), query="tea") == []

    @needs("index")
    async def test_a_small_namespace_among_many_is_searched_whole(self, face: Face) -> None:
        """An approximate index with a filter afterwards loses most results."""
        words = [f"word{n}" for n in range(300)]
        random.seed(7)
        texts = [" ".join(random.sample(words, 6)) for _ in range(3000)]
        await face.batch(
            [PutOp(("many", f"user{n % 60}"), str(n), {"text": f"{n} {text}"})
             for n, text in enumerate(texts)]
        )  # fmt: skip
        counts = [
            len(await face.keys(("many", f"user{n}"), query=" ".join(words[n : n + 4]), limit=10))
            for n in range(0, 60, 6)
        ]
        assert counts == [10] * 10

    @needs("index")
    @each("query", {"none": None, "empty": "", "words": "tea"})
    async def test_pages_hold_every_item_once(self, face: Face, query: str | None) -> None:
        await face.batch([PutOp(HERE, f"{n:02}", {"text": f"tea {n}"}) for n in range(60)])
        pages = [await face.keys(query=query, limit=10, offset=at) for at in range(0, 70, 10)]
        assert [len(page) for page in pages] == [10] * 6 + [0]
        assert sorted(key for page in pages for key in page) == [f"{n:02}" for n in range(60)]

    @needs("index")
    async def test_pages_of_any_length_are_cut_from_one_order(self, face: Face) -> None:
        await face.batch([PutOp(HERE, f"{n:02}", {"text": "tea"}) for n in range(30)])
        whole = await face.keys(query="tea", limit=30)
        for step in (4, 7, 30):
            parts = [
                await face.keys(query="tea", limit=step, offset=at) for at in range(0, 30, step)
            ]
            assert [key for part in parts for key in part] == whole

    @needs("index")
    async def test_a_query_and_a_filter_both_hold(self, face: Face) -> None:
        await face.batch([PutOp(HERE, f"{n:02}", {"text": f"tea {n}", "odd": n % 2 == 1})
                          for n in range(40)])  # fmt: skip
        found = await face.search(HERE, query="tea", filter={"odd": True}, limit=30)
        assert len(found) == 20 and all(item.value["odd"] for item in found)

    @needs("index")
    async def test_an_item_put_again_without_index_is_not_found_by_its_old_text(
        self, face: Face
    ) -> None:
        await face.put(HERE, "k", {"text": "zebra crossing"})
        await face.put(HERE, "k", {"text": "unrelated"}, index=False)
        assert [item for item in await face.search(HERE, query="zebra") if item.score] == []
        assert await face.keys() == ["k"]

    @needs("index")
    async def test_a_list_that_shrinks_is_not_found_by_what_it_lost(self, face: Face) -> None:
        await face.put(HERE, "k", {"tags": ["zebra", "ape"]}, index=["tags[*]"])
        await face.put(HERE, "k", {"tags": ["zebra"]}, index=["tags[*]"])
        assert [(item.score or 0) > 0.1 for item in await face.search(HERE, query="ape")] in (
            [False], [],
        )  # fmt: skip
        assert [(item.score or 0) > 0.9 for item in await face.search(HERE, query="zebra")] == [
            True
        ]

    @needs("index")
    async def test_a_deleted_item_is_not_found(self, face: Face) -> None:
        await face.put(HERE, "k", {"text": "zebra"})
        await face.delete(HERE, "k")
        assert await face.search(HERE, query="zebra") == []

    @needs("index")
    @each("paths", PATHS)
    async def test_paths_name_what_is_embedded(self, face: Face, paths: list[str]) -> None:
        await face.put(HERE, "k", DOCUMENT, index=paths)
        assert [(item.score or 0) > 0.05 for item in await face.search(HERE, query="zebra")] == [
            True
        ]

    @needs("index")
    async def test_paths_leave_out_what_they_do_not_name(self, face: Face) -> None:
        await face.put(HERE, "k", DOCUMENT, index=["tags[0]", "rows[0].text"])
        assert [item for item in await face.search(HERE, query="zebra") if item.score] == []

    @needs("index")
    async def test_the_best_of_several_fields_counts_and_the_item_comes_once(
        self, face: Face
    ) -> None:
        value: dict[str, Any] = {"rows": ["ape", "zebra", "zebra crossing", "car"]}
        await face.put(HERE, "k", value, index=["rows[*]"])
        [item] = await face.search(HERE, query="zebra")
        assert math.isclose(item.score or 0, 1, abs_tol=0.01)

    @needs("index")
    async def test_a_zero_vector_scores_no_nan(self, face: Face) -> None:
        await face.put(HERE, "blank", {"text": " "})
        await face.put(HERE, "tea", {"text": "tea"})
        for query in ("tea", "tea and more", " \t"):
            found = await face.search(HERE, query=query)
            assert not any(math.isnan(item.score or 0) for item in found)
        assert (await face.keys(query="tea"))[0] == "tea"

    @needs("index")
    async def test_an_item_without_the_indexed_field_is_kept(self, face: Face) -> None:
        await face.put(HERE, "k", {"other": "zebra"})
        assert await face.keys() == ["k"]
        assert [item for item in await face.search(HERE, query="zebra") if item.score] == []
