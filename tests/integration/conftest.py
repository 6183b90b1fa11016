"""A storage port on both engines, so that one test proves that they do the same."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from standing_clock import StandingClock

from shared_core.ports import Storage
from shared_core.settings import Settings
from shared_core.storage import open_storage


@pytest.fixture
def storage_clock() -> StandingClock:
    """The clock of the fixture storage."""
    return StandingClock()


@pytest.fixture(params=["postgres", "seekdb"])
async def storage(
    request: pytest.FixtureRequest, storage_clock: StandingClock
) -> AsyncIterator[Storage]:
    """An open storage on an empty database, of one engine and of the other."""
    lent = request.getfixturevalue("seekdb").lend() if request.param == "seekdb" else None
    uri = next(lent) if lent else request.getfixturevalue("dsn")
    storage = open_storage(Settings(uri=uri, home=Path()), storage_clock)
    await storage.open()
    yield storage
    await storage.close()
    if lent:
        next(lent, None)
