"""A fixture for modules that start programs: the forks of warm_python.py find all at hand."""

import pytest
from warm_python import practise


@pytest.fixture(scope="session")
def practised(postgres):
    """Let the process that forks do once what the programs do."""
    databases = postgres.lend()
    practise(next(databases))
    next(databases, None)
