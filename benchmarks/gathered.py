"""Measures many single operations that one event loop starts at once, as asyncio.gather does.

python -m benchmarks.gathered [--operations 60000] [--alone]

Both stores run puts, gets and searches by a filter, all different, in one database; --alone leaves
langgraph's PostgresStore out, which compares every search with every other one. A line for each
has seconds and the number of operations that failed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from langgraph.store.base import BaseStore
from langgraph.store.postgres.aio import AsyncPostgresStore

from benchmarks.server import fresh_database
from langgraph_store import PgHippocampusStore

HERE = ("bench", "ana")

Calls: TypeAlias = Mapping[str, Callable[[BaseStore, int], Awaitable[object]]]

CALLS: Calls = {
    "put": lambda store, n: store.aput(HERE, f"key {n}", {"number": n}, index=False),
    "get": lambda store, n: store.aget(HERE, f"key {n}"),
    "search": lambda store, n: store.asearch(("bench", "bob"), filter={"number": n}),
}


async def measure(name: str, store: BaseStore, operations: int) -> None:
    """Run each kind of operation, and print what it took."""
    for kind, call in CALLS.items():
        began = time.perf_counter()
        done = await asyncio.gather(
            *(call(store, n) for n in range(operations)), return_exceptions=True
        )
        taken_s = round(time.perf_counter() - began, 2)
        failed = sum(isinstance(one, BaseException) for one in done)
        print(json.dumps({"store": name, "calls": kind, "seconds": taken_s, "failed": failed}))


async def run(dsn: str, operations: int, *, alone: bool) -> None:
    """Measure our store, and the peer unless ours is alone."""
    async with PgHippocampusStore(dsn) as ours:
        await measure("ours", ours, operations)
    if not alone:
        async with AsyncPostgresStore.from_conn_string(dsn) as peer:
            await peer.setup()
            await measure("postgres_store", peer, operations)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--operations", type=int, default=60_000)
    options.add_argument("--alone", action="store_true")
    chosen = options.parse_args()
    with fresh_database(None) as dsn:
        asyncio.run(run(dsn, chosen.operations, alone=chosen.alone))


if __name__ == "__main__":
    main()
