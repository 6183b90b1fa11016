"""Provides a database that the tests of a module share."""

import pytest
from emptied_database import lent


@pytest.fixture(scope="module")
def database(postgres):
    """A database of the module, which a fixture empties for each test."""
    yield from lent(postgres)


@pytest.fixture
def ours(open_service, database):
    """The service that a module or class has opened, without rows and without work left to do."""
    database.empty(open_service.engine)
    return open_service
