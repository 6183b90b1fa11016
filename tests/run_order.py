"""Selects the quick tests, and starts the longest modules first, so that no worker waits."""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS = Path(__file__).parent
QUICK_FOLDERS = ("house", "property", "unit")
DATABASE_FIXTURES = ("server", "seekdb", "dsn", "seekdb_dsn", "postgres_dsn")
LONGEST_FIRST = (
    "test_house.py",
    "test_examples.py",
    "test_demo.py",
    "test_benchmarks.py",
    "test_mcp.py",
    "test_http_fuzz.py",
    "test_http_server.py",
    "test_adk_commands.py",
    "test_worker_command.py",
    "test_store_conformance.py",
    "test_oceanbase_recall.py",
    "test_runs.py",
    "test_keeping_bad_input.py",
    "test_oceanbase_running.py",
    "test_oceanbase_kills.py",
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


def place(path: Path) -> int:
    """Return the rank of a module in the order of the run."""
    names = LONGEST_FIRST
    return names.index(path.name) if path.name in names else len(names)
