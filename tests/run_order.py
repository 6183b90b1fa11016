"""Which tests are quick, and in which order modules run, so that all workers end together.

Modules that took longest in the last measured run (`pytest --measure`) start first. Tests on SeekDB
run last: its server takes a third of a core even when it has nothing to do.
"""

from functools import cache
from pathlib import Path

import pytest
from measured_run import measured_seconds
from xdist.scheduler import LoadScopeScheduling

TESTS = Path(__file__).parent
QUICK_FOLDERS = ("house", "property", "unit")
DATABASE_FIXTURES = (
    "server", "seekdb", "dsn", "other_dsn", "seekdb_dsn", "postgres_dsn", "shared_dsn",
)  # fmt: skip
INSPECTOR = "integration/ui/"
"""The folder of tests that share one browser and one inspector, so one worker runs them."""
NEVER_MEASURED_S = 5.0
"""Seconds that a module is taken to need before it was ever measured."""
SECONDS = measured_seconds()
INSPECTOR_S = sum(seconds for module, seconds in SECONDS.items() if INSPECTOR in module)


@cache
def is_quick(path: Path) -> bool:
    """Return whether a file or folder may hold tests that `pytest -m quick` runs."""
    parts = path.relative_to(TESTS).parts if path.is_relative_to(TESTS) else ()
    return not parts or parts[0] in QUICK_FOLDERS


def needs_database(item: pytest.Item) -> bool:
    """Return whether a test uses a database of either engine."""
    return not set(DATABASE_FIXTURES).isdisjoint(getattr(item, "fixturenames", ()))


def on_seekdb(nodeid: str) -> bool:
    """Return whether a test runs on SeekDB, by its name or its module's."""
    return "seekdb" in nodeid or "test_oceanbase" in nodeid


def place(item: pytest.Item) -> tuple[bool, float, str]:
    """Return the rank of a test in the order of the run."""
    return on_seekdb(item.nodeid), *_place_of_module(item.path)


@cache
def _place_of_module(path: Path) -> tuple[float, str]:
    module = path.relative_to(TESTS).as_posix()
    seconds = INSPECTOR_S if INSPECTOR in module else SECONDS.get(module, NEVER_MEASURED_S)
    return -seconds, module


class ModuleAndEngineScheduling(LoadScopeScheduling):
    """Gives a worker the tests of a module or class on one engine, of one page, or of a browser."""

    def _split_scope(self, nodeid: str) -> str:
        if "test_documentation.py" in nodeid:  # each page is independent, and some take long
            return nodeid
        if INSPECTOR in nodeid:
            return INSPECTOR
        return f"{super()._split_scope(nodeid)} on seekdb: {on_seekdb(nodeid)}"
