"""Tests lists of namespaces, and prefixes of whole labels."""

from __future__ import annotations

from typing import Any

from langgraph.store.base import ListNamespacesOp, MatchCondition, PutOp
from langgraph.store.memory import InMemoryStore

from langgraph_store.conformance.samples import Face
from langgraph_store.conformance.suite import StoreTests

TREE = [("a", "b", "c"), ("a", "b", "d"), ("a", "x", "c"), ("ab", "b", "c"), ("users", "1", "c"),
        ("users", "2", "public"), ("users", "2", "private", "notes")]  # fmt: skip

CONDITIONS: list[dict[str, Any]] = [
    {}, {"prefix": ("a",)}, {"prefix": ("a", "b")}, {"prefix": ("a", "*", "c")},
    {"prefix": ("*", "b")}, {"prefix": ("users", "*")}, {"suffix": ("c",)}, {"suffix": ("b", "c")},
    {"suffix": ("*", "c")}, {"suffix": ("2", "*")}, {"prefix": ("a",), "suffix": ("c",)},
    {"prefix": ("a", "b", "c", "d")}, {"prefix": ("nothing",)}, {"max_depth": 1},
    {"max_depth": 2}, {"max_depth": 3, "prefix": ("users",)}, {"max_depth": 300},
    {"limit": 2}, {"limit": 2, "offset": 2}, {"offset": 100}, {"limit": 0},
    {"max_depth": 2, "limit": 2, "offset": 1}, {"suffix": ("c",), "max_depth": 1},
]  # fmt: skip


class Naming(StoreTests):
    """Namespaces are paths of labels."""

    async def test_lists_of_namespaces_are_those_of_the_memory_store(self, face: Face) -> None:
        reference = InMemoryStore()
        ops = [PutOp(space, "k", {"n": 1}, False) for space in TREE]
        reference.batch(ops)
        await face.batch(ops)
        for condition in CONDITIONS:
            expected = reference.list_namespaces(**condition)
            assert await face.list_namespaces(**condition) == expected, condition

    async def test_a_condition_may_be_one_bare_label(self, face: Face) -> None:
        await face.batch([PutOp(space, "k", {"n": 1}, False) for space in TREE])
        assert await face.list_namespaces(suffix="public") == [("users", "2", "public")]
        bare: Any = "ab"
        condition = MatchCondition("prefix", bare)
        assert await face.batch([ListNamespacesOp((condition,))]) == [[("ab", "b", "c")]]

    async def test_a_prefix_is_of_whole_labels(self, face: Face) -> None:
        for space in [
            ("foo",),
            ("foo", "x"),
            ("foobar",),
            ("ab",),
            ("a", "b"),
            ("a", "bc"),
            ("a",),
        ]:
            await face.put(space, "/".join(space), {"n": 1}, index=False)
        assert sorted(await face.keys(("foo",))) == ["foo", "foo/x"]
        assert sorted(await face.keys(("a",))) == ["a", "a/b", "a/bc"]
        assert await face.keys(("a", "b")) == ["a/b"]
        assert len(await face.keys((), limit=20)) == 7

    async def test_an_empty_namespace_is_not_listed(self, face: Face) -> None:
        await face.put(("was",), "k", {"n": 1}, index=False)
        await face.delete(("was",), "k")
        assert await face.list_namespaces() == []
