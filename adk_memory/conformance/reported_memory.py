"""The suite of a report: its memory service comes from the factory of the command."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from google.adk.memory.base_memory_service import BaseMemoryService

from adk_memory.conformance.memory import MemoryServiceSuite
from langgraph_store.conformance.factories import opened
from langgraph_store.conformance.running import factory_of


class TestMemoryService(MemoryServiceSuite):
    """The suite for the memory service of the command."""

    @pytest.fixture
    async def service(self, request: pytest.FixtureRequest) -> AsyncIterator[BaseMemoryService]:
        async with opened(factory_of(request), BaseMemoryService) as service:
            yield service
