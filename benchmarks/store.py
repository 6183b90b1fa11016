"""Measures the LangGraph store: python -m benchmarks.store --items 20000 --per-user 100 --json

Three contenders run on the same vectors and the same PostgreSQL:

ours            PgHippocampusStore with row security. Figures without a prefix and async_* are of
                its async methods, sync_* of its sync ones. function_search_* is async search with a
                sync function as embedder, which runs in a thread.
postgres_store  langgraph's PostgresStore, set up as in its documentation, sync.
sql             hand-written prepared statements on the tables of our store, without row security.

All look vectors up in one dictionary, so no model is measured; the lookup and the conversion for
the driver are. Searches return 10 items of one user, global searches 10 of the whole store. qps:
searches per second by 1, 4 and 16 clients (threads; tasks for async_). recall_at_10: compared with
brute force over the float32 vectors. put_batched_per_s: median over all batches of 500 while
loading. All other figures are medians over the rounds, in which the contenders alternate; "ranges"
holds the lowest and the highest. Ratios are taken round by round.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass

from benchmarks.contenders import open_contenders
from benchmarks.dataset import LIMIT, Dataset, make_dataset
from benchmarks.measure import Measurement, say
from benchmarks.report import Report, describe_machine, load_average, make_report, print_tables
from benchmarks.server import Unusable, describe_server, fresh_database, vacuum


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The arguments of a run."""

    items: int
    per_user: int
    dims: int
    queries: int
    rounds: int
    seed: int
    dsn: str | None


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark; with --json the last line printed is the report."""
    parser = _parser()
    values = vars(parser.parse_args(arguments))
    as_json = values.pop("json")
    options = Options(**values)
    if options.per_user > options.items:
        parser.error(f"--per-user must be at most --items {options.items}, got {options.per_user}")
    try:
        report = run(options)
    except Unusable as error:
        parser.error(str(error))
    if as_json:
        print(json.dumps(report))
    else:
        print_tables(report)


def run(options: Options) -> Report:
    """Make the data set, measure in a new database, and drop it; return the report."""
    environment = describe_machine()
    dataset = _dataset(options)
    with fresh_database(options.dsn) as dsn, ExitStack() as stack:
        contenders = open_contenders(dsn, dataset, stack)
        environment |= describe_server(dsn)
        measurement = Measurement(contenders, dataset, options.rounds)
        measurement.load()
        say("vacuuming")
        vacuum(dsn)
        measurement.recall()
        measurement.warm_up()
        measurement.read()
        measurement.write()
    environment["load_average_at_end"] = load_average()
    environment["arguments"] = asdict(options) | {"dsn": None if options.dsn is None else "given"}
    return make_report(measurement.figures, environment)


def _dataset(options: Options) -> Dataset:
    say("making the data set")
    return make_dataset(
        items=options.items,
        per_user=options.per_user,
        newcomers=options.rounds * max(1, options.queries // 4),
        questions=options.queries,
        dims=options.dims,
        seed=options.seed,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.store",
        description="Measures the LangGraph store next to PostgresStore and bare SQL.",
    )
    for name, default, least, what in (
        ("items", 20_000, LIMIT, "items to store"),
        ("per-user", 100, LIMIT, "items of each user"),
        ("dims", 384, 2, "dimensions of the vectors, at most 2000"),
        ("queries", 200, 1, "searches of each round"),
        ("rounds", 5, 1, "rounds, all contenders in each"),
        ("seed", 7, 0, "of everything random"),
    ):
        most = 2000 if name == "dims" else 10**9
        parser.add_argument(
            f"--{name}",
            type=_Number(least, most),
            default=default,
            metavar="N",
            help=f"{what} (default {default:,})",
        )
    parser.add_argument("--dsn", help="measure on this server, as a superuser, in a new database")
    parser.add_argument("--json", action="store_true", help="print one JSON object, on one line")
    return parser


class _Number:
    """Parses a whole number within limits."""

    def __init__(self, least: int, most: int) -> None:
        self._least = least
        self._most = most

    def __call__(self, text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"must be a whole number, got {text!r}") from None
        if not self._least <= number <= self._most:
            limits = f"between {self._least:,} and {self._most:,}"
            raise argparse.ArgumentTypeError(f"must be {limits}, got {number:,}")
        return number


if __name__ == "__main__":
    main()
