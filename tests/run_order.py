"""Which tests are quick, and in which order modules run, so that no worker waits for the last.

Tests on SeekDB run last: its server takes a third of a core even when it has nothing to do.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

TESTS = Path(__file__).parent
QUICK_FOLDERS = ("house", "property", "unit")
DATABASE_FIXTURES = ("server", "seekdb", "dsn", "seekdb_dsn", "postgres_dsn")
LONGEST_FIRST = (
    "test_house.py",
    "test_documentation.py",
    "test_examples.py",
    "test_demo.py",
    "test_benchmarks.py",
    "test_mcp.py",
    "test_http_fuzz.py",
    "test_http_server.py",
    "test_adk_commands.py",
    "test_adk_init.py",
    "test_ui_memories.py",
    "test_ui_work.py",
    "test_ui_pages.py",
    "test_ui_ask.py",
    "test_ui_access.py",
    "test_ui_facts.py",
    "test_worker_command.py",
    "test_store_conformance.py",
    "test_oceanbase_processes.py",
    "test_runs.py",
    "test_keeping_bad_input.py",
    "test_embedded.py",
)
"""The modules that take longest; most of them start processes."""


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


def place(item: pytest.Item) -> tuple[bool, int]:
    """Return the rank of a test in the order of the run."""
    names, name = LONGEST_FIRST, item.path.name
    return on_seekdb(item.nodeid), names.index(name) if name in names else len(names)


class ModuleAndEngineScheduling(LoadScopeScheduling):
    """Gives a worker the tests of a module or class on one engine, or of one page."""

    def _split_scope(self, nodeid: str) -> str:
        if "test_documentation.py" in nodeid:  # each page is independent, and some take long
            return nodeid
        return f"{super()._split_scope(nodeid)} on seekdb: {on_seekdb(nodeid)}"
