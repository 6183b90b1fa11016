"""Measures recall by the number of a user's memories, in a store that other users fill.

    python -m benchmarks.recall [--sizes 100 1000 10000] [--total 100000] [--turns] [--json]

Clocks of `MemoryEngine.recall`, each with a random vector and without a model: *cold*, the first
question of a user, who has no index yet; *warm*, by the index; *statement*, without an index. Calls
of the last two alternate. *service*: a warm `OpenMemoryService.search_memory` end to end; the
bundled model embeds the query. Memories are 20
words drawn from 3,000 by Zipf's law. A query has four words; the first is in up to half of all
memories. Memories have random vectors of the model's dimensions, so that filling takes seconds. The
users of a size alternate, so that no rows stay hot. --turns: the memories are turns in
conversations of 100, half of them the agent's.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, cast
from unittest import mock

import numpy as np

from adk_memory import OpenMemoryService
from benchmarks.report import load_average
from shared_core import Event, MemoryEngine, Scope, open_memory
from shared_core.models.embedders import resolve_embedder
from shared_core.storage.postgres.resident import ResidentIndexes
from shared_core.storage.postgres.storage import PostgresStorage

if TYPE_CHECKING:
    from shared_core.ports.storage import Vectors

WORDS = [f"w{number}" for number in range(3_000)]
FREQUENCIES = list(accumulate(1 / (rank + 1) for rank in range(len(WORDS))))
APP = "benchmark"
DIMENSIONS = 512
CALLS = 60
WARM_UP = 5
USERS = 20
"""Maximum number of users of one size."""
FILLING = 1_000
"""Number of memories of each user who fills the rest of the store."""
BATCH = 1_000
CONVERSATION = 100
ROOM_MB = 2_000
"""Megabytes for the indexes of all users of a size."""


class HalfRandomVectors:
    """Random vectors for passages; the bundled model embeds queries while is_bundled is set."""

    model = "half random"

    def __init__(self, dimensions: int = DIMENSIONS) -> None:
        self._noise = np.random.default_rng(0)
        self._dimensions = dimensions
        self._bundled = resolve_embedder("use")
        self.is_bundled = False

    async def embed_passages(self, texts: Sequence[str]) -> Vectors:
        vectors = self._noise.normal(size=(len(texts), self._dimensions)).astype(np.float32)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True).astype(np.float32)
        return np.asarray(vectors / lengths, dtype=np.float32)

    async def embed_query(self, text: str) -> Vectors:
        if self.is_bundled:
            return await self._bundled.embed_query(text)
        return await self.embed_passages([text])


@dataclass(frozen=True, slots=True)
class Figures:
    """Milliseconds of one size, by clock."""

    users: int
    cold: dict[str, float]
    warm: dict[str, float]
    statement: dict[str, float]
    service: dict[str, float]
    bytes_a_memory: int


async def measure(sizes: Sequence[int], total: int, *, turns: bool) -> dict[int, Figures]:
    """Return the times of recall by the number of the user's memories."""
    embedder = HalfRandomVectors()
    with tempfile.TemporaryDirectory() as folder:
        async with open_memory(Path(folder), embedder=embedder) as memory:
            users = _users(sizes, total)
            for name, size in _in_random_order(users, total):
                await _fill(memory, Scope(APP, name), size, turns=turns)
        return {size: await _figures(Path(folder), embedder, users[size], size) for size in sizes}


