"""Measures slices and context windows: python -m benchmarks.slices [--items N] [--user-items N]

One database holds --items turns of users with --user-items turns each: 400 per thread, over one
year, with vectors of 512 dimensions. Figures of one user, by the engine, under row security:

slice_p50_ms, slice_p99_ms   a page of 50 turns of a random day, week, month or the whole year,
                             newest or oldest first
slice_by_words_p99_ms        the same for times in words, such as "last Tuesday"
buckets_p50_ms               the days of a month with their counts, and a page
context_p50_ms               a window of 8,000 tokens for a random question in a random thread,
                             without the time of an embedding model
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from importlib.resources import files

import numpy as np
import psycopg

from benchmarks.dataset import Matrix
from benchmarks.measure import say
from benchmarks.report import describe_machine
from benchmarks.server import describe_server, fresh_database, vacuum
from shared_core import MemoryEngine, Scope, open_memory
from shared_core.core.namespaces import scope_path

DIMENSIONS = 512
PER_THREAD = 400
PAGE = 50
MAX_TOKENS = 8_000
NEWEST = datetime(2026, 11, 1, tzinfo=UTC)
WORDS = (
    "alice", "bees", "bread", "bridge", "cello", "city", "cousin", "dinner", "dog", "doctor",
    "flight", "friend", "garden", "guitar", "holiday", "house", "idea", "island", "jacket", "job",
    "kitchen", "lake", "letter", "lisbon", "market", "meeting", "mother", "mountain", "museum",
    "music", "office", "orchestra", "paper", "parrot", "piano", "plan", "river", "roof", "school",
    "sister", "station", "summer", "table", "tea", "teacher", "tennis", "train", "trip", "uncle",
    "village", "wedding", "week", "window", "winter", "work", "year",
)  # fmt: skip
TIMES = (
    "yesterday",
    "last Tuesday",
    "last week",
    "last month",
    "上周二",
    "最近三天",
    "two weeks ago",
)


class NoEmbedding:
    """Returns a vector without a model."""

    model = "benchmark-none"

    async def embed_passages(self, texts: list[str]) -> Matrix:
        return np.stack([_vector(text) for text in texts])

    async def embed_query(self, text: str) -> Matrix:
        return _vector(text)[np.newaxis]


async def slice_p99_ms(
    memory: MemoryEngine, scope: Scope, *, calls: int = 1000, percent: float = 99
) -> float:
    """Return a percentile over pages of random time ranges within a year."""
    chosen = random.Random(7)

    async def one() -> object:
        days = chosen.choice((1, 7, 30, 365))
        begin = NEWEST - timedelta(days=chosen.uniform(days, 365))
        order = chosen.choice(("newest", "oldest"))
        return await memory.slice(
            scope, begin=begin, end=begin + timedelta(days=days), limit=PAGE,
            order="newest" if order == "newest" else "oldest",
        )  # fmt: skip

    return await _percentile_ms(one, calls, percent)


async def slice_by_words_p99_ms(memory: MemoryEngine, scope: Scope, *, calls: int = 300) -> float:
    """Return the 99th percentile over pages of time ranges in words."""
    chosen = random.Random(8)

    async def one() -> object:
        return await memory.slice(scope, chosen.choice(TIMES), asked_at=NEWEST, limit=PAGE)

    return await _percentile_ms(one, calls, 99)


async def buckets_p50_ms(memory: MemoryEngine, scope: Scope, *, calls: int = 50) -> float:
    """Return the median of counting the days of a month and reading a page."""

    async def one() -> object:
        return await memory.slice(scope, "last month", asked_at=NEWEST, bucket="day", limit=PAGE)

    return await _percentile_ms(one, calls, 50)


async def context_p50_ms(
    memory: MemoryEngine, scope: Scope, threads: int, *, calls: int = 60
) -> float:
    """Return the median over windows of 8,000 tokens for random questions in threads t0, t1 ..."""
    chosen = random.Random(9)

    async def one() -> object:
        query = f"What about the {' and the '.join(chosen.sample(WORDS, 2))}?"
        thread_id = f"t{chosen.randrange(threads)}"
        return await memory.context_window(scope, thread_id, query, max_tokens=MAX_TOKENS)

    return await _percentile_ms(one, calls, 50)


async def measure(items: int, user_items: int, dsn: str | None) -> dict[str, object]:
    """Return all figures of one user among others, with the environment."""
    with fresh_database(dsn) as database:
        async with open_memory(
            database, embedder=NoEmbedding(), worker=False, track_access=False
        ) as memory:
            await memory.recall(Scope("bench", "nobody"), "hello")  # registers the model
            users = max(1, items // user_items)
            for number in range(users):
                say(f"loading user {number + 1} of {users}")
                load(database, Scope("bench", f"u{number}"), user_items)
            vacuum(database)
            scope, threads = Scope("bench", f"u{users // 2}"), -(-user_items // PER_THREAD)
            say("measuring")
            return {
                "items": users * user_items,
                "user_items": user_items,
                "slice_p50_ms": await slice_p99_ms(memory, scope, percent=50),
                "slice_p99_ms": await slice_p99_ms(memory, scope),
                "slice_by_words_p99_ms": await slice_by_words_p99_ms(memory, scope),
                "buckets_p50_ms": await buckets_p50_ms(memory, scope),
                "context_p50_ms": await context_p50_ms(memory, scope, threads),
                "environment": describe_machine() | describe_server(database),
            }


def load(dsn: str, scope: Scope, size: int) -> None:
    """Write `size` turns of a scope, with their threads, words and vectors, by SQL."""
    script = (files("benchmarks") / "slices.sql").read_text("utf-8")
    values = {
        "tenant": scope_path(scope), "size": size, "per_thread": PER_THREAD, "newest": NEWEST,
        "words": list(WORDS), "model": NoEmbedding.model, "dims": DIMENSIONS,
    }  # fmt: skip
    with psycopg.connect(dsn, cursor_factory=psycopg.ClientCursor) as connection:
        connection.execute("SET search_path TO hippocampus, public")
        connection.execute(script.encode(), values)


async def _percentile_ms(
    call: Callable[[], Awaitable[object]], calls: int, percent: float
) -> float:
    taken = []
    for number in range(-(-calls // 10) + calls):
        start = time.perf_counter()
        await call()
        if number >= calls // 10:  # the first tenth warms up
            taken.append(1000 * (time.perf_counter() - start))
    return round(float(np.percentile(taken, percent)), 2)


def _vector(text: str) -> Matrix:
    numbers = np.random.default_rng(len(text)).standard_normal(DIMENSIONS, dtype=np.float32)
    vector: Matrix = numbers / np.linalg.norm(numbers)
    return vector


def main() -> None:
    """Measure, and print the figures as JSON in the last line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--items", type=int, default=100_000, help="turns of all users")
    parser.add_argument("--user-items", type=int, help="turns of each user [default: all]")
    parser.add_argument("--dsn", help="a server to measure on [default: a private one]")
    parser.add_argument("--json", action="store_true", help="print the figures on one line")
    arguments = parser.parse_args()
    per_user = arguments.user_items or arguments.items
    report = asyncio.run(measure(arguments.items, per_user, arguments.dsn))
    print(json.dumps(report) if arguments.json else json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
