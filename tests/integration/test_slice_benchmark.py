"""The benchmark of time slices and contexts, small: it measures what it says."""

from __future__ import annotations

from benchmarks import slices
from shared_core import Scope


async def test_it_measures_slices_and_windows_of_what_it_loads(server: str) -> None:
    report = await slices.measure(1_000, 500, server)
    assert (1_000, 500) == (report["items"], report["user_items"])
    names = ("slice_p50_ms", "slice_p99_ms", "slice_by_words_p99_ms", "buckets_p50_ms")
    figures = [report[name] for name in (*names, "context_p50_ms")]
    assert all(isinstance(one, float) and one > 0 for one in figures)
    assert report["environment"]


async def test_what_it_loads_is_a_memory_like_any_other(dsn: str) -> None:
    scope = Scope("bench", "u0")
    async with slices.open_memory(dsn, embedder=slices.NoEmbedding(), worker=False) as memory:
        await memory.recall(scope, "hello")
        slices.load(dsn, scope, 450)
        window = await memory.context_window(scope, "t0", "What about the bees?", max_tokens=8000)
        assert window.budget_used > 0.95 and len(window.section("history")) > 150
        month = await memory.slice(scope, "last month", asked_at=slices.NEWEST, bucket="day")
        assert 31 == len(month.buckets) and sum(one.count for one in month.buckets) > 20
        found = await memory.recall(scope, "bees", limit=3)
        assert any("bees" in hit.memory.text for hit in found)
