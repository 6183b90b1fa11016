"""How long `hippocampus` takes to answer when nothing is to be done: each a process of its own.

python -m benchmarks.start [--runs 20]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time

ASKED = (("--help",), ("--version",), ("recall", "--help"), ("no-such-command",))


def seconds(*arguments: str) -> float:
    """Return how long one process took from start to end."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "shared_core.cli.main", *arguments], capture_output=True)
    return time.perf_counter() - began


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=20)
    runs = options.parse_args().runs
    for asked in ASKED:
        seconds(*asked)  # the first one compiles
    taken: dict[str, list[float]] = {" ".join(asked): [] for asked in ASKED}
    for _ in range(runs):
        for asked in ASKED:
            taken[" ".join(asked)].append(seconds(*asked))
    figures = {
        asked: {"median_s": round(statistics.median(times), 3), "max_s": round(max(times), 3)}
        for asked, times in taken.items()
    }
    print(json.dumps({"runs": runs, "start": figures}, indent=2))


if __name__ == "__main__":
    main()
