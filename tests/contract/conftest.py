"""Provides a database that the tests of a module share."""

import pytest
from emptied_database import lent


@pytest.fixture(scope="module")
def database(postgres):
    """A database of the module, which a fixture empties for each test."""
    yield from lent(postgres)
