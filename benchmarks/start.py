"""Measures how long `hippocampus` takes to start and end, each call in a new process.

python -m benchmarks.start [--runs 20]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time

CALLS = (("--help",), ("--version",), ("recall", "--help"), ("no-such-command",))


def seconds(*arguments: str) -> float:
    """Run one process; return its seconds from start to end."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "shared_core.cli.main", *arguments], capture_output=True)
    return time.perf_counter() - began


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=20)
    runs = options.parse_args().runs
    for call in CALLS:
        seconds(*call)  # the first one compiles
    taken: dict[str, list[float]] = {" ".join(call): [] for call in CALLS}
    for _ in range(runs):
        for call in CALLS:
            taken[" ".join(call)].append(seconds(*call))
    figures = {
        line: {"median_s": round(statistics.median(times), 3), "max_s": round(max(times), 3)}
        for line, times in taken.items()
    }
    print(json.dumps({"runs": runs, "start": figures}, indent=2))


if __name__ == "__main__":
    main()
