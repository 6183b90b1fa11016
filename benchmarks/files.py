"""Measures files of deep agents: our store that embeds later, beside langgraph's PostgresStore.

python -m benchmarks.files [--files 200] [--characters 1000000]

First a user writes the large file while a worker runs. The first line has the seconds from that
write until recall finds a sentence in its middle, by its words and by its meaning, and the seconds
of a processor that this process took until then: beside other programs they tell more. Then the
stores take turns, call by call, in one database, by the calls of deepagents' StoreBackend: a file
is read before it is written, and listed 100 at a time. No worker runs meanwhile.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from langgraph.store.base import BaseStore
from langgraph.store.postgres import PostgresStore

from benchmarks.server import fresh_database
from langgraph_store import PgHippocampusStore, memories_namespace
from shared_core import Scope, open_memory, run_sync

ANA = memories_namespace("bench", "ana")
BEN = memories_namespace("bench", "ben")
KEY = "The spare key of the boathouse hangs behind the blue kettle."
QUESTION = "Where is the spare key of the boathouse?"
LIMIT_S = 600
NEAR = 0.3
"""Similarity that only the passage with KEY reaches: it has 0.37, those of the log 0.21."""

Call: TypeAlias = Callable[[BaseStore], None]


def text(seed: int, characters: int) -> str:
    """Return lines of a log, of this length."""
    lines: list[str] = []
    size = 0
    while size < characters:
        n = seed * 7919 + len(lines)
        line = f"Day {n}: ferry {n % 17} left pier {n % 5} at {n % 24}:00 with {n % 211} on board."
        lines.append(line)
        size += len(line) + 1
    return "\n".join(lines)[:characters]


def write(store: BaseStore, path: str, content: str) -> None:
    """Write a file as StoreBackend does."""
    store.get(ANA, path)
    store.put(ANA, path, {"content": content, "encoding": "utf-8"})


def read(store: BaseStore, path: str) -> None:
    """Read a file as StoreBackend does."""
    store.get(ANA, path)


def listed(store: BaseStore) -> None:
    """List all files as StoreBackend does."""
    offset = 0
    while len(store.search(ANA, limit=100, offset=offset)) == 100:
        offset += 100


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--files", type=int, default=200)
    options.add_argument("--characters", type=int, default=1_000_000)
    chosen = options.parse_args()
    half = text(0, chosen.characters // 2)
    large = f"{half}\n\n{KEY}\n\n{half}"
    small = [text(n, 3_000) for n in range(chosen.files)]
    calls: dict[str, list[Call]] = {
        "write": [partial(write, path=f"/{n}.md", content=one) for n, one in enumerate(small)],
        "write the large file": [partial(write, path=f"/l{n}.md", content=large) for n in range(5)],
        "read": [partial(read, path=f"/{n}.md") for n in range(len(small))],
        "list": [listed] * 5,
    }
    with fresh_database(None) as dsn, PostgresStore.from_conn_string(dsn) as peer:
        found(dsn, large)
        peer.setup()
        engine = open_memory(dsn, worker=False)
        with PgHippocampusStore(engine=engine, embed_later=True) as ours:
            for store in (ours, peer):
                write(store, "/warm.md", KEY[:9])
            for name, some in calls.items():
                print(json.dumps({"call": name, **compared(some, ours, peer)}))
            run_sync(engine.close())


def compared(calls: Sequence[Call], ours: BaseStore, peer: BaseStore) -> dict[str, float]:
    """Run calls on both stores in turns; return the medians in ms, and their ratio."""
    taken: dict[str, list[float]] = defaultdict(list)
    for n, call in enumerate(calls):
        pair = [("ours_ms", ours), ("postgres_store_ms", peer)]
        for name, store in pair if n % 2 else reversed(pair):
            began = time.perf_counter()
            call(store)
            taken[name].append((time.perf_counter() - began) * 1000)
    medians = {name: round(statistics.median(times), 2) for name, times in taken.items()}
    return medians | {"ratio": round(medians["ours_ms"] / medians["postgres_store_ms"], 2)}


def found(dsn: str, large: str) -> None:
    """Print the seconds until a worker has made the sentence found, by words and by meaning."""
    engine = open_memory(dsn)
    with PgHippocampusStore(engine=engine, embed_later=True) as store:
        run_sync(engine.recall(Scope("bench", "ben"), QUESTION))  # loads the model
        began, worked, seconds = time.perf_counter(), time.process_time(), dict[str, float]()
        for n in range(10):
            store.put(BEN, f"/{n}.md", {"content": text(n, 3_000)})
        store.put(BEN, "/large.md", {"content": large})
        while len(seconds) < 2 and time.perf_counter() - began < LIMIT_S:
            for hit in run_sync(engine.recall(Scope("bench", "ben"), QUESTION))[:1]:
                passed = round(time.perf_counter() - began, 1)
                if hit.memory.key == "/large.md" and hit.parts.get("bm25", 0.0) > 0:
                    seconds.setdefault("words", passed)
                if hit.memory.key == "/large.md" and hit.parts.get("similarity", 0.0) > NEAR:
                    seconds.setdefault("meaning", passed)
            time.sleep(0.5)
        worked_s = round(time.process_time() - worked, 1)
        print(json.dumps({"found_after_s": seconds, "processor_s": worked_s}), flush=True)
        run_sync(engine.close())


if __name__ == "__main__":
    main()
