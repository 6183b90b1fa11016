"""Measures how calls grow with the database, which is loaded further from size to size.

    python -m benchmarks.growth [--sizes 100000 1000000] [--large 100000] [--dimensions 64]
                                [--folder FOLDER] [--json]

Memories are turns in conversations of 100, with random vectors and 12 words each. Users have
--per-user of them. At the largest size one more user has --large. Bulk statements write one turn
of each user after the other, so that no two rows of a user lie on a page of a large table: the
worst case for reading a user. Measured are up to --users users of the last load.

For each size the server starts again with its usual settings, and its files leave the cache of the
operating system. Then a new process takes these times, without a model:

nobody   engine.recall of a user without memories: how busy the machine was
disk     engine.recall, the first question of each user: the statement, nothing cached
cold     the first question of the same users to a memory with indexes: the statement, rows cached
warm     engine.recall by the index in the process
search   engine.search by the same index
put      one item of a store
append   engine.append_events with one turn

rss_mb is the memory of that process: before any user asked, after all users have asked, and at
the end. index_mb is the part that the indexes of the users count as theirs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import psutil  # type: ignore[import-untyped]
import psycopg

from benchmarks.measure import say
from benchmarks.recall import (
    APP,
    CONVERSATION,
    ROOM_MB,
    HalfRandomVectors,
    first_questions_ms,
    indexes_of,
    opened,
    queries,
    sentence,
    summed,
    time_ms,
)
from benchmarks.report import describe_machine, load_average
from benchmarks.server import describe_server, vacuum
from benchmarks.slices import NEWEST
from benchmarks.tenant_load import copy_rows
from benchmarks.turn_load import use_schema, write_said, write_turns
from shared_core import Event, MemoryEngine, Scope, open_memory
from shared_core.core.namespaces import scope_path
from shared_core.ports.items import WriteItem
from shared_core.storage.postgres.connection.embedded import EmbeddedPostgres

LARGE = "large"
CLOCKS = ("nobody", "disk", "cold", "warm", "search", "put", "append")
CHUNK = 1_000_000
"""Turns of one round of bulk statements."""
TEXTS_OF_A_USER = 10
"""Texts for each memory of a user."""
WORDS_OF_A_TURN = 12
LOADING = {
    "shared_buffers": "2GB", "max_wal_size": "4GB", "checkpoint_timeout": "1h", "autovacuum": "off",
    "wal_level": "minimal", "max_wal_senders": "0", "fsync": "off", "full_page_writes": "off",
    "synchronous_commit": "off", "work_mem": "256MB",
}  # fmt: skip
"""Settings of the server while it is loaded."""

SLOTS = {
    "slot": "int8", "tenant_id": "text", "part": "int8", "parts": "int8", "first_text": "int8",
}  # fmt: skip
"""A slot has --per-user turns: those of a user, or a share of the large user's."""

LOAD = """
CREATE UNLOGGED TABLE load AS
SELECT tenant_id, uuidv7() AS memory_id, 'c' || k / %(conversation)s::int8 AS thread_id,
       'e' || k AS event_id, k %% %(conversation)s + 1 AS seq,
       CASE WHEN k %% 2 = 0 THEN 'user' ELSE 'agent' END AS role,
       %(newest)s::timestamptz - interval '1 day' * ((parts * %(per_user)s - 1 - k)
                                                     / %(conversation)s::int8)
           + interval '1 minute' * (k %% %(conversation)s) AS at,
       ((first_text + k) %% %(texts)s)::int AS said_id
FROM (SELECT s.*, n / %(slots)s * s.parts + s.part AS k
      FROM generate_series(%(first)s::int8, %(last)s::int8) n
      JOIN slots s ON s.slot = n %% %(slots)s
      ORDER BY n OFFSET 0) turns
"""


@dataclass(frozen=True, slots=True)
class Choice:
    """The folder of the database, and what the caller chose."""

    home: Path
    per_user: int
    users: int
    calls: int
    dimensions: int


Figures: TypeAlias = dict[str, Any]
Slot: TypeAlias = tuple[int, str, int, int, int]


