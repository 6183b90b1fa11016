"""Reports a run as one JSON object or as tables."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from statistics import median
from typing import TypeAlias

from rich.console import Console
from rich.table import Table

from benchmarks.measure import CLIENTS, Figures
from benchmarks.operations import ASYNC_FACE

Report: TypeAlias = dict[str, dict[str, object]]

NAMES = ("ours", "postgres_store", "sql")

_RATIOS = {
    # name: (contender, figure) over (contender, figure)
    "async_search_over_sql": (("ours", "async_search_p50_ms"), ("sql", "search_p50_ms")),
    "sync_search_over_sql": (("ours", "sync_search_p50_ms"), ("sql", "search_p50_ms")),
    "sync_search_over_postgres_store": (
        ("ours", "sync_search_p50_ms"),
        ("postgres_store", "search_p50_ms"),
    ),
    "async_get_over_sql": (("ours", "async_get_p50_ms"), ("sql", "get_p50_ms")),
    "sync_get_over_postgres_store": (("ours", "sync_get_p50_ms"), ("postgres_store", "get_p50_ms")),
    "put_batched_over_postgres_store": (
        ("ours", "put_batched_per_s"),
        ("postgres_store", "put_batched_per_s"),
    ),
    "put_batched_over_sql": (("ours", "put_batched_per_s"), ("sql", "put_batched_per_s")),
}


def make_report(figures: Figures, environment: Mapping[str, object]) -> Report:
    """Return medians over the rounds, the range of the rounds, and ratios taken round by round.

    A figure of our store without a face in its name is that of its async methods.
    """
    _copy_async(figures["ours"])
    report: Report = {}
    for name in NAMES:
        report[name] = _nested({k: median(values) for k, values in figures[name].items()})
    pairs = {
        name: [x / y for x, y in zip(figures[a][af], figures[b][bf], strict=True)]
        for name, ((a, af), (b, bf)) in _RATIOS.items()
    }
    report["ratios"] = {name: _rounded(median(values)) for name, values in pairs.items()}
    report["ranges"] = {
        name: _nested({k: [min(values), max(values)] for k, values in figures[name].items()})
        for name in NAMES
    }
    report["ranges"]["ratios"] = {
        name: [_rounded(min(values)), _rounded(max(values))] for name, values in pairs.items()
    }
    report["environment"] = dict(environment)
    return report


def describe_machine() -> dict[str, object]:
    """Return the properties of this machine and its packages that affect the figures."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu_count": os.cpu_count(),
        "load_average": load_average(),
        **{
            package: version(package)
            for package in ("psycopg", "langgraph-checkpoint-postgres", "pg-hippocampus")
        },
    }


def load_average() -> list[float]:
    """Return the load over 1, 5 and 15 minutes, or nothing if the system has no such figure."""
    return [_rounded(load) for load in os.getloadavg()] if hasattr(os, "getloadavg") else []


def print_tables(report: Report) -> None:
    """Print the figures side by side with the range of their rounds, then the ratios."""
    console = Console()
    ranges = report["ranges"]
    table = Table(title="median over the rounds (lowest .. highest)")
    for heading in ("figure", *NAMES):
        table.add_column(heading, no_wrap=heading == "figure")
    for figure in _rows(report):
        table.add_row(
            figure, *(_cell(report[name], _mapping(ranges[name]), figure) for name in NAMES)
        )
    console.print(table)
    table = Table("ratio", "median", "range")
    for name, value in report["ratios"].items():
        table.add_row(name, str(value), _range(_mapping(ranges["ratios"])[name]))
    console.print(table)
    for name, value in report["environment"].items():
        console.print(f"{name}: {value}", style="dim", highlight=False, soft_wrap=True)


def _copy_async(ours: dict[str, list[float]]) -> None:
    for figure in [name for name in ours if name.startswith(ASYNC_FACE)]:
        ours[figure.removeprefix(ASYNC_FACE)] = ours[figure]


def _nested(figures: Mapping[str, float | Sequence[float]]) -> dict[str, object]:
    """Return the rounded figures; figures by clients are nested: qps_4 becomes qps["4"]."""
    nested: dict[str, object] = {}
    gathered: dict[str, dict[str, object]] = {}
    for name, value in figures.items():
        shown = _rounded(value) if isinstance(value, float) else [_rounded(x) for x in value]
        head, _, clients = name.rpartition("_")
        if clients.isdigit() and int(clients) in CLIENTS and head.endswith("qps"):
            gathered.setdefault(head, {})[clients] = shown
        else:
            nested[name] = shown
    return nested | gathered


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def _rows(report: Report) -> list[str]:
    names = {f"{n}.{c}" if isinstance(v, dict) else n: None
             for one in NAMES for n, v in report[one].items()
             for c in (v if isinstance(v, dict) else [None])}  # fmt: skip
    return sorted(name for name in names if not name.startswith(ASYNC_FACE))


def _cell(figures: Mapping[str, object], ranges: Mapping[str, object], figure: str) -> str:
    name, _, clients = figure.partition(".")
    value, limits = figures.get(name), ranges.get(name)
    if clients and value is not None:
        value, limits = _mapping(value)[clients], _mapping(limits)[clients]
    return "" if value is None else f"{value:g} ({_range(limits)})"


def _range(limits: object) -> str:
    assert isinstance(limits, list)
    low, high = limits
    return f"{low:g} .. {high:g}"


def _mapping(value: object) -> Mapping[str, object]:
    assert isinstance(value, Mapping)
    return value
