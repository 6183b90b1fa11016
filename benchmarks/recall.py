"""How long recall takes as a user's memories grow: meaning and words over all of them, exact.

    python -m benchmarks.recall [--sizes 100 1000 10000] [--json]

Memories are 20 words drawn from 3,000 with frequencies after Zipf; a query has four, of which the
first stands in up to half of all memories. Vectors are random: no model time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from shared_core import MemoryEngine, Scope, open_memory

if TYPE_CHECKING:
    from shared_core.ports import Vectors

WORDS = [f"w{number}" for number in range(3_000)]
FREQUENCIES = [1 / (rank + 1) for rank in range(len(WORDS))]
CALLS = 25
BATCH = 1_000


class RandomVectors:
    """An embedder without a model: 384 random dimensions, at once."""

    model = "random"

    def __init__(self) -> None:
        self._noise = np.random.default_rng(0)

    async def embed_passages(self, texts: Sequence[str]) -> Vectors:
        vectors = self._noise.normal(size=(len(texts), 384)).astype(np.float32)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True).astype(np.float32)
        return np.asarray(vectors / lengths, dtype=np.float32)

    async def embed_query(self, text: str) -> Vectors:
        return await self.embed_passages([text])


async def measure(sizes: Sequence[int]) -> dict[int, float]:
    """Return the median time of a recall in milliseconds, by number of memories."""
    with tempfile.TemporaryDirectory() as folder:
        async with open_memory(Path(folder), embedder=RandomVectors()) as memory:
            return {size: await _median_ms(memory, size) for size in sizes}


async def _median_ms(memory: MemoryEngine, size: int) -> float:
    scope, chance = Scope("benchmark", str(size)), random.Random(1)
    for first in range(0, size, BATCH):
        texts = [
            " ".join(chance.choices(WORDS, weights=FREQUENCIES, k=20))
            for _ in range(min(BATCH, size - first))
        ]
        await memory.remember(scope, texts)
    times = []
    for call in range(CALLS):
        query = f"w{call} w{call * 7} w{call * 31 + 200} w{call * 51 + 900}"
        begun = time.perf_counter()
        await memory.recall(scope, query)
        times.append(1_000 * (time.perf_counter() - begun))
    return round(statistics.median(times), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description="Time of recall by number of memories.")
    parser.add_argument("--sizes", nargs="+", type=int, default=[100, 1_000, 10_000])
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if min(arguments.sizes) < 1:
        parser.error("--sizes must be positive")
    medians = asyncio.run(measure(arguments.sizes))
    if arguments.json:
        print(json.dumps({"recall_p50_ms": medians}))
        return
    for size, median in medians.items():
        print(f"{size:>8,} memories: {median} ms")


if __name__ == "__main__":
    main()