def _users(sizes: Sequence[int], total: int) -> dict[int, list[str]]:
    """Return the users of each size: as many as fit into the store, and at least one."""
    room = max(0, total - sum(sizes)) // max(1, len(sizes))
    return {
        size: [f"{size}-{number}" for number in range(min(USERS, 1 + room // size))]
        for size in sizes
    }


def _in_random_order(users: dict[int, list[str]], total: int) -> list[tuple[str, int]]:
    """Return all users with their sizes, shuffled: the measured and those who fill the store."""
    sized = [(name, size) for size, names in users.items() for name in names]
    rest = total - sum(size for _, size in sized)
    sized += [(f"filling-{number}", FILLING) for number in range(rest // FILLING)]
    random.Random(2).shuffle(sized)
    return sized


def sentence(seed: str, words: int = 20) -> str:
    """Return words by Zipf's law."""
    return " ".join(random.Random(seed).choices(WORDS, cum_weights=FREQUENCIES, k=words))


async def _fill(memory: MemoryEngine, scope: Scope, size: int, *, turns: bool) -> None:
    texts = [sentence(f"{scope} {number}") for number in range(size)]
    if not turns:
        for first in range(0, size, BATCH):
            await memory.remember(scope, texts[first : first + BATCH])
        return
    for first in range(0, size, CONVERSATION):
        events = [
            Event(
                event_id=f"e{number}",
                author="agent" if number % 2 else "user",
                role="agent" if number % 2 else "user",
                text=text,
                occurred_at=datetime(2026, 1, 1, tzinfo=UTC),
            )
            for number, text in enumerate(texts[first : first + CONVERSATION])
        ]
        await memory.append_events(scope, f"conversation {first}", events)


async def _figures(
    folder: Path, embedder: HalfRandomVectors, users: Sequence[str], size: int
) -> Figures:
    async with opened(folder, embedder, ROOM_MB) as memory, opened(folder, embedder, 0) as without:
        embedder.is_bundled = False
        _, cold = await first_questions_ms(without, memory, users)
        asked = list(queries(WARM_UP + CALLS))
        times = await _times_ms([memory, without], users, asked)
        service = OpenMemoryService(engine=memory)
        embedder.is_bundled = True
        by_service = [
            await time_ms(
                service.search_memory(app_name=APP, user_id=users[number % len(users)], query=query)
            )
            for number, query in enumerate(asked)
        ]
        warm, statement = times[::2], times[1::2]
        return Figures(
            users=len(users),
            cold=summed(cold),
            warm=summed(warm[WARM_UP:]),
            statement=summed(statement[WARM_UP:]),
            service=summed(by_service[WARM_UP:]),
            bytes_a_memory=indexes_of(memory).nbytes // (size * len(users)),
        )


async def first_questions_ms(
    without: MemoryEngine, memory: MemoryEngine, users: Sequence[str]
) -> tuple[list[float], list[float]]:
    """Return the milliseconds of the first question of each user to both memories.

    The memory without indexes asks first, so that the server has read the rows when the other one
    does. That one reads the index of a user before the next user asks.
    """
    for one in (without, memory):
        await one.recall(Scope(APP, "nobody"), "w1")
    resident = indexes_of(memory)
    first, second = [], []
    for number, user in enumerate(users):
        query = f"w{number} w{300 + number} w700"
        times = await _times_ms([without, memory], [user], [query])
        first.append(times[0])
        second.append(times[1])
        while len(resident.users) <= number:  # noqa: ASYNC110 # nothing tells the end
            await asyncio.sleep(0.01)
    return first, second


def indexes_of(memory: MemoryEngine) -> ResidentIndexes:
    """Return the indexes of an opened memory on PostgreSQL."""
    return cast(PostgresStorage, memory._storage).resident


@asynccontextmanager
async def opened(
    folder: Path, embedder: HalfRandomVectors, resident_mb: int
) -> AsyncIterator[MemoryEngine]:
    """Open a memory whose indexes may take so many megabytes."""
    with mock.patch.dict(os.environ, {"HIPPOCAMPUS_RESIDENT_MB": str(resident_mb)}):
        memory = open_memory(folder, embedder=embedder, worker=False)
    async with memory:
        yield memory


async def _times_ms(
    memories: Sequence[MemoryEngine], users: Sequence[str], queries: Sequence[str]
) -> list[float]:
    """Return the milliseconds of each recall; every query is asked of each memory in turn."""
    times = []
    for number, query in enumerate(queries):
        for memory in memories:
            scope = Scope(APP, users[number % len(users)])
            times.append(await time_ms(memory.recall(scope, query)))
    return times


async def time_ms(call: Awaitable[object]) -> float:
    """Return the milliseconds of a call."""
    begun = time.perf_counter()
    await call
    return 1_000 * (time.perf_counter() - begun)


def summed(times_ms: Sequence[float], high: int = 95) -> dict[str, float]:
    """Return the median and a high percentile."""
    p50, most = np.percentile(times_ms, [50, high])
    return {"p50_ms": round(float(p50), 1), f"p{high}_ms": round(float(most), 1)}


def queries(count: int) -> Iterator[str]:
    """Yield queries of four words, of which the first one is frequent."""
    for call in range(count):
        places = (call % 25, call * 7, call * 31 + 200, call * 40 + 300)
        yield " ".join(WORDS[place % len(WORDS)] for place in places)


def main() -> None:
    parser = argparse.ArgumentParser(description="Time of recall by number of memories.")
    parser.add_argument("--sizes", nargs="+", type=int, default=[100, 1_000, 10_000])
    parser.add_argument("--total", type=int, default=100_000, help="memories in the store")
    parser.add_argument("--turns", action="store_true", help="memories are turns")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if min(arguments.sizes) < 1:
        parser.error(f"--sizes must be at least 1, got {min(arguments.sizes)}")
    found = asyncio.run(measure(arguments.sizes, arguments.total, turns=arguments.turns))
    if arguments.json:
        by_size = {size: asdict(figures) for size, figures in found.items()}
        print(json.dumps({"recall": by_size, "load_average": load_average()}))
        return
    print(f"p50 and p95 in ms, load average {load_average()}")
    for size, figures in found.items():
        clocks = "   ".join(
            f"{name} {times['p50_ms']:>6} {times['p95_ms']:>6}"
            for name, times in asdict(figures).items()
            if isinstance(times, dict)
        )
        print(
            f"{size:>8,} memories ({figures.users:>2} users): {clocks}"
            f"   {figures.bytes_a_memory:,} bytes a memory"
        )


if __name__ == "__main__":
    main()
