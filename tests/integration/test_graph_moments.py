"""What the graph shows of relations with one object at a time, at moments of the past."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from shared_core import AsOf, Scope, open_memory

pytestmark = pytest.mark.both_engines

ANN = Scope("app", "ann")
START = datetime(2026, 3, 1, 9, tzinfo=UTC)


def day(number: int) -> datetime:
    return START + timedelta(days=number)


async def test_a_functional_relation_has_one_object_at_every_moment(dsn: str) -> None:
    now = [START]
    async with open_memory(dsn, clock=lambda: now[0], worker=False) as memory:
        graph = memory.graph
        google = await graph.add(ANN, "user", "works_at", "Google")
        await graph.add(ANN, "user", "speaks", "English")
        now[0] = day(4)
        await graph.add(ANN, "user", "works_at", "Meta")
        await graph.add(ANN, "user", "speaks", "中文")
        now[0] = day(6)
        await graph.retract(ANN, "user", "works_at")
        assert google.edge_id
        await graph.restore(ANN, google.edge_id)
        now[0] = day(9)
        for as_of, expected in (
            (AsOf(valid=day(3)), "Google"), (AsOf(valid=day(5)), "Meta"),
            (AsOf(known=day(5)), "Meta"), (AsOf(valid=day(5), known=day(5)), "Meta"),
            (AsOf(valid=day(3), known=day(5)), "Google"), (AsOf(valid=day(7)), "Google"),
            (AsOf(), "Google"), (None, "Google"),
        ):  # fmt: skip
            near = (await graph.neighbourhood(ANN, "user", as_of=as_of)).edges
            then = [one for one in await graph.history(ANN, "user", as_of=as_of) if one.current]
            asked = (await memory.recall(ANN, "Where do I work?", as_of=as_of)).graph_results
            for edges in (near, then, asked):
                work = [edge.object for edge in edges if edge.relation == "works_at"]
                assert [expected] == work, as_of
        spoken = (await graph.neighbourhood(ANN, "user", as_of=AsOf(valid=day(5)))).entities
        assert {"English", "中文"} <= spoken.keys()
