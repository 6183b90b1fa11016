"""Measures where the time of a run goes. `pytest --measure` writes it, module by module.

Modules that the run leaves out keep their row.

Processor time is that of the test process and of the processes that it started and waited for.
Servers that outlive a test (PostgreSQL, SeekDB, a browser) are not in it.
"""

import csv
import resource
import time
from collections.abc import Generator, Mapping, Sequence
from operator import sub
from pathlib import Path
from typing import Any

import pytest

TABLE = Path(__file__).with_name("measured_run.tsv")
COLUMNS = ("module", "tests", "setup_s", "call_s", "teardown_s", "processor_s", "children_s")
PHASES = {"setup": 1, "call": 2, "teardown": 3}
WHO = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)


def measured_seconds() -> Mapping[str, float]:
    """Return the seconds that each module took in the measured run, by its path below tests/."""
    return {module: _seconds(figures) for module, figures in _read().items()}


def _read() -> dict[str, list[float]]:
    """Return the figures of each module in TABLE, in the order of COLUMNS; none without a table."""
    if not TABLE.exists():
        return {}
    with TABLE.open() as file:
        rows = list(csv.reader(file, delimiter="\t"))
    for number, row in enumerate(rows, 1):
        if len(row) != len(COLUMNS):
            raise pytest.UsageError(
                f"line {number} of {TABLE} must have {len(COLUMNS)} columns, got {len(row)}:"
                " delete the file, and let pytest --measure write it"
            )
    return {module: list(map(float, figures)) for module, *figures in rows[1:]}


def _seconds(figures: Sequence[float]) -> float:
    """Return the seconds of all phases of a module."""
    return sum(figures[1:4])


class MeasuredRun:
    """A plugin that adds up the time of each module, over all workers, and writes TABLE."""

    def __init__(self, tests: Path) -> None:
        self._tests = tests
        self._modules: dict[str, list[float]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, Any, Any]:
        return (yield from self._measured(item, "setup"))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        return (yield from self._measured(item, "call"))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, Any, Any]:
        return (yield from self._measured(item, "teardown"))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Add what a worker has measured."""
        for module, figures in getattr(node, "workeroutput", {}).get("measured", {}).items():
            self._add(module, figures)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["measured"] = self._modules
            return
        known = {module: row for module, row in _read().items() if (self._tests / module).exists()}
        rows = sorted((known | self._modules).items(), key=lambda row: (-_seconds(row[1]), row[0]))
        with TABLE.open("w", newline="") as file:
            writer = csv.writer(file, delimiter="\t", lineterminator="\n")
            writer.writerow(COLUMNS)
            for module, (tests, *seconds) in rows:
                writer.writerow([module, round(tests), *(f"{figure:.1f}" for figure in seconds)])

    def _measured(self, item: pytest.Item, phase: str) -> Generator[None, Any, Any]:
        begun, spent = time.perf_counter(), _processor_seconds()
        try:
            return (yield)
        finally:
            figures = [float(phase == "call"), 0.0, 0.0, 0.0, 0.0, 0.0]
            figures[PHASES[phase]] = time.perf_counter() - begun
            figures[4:] = map(sub, _processor_seconds(), spent)
            self._add(item.path.relative_to(self._tests).as_posix(), figures)

    def _add(self, module: str, figures: list[float]) -> None:
        known = self._modules.setdefault(module, [0.0] * len(figures))
        known[:] = map(sum, zip(known, figures, strict=True))


def _processor_seconds() -> list[float]:
    return [each.ru_utime + each.ru_stime for each in map(resource.getrusage, WHO)]
