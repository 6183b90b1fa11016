"""Measures the cost of consolidating one thread, without a language model.

    python -m benchmarks.consolidation --events 50 --rounds 20

The rules consolidate a thread of --events turns, every third with a fact, with the bundled
embedder. Each round has a new user. Prints the median and the maximum of the whole, its median time
in the database, and the median of a second consolidation without new turns.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from shared_core import Event, MemoryEngine, Scope, open_memory
from shared_core.storage.postgres.connection.database import PostgresDatabase

TOPICS = ("tea", "rowing", "old maps", "spicy food", "jazz", "gardening", "cold soup", "chess")
START = datetime(2026, 3, 1, 9, tzinfo=UTC)


def turns(count: int, round_: int) -> list[Event]:
    """Return the turns of a chat; every third states a taste of the user."""
    texts = []
    for number in range(count):
        topic = TOPICS[number % len(TOPICS)]
        texts.append(
            f"I love {topic} number {number}." if number % 3 == 0
            else f"Here is what I can tell you about {topic}: it takes patience, {number}."
        )  # fmt: skip
    return [
        Event(
            event_id=f"e{round_}-{number}",
            author="agent" if number % 3 == 1 else "user",
            role="agent" if number % 3 == 1 else "user",
            text=text,
            occurred_at=START + timedelta(minutes=number),
        )
        for number, text in enumerate(texts)
    ]


async def timed(work: Callable[[], Awaitable[Any]]) -> float:
    """Do some work; return its milliseconds."""
    begun = time.perf_counter()
    await work()
    return 1000 * (time.perf_counter() - begun)


async def measure(memory: MemoryEngine, events: int, rounds: int) -> dict[str, float]:
    """Return the figures in milliseconds."""
    in_database = [0.0]
    attempts = PostgresDatabase.attempts

    async def counted(self: PostgresDatabase, *arguments: Any, **options: Any) -> Any:
        begun = time.perf_counter()
        try:
            return await attempts(self, *arguments, **options)
        finally:
            in_database[0] += 1000 * (time.perf_counter() - begun)

    whole, database, again = [], [], []
    PostgresDatabase.attempts = counted  # type: ignore[method-assign]
    try:
        for number in range(rounds + 2):
            scope = Scope("bench", f"user{number}")
            await memory.append_events(scope, "t", turns(events, number))
            in_database[0] = 0.0
            took = await timed(lambda scope=scope: memory.consolidate(scope, "t"))  # type: ignore[misc]
            if number > 1:  # the first two load the model and plan the statements
                whole.append(took)
                database.append(in_database[0])
                again.append(await timed(lambda scope=scope: memory.consolidate(scope, "t")))  # type: ignore[misc]
    finally:
        PostgresDatabase.attempts = attempts  # type: ignore[method-assign]
    return {
        "consolidate_p50_ms": statistics.median(whole),
        "consolidate_max_ms": max(whole),
        "of_it_database_p50_ms": statistics.median(database),
        "nothing_new_p50_ms": statistics.median(again),
    }


async def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        async with open_memory(Path(home), worker=False) as memory:
            figures = await measure(memory, options.events, options.rounds)
    if options.json:
        print(json.dumps(figures))
    else:
        for name, figure in figures.items():
            print(f"{name:24} {figure:8.1f}")


if __name__ == "__main__":
    asyncio.run(main())
