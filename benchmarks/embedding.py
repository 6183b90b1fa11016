"""Measures a bundled embedding model in this process: loading, queries, passages and memory.

    OMP_NUM_THREADS=1 python -m benchmarks.embedding [--embedder e5|use]

Prints one JSON object. Queries have seven words, passages about 20; each is another one. Times are
of the processor, because a model has one thread. Run it once for each model: a process keeps what
it has loaded.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

from shared_core.models.embedders import BUNDLED, resolve_embedder

QUERIES, PASSAGES = 100, 100


async def measure(name: str) -> dict[str, Any]:
    """Return the figures of a model that this process has not loaded."""
    embedder = resolve_embedder(name)
    load = await _seconds(lambda: embedder.embed_query("the first one loads the model"))
    queries = [
        await _seconds(lambda text=text: embedder.embed_query(text))  # type: ignore[misc]
        for text in (f"Where did I leave key number {n}?" for n in range(QUERIES))
    ]
    passages = [
        f"I left key number {n} at the shop around the corner, bought some bread there and a paper,"
        " and went home." for n in range(PASSAGES)
    ]  # fmt: skip
    together = await _seconds(lambda: embedder.embed_passages(passages))
    return {
        "embedder": name,
        "load_s": round(load, 2),
        "query_p50_ms": round(statistics.median(queries) * 1e3, 2),
        "passages_100_s": round(together, 3),
        "process_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "load_average": round(os.getloadavg()[0], 1),
    }


async def _seconds(call: Callable[[], Awaitable[object]]) -> float:
    """Return the processor time of a call, in seconds."""
    begun = time.process_time()
    await call()
    return time.process_time() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure a bundled embedding model.")
    parser.add_argument("--embedder", choices=sorted(BUNDLED), default="e5")
    print(json.dumps(asyncio.run(measure(parser.parse_args().embedder))))


if __name__ == "__main__":
    main()
