"""Shares a store among many examples: creating a database for each would take too long."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from langgraph_store import PgHippocampusStore


@pytest.fixture
def store(dsn: str) -> Iterator[PgHippocampusStore]:
    """One store on a database of its own, shared by the examples of a test."""
    with PgHippocampusStore(dsn, pool_size=2) as store:
        yield store
