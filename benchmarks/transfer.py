"""Measures the export of a user, its import into an empty memory, and the same import again.

    python -m benchmarks.transfer [--turns 20000] [--dimensions 64]

Turns of fifty characters, in threads of 250, with vectors that cost nothing. Two embedded
PostgreSQL servers, one after the other. The last line is one JSON object; times in seconds,
import_cpu_s is the processor time of the client.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from shared_core import Event, Scope, open_memory

ANA: Final = Scope("transfer", "ana")
IN_THREAD: Final = 250
BEGAN: Final = datetime(2026, 1, 1, tzinfo=UTC)

Embed = Callable[[Sequence[str]], list[list[float]]]


def embed_into(dimensions: int) -> Embed:
    """Return a function that gives each text a random vector, the same in each run."""
    drawn = random.Random(1)

    def embed(texts: Sequence[str]) -> list[list[float]]:
        return [[drawn.random() for _ in range(dimensions)] for _ in texts]

    return embed


def turns_of(thread: int) -> list[Event]:
    """Return the turns of one thread."""
    return [
        Event(
            event_id=f"{thread}-{place}",
            author="ana",
            role="user",
            text=f"I walked {place} miles near town {thread} with friend {place % 17}.",
            occurred_at=BEGAN + timedelta(days=thread, minutes=place),
        )
        for place in range(IN_THREAD)
    ]


async def measure(turns: int, embed: Embed) -> dict[str, float]:
    """Return the number of rows and the times."""
    with tempfile.TemporaryDirectory() as source, tempfile.TemporaryDirectory() as target:
        async with open_memory(Path(source), embedder=embed, worker=False) as memory:
            for thread in range(max(1, turns // IN_THREAD)):
                await memory.append_events(ANA, f"t{thread}", turns_of(thread))
            began = time.perf_counter()
            lines = [line async for line in memory.export(ANA, vectors=True)]
            exported_s = time.perf_counter() - began
        async with open_memory(Path(target), embedder=embed, worker=False) as memory:
            await memory.open()
            began, worked = time.perf_counter(), time.process_time()
            await memory.import_lines(lines)
            imported_s, cpu_s = time.perf_counter() - began, time.process_time() - worked
            began = time.perf_counter()
            await memory.import_lines(lines)
            again_s = time.perf_counter() - began
    times = {
        "export_s": exported_s, "import_s": imported_s, "import_cpu_s": cpu_s, "again_s": again_s,
    }  # fmt: skip
    return {"rows": len(lines) - 2} | {name: round(value, 2) for name, value in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--turns", type=int, default=20_000)
    parser.add_argument("--dimensions", type=int, default=64)
    options = parser.parse_args()
    print(json.dumps(asyncio.run(measure(options.turns, embed_into(options.dimensions)))))


if __name__ == "__main__":
    main()
