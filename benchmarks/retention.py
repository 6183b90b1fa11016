"""Compares forgetting with a bare DELETE: python -m benchmarks.retention --items 100000 --json

SQL loads a store of --items turns, each with its vector, source, event and counter. In each round
another hundredth fades, and engine.retention.forget_faded() is timed for each stage. Everything
commits. Times are medians over the rounds.

demote_s, archive_s, erase_s      the stages; erasing also removes the turn's event and leaves a
                                  tombstone
bare_delete_s                     DELETE FROM memories of as many other rows of the same users, with
                                  foreign keys, by a superuser without row security
cleanup_s                         equals demote_s: what the default policy does first
*_over_delete                     ratios to bare_delete_s
rows_written_outside              rows of memories, embeddings, memory_sources and memory_access
                                  that were changed or deleted in vain, in all rounds
record_access_ms                  median of counting one read of ten memories of one user, in one
                                  round trip
stats_s                           engine.retention.stats() of the whole store
slice_p99_ms, context_p50_ms      see slices_and_context
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Any

import numpy as np
import psycopg

from benchmarks import slices
from benchmarks.measure import say
from benchmarks.report import describe_machine, load_average
from benchmarks.server import Unusable, describe_server, fresh_database, vacuum
from benchmarks.turn_load import use_schema, write_said, write_turns
from shared_core import MemoryEngine, RetentionPolicy, Scope, open_memory, run_sync
from shared_core.core.domain import MemoryId
from shared_core.ports.retention import Accesses, NewAccesses

NOW = datetime(2026, 6, 1, tzinfo=UTC)
DAY = timedelta(days=1)
FATES = ("demoted", "archived", "erased")
POLICY = RetentionPolicy(erase_threshold=1, archive_after_days=5, erase_after_days=5)
TABLES = ("memories", "embeddings", "memory_sources", "memory_access")
ACCESSES, ACCESS_CALLS = 10, 300
TEXTS = 1000

LOAD = (
    # A turn in a hundred belongs to each round: 2 r + 1 fades in round r, 2 r + 2 is deleted.
    "CREATE UNLOGGED TABLE load AS"
    " SELECT '/bench/u' || n %% %(users)s || '/' COLLATE \"C\" AS tenant_id,"
    " uuidv7() AS memory_id, 't' AS thread_id, n::text AS event_id, n AS seq, 'user' AS role,"
    " part, n %% %(texts)s AS said_id, %(now)s::timestamptz - interval '15 days'"
    " * (CASE WHEN part BETWEEN 1 AND 2 * %(rounds)s AND part %% 2 = 1 THEN 1 ELSE 0 END)"
    " - interval '1 second' * (n %% 1000) AS at"
    " FROM generate_series(1, %(items)s) n"
    " CROSS JOIN LATERAL (SELECT (n / %(users)s) %% 100 AS part) p"
)


@dataclass(slots=True)
class Clock:
    """The clock of the engine, moved by the benchmark."""

    now: datetime = NOW

    def __call__(self) -> datetime:
        return self.now


@dataclass(slots=True)
class Rounds:
    """Results in seconds, one entry per round, and row counts."""

    bare_delete: list[float] = field(default_factory=list)
    stages: dict[str, list[float]] = field(default_factory=lambda: {fate: [] for fate in FATES})
    written_outside: int = 0
    forgotten: int = 0


def run(*, items: int, per_user: int, rounds: int, dims: int, dsn: str | None) -> dict[str, Any]:
    """Return the environment and the figures."""
    report: dict[str, Any] = {"items": items, "environment": describe_machine()}
    clock = Clock()
    with fresh_database(dsn) as database:
        began = time.perf_counter()
        with _opened(database, clock) as memory:
            values = {"items": items, "users": max(1, items // per_user), "rounds": rounds,
                      "texts": TEXTS, "now": NOW}  # fmt: skip
            run_sync(memory.retention.set_policy(POLICY))
            _load(database, values, dims)
            vacuum(database)
            report["load_s"] = time.perf_counter() - began
            report["environment"] |= describe_server(database)
            report["record_access_ms"] = run_sync(_record_access_ms(memory, database))
            began = time.perf_counter()
            run_sync(memory.retention.stats())
            report["stats_s"] = time.perf_counter() - began
            measured = Rounds()
            for number in range(rounds):
                say(f"round {number + 1} of {rounds}")
                _round(memory, database, clock, number, measured)
    report |= slices_and_context(items, per_user, dsn)
    stages = {fate: median(seconds) for fate, seconds in measured.stages.items()}
    report["forgotten"] = measured.forgotten
    report["demote_s"], report["archive_s"], report["erase_s"] = stages.values()
    report["cleanup_s"] = stages["demoted"]
    report["bare_delete_s"] = median(measured.bare_delete)
    bare = report["bare_delete_s"]
    report["cleanup_over_delete"] = report["cleanup_s"] / bare
    report["archive_over_delete"] = report["archive_s"] / bare
    report["erase_over_delete"] = report["erase_s"] / bare
    report["rows_written_outside"] = measured.written_outside
    report["environment"]["load_average_at_end"] = load_average()
    return report


@contextmanager
def _opened(dsn: str, clock: Clock) -> Iterator[MemoryEngine]:
    memory = open_memory(dsn, clock=clock, worker=False)
    run_sync(memory.open())
    try:
        yield memory
    finally:
        run_sync(memory.close())


def slices_and_context(items: int, per_user: int, dsn: str | None) -> dict[str, object]:
    """Return slice_p99_ms and context_p50_ms of one user in another store of the same size."""
    measured = asyncio.run(slices.measure(items, per_user, dsn))
    return {name: measured[name] for name in ("slice_p99_ms", "context_p50_ms")}


def _load(dsn: str, values: dict[str, Any], dims: int) -> None:
    say("loading")
    texts = [
        f"Turn {n} says that the spicy noodle place near the river has a quiet table on day {n}"
        for n in range(TEXTS)
    ]
    vectors = np.random.default_rng(7).random((TEXTS, dims)) - 0.5
    with psycopg.connect(dsn, autocommit=True) as connection:
        use_schema(connection)
        connection.execute("INSERT INTO embedding_models VALUES ('bench', %s, true, now())", [dims])
        write_said(connection, texts, vectors)
        connection.execute(LOAD, values)
        write_turns(connection, "bench")


async def _record_access_ms(memory: MemoryEngine, dsn: str) -> float:
    with psycopg.connect(dsn) as connection:
        rows = connection.execute(
            "SELECT memory_id FROM hippocampus.load WHERE tenant_id = '/bench/u0/' AND part > 50"
            " LIMIT 300"
        ).fetchall()
    scope = Scope("bench", "u0")
    ids = [MemoryId(row[0]) for row in rows]
    seconds = []
    for call in range(ACCESS_CALLS):
        chosen = [ids[(call * ACCESSES + number) % len(ids)] for number in range(ACCESSES)]
        batch = [NewAccesses(scope, one, Accesses(1, NOW)) for one in dict.fromkeys(chosen)]
        began = time.perf_counter()
        await memory._storage.accesses.add_accesses(batch)
        seconds.append(time.perf_counter() - began)
    return 1000 * median(seconds)


def _round(memory: MemoryEngine, dsn: str, clock: Clock, number: int, measured: Rounds) -> None:
    """Forget a hundredth stage by stage, and delete another; the place of the DELETE rotates."""
    fades, deleted = 2 * number + 1, 2 * number + 2
    with psycopg.connect(dsn, autocommit=True) as connection:
        use_schema(connection)
        # Only this round's part may fade; the parts of later rounds wait.
        connection.execute(
            "UPDATE memory_access a SET forget_at = %s FROM load l WHERE l.part = ANY(%s)"
            " AND a.tenant_id = l.tenant_id AND a.memory_id = l.memory_id",
            [NOW + 3650 * DAY, [part for part in range(1, 100, 2) if part > fades]],
        )
        connection.execute(
            "UPDATE memory_access a SET forget_at = %s FROM load l WHERE l.part = %s"
            " AND a.tenant_id = l.tenant_id AND a.memory_id = l.memory_id",
            [NOW, fades],
        )
        connection.execute("VACUUM (ANALYZE) memory_access")
        for position, fate in enumerate(FATES):
            if position == number % len(FATES):
                measured.bare_delete.append(_bare_delete(connection, deleted))
            clock.now += 6 * DAY
            since = _transaction(connection)
            held, _ = _outside(connection, fades, since)
            began = time.perf_counter()
            report = run_sync(memory.retention.forget_faded())
            measured.stages[fate].append(time.perf_counter() - began)
            left, newer = _outside(connection, fades, since)
            measured.written_outside += held - left + newer
            measured.forgotten = report.of(fate)  # type: ignore[arg-type] # one of FATES
    clock.now = NOW


def _bare_delete(connection: psycopg.Connection[Any], part: int) -> float:
    connection.execute("DROP TABLE IF EXISTS chosen")
    connection.execute(
        "CREATE TEMP TABLE chosen AS SELECT tenant_id, memory_id FROM load WHERE part = %s", [part]
    )
    connection.execute("ANALYZE chosen")
    began = time.perf_counter()
    connection.execute(
        "DELETE FROM memories m USING chosen c"
        " WHERE m.tenant_id = c.tenant_id AND m.memory_id = c.memory_id"
    )
    return time.perf_counter() - began


def _transaction(connection: psycopg.Connection[Any]) -> int:
    row = connection.execute("SELECT pg_current_xact_id()::text::bigint").fetchone()
    assert row
    return int(row[0])


def _outside(connection: psycopg.Connection[Any], part: int, since: int) -> tuple[int, int]:
    """Return the number of rows of other parts, and of those newer than a transaction."""
    held = newer = 0
    for table in TABLES:
        row = connection.execute(
            f"SELECT count(*), count(*) FILTER (WHERE t.xmin::text::bigint > %s) FROM {table} t"  # noqa: S608
            " JOIN load USING (tenant_id, memory_id) WHERE part <> %s",
            [since, part],
        ).fetchone()
        assert row
        held, newer = held + row[0], newer + row[1]
    return held, newer


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark; with --json the last line printed is the report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.retention", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--items", type=int, default=100_000, metavar="N")
    parser.add_argument("--per-user", type=int, default=1_000, metavar="N")
    parser.add_argument("--rounds", type=int, default=3, metavar="N")
    parser.add_argument("--dims", type=int, default=384, metavar="N")
    parser.add_argument("--dsn", help="measure on this server, as a superuser, in a new database")
    parser.add_argument("--json", action="store_true", help="print one JSON object, on one line")
    options = vars(parser.parse_args(arguments))
    as_json, per_user, rounds = options.pop("json"), options["per_user"], options["rounds"]
    if not 100 <= per_user <= options["items"]:
        parser.error(
            "--per-user must be between 100 and --items (each round needs memories of each user),"
            f" got {per_user}"
        )
    if not 1 <= rounds <= 20:
        parser.error(f"--rounds must be between 1 and 20, got {rounds}")
    try:
        report = run(**options)
    except Unusable as error:
        parser.error(str(error))
    if as_json:
        print(json.dumps(report))
    else:
        for name, value in report.items():
            print(f"{name}: {value}")


if __name__ == "__main__":
    main()
