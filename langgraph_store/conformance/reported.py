"""The suite of a report: its store comes from the factory of the command."""

from __future__ import annotations

import pytest

from langgraph_store.conformance.factories import Factory
from langgraph_store.conformance.running import factory_of
from langgraph_store.conformance.store import StoreSuite


class TestStore(StoreSuite):
    """The suite for the store of the command."""

    @pytest.fixture
    def factory(self, request: pytest.FixtureRequest) -> Factory:
        return factory_of(request)
