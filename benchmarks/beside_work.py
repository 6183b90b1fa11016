"""Measures recall while the worker of the same process embeds turns of another user.

    python -m benchmarks.beside_work [--turns 1000] [--seconds 15] [--json]

A user with one memory recalls repeatedly: first alone, then while the bundled model embeds --turns
turns of 600 characters of another user. Times are in milliseconds. After --seconds the worker is
stopped with its work unfinished.
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

READER, WRITER = Scope("bench", "asks"), Scope("bench", "busy")
TEXT = " ".join(["The quick brown fox jumps over the lazy dog and tells a long story of it."] * 8)
PAUSE_S = 0.05


def recalls(memory: MemoryEngine, seconds: float) -> list[float]:
    """Recall repeatedly for some seconds; return the milliseconds of each recall."""
    times: list[float] = []
    begun = time.perf_counter()
    while time.perf_counter() - begun < seconds:
        started = time.perf_counter()
        run_sync(memory.recall(READER, "tea"))
        times.append(1000 * (time.perf_counter() - started))
        time.sleep(PAUSE_S)
    return times


def measure(turns: int, seconds: float) -> dict[str, float]:
    """Return both medians, the busy maximum, the number of busy recalls, and the load."""
    now = datetime.now(UTC)
    events = [
        Event(event_id=f"e{n}", author="user", role="user", text=f"{n} {TEXT}", occurred_at=now)
        for n in range(turns)
    ]
    with tempfile.TemporaryDirectory() as folder:
        memory = open_memory(Path(folder))
        run_sync(memory.remember(READER, "Ann likes tea."))
        run_sync(memory.recall(READER, "tea"))
        alone = recalls(memory, min(2.0, seconds))
        run_sync(memory.append_events(WRITER, "thread", events, later=True))
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
