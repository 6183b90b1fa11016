"""Tests batches: order, size, and the effect of a failing operation on the others."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from langgraph.store.base import GetOp, ListNamespacesOp, PutOp, SearchOp

from langgraph_store.conformance.samples import HERE, Face
from langgraph_store.conformance.suite import StoreTests, each, needs

BAD: dict[str, Any] = {
    "value": PutOp(HERE, "bad", {"n": float("nan"), "o": object()}),
    "label": PutOp(("a.b",), "bad", {}),
    "filter": SearchOp(HERE, filter={"n": {"$no": 1}}),
    "limit": SearchOp(HERE, limit=-1),
}


class Batching(StoreTests):
    """A batch runs as one, and each operation has its own result."""

    async def test_reads_see_the_state_before_the_batch(self, face: Face) -> None:
        await face.put(HERE, "old", {"n": 0})
        results = await face.batch(
            [PutOp(HERE, "new", {"n": 1}), SearchOp(HERE), ListNamespacesOp(), GetOp(HERE, "new"),
             GetOp(HERE, "old")]
        )  # fmt: skip
        assert [item.key for item in results[1]] == ["old"]
        assert (results[0], results[2], results[3], results[4].value) == (
            None,
            [HERE],
            None,
            {"n": 0},
        )
        assert await face.value("new") == {"n": 1}

    async def test_the_last_write_to_a_key_wins(self, face: Face) -> None:
        await face.put(HERE, "there", {"n": 0})
        ops = [
            PutOp(HERE, "twice", {"n": 1}), PutOp(HERE, "twice", {"n": 2}),
            PutOp(HERE, "gone", {"n": 1}), PutOp(HERE, "gone", None),
            PutOp(HERE, "there", None), PutOp(HERE, "there", {"n": 3}),
        ]  # fmt: skip
        assert await face.batch(ops) == [None] * len(ops)
        found = {item.key: item.value["n"] for item in await face.search(HERE)}
        assert found == {"twice": 2, "there": 3}

    async def test_an_empty_batch_is_nothing(self, face: Face) -> None:
        assert await face.batch([]) == []

    async def test_operations_may_come_from_a_generator(self, face: Face) -> None:
        await face.batch(PutOp(HERE, str(n), {"n": n}) for n in range(3))
        assert sorted(await face.keys()) == ["0", "1", "2"]

    async def test_two_thousand_operations_fit_in_one_batch(self, face: Face) -> None:
        spaces = [("big", str(n % 7)) for n in range(2000)]
        await face.batch([PutOp(s, str(n), {"n": n}, False) for n, s in enumerate(spaces)])
        got = await face.batch([GetOp(s, str(n)) for n, s in enumerate(spaces)])
        assert [item.value["n"] for item in got] == list(range(2000))

    @needs("ttl")
    async def test_a_batch_may_need_more_values_than_a_statement_binds(self, face: Face) -> None:
        """PostgreSQL binds at most 65,535 values."""
        ops = [PutOp(HERE, str(n), {"n": n}, index=False, ttl=60) for n in range(14_000)]
        await face.batch(ops)
        assert await face.value("13999") == {"n": 13_999}

    @each("bad", BAD)
    async def test_a_bad_operation_leaves_the_writes_of_others_alone(
        self, face: Face, bad: Any
    ) -> None:
        await face.put(HERE, "old", {"n": 1})
        with suppress(Exception):
            await face.batch([PutOp(HERE, "a", {"n": 1}), bad, PutOp(HERE, "old", None),
                              PutOp(HERE, "b", {"n": 2})])  # fmt: skip
        assert sorted(await face.keys()) == ["a", "b"]

    @each("bad", BAD)
    async def test_a_bad_operation_is_an_error(self, face: Face, bad: Any) -> None:
        await face.put(HERE, "old", {"n": 1})
        with pytest.raises(Exception):  # noqa: B017 # the contract names no type
            await face.batch([bad])
