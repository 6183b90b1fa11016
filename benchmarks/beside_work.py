"""What a recall waits for while the worker of the same process embeds turns of somebody else.

    python -m benchmarks.beside_work [--turns 1000] [--seconds 15] [--json]

A user with one memory asks again and again, first alone, then while so many turns of 600 characters
each of another user are embedded by the bundled model. Milliseconds; the worker is left unfinished
when the time is up.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from shared_core import Event, MemoryEngine, Scope, open_memory, run_sync

ASKS, BUSY = Scope("bench", "asks"), Scope("bench", "busy")
TEXT = " ".join(["The quick brown fox jumps over the lazy dog and tells a long story of it."] * 8)
PAUSE_S = 0.05


def recalls(memory: MemoryEngine, seconds: float) -> list[float]:
    """Return how long each recall took in a time, in milliseconds."""
    times: list[float] = []
    begun = time.perf_counter()
    while time.perf_counter() - begun < seconds:
        asked = time.perf_counter()
        run_sync(memory.recall(ASKS, "tea"))
        times.append(1000 * (time.perf_counter() - asked))
        time.sleep(PAUSE_S)
    return times


def measure(turns: int, seconds: float) -> dict[str, float]:
    """Return medians and maxima of both times, how many recalls there were, and the load."""
    now = datetime.now(UTC)
    events = [
        Event(event_id=f"e{n}", author="user", role="user", text=f"{n} {TEXT}", occurred_at=now)
        for n in range(turns)
    ]
    with tempfile.TemporaryDirectory() as folder:
        memory = open_memory(Path(folder))
        run_sync(memory.remember(ASKS, "Ann likes tea."))
        run_sync(memory.recall(ASKS, "tea"))
        alone = recalls(memory, 2)
        run_sync(memory.append_events(BUSY, "thread", events, later=True))
        busy = recalls(memory, seconds)
        run_sync(memory.close())
    return {
        "alone_p50_ms": round(statistics.median(alone), 1),
        "busy_p50_ms": round(statistics.median(busy), 1),
        "busy_max_ms": round(max(busy), 1),
        "busy_recalls": len(busy),
        "load": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Recall beside a worker that embeds.")
    parser.add_argument("--turns", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    figures = measure(arguments.turns, arguments.seconds)
    if arguments.json:
        print(json.dumps(figures))
        return
    for name, figure in figures.items():
        print(f"{name:16} {figure:8.1f}")


if __name__ == "__main__":
    main()
