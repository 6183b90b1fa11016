"""Measures search by tenant size: python -m benchmarks.tenants [--sizes ...] [--plot FILE.svg]

One database holds one tenant of each size. Our store and LangGraph's PostgresStore, with its
default index, hold the same vectors. Searches ask for 10 items of one tenant by the sync methods of
both, which alternate. Three series:

ours            PgHippocampusStore: exact for small tenants, an approximate index for large ones
exact           the same with HIPPOCAMPUS_ANN_THRESHOLD=off; the first ten questions only
postgres_store  PostgresStore(index=...), set up as in its documentation

Vectors are generated, not embedded: topics of Zipf-like sizes, each a cloud of few dimensions with
some noise in all (see benchmarks.tenant_data). They resemble embeddings of real texts more than
uniform noise, where all neighbours are equally far, but they are not real texts.
recall_at_10: share of the ten true nearest by float32 that was found, the mean over questions;
fewer than ten results count as missing. p50 and p99 are over all calls after one warm-up pass.
Both stores are loaded by COPY; each index is built afterwards by its own definition.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any, cast

import numpy as np
import psycopg
from langgraph.store.base import BaseStore
from langgraph.store.postgres import PostgresStore

from benchmarks.dataset import LIMIT, LookupEmbedder
from benchmarks.measure import say
from benchmarks.report import describe_machine, load_average
from benchmarks.server import Unusable, describe_server, fresh_database, vacuum
from benchmarks.tenant_data import Tenant, make_tenants
from benchmarks.tenant_load import build_reference, load_ours, load_reference, without_foreign_keys
from benchmarks.tenant_plot import draw
from langgraph_store import PgHippocampusStore
from shared_core import Scope, open_memory, run_sync

SIZES = (10, 100, 1_000, 10_000, 30_000, 100_000, 300_000)
TURN = 5
"""Consecutive calls of one series."""

FEW_QUESTIONS = 10
"""Number of questions of the exact series: a full read takes seconds and varies little."""


@dataclass(frozen=True, slots=True)
class Figures:
    """One series at one size; times in milliseconds."""

    recall_at_10: float
    least_found: int
    p50_ms: float
    p99_ms: float


def run(
    sizes: Sequence[int], *, dims: int, questions: int, rounds: int, seed: int, dsn: str | None
) -> dict[str, Any]:
    """Return the environment, the build time of each index, and the figures by series and size."""
    report: dict[str, Any] = {"environment": describe_machine()}
    say("making vectors")
    tenants = make_tenants(sizes, questions=questions, dims=dims, seed=seed)
    vectors = {text: row for tenant in tenants for text, row in tenant.queries()}
    with fresh_database(dsn) as database, ExitStack() as stack:
        embedder = LookupEmbedder(vectors)
        report["build_s"] = _fill(database, tenants, embedder, dims)
        stores = _open(stack, database, embedder, dims)
        report["environment"] |= describe_server(database)
        report["figures"] = {name: {} for name in stores}
        for tenant in tenants:
            say(f"searching the tenant with {tenant.size:,} items")
            for name, figures in _measure(stores, tenant, rounds).items():
                report["figures"][name][tenant.size] = asdict(figures)
        with psycopg.connect(database) as connection:
            report["index_bytes"] = _index_bytes(connection)
    report["environment"]["load_average_at_end"] = load_average()
    return report


def _fill(
    dsn: str, tenants: Sequence[Tenant], embedder: LookupEmbedder, dims: int
) -> dict[str, float]:
    index = {"dims": dims, "embed": _unused, "fields": ["text"]}
    with PostgresStore.from_conn_string(dsn, index=cast(Any, index)) as peer:
        peer.setup()
    run_sync(_declare(dsn, embedder))
    say("loading both by COPY")
    with psycopg.connect(dsn, autocommit=True) as connection:
        with without_foreign_keys(connection):
            definition = load_reference(connection, tenants)
            load_ours(connection, tenants, embedder.model)
        vacuum(dsn)
        say("building the index of postgres_store")
        took = {"postgres_store": _timed(lambda: build_reference(connection, definition))}
    took |= run_sync(_index(dsn, embedder))
    vacuum(dsn)
    return took


async def _declare(dsn: str, embedder: LookupEmbedder) -> None:
    """Create the tables of our store, and register the model in them."""
    async with open_memory(dsn, embedder=embedder, worker=False) as memory:
        question = next(iter(embedder.vectors))
        await memory.recall(Scope("bench", "nobody"), question)


async def _index(dsn: str, embedder: LookupEmbedder) -> dict[str, float]:
    """Build the indexes of large tenants; return the seconds of each."""
    took: dict[str, float] = {}
    async with open_memory(dsn, embedder=embedder, worker=False) as memory:
        began = time.perf_counter()
        await memory.indexes.plan()
        took["ours, finding large tenants"] = time.perf_counter() - began
        started = {}

        def begins(step: Any) -> None:
            say(f"building the index of {step.tenant.namespace[1]}")
            started[step.tenant.namespace] = time.perf_counter()

        def done(step: Any) -> None:
            seconds = time.perf_counter() - started[step.tenant.namespace]
            took[f"ours, {step.tenant.vectors:,} vectors"] = seconds

        await memory.indexes.refresh(begins=begins, done=done)
    return took


def _open(stack: ExitStack, dsn: str, embedder: LookupEmbedder, dims: int) -> dict[str, BaseStore]:
    index = cast(Any, {"dims": dims, "embed": embedder, "fields": ["text"]})
    ours = stack.enter_context(PgHippocampusStore(dsn, index=index))
    with _environment("HIPPOCAMPUS_ANN_THRESHOLD", "off"):
        exact = stack.enter_context(PgHippocampusStore(dsn, index=index))

    def embed(texts: Sequence[str]) -> list[list[float]]:
        return [embedder.vectors[text].tolist() for text in texts]

    peer = stack.enter_context(
        PostgresStore.from_conn_string(
            dsn, index=cast(Any, {"dims": dims, "embed": embed, "fields": ["text"]})
        )
    )
    return {"ours": ours, "exact": exact, "postgres_store": peer}


def _measure(stores: dict[str, BaseStore], tenant: Tenant, rounds: int) -> dict[str, Figures]:
    questions = {
        name: tenant.questions[: FEW_QUESTIONS if name == "exact" else None] for name in stores
    }
    found = {  # this pass warms up
        name: [_ask(store, tenant, question)[1] for question in questions[name]]
        for name, store in stores.items()
    }
    times: dict[str, list[float]] = {name: [] for name in stores}
    for _ in range(rounds):
        for first in range(0, len(tenant.questions), TURN):
            for name, store in stores.items():
                turn = questions[name][first : first + TURN]
                times[name] += [_ask(store, tenant, question)[0] for question in turn]
    truth = tenant.nearest(LIMIT)
    return {
        name: Figures(
            recall_at_10=round(
                fmean(len(keys & right) / LIMIT for keys, right in zip(one, truth, strict=False)), 4
            ),
            least_found=min(map(len, one)),
            p50_ms=round(median(times[name]), 2),
            p99_ms=round(float(np.percentile(times[name], 99)), 2),
        )
        for name, one in found.items()
    }


def _ask(store: BaseStore, tenant: Tenant, question: str) -> tuple[float, set[str]]:
    began = time.perf_counter()
    items = store.search(tenant.namespace, query=question, limit=LIMIT)
    return 1000 * (time.perf_counter() - began), {item.key for item in items}


def _timed(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _unused(texts: Sequence[str]) -> list[list[float]]:
    raise AssertionError("nothing is embedded while the tables are made")


def _index_bytes(connection: psycopg.Connection[Any]) -> dict[str, int]:
    rows = connection.execute(
        "SELECT relname, pg_relation_size(oid) FROM pg_class WHERE relam ="
        " (SELECT oid FROM pg_am WHERE amname = 'hnsw') ORDER BY 2"
    )
    return {name: size for name, size in rows.fetchall()}


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def print_table(report: dict[str, Any]) -> None:
    """Print the report as docs/benchmarks.md shows it."""
    for key in ("environment", "build_s", "index_bytes"):
        print(f"{key}: {json.dumps(report[key])}")
    print("\n| items | series | recall@10 | least found | p50 (ms) | p99 (ms) |")
    print("|---|---|---|---|---|---|")
    for size in next(iter(report["figures"].values())):
        for name, by_size in report["figures"].items():
            one = by_size[size]
            print(f"| {size:,} | {name} | {one['recall_at_10']:.3f} | {one['least_found']} |"
                  f" {one['p50_ms']:.1f} | {one['p99_ms']:.1f} |")  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark; with --json the last line printed is the report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tenants", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, metavar="N")
    parser.add_argument("--dims", type=int, default=384, metavar="N")
    parser.add_argument("--questions", type=int, default=100, metavar="N")
    parser.add_argument("--rounds", type=int, default=2, metavar="N")
    parser.add_argument("--seed", type=int, default=7, metavar="N")
    parser.add_argument("--dsn", help="measure on this server, as a superuser, in a new database")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw the figures")
    parser.add_argument("--json", action="store_true", help="print one JSON object, on one line")
    options = vars(parser.parse_args(arguments))
    as_json, plot = options.pop("json"), options.pop("plot")
    if (least := min(options["sizes"])) < LIMIT:
        parser.error(f"--sizes must be at least {LIMIT} (the limit of a search), got {least}")
    try:
        report = run(**options)
    except Unusable as error:
        parser.error(str(error))
    if plot:
        plot.write_text(draw(report["figures"]), "utf-8")
    if as_json:
        print(json.dumps(report))
    else:
        print_table(report)


if __name__ == "__main__":
    main()