def run(*, sizes: Sequence[int], large: int, folder: Path | None, **given: int) -> Figures:
    """Return the environment, and the figures of each size and of the large user."""
    report: Figures = {"environment": describe_machine(), "sizes": {}}
    with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as home:
        chosen = Choice(Path(home), **given)
        asyncio.run(_declare(chosen))
        with _server(chosen.home, {}) as dsn:
            report["environment"] |= describe_server(dsn)
        for loaded, size in pairwise([0, *sizes]):
            large_slots = large // chosen.per_user if size == sizes[-1] else 0
            slots = slots_of(loaded, (size - loaded) // chosen.per_user, large_slots)
            report["sizes"][size] = _grown(chosen, slots)
            say(json.dumps({size: report["sizes"][size]}))  # a failure later loses nothing
        if large:
            few = replace(chosen, calls=min(chosen.calls, 100))
            report["large"] = _in_new_process(few, [LARGE])
    report["environment"]["load_average_at_end"] = load_average()
    return report


def _grown(chosen: Choice, slots: Sequence[Slot]) -> Figures:
    """Load the turns of some slots, and return the figures of users among them."""
    began = time.perf_counter()
    gigabytes = _load(chosen, slots)
    load_s = round(time.perf_counter() - began)
    names = [name for _, name, *_ in slots if name != LARGE]
    asking = names[:: max(1, len(names) // chosen.users)][: chosen.users]
    return {"load_s": load_s, "gigabytes": gigabytes, **_in_new_process(chosen, asking)}


def slots_of(first: int, count: int, large: int) -> list[Slot]:
    """Return the slots of a load; the large user's stand between those of others."""
    slots: list[Slot] = []
    for slot in range(count):
        part = slot * large // count
        if part != (slot + 1) * large // count:
            slots.append((slot, LARGE, part, large, 0))
        else:
            slots.append((slot, f"u{first}-{slot}", 0, 1, 7_919 * slot))
    return slots


async def _declare(chosen: Choice) -> None:
    """Create the tables, and register the model in them."""
    embedder = HalfRandomVectors(chosen.dimensions)
    async with open_memory(chosen.home, embedder=embedder, worker=False) as memory:
        await memory.recall(Scope(APP, "nobody"), "w1")


def _load(chosen: Choice, slots: Sequence[Slot]) -> float:
    """Write --per-user turns of each slot; return the gigabytes of the database."""
    with _server(chosen.home, LOADING) as dsn:
        with psycopg.connect(dsn, autocommit=True) as connection:
            use_schema(connection)
            texts = max(chosen.per_user * max(parts, TEXTS_OF_A_USER) for *_, parts, _ in slots)
            say(f"making {texts:,} texts")
            noise = np.random.default_rng(len(slots)).normal(size=(texts, chosen.dimensions))
            said = [sentence(f"text {number}", WORDS_OF_A_TURN) for number in range(texts)]
            write_said(connection, said, noise)
            _write_slots(connection, slots, chosen.per_user, texts)
            connection.execute("DROP TABLE said")
        say("vacuuming")
        vacuum(dsn)
        with psycopg.connect(dsn) as connection:
            row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
    assert row
    return round(float(row[0]) / 1e9, 2)


def _write_slots(
    connection: psycopg.Connection[Any], slots: Sequence[Slot], per_user: int, texts: int
) -> None:
    columns = ", ".join(f"{name} {kind}" for name, kind in SLOTS.items())
    connection.execute(f"CREATE TEMP TABLE slots ({columns})".encode())
    rows = ((slot, scope_path(Scope(APP, name)), *rest) for slot, name, *rest in slots)
    copy_rows(connection, "slots", SLOTS, rows)
    connection.execute("ANALYZE slots")
    values = {
        "slots": len(slots), "per_user": per_user, "texts": texts, "newest": NEWEST,
        "conversation": CONVERSATION,
    }  # fmt: skip
    whole = len(slots) * per_user
    for first in range(0, whole, CHUNK):
        last = min(first + CHUNK, whole) - 1
        connection.execute(LOAD.encode(), {**values, "first": first, "last": last})
        write_turns(connection, HalfRandomVectors.model)
        connection.execute("DROP TABLE load")
        say(f"loaded {last + 1:,} of {whole:,} turns")


@contextmanager
def _server(home: Path, settings: Mapping[str, str]) -> Iterator[str]:
    """Run the server with other settings, which are undone afterwards; yield its DSN."""
    embedded = EmbeddedPostgres(home)
    _alter(embedded.acquire(), [f"SET {name} = '{value}'" for name, value in settings.items()])
    embedded.release()  # the last one to use the server stops it
    try:
        dsn = embedded.acquire()
        yield dsn
        _alter(dsn, ["RESET ALL"])
    finally:
        embedded.release()


def _alter(dsn: str, changes: Sequence[str]) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        for change in changes:
            connection.execute(f"ALTER SYSTEM {change}".encode())


def _in_new_process(chosen: Choice, users: Sequence[str]) -> Figures:
    """Measure users in a process of its own, whose memory holds nothing else."""
    say(f"measuring {len(users)} users, the first one {users[0]}")
    _leave_cache(chosen.home)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measured, chosen, users).result()


def _leave_cache(home: Path) -> None:
    """Write the files of a stopped server to disk, and drop them from the system's cache."""
    for file in home.rglob("*"):
        if file.is_file():
            descriptor = os.open(file, os.O_RDONLY)
            os.fsync(descriptor)
            if hasattr(os, "posix_fadvise"):  # macOS has none: there, "disk" reads cached files
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def measured(chosen: Choice, users: Sequence[str]) -> Figures:
    """Return the figures of some users."""
    return asyncio.run(_measured(chosen, users))


async def _measured(chosen: Choice, users: Sequence[str]) -> Figures:
    embedder, process = HalfRandomVectors(chosen.dimensions), psutil.Process()
    home = chosen.home
    async with opened(home, embedder, 0) as without, opened(home, embedder, ROOM_MB) as memory:
        await without.recall(Scope(APP, "nobody"), "w1")
        rss = [process.memory_info().rss]
        disk, cold = await first_questions_ms(without, memory, users)
        rss.append(process.memory_info().rss)
        times = {"disk": disk, "cold": cold}
        for name, call in CALLED.items():
            scopes = [Scope(APP, users[number % len(users)]) for number in range(chosen.calls)]
            asked = zip(scopes, queries(chosen.calls), strict=True)
            times[name] = [await time_ms(call(memory, scope, query)) for scope, query in asked]
        rss.append(process.memory_info().rss)
        return {
            "users": len(users),
            **{name: summed(taken, 99) for name, taken in times.items()},
            "index_mb": round(indexes_of(memory).nbytes / 1e6, 2),
            "rss_mb": [round(one / 1e6) for one in rss],
            "load_average": load_average(),
        }


def _put(memory: MemoryEngine, scope: Scope, query: str) -> Awaitable[object]:
    address = ((scope.app, scope.user, "notes"), query)
    return memory.run_item_ops([WriteItem(address=address, value={"text": query})])


def _append(memory: MemoryEngine, scope: Scope, query: str) -> Awaitable[object]:
    now = datetime.now(UTC)
    turn = Event(event_id=query, author="user", role="user", text=query, occurred_at=now)
    return memory.append_events(scope, "now", [turn])


CALLED: dict[str, Callable[[MemoryEngine, Scope, str], Awaitable[object]]] = {
    "nobody": lambda memory, scope, query: memory.recall(Scope(APP, "nobody"), query),
    "warm": lambda memory, scope, query: memory.recall(scope, query),
    "search": lambda memory, scope, query: memory.search(scope, query),
    "put": _put,
    "append": _append,
}


def print_table(report: Figures) -> None:
    """Print the report as docs/benchmarks.md shows it."""
    print(f"environment: {json.dumps(report['environment'])}")
    rows = {f"{size:,}": figures for size, figures in report["sizes"].items()}
    if "large" in report:
        rows["the large user"] = report["large"]
    print(f"| memories | {' | '.join(CLOCKS)} | RSS (MB) | GB |")
    print("|---|" + "---|" * (len(CLOCKS) + 2))
    for name, figures in rows.items():
        cells = [f"{figures[one]['p50_ms']} / {figures[one]['p99_ms']}" for one in CLOCKS]
        cells += [", ".join(map(str, figures["rss_mb"])), str(figures.get("gigabytes", ""))]
        print(f"| {name} | {' | '.join(cells)} |")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark; with --json the last line printed is the report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--sizes", type=int, nargs="+", default=[100_000, 1_000_000], metavar="N")
    parser.add_argument("--per-user", type=int, default=1_000, metavar="N")
    parser.add_argument("--large", type=int, default=0, metavar="N")
    parser.add_argument("--users", type=int, default=100, metavar="N")
    parser.add_argument("--calls", type=int, default=500, metavar="N")
    parser.add_argument("--dimensions", type=int, default=64, metavar="N")
    parser.add_argument("--folder", type=Path, help="where the database is made and deleted again")
    parser.add_argument("--json", action="store_true", help="print one JSON object, on one line")
    options = vars(parser.parse_args(arguments))
    as_json, sizes, per_user = options.pop("json"), options["sizes"], options["per_user"]
    steps = [later - earlier for earlier, later in pairwise([0, *sizes])]
    if min(options["users"], options["calls"], per_user, options["dimensions"]) < 1:
        parser.error("--users, --calls, --per-user and --dimensions must be at least 1")
    if any(step < per_user or step % per_user for step in steps):
        parser.error(f"--sizes must rise by multiples of --per-user {per_user:,}, got {sizes}")
    if options["large"] % per_user or not 0 <= options["large"] < steps[-1]:
        parser.error(
            f"--large must be a multiple of --per-user {per_user:,} and below the last rise of"
            f" --sizes, {steps[-1]:,}, got {options['large']}"
        )
    report = run(**options)
    if as_json:
        print(json.dumps(report))
    else:
        print_table(report)


if __name__ == "__main__":
    main()
