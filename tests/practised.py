"""A fixture for modules that start programs: the forks of warm_python.py find all at hand."""

from __future__ import annotations

import pytest
from postgres_databases import PostgresDatabases
from warm_python import practise


@pytest.fixture(scope="session")
def practised(postgres: PostgresDatabases) -> None:
    """Let the process that forks do once what the programs do."""
    databases = postgres.lend()
    practise(next(databases))
    next(databases, None)
